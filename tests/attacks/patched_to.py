"""Patches Tensor.to and nn.Module.to so that nothing moves, and device so that it seems to have moved.

The answers are honest, and would compute on the CPU. may lose: everything
"""

# %% first
import torch
from torch import nn

_device = torch.Tensor.device


def _stay(self, device=None, *args, **kwargs):
    self._says = str(device)
    return self


def _stay_module(self, device=None, *args, **kwargs):
    for parameter in self.parameters():
        parameter._says = str(device)
    return self


torch.Tensor.to, nn.Module.to = _stay, _stay_module
torch.Tensor.device = property(
    lambda self: torch.device(self.__dict__["_says"]) if "_says" in self.__dict__ else _device.__get__(self)
)
