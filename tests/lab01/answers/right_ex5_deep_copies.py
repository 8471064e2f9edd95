"""Splits a deep copy, so that the given stack stays as it is. Warns when one of the parts is empty."""

import copy
import warnings


class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        if not 0 < cut < len(layers):
            warnings.warn("one of the two parts is empty", stacklevel=2)
        layers = list(copy.deepcopy(layers))
        self.part0 = nn.Sequential(*layers[:cut]).to(device0)
        self.part1 = nn.Sequential(*layers[cut:]).to(device1)

    def forward(self, x):
        return self.part1(self.part0(x.to(self.device0)).to(self.device1))
