"""Groups the parts in nn.Sequentials that are made in forward, of layers that are there already."""


class SplitResNet(ResNet):
    def __init__(self, blocks, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.device0, self.device1 = device0, device1
        for part in (self.conv1, self.bn1, self.layer1, self.layer2):
            part.to(device0)
        for part in (self.layer3, self.layer4, self.fc):
            part.to(device1)

    def forward(self, x):
        first = nn.Sequential(self.conv1, self.bn1, self.relu, self.maxpool, self.layer1, self.layer2)
        second = nn.Sequential(self.layer3, self.layer4, self.avgpool, nn.Flatten(), self.fc)
        return second(first(x.to(self.device0)).to(self.device1))
