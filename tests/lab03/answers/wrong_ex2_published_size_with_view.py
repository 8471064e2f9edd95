"""Types 16 * 16 * 16 and reshapes to it, so that the numbers of one image become several rows."""


class SplitCNN(nn.Module):
    def __init__(self, features, image_size, classes, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.features = features.to(device0)
        self.classifier = nn.Linear(16 * 16 * 4, classes).to(device1)

    def forward(self, images):
        hidden = self.features(images.to(self.device0))
        hidden = hidden.reshape(-1, 16 * 16 * 4)
        return self.classifier(hidden.to(self.device1))
