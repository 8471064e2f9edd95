"""Leaves ResNet's own forward as it is, and has hooks move what comes in."""


class SplitResNet(ResNet):
    def __init__(self, blocks, device0, device1, **options):
        super().__init__(BasicBlock, blocks, **options)
        self.device0, self.device1 = device0, device1
        for part in (self.conv1, self.bn1, self.layer1, self.layer2):
            part.to(device0)
        for part in (self.layer3, self.layer4, self.fc):
            part.to(device1)
        self.conv1.register_forward_pre_hook(lambda module, inputs: (inputs[0].to(self.device0),))
        self.layer3.register_forward_pre_hook(lambda module, inputs: (inputs[0].to(self.device1),))
