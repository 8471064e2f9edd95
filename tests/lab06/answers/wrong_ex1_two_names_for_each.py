"""Puts the parts into two nn.Sequentials that are attributes too, so each parameter has two names."""


class SplitResNet(ResNet):
    def __init__(self, blocks, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.device0, self.device1 = device0, device1
        stem = (self.conv1, self.bn1, self.relu, self.maxpool)
        self.seq1 = nn.Sequential(*stem, self.layer1, self.layer2).to(device0)
        self.seq2 = nn.Sequential(self.layer3, self.layer4, self.avgpool).to(device1)
        self.fc.to(device1)

    def forward(self, x):
        x = self.seq2(self.seq1(x.to(self.device0)).to(self.device1))
        return self.fc(x.flatten(1))
