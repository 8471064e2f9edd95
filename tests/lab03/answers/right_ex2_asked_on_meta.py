"""Asks a copy of the features on the meta device, where only shapes are computed."""

import copy


class SplitCNN(nn.Module):
    def __init__(self, features, image_size, classes, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        on_meta = copy.deepcopy(features).to("meta")
        size = on_meta(torch.empty(1, 3, image_size, image_size, device="meta"))[0].numel()
        self.features = features.to(device0)
        self.classifier = nn.Linear(size, classes, device=device1)

    def forward(self, images):
        hidden = self.features(images.to(self.device0))
        hidden = hidden.to(self.device1).view(images.size(0), -1)
        return self.classifier(hidden)
