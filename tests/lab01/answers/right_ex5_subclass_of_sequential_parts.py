"""Writes a small module for one part, which brings its own input, and puts two of them one after the other."""


class PartOnDevice(nn.Sequential):
    def __init__(self, layers, device):
        super().__init__(*layers)
        self.device = device
        self.to(device)

    def forward(self, x):
        return super().forward(x.to(self.device))


class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        layers = list(layers)
        self.net = nn.Sequential(PartOnDevice(layers[:cut], device0), PartOnDevice(layers[cut:], device1))

    def forward(self, x):
        return self.net(x)
