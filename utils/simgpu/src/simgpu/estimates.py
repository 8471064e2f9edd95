"""What a call would cost on a GPU, from shapes alone: nothing is computed, and no simulated GPU is touched."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from .attention import scaled_dot_product_attention
from .cost import Work, seconds_for, size_of, streaming, work_of
from .dispatch import operator_of
from .hardware import machine
from .operators import COPIES
from .profiles import GPUS, GpuProfile, find
from .torch_private import DispatchMode


class Estimate(NamedTuple):
    """`seconds` in which the kernels run one after the other, how many, and the output, a tensor on "meta"."""

    seconds: float
    kernels: int
    output: torch.Tensor

    @property
    def bytes(self) -> int:
        """Of the output."""
        return size_of(self.output)


def operator_seconds(gpu: GpuProfile, func, args, kwargs, out) -> float | None:
    """What an operator that has run on tensors of any device would take on a GPU; None where it starts no kernel."""
    work = _work(func, args, kwargs, out)
    return seconds_for(gpu, work) if work is not None and work.bytes else None


def _work(func, args, kwargs, out) -> Work | None:
    operator = operator_of(func)
    if operator.only_views or operator.free:
        return None
    if func in COPIES:  # read and written, as the machine charges them
        return streaming(2 * size_of(out))
    return work_of(operator.packet, args, kwargs or {}, out)


class AttentionInOneKernel(TorchFunctionMode):
    """Inside, attention on any device is the one operator that it is on simulated GPUs."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is functional.scaled_dot_product_attention:
            func = scaled_dot_product_attention
        return func(*args, **(kwargs or {}))


class _Watch(DispatchMode):
    """Notes what each operator has to do."""

    def __init__(self):
        super().__init__()
        self.work: list[Work] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if (work := _work(func, args, kwargs, out)) is not None:
            self.work.append(work)
        return out


def estimate(call: Callable, batch: torch.Tensor, gpu: GpuProfile | str | None = None) -> Estimate:
    """The cost of `call(batch)`, a module or a function, on a GPU of a profile: the simulated machine's if None.

    Only shape and dtype of `batch` are used. A module runs on PyTorch's "meta" device, with parameters of its own, so
    neither it nor the host pays. Launches are not in the seconds. What `call` raises for such a batch comes through.
    """
    if gpu is None and machine.settings is not None:
        gpu = machine.settings.gpu
    profile = find("gpu", GPUS, gpu or "V100")
    meta = torch.empty(tuple(batch.shape), dtype=batch.dtype, device="meta")
    run = call
    if isinstance(call, torch.nn.Module):
        held = {**dict(call.named_parameters()), **dict(call.named_buffers())}
        held = {name: torch.empty(tuple(t.shape), dtype=t.dtype, device="meta") for name, t in held.items()}
        run = partial(torch.func.functional_call, call, held)
    with torch.no_grad(), AttentionInOneKernel(), _Watch() as watch:
        out = run(meta)
    work = [each for each in watch.work if each.bytes]
    return Estimate(sum(seconds_for(profile, each) for each in work), len(work), out)
