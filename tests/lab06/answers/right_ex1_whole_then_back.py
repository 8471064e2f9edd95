"""Moves the whole model to the second device, and the first half back."""


class SplitResNet(ResNet):
    def __init__(self, blocks, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.device0, self.device1 = device0, device1
        self.to(device1)
        for name in ("conv1", "bn1", "layer1", "layer2"):
            getattr(self, name).to(device0)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        x = self.layer2(self.layer1(x))
        x = self.layer4(self.layer3(x.to(self.device1)))
        return self.fc(self.avgpool(x).flatten(1))
