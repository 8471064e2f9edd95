"""Puts every layer that still fits on device0, also one that comes after the first that did not."""


class FitInTwo(nn.Module):
    def __init__(self, layers, memory0, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        first, second, used = [], [], 0
        for layer in layers:
            need = 4 * sum(p.numel() * p.element_size() for p in layer.parameters())
            if used + need <= memory0:
                used += need
                first.append(layer)
            else:
                second.append(layer)
        self.part0 = nn.Sequential(*first).to(device0)
        self.part1 = nn.Sequential(*second).to(device1)

    def forward(self, x):
        hidden = self.part0(x.to(self.device0))
        return self.part1(hidden.to(self.device1))
