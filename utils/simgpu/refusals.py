"""What simulated GPUs cannot do, refused in one line that names what to use instead."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.modules.module import register_module_module_registration_hook

from .hardware import DEVICE_TYPE

NO_COMPILE = f"torch.compile makes code for real hardware, which {DEVICE_TYPE} is not: call the model uncompiled."
NO_BYTES = f"{DEVICE_TYPE} has no memory that another library could read: copy the tensor with .cpu() first."
NO_SPARSE = f"{DEVICE_TYPE} keeps dense tensors only, no sparse, nested or quantized ones: keep those on the CPU."
NO_DATA_PARALLEL = (
    f"nn.DataParallel copies inside CUDA's own C++, which {DEVICE_TYPE} cannot take part in. "
    "Use torch.nn.parallel.DistributedDataParallel, or split the batch yourself: x.chunk(2), one replica a device."
)


def no_generator(device: torch.device, of: torch.device) -> str:
    """Why a generator cannot draw on a simulated GPU: each has one, which has no object, and there are no others."""
    return (
        f"Expected a '{device.type}' device type for generator but found '{of.type}': a generator draws on its own "
        f"device only. Seed the one that {device} has, with torch.{DEVICE_TYPE}.manual_seed(...), "
        "or draw on the CPU and move the numbers with .to(...)."
    )


def _no_data_parallel(parent: nn.Module, name: str, module: nn.Module) -> None:
    if isinstance(parent, nn.DataParallel) and name == "module":
        simulated = any(parameter.device.type == DEVICE_TYPE for parameter in module.parameters())
        if simulated or not torch.cuda.is_available():  # without CUDA it would choose simulated GPUs
            raise RuntimeError(NO_DATA_PARALLEL)


def register_refusals() -> None:
    register_module_module_registration_hook(_no_data_parallel)
