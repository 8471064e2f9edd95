"""`torch.load(..., map_location="simgpu:0")`: storages of a file that are wanted on a simulated GPU."""

from __future__ import annotations

import torch

from . import torch_private
from .hardware import DEVICE_TYPE, Gpu, machine
from .layout import layout_of
from .memory import Storage
from .operators import SPECIAL
from .tensor import values_live_on, wrap

# PyTorch asks the registered packages in this order; its own for this device slot, which needs C++, is at 23.
PRIORITY = 5


class LoadedStorage(torch.UntypedStorage):
    """The bytes of a loaded storage, with the simulated GPU that they are wanted on. Tensors of the file share it."""

    gpu: Gpu
    counted: Storage

    @property  # as in PyTorch, which declares an attribute
    def device(self) -> torch.device:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.gpu.device


def load(storage, location: str):
    """A storage of a file on the simulated GPU that `location` names; None if it names none."""
    if not _is_ours(location):
        return None
    try:
        gpu = machine.gpu(location)
    except RuntimeError as error:
        raise RuntimeError(f'{error} Or load it elsewhere: torch.load(..., map_location="{DEVICE_TYPE}:0").') from None
    loaded = LoadedStorage(storage.nbytes())
    loaded.copy_(storage)
    loaded.gpu = gpu
    loaded.counted = Storage(gpu.memory, storage.nbytes())
    machine.copy_with_host(gpu, storage.nbytes(), to_host=False)
    return loaded


def _is_ours(location) -> bool:
    return str(location).partition(":")[0] in (DEVICE_TYPE, machine.also_named)


def _set(tensor, storage, offset, size, stride=()):
    if not isinstance(storage, LoadedStorage):
        raise RuntimeError(
            f"set_() cannot give {tensor.device} a storage of the {storage.device}: copy the tensor with .to()"
        )
    value = torch.empty(0, dtype=tensor.dtype).set_(storage, offset, size, stride)
    if values_live_on() == "meta":
        value = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    tensor.data = wrap(value, storage.gpu, storage.counted)
    tensor._layout = layout_of(value)
    return tensor


def _where_a_function_says(map_location, device):
    """Where a tensor goes that was saved with its device: a function for storages is asked with an empty one."""
    told = str(device).replace(DEVICE_TYPE, machine.also_named or DEVICE_TYPE)
    storage = map_location(torch.UntypedStorage(0), told)
    return device if storage is None else storage.device


def register_loading() -> None:
    """Tell PyTorch how to put what it loads on a simulated GPU."""
    torch_private.let_loading_ask(_is_ours, _where_a_function_says)
    torch.serialization.register_package(PRIORITY, lambda storage: None, load)


SPECIAL[torch.ops.aten.set_.source_Storage_storage_offset] = _set
