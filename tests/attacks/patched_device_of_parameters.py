"""Puts a lying property called device on nn.Parameter, which had none of its own: nothing is replaced, one is added.

may lose: everything
"""

# %% first
import torch
from torch import nn

nn.Parameter.device = property(
    lambda self: (
        torch.device(self.__dict__["_says"]) if "_says" in self.__dict__ else torch.Tensor.device.__get__(self)
    )
)

# %% instead of ex1: cpu_layers
