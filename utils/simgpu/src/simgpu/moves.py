"""Operators that move data between devices, and those that make it: what the shared path of `dispatch` is not for."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

import torch

from . import refusals, torch_private
from .cost import seconds_for, size_of, streaming
from .hardware import DEVICE_TYPE, Gpu, machine
from .layout import Layout
from .memory import Storage
from .operators import SPECIAL
from .plans import MOST_PLANS
from .tensor import (
    SimTensor,
    are_known,
    forget,
    refuse_if_retired,
    value_of,
    values_live_on,
    wrap,
    wrap_planned,
)

aten = torch.ops.aten


def _charge(source: Gpu | None, target: Gpu | None, size: int, *, pinned: bool, wait: bool = True) -> None:
    """Charge a copy of `size` bytes; None is the host: its memory is pinned or not, it waits unless told not to."""
    if source is None:
        assert target is not None, "a copy within the host is none of ours"
        machine.copy_with_host(target, size, to_host=False, pinned=pinned, wait=wait)
    elif target is None:
        machine.copy_with_host(source, size, to_host=True, pinned=pinned, wait=wait)
    elif source is target:
        seconds = seconds_for(source.profile, streaming(2 * size))
        machine.launch(source, seconds, "copy_", 2 * size, 0)
    else:
        machine.copy_between(source, target, size)


# What is made from these arguments on a simulated GPU: its outside, and the bytes of its storage.
_made: dict[tuple, tuple[Layout, int]] = {}


def _keep_made(key: tuple, made: SimTensor) -> None:
    if len(_made) >= MOST_PLANS:
        _made.clear()
    _made[key] = made._layout, made._storage.size


def _to_copy(source, *, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None):
    torch_private.keep_backward_on_calling_thread()
    refuse_if_retired(source)
    target = source._gpu.device if device is None else torch.device(device)  # `source.device` may say cuda (`as_cuda`)
    gpu = machine.gpu(target) if target.type in (DEVICE_TYPE, machine.also_named) else None
    if gpu is None and not are_known([source]):
        if machine.copies_shapes:
            return _shape_to_host(source, dtype or source.dtype, non_blocking)
        raise refusals.no_values(f"Copying to {target}")
    key = (source._layout, dtype, memory_format) if gpu and layout in (None, torch.strided) else None
    planned = None if key is None else _made.get(key)
    if gpu is not None and planned is not None:
        outside, size = planned
        storage, value = Storage(gpu.memory, size), None
        if machine.compute:
            value = aten._to_copy.default(source._value, dtype=dtype, memory_format=memory_format)
        made = wrap_planned(value, gpu, storage, outside)
        _charge(source._gpu, gpu, size_of(made), pinned=False)
        return made
    if gpu is not None and machine.compute:
        gpu.memory.require(source.numel() * (dtype or source.dtype).itemsize)
    out = aten._to_copy.default(
        value_of(source),
        dtype=dtype,
        layout=layout,
        device=values_live_on() if gpu else target,
        memory_format=memory_format,
    )
    made = wrap(out, gpu) if gpu else out
    to_pinned = gpu is None and non_blocking  # into memory that is pinned for it, as PyTorch does for CUDA
    if to_pinned:
        pinned.add(out)
    _charge(source._gpu, gpu, size_of(out), pinned=to_pinned, wait=not to_pinned)
    if key is not None and not (source.is_complex() or out.is_complex()):
        _keep_made(key, made)
    return made


def _shape_to_host(source: SimTensor, dtype: torch.dtype, non_blocking: bool) -> torch.Tensor:
    """Memory of the host for a tensor that has no values, with the time of its copy; nothing is written there."""
    out = torch.empty(source.shape, dtype=dtype)
    if non_blocking:
        pinned.add(out)
    _charge(source._gpu, None, size_of(out), pinned=non_blocking, wait=not non_blocking)
    return out


def _copy(destination, source, non_blocking=False):
    torch_private.keep_backward_on_calling_thread()
    ends = []
    for tensor in (source, destination):
        if type(tensor) is SimTensor:
            refuse_if_retired(tensor)
            ends.append(tensor._gpu)
        else:
            ends.append(None)
    if ends[0] is None and not isinstance(source, torch.Tensor):
        source = torch.tensor(source)  # a number, which C++ hands on as such
    if are_known([destination, source]):
        to, start = (value_of(t) if type(t) is SimTensor else t for t in (destination, source))
        aten.copy_.default(to, start)
    elif ends[1] is not None:
        forget(destination)
    elif not machine.copies_shapes:
        raise refusals.no_values("Copying to the CPU")
    is_pinned = pinned.has(source if ends[0] is None else destination)
    _charge(ends[0], ends[1], size_of(destination), pinned=is_pinned, wait=not (non_blocking and is_pinned))
    return destination


def _copy_from(source, destination, non_blocking=False):
    # Where C++ copies without asking Python first, as `torch.tensor(..., device=...)` does.
    return _copy(destination, source, non_blocking)


def _item(tensor):
    # PyTorch's C++ calls this one, too, without asking Python first: `torch.tensor([loss, ...])` reads each number so.
    refuse_if_retired(tensor)
    if not are_known([tensor]):
        raise refusals.no_values(".item()")
    machine.copy_with_host(tensor._gpu, size_of(tensor), to_host=True)
    return aten._local_scalar_dense.default(tensor._value)


class _Pinned:
    """Which memory of the host is pinned. Here that is only a mark: it decides whether a copy lets the host go on."""

    def __init__(self):
        self._storages: dict[int, Any] = {}  # address -> a weak reference

    def add(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        self._storages[storage.data_ptr()] = torch_private.weak_storage(storage)

    def has(self, tensor: torch.Tensor) -> bool:
        if type(tensor) is SimTensor or tensor.device.type != "cpu" or not self._storages:
            return False
        address = tensor.untyped_storage().data_ptr()
        reference = self._storages.get(address)
        if reference is not None and reference.expired():  # the address may be another's by now
            del self._storages[address]
            return False
        return reference is not None


pinned = _Pinned()


def _pin_memory(tensor, device=None):
    if type(tensor) is SimTensor:
        raise RuntimeError(f"cannot pin a tensor on {tensor.device}: only dense CPU tensors can be pinned")
    copy = torch.empty_like(tensor).copy_(tensor)
    pinned.add(copy)
    return copy


def _is_pinned(tensor, device=None):
    return pinned.has(tensor)


SPECIAL |= {
    aten._to_copy.default: _to_copy,
    aten.copy_.default: _copy,
    aten._local_scalar_dense.default: _item,
    aten.is_pinned.default: _is_pinned,
    aten._pin_memory.default: _pin_memory,
}


def _require_room(gpu: Gpu, func, args, kwargs) -> None:
    """Raise torch.OutOfMemoryError where what a factory makes would not fit."""
    gpu.memory.require(func(*args, device="meta", **kwargs).untyped_storage().nbytes())


def _factory(func):
    writes = func not in MAKES_NO_KERNEL

    def make(*args, device=None, pin_memory=None, **kwargs):
        torch_private.keep_backward_on_calling_thread()
        gpu = machine.gpu(device)
        if writes and machine.compute:  # what is not written takes no memory before it is counted
            _require_room(gpu, func, args, kwargs)
        try:
            made = wrap(func(*args, device=values_live_on(), **kwargs), gpu)
        except RuntimeError as error:
            plainer = refusals.of_the_cpu(error, func)
            if plainer is None:
                raise
            _require_room(gpu, func, args, kwargs)
            raise plainer from None
        if machine.capture is not None:
            machine.capture.made(func, args, kwargs, value_of(made))
        if writes:
            size = size_of(made)
            seconds = seconds_for(gpu.profile, streaming(size))
            machine.launch(gpu, seconds, func.__name__.split(".")[0], size, 0)
        return made

    return _planned(func, make) if func in MAKES_NO_KERNEL else make


def _planned(func, make):
    """The same, looked up where it makes only a shape."""

    def look_up(*args, device=None, pin_memory=None, **kwargs):
        if machine.compute:
            return make(*args, device=device, **kwargs)
        if machine.here.keeps_counts and kwargs.get("dtype") in COUNTS:
            gpu = machine.gpu(device)
            return wrap(func(*args, device="cpu", **kwargs), gpu)
        key = (func, *map(tuple, args), torch.get_default_dtype(), *kwargs.items())
        planned = _made.get(key)
        if planned is None:
            made = make(*args, device=device, **kwargs)
            if not made.is_complex():
                _keep_made(key, made)
            return made
        torch_private.keep_backward_on_calling_thread()
        outside, size = planned
        gpu = machine.gpu(device)
        return wrap_planned(None, gpu, Storage(gpu.memory, size), outside)

    return look_up


# Kinds in which PyTorch's C++ counts parameters, their sizes and their uses.
COUNTS = {torch.int32, torch.int64}


@contextmanager
def keeping_counts():
    """Within, whole numbers made on this thread keep their values on a machine that keeps only shapes.

    For what PyTorch's C++ tells other ranks by way of the GPU and reads again: DDP has all ranks agree on its
    parameters and buckets.
    """
    here = machine.here
    before, here.keeps_counts = here.keeps_counts, True
    try:
        yield
    finally:
        here.keeps_counts = before


@contextmanager
def copying_shapes():
    """Within, a machine that keeps only shapes copies to the host, in place of a RuntimeError, on all threads.

    What is copied to has arbitrary values afterwards, so nothing may read them: for what only asks for times.
    """
    before, machine.copies_shapes = machine.copies_shapes, True
    try:
        yield
    finally:
        machine.copies_shapes = before


MAKES_NO_KERNEL = {aten.empty.memory_format, aten.empty_strided.default}
# Everything else that makes a tensor from nothing (zeros, randn, tensor, ...) is built on `empty`. These are
# not: their `out=` form resizes an empty tensor, so they are made whole.
FACTORIES = (
    *MAKES_NO_KERNEL,
    aten.arange.default,
    aten.arange.start,
    aten.arange.start_step,
    aten.tril_indices.default,
    aten.triu_indices.default,
)

_library: torch.library.Library | None = None


def register_factories() -> None:
    """Tell PyTorch how to make a tensor on a simulated GPU, and how to pin memory for it."""
    global _library
    _library = torch.library.Library("aten", "IMPL")
    for func in FACTORIES:
        _library.impl(func.__name__.removesuffix(".default"), _factory(func), "PrivateUse1")
    # Zeros that take no memory until somebody writes there, which autograd makes. Here they are zeros.
    _library.impl("_efficientzerotensor", _factory(aten.zeros.default), "PrivateUse1")
    _library.impl("_copy_from", _copy_from, "PrivateUse1")
    _library.impl("_local_scalar_dense", _item, "PrivateUse1")
    _library.impl("_pin_memory", _pin_memory, "CPU")
    _library.impl("is_pinned", _is_pinned, "CPU")
