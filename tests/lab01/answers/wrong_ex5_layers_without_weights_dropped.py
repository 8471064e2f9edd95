"""Thinks that layers without weights need not be placed, and so leaves every ReLU out."""


class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        first = [layer for layer in layers[:cut] if len(list(layer.parameters())) > 0]
        second = [layer for layer in layers[cut:] if len(list(layer.parameters())) > 0]
        self.part0 = nn.Sequential(*first).to(device0)
        self.part1 = nn.Sequential(*second).to(device1)

    def forward(self, x):
        x = self.part0(x.to(self.device0))
        x = self.part1(x.to(self.device1))
        return x
