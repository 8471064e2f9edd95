"""Private names of tensors and storages: making, printing, loading them, and refusing what would read their bytes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import torch
import torch._utils
import torch.multiprocessing.reductions
import torch.utils.dlpack
from torch import _tensor_str

disabled_torch_function = torch._C._disabled_torch_function_impl
make_wrapper = torch.Tensor._make_wrapper_subclass
# What libraries with CUDA kernels of their own ask for to launch one.
RAW_STREAM = (torch._C, "_cuda_getCurrentRawStream")


def weak_storage(storage):
    """A reference to a storage that does not keep it: `.expired()` says whether it is gone."""
    return torch.multiprocessing.reductions.StorageWeakRef(storage)


def tensor_text(value: torch.Tensor, indent: int) -> str:
    """The numbers of a CPU tensor as PyTorch prints them, without `tensor(` and `)`."""
    return _tensor_str._tensor_str(value, indent)


def join_suffixes(text: str, suffixes: list[str], indent: int) -> str:
    """`text` closed with suffixes such as `device='simgpu:0'`, wrapped at the width PyTorch wraps at."""
    return _tensor_str._add_suffixes(text, suffixes, indent, force_newline=False)


def note_default_dtype(note: Callable[[], None]) -> None:
    """Call `note` whenever the default dtype has become another: by either of the two functions that can change it."""

    def noting(change):
        @wraps(change)
        def changes(kind):
            before = torch.get_default_dtype()
            change(kind)
            if torch.get_default_dtype() != before:
                note()

        return changes

    for name in ("_set_default_dtype", "_set_default_tensor_type"):
        setattr(torch._C, name, noting(getattr(torch._C, name)))


def refuse_storages(kind: str, no_storage: str) -> None:
    """Refuse to make a storage by itself on devices of this kind: PyTorch's C++ has no allocator there, and crashes."""
    make = torch.UntypedStorage.__new__

    def __new__(cls, *args, **kwargs):
        if kwargs.get("device") is not None and torch.device(kwargs["device"]).type == kind:
            raise RuntimeError(no_storage)
        return make(cls, *args, **kwargs)

    torch.UntypedStorage.__new__ = __new__


def rebuild_on_device():
    """The function that `torch.load(weights_only=True)` trusts to rebuild a tensor from a CPU copy."""
    return torch._utils._rebuild_device_tensor_from_cpu_tensor


def let_loading_ask(is_ours: Callable[[object], bool], ask: Callable) -> None:
    """Let `ask` say where `torch.load(map_location=a function)` puts a tensor that was saved with a device of ours.

    It is called with the function and with the device.
    """
    restore = torch._utils._get_restore_location

    @wraps(restore)
    def asked(device):
        map_location = torch.serialization._serialization_tls.map_location
        return ask(map_location, device) if callable(map_location) and is_ours(device) else restore(device)

    torch._utils._get_restore_location = asked


def refuse_bytes_and_subclasses(is_simulated, no_bytes: str, no_subclass: Callable[[type], str]) -> None:
    """Refuse what would take a simulated tensor for a piece of memory, or make it one of another class."""
    to_dlpack, make_subclass = torch._C._to_dlpack, torch.Tensor._make_subclass

    @wraps(to_dlpack)
    def to_capsule(tensor):
        if is_simulated(tensor):
            raise BufferError(no_bytes)
        return to_dlpack(tensor)

    @wraps(make_subclass)
    def make(kind, data, *args, **kwargs):
        if is_simulated(data) and not issubclass(type(data), kind):
            raise TypeError(no_subclass(kind))
        return make_subclass(kind, data, *args, **kwargs)

    for owner, name in ((torch, "to_dlpack"), (torch.utils.dlpack, "to_dlpack")):
        setattr(owner, name, to_capsule)
    torch.Tensor._make_subclass = staticmethod(make)
