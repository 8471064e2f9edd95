"""Sorts out the layers without parameters, because they fit anywhere, and so changes the order."""


class FitInTwo(nn.Module):
    def __init__(self, layers, memory0, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        heavy = [layer for layer in layers if list(layer.parameters())]
        light = [layer for layer in layers if not list(layer.parameters())]
        cut, used = 0, 0
        for layer in heavy:
            used += 4 * sum(p.numel() * p.element_size() for p in layer.parameters())
            if used > memory0:
                break
            cut += 1
        self.part0 = nn.Sequential(*light, *heavy[:cut]).to(device0)
        self.part1 = nn.Sequential(*heavy[cut:]).to(device1)

    def forward(self, x):
        hidden = self.part0(x.to(self.device0))
        return self.part1(hidden.to(self.device1))
