"""Gives the layers out one by one to two lists, and moves each at once."""


class FitInTwo(nn.Module):
    def __init__(self, layers, memory0, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        first, second, free = [], [], memory0
        for layer in layers:
            free -= 4 * sum(p.nbytes for p in layer.parameters())
            if free >= 0:
                first.append(layer.to(device0))
            else:
                second.append(layer.to(device1))
        self.part0, self.part1 = nn.Sequential(*first), nn.Sequential(*second)

    def forward(self, x):
        hidden = self.part0(x.to(self.device0))
        return self.part1(hidden.to(self.device1))
