"""Thinks that a picture's height times its width is all there is to flatten."""


class SplitCNN(nn.Module):
    def __init__(self, features, image_size, classes, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.features = features.to(device0)
        with torch.no_grad():
            shape = self.features(torch.zeros(1, 3, image_size, image_size, device=device0)).shape
        self.classifier = nn.Linear(shape[2] * shape[3], classes).to(device1)

    def forward(self, images):
        hidden = self.features(images.to(self.device0)).flatten(1)
        return self.classifier(hidden.to(self.device1))
