"""What a call would cost on a GPU, from shapes alone: nothing is computed, and no simulated GPU is touched."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch

from .cost import Work, seconds_for, size_of, work_of
from .hardware import machine
from .profiles import GPUS, GpuProfile, find
from .tensor import Operator
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


class _Watch(DispatchMode):
    """Notes what each operator has to do."""

    def __init__(self):
        super().__init__()
        self.work: list[Work] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        operator = Operator(func)
        if not (operator.only_views or operator.free):
            self.work.append(work_of(operator.packet, args, kwargs or {}, out))
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
    with torch.no_grad(), _Watch() as watch:
        out = run(meta)
    work = [each for each in watch.work if each.bytes]
    return Estimate(sum(seconds_for(profile, each) for each in work), len(work), out)
