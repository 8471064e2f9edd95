"""Adds up with itertools, and names its layers otherwise in a forward of its own."""

import warnings
from itertools import accumulate


class FitInTwo(nn.Module):
    def __init__(self, layers, memory0, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        needs = accumulate(sum(4 * p.numel() * p.itemsize for p in layer.parameters()) for layer in layers)
        cut = sum(need <= memory0 for need in needs)
        warnings.warn(f"{cut} layers fit")
        self.blocks = nn.ModuleList(layer.to(device0 if n < cut else device1) for n, layer in enumerate(layers))
        self.cut = cut

    def forward(self, x):
        for number, block in enumerate(self.blocks):
            x = block(x.to(self.device0 if number < self.cut else self.device1))
        return x.to(self.device1)
