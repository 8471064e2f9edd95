"""Simulated GPUs that PyTorch treats as a device.

    from utils import simgpu
    simgpu.enable(count=2)
    x = torch.randn(32, 1000, device="simgpu:0")

After `enable`, `simgpu:0` and `simgpu:1` are devices like `cuda:0` and `cuda:1`: tensors live on one of them,
operators refuse to mix them, and gradients cross between them. The numbers are computed on the CPU, so they
are the CPU's, bit for bit. This package imports nothing else from the course.
"""

from __future__ import annotations

from . import torch_private
from .device_module import device_module, publish
from .machine import DEVICE_TYPE, MOST_GPUS, Settings, machine
from .tensor import SimTensor, register_factories

__all__ = ["enable", "is_enabled"]


def enable(count: int = 2) -> None:
    """Give this process `count` simulated GPUs, named `simgpu:0`, `simgpu:1`, ...

    Called again with the same arguments it changes nothing. Called with others it builds a new machine, and
    tensors of the old one are refused with an error that says so.

    Raises ValueError for a count that is not a whole number from 1 to 64, RuntimeError for a PyTorch that
    lacks what a Python device needs, or where another backend holds PyTorch's one free device slot.
    """
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MOST_GPUS:
        raise ValueError(f"simgpu.enable(count={count!r}): count must be a whole number from 1 to {MOST_GPUS}")
    if not is_enabled():
        torch_private.require_tested_torch()
        torch_private.register_device_type(DEVICE_TYPE, device_module)
        publish()
        register_factories()
        torch_private.keep_parameters_when_modules_move(lambda tensor: type(tensor) is SimTensor)
    machine.configure(Settings(count=count))


def is_enabled() -> bool:
    """Whether this process has simulated GPUs."""
    return machine.settings is not None
