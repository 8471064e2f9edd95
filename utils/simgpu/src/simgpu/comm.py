"""`torch.cuda.comm`, by copies that simulated GPUs know: what `nn.DataParallel` scatters, broadcasts and gathers by.

PyTorch's own ends in C++ that takes CUDA's tensors only. `reduce_add` and `reduce_add_coalesced` are written in Python
there, and stay. Where PyTorch may send by NCCL, these copy from GPU to GPU, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import Any

import torch

from . import refusals
from .hardware import machine

Devices = Iterable[torch.device | str | int]
Tensors = Sequence[torch.Tensor]
BUFFER = 10485760  # bytes, as PyTorch has it


def broadcast(tensor: torch.Tensor, devices: Devices | None = None, *, out: Tensors | None = None) -> tuple:
    """The tensor on each of these GPUs; on its own it is the tensor itself."""
    if (devices is None) == (out is None):
        raise RuntimeError(
            f"Exactly one of 'devices' and 'out' must be specified, but got devices={devices} and out={out}"
        )
    tensor = _real(tensor)
    if devices is not None:
        return tuple(tensor.to(_gpu(device), non_blocking=True) for device in devices)
    assert out is not None
    for each in out:
        each.copy_(tensor, non_blocking=True)
    return tuple(out)


def broadcast_coalesced(tensors: Tensors, devices: Devices, buffer_size: int = BUFFER) -> list[list[torch.Tensor]]:
    """The tensors on each of these GPUs, of which they are on the first; small ones are sent together."""
    tensors = [_real(tensor) for tensor in tensors]
    first, *others = map(_gpu, devices)
    if any(machine.index_of(tensor.device) != first.index for tensor in tensors):
        raise RuntimeError(f"All tensors must be on devices[0]: {first.index}")
    copies: list[list] = [[None] * len(tensors) for _ in others]
    for group in _groups(tensors, buffer_size):
        flat = torch.cat([tensors[number].reshape(-1) for number in group])
        for there, device in zip(copies, others, strict=True):
            parts = flat.to(device, non_blocking=True).split([tensors[number].numel() for number in group])
            for number, part in zip(group, parts, strict=True):
                # Each has its own version, as if it shared no memory with the others.
                there[number] = part.view(tensors[number].shape).data
    return [tensors, *copies]


def _groups(tensors: Tensors, buffer_size: int) -> list[list[int]]:
    """The tensors' numbers, those together that one buffer has: of one type, and of so many bytes at most."""
    groups: list[list[int]] = []
    last: dict[torch.dtype, tuple[list[int], int]] = {}
    for number, tensor in enumerate(tensors):
        group, size = last.get(tensor.dtype, ([], 0))
        size += tensor.numel() * tensor.element_size()
        if not group or size > buffer_size:
            group, size = [], tensor.numel() * tensor.element_size()
            groups.append(group)
        group.append(number)
        last[tensor.dtype] = group, size
    return groups


def scatter(
    tensor: torch.Tensor,
    devices: Devices | None = None,
    chunk_sizes: Sequence[int] | None = None,
    dim: int = 0,
    streams: Sequence[Any] | None = None,
    *,
    out: Tensors | None = None,
) -> tuple:
    """Parts of the tensor, one on each of these GPUs, copied on these streams."""
    tensor = _real(tensor)
    if out is not None:
        for name, given in (("devices", devices), ("chunk_sizes", chunk_sizes)):
            if given is not None:
                raise RuntimeError(f"'{name}' must not be specified when 'out' is specified, but got {name}={given}")
        for part, there in zip(tensor.split([each.size(dim) for each in out], dim), out, strict=True):
            there.copy_(part, non_blocking=True)
        return tuple(out)
    gpus = [_gpu(device) for device in devices or ()]
    if chunk_sizes is not None and len(chunk_sizes) != len(gpus):
        raise RuntimeError(
            "Expected devices and chunk_sizes to be of same length, but got "
            f"len(devices) = {len(gpus)} and len(chunk_sizes) = {len(chunk_sizes)}"
        )
    parts = tensor.chunk(len(gpus), dim) if chunk_sizes is None else tensor.split(list(chunk_sizes), dim)
    there = []
    for number, (part, gpu) in enumerate(zip(parts, gpus, strict=False)):  # a small batch has fewer parts
        with nullcontext() if streams is None or streams[number] is None else streams[number]:
            there.append(part.to(gpu, non_blocking=True))
    return tuple(there)


def gather(tensors: Tensors, dim: int = 0, destination=None, *, out: torch.Tensor | None = None) -> torch.Tensor:
    """The tensors one after the other, on this GPU (the current one) or the CPU, or in `out`."""
    tensors = [_real(tensor) for tensor in tensors]
    dim = dim % max(tensors[0].dim(), 1)
    for number, tensor in enumerate(tensors):
        _require_part(number, tensor, tensors[0], dim)
    sizes = [tensor.size(dim) for tensor in tensors]
    if out is not None and destination is not None:
        raise RuntimeError(
            f"'destination' must not be specified when 'out' is specified, but got destination={destination}"
        )
    if out is None:
        on_cpu = destination == -1 or (not isinstance(destination, int) and str(destination) == "cpu")
        shape = [sum(sizes) if number == dim else size for number, size in enumerate(tensors[0].shape)]
        out = torch.empty(shape, dtype=tensors[0].dtype, device="cpu" if on_cpu else _gpu(destination))
    start = 0
    for tensor, size in zip(tensors, sizes, strict=True):
        out.narrow(dim, start, size).copy_(tensor, non_blocking=out.device.type != "cpu")
        start += size
    return out


def _require_part(number: int, tensor: torch.Tensor, first: torch.Tensor, dim: int) -> None:
    if tensor.device.type == "cpu":
        raise RuntimeError(
            f"Expected all input tensors to be {refusals.kind()} tensors, but tensor at index {number} has device "
            f"'{tensor.device}'"
        )
    expected = [*first.shape[:dim], *tensor.shape[dim : dim + 1], *first.shape[dim + 1 :]]
    if list(tensor.shape) != expected:
        raise RuntimeError(
            f"Gather got an input of invalid size: got {list(tensor.shape)}, but expected {expected} (the error arose "
            f"at index {number}; all sizes but that of dimension {dim} have to be alike)"
        )


def _gpu(device) -> torch.device:
    return machine.gpu(device).device


def _real(tensor: torch.Tensor) -> torch.Tensor:
    """Complex numbers as pairs: PyTorch's callers make them complex again."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor
