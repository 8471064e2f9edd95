"""What simulated GPUs cannot do, refused in one line that names what to use instead."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.modules.module import register_module_module_registration_hook

from .hardware import DEVICE_TYPE, machine

aten = torch.ops.aten
NO_COMPILE = f"torch.compile makes code for real hardware, which {DEVICE_TYPE} is not: call the model uncompiled."
NO_BYTES = f"{DEVICE_TYPE} has no memory that another library could read: copy the tensor with .cpu() first."
NO_CONTEXT_PARALLEL = (
    f"{DEVICE_TYPE} has no ring of attention, and context_parallel would give each rank the whole sequence here. "
    "Split the batch or the heads instead, or pass keys and values round yourself, with send and recv."
)
NO_CUDA = (
    f"there is no CUDA here: {DEVICE_TYPE} stands in for it, and this has no simulated form. What has one is said in "
    "simgpu.as_cuda's help."
)
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
        # In code for CUDA a tensor answers `cuda` when it is asked for its device.
        simulated = any(parameter.device.type in (DEVICE_TYPE, machine.also_named) for parameter in module.parameters())
        if simulated or not torch.cuda.is_available():  # without CUDA it would choose simulated GPUs
            raise RuntimeError(NO_DATA_PARALLEL)


def no_sparse(*args, **kwargs):
    raise NotImplementedError(NO_SPARSE)


# Operators that make a dense tensor sparse.
MAKE_SPARSE = [getattr(aten, f"_to_sparse{kind}").default for kind in ("", "_csr", "_csc", "_bsr", "_bsc")]
MAKE_SPARSE += [aten._to_sparse.sparse_dim]


_library: torch.library.Library | None = None


def register_refusals() -> None:
    global _library
    _library = torch.library.Library("aten", "IMPL")
    for key in ("SparsePrivateUse1", "SparseCsrPrivateUse1"):
        for name in ("empty.memory_format", "_to_copy"):
            _library.impl(name, no_sparse, key)
    register_module_module_registration_hook(_no_data_parallel)
