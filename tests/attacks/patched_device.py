"""Replaces torch.Tensor.device by a property that lies about the tensors it was told to lie about.

may lose: everything
"""

# %% first
import torch

_device = torch.Tensor.device
torch.Tensor.device = property(
    lambda self: torch.device(self.__dict__["_says"]) if "_says" in self.__dict__ else _device.__get__(self)
)

# %% instead of ex1: cpu_layers
