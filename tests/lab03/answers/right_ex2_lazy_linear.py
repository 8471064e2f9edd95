"""Lets nn.LazyLinear find the size in the first forward pass."""


class SplitCNN(nn.Module):
    def __init__(self, features, image_size, classes, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.features = features.to(device0)
        self.flatten = nn.Flatten()
        self.classifier = nn.LazyLinear(classes).to(device1)

    def forward(self, images):
        return self.classifier(self.flatten(self.features(images.to(self.device0))).to(self.device1))
