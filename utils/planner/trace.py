"""What a block of a model does in one forward and one backward pass, from shapes: kernels, collectives, memory.

The block runs once on PyTorch's "meta" device, where nothing is computed and nothing is held. What each operator would
take comes from simgpu's cost model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import nn

import simgpu
from simgpu import torch_private
from simgpu.profiles import GpuProfile


class Collective(NamedTuple):
    """Its name, the bytes of the whole, and the kind of group that it is among."""

    name: str
    size: int
    group: str = "tensor"


class Begin(NamedTuple):
    """A collective that goes on beside the kernels up to the `Wait` for it."""

    name: str
    size: int
    group: str = "tensor"


class Wait(NamedTuple):
    """What follows waits for the last collective of this name that began."""

    name: str


class Carry(NamedTuple):
    """A copy of so many bytes to the host's memory (`out`), or back."""

    size: float
    out: bool


class Boundary(NamedTuple):
    """The weights that are sharded apart are needed from here on, or, backward, have their gradients."""


Event = float | Collective | Begin | Wait | Boundary | Carry  # a float: a kernel's seconds


class Unit(NamedTuple):
    """Weights that FSDP gathers at once: the kind of group that shares them, and how many numbers each has here."""

    group: str
    weights: tuple[int, ...]

    @property
    def numbers(self) -> int:
        return sum(self.weights)


class Trace(NamedTuple):
    """A block's forward and backward pass. Sizes are bytes of one micro-batch.

    `kept` is what autograd holds from one to the other, the block's input with it where that is needed. `forward_peak`
    and `backward_peak` are the most that there is meanwhile, without weights, and with the gradients of weights.
    """

    forward: tuple[Event, ...]
    backward: tuple[Event, ...]
    kept: int
    forward_peak: int
    backward_peak: int
    output: int
    units: tuple[Unit, ...]  # one, or another for weights between `Boundary` and `Boundary`

    @property
    def numbers(self) -> int:
        """Of all weights, on this GPU."""
        return sum(unit.numbers for unit in self.units)

    def sooner(self, share: float) -> Trace:
        """The same with kernels that take this share of their seconds."""
        forward, backward = (
            tuple(event * share if isinstance(event, float) else event for event in events)
            for events in (self.forward, self.backward)
        )
        return self._replace(forward=forward, backward=backward)


class KernelRecorder(torch_private.DispatchMode):
    """Notes the kernels of what runs inside, and how much memory its tensors hold after each."""

    def __init__(self, gpu: GpuProfile):
        super().__init__()
        self.gpu, self.events = gpu, []
        self.held = self.peak = 0
        self._others: set[int] = set()  # memory that is not counted: of weights, and of inputs that are data
        self._alive: dict[int, tuple[int, Callable[[], bool]]] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if func is not torch.ops.aten.detach.default and func.namespace != "profiler":
            if (seconds := simgpu.operator_seconds(self.gpu, func, args, kwargs, out)) is not None:
                self.events.append(seconds)
            self.count(out)
        return out

    def count(self, out=()) -> int:
        """Bytes held now, with the tensors of `out` if they are new."""
        for key, (size, is_gone) in list(self._alive.items()):
            if is_gone():
                del self._alive[key]
                self.held -= size
        for tensor in _tensors(out):
            storage = tensor.untyped_storage()
            if (key := storage._cdata) not in self._alive and key not in self._others:
                size = -(-storage.nbytes() // simgpu.BLOCK) * simgpu.BLOCK
                self._alive[key] = size, torch_private.weak_storage(storage).expired
                self.held += size
        self.peak = max(self.peak, self.held)
        return self.held

    def leave_out(self, tensors) -> None:
        """Do not count the memory of these."""
        self._others |= {tensor.untyped_storage()._cdata for tensor in tensors}

    def take_events(self) -> tuple[Event, ...]:
        events, self.events = tuple(self.events), []
        return events


def _tensors(out):
    if isinstance(out, torch.Tensor):
        yield out
    elif isinstance(out, (list, tuple)):
        for each in out:
            yield from _tensors(each)


class _Begin(torch.autograd.Function):
    """What another block has made: its memory is counted, and nothing but the graph keeps it."""

    @staticmethod
    def forward(ctx, leaf, watch):
        made = torch.empty_like(leaf)
        watch.count(made)
        return made

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class _End(torch.autograd.Function):
    """Another block takes it from here, and gives its gradient."""

    @staticmethod
    def forward(ctx, out, watch):
        ctx.shape, ctx.dtype, ctx.watch = out.shape, out.dtype, watch
        return torch.empty((), device="meta")

    @staticmethod
    def backward(ctx, gradient):
        made = torch.empty(ctx.shape, dtype=ctx.dtype, device="meta")
        ctx.watch.count(made)
        ctx.watch.events.clear()  # no block begins with the gradient of what stands for it here
        return made, None


# The watch of the trace that is going on, for the collectives of its block.
_watching: list[KernelRecorder] = []


def record_collective(name: str, size: int, group: str = "tensor", beside: bool = False) -> None:
    """A block's collective, of so many bytes together. What follows waits for it, or goes on `beside` it."""
    _watching[-1].events.append((Begin if beside else Collective)(name, size, group))


def record_wait(name: str) -> None:
    """What follows waits for the collective of this name that goes on."""
    _watching[-1].events.append(Wait(name))


class ShardedApart(nn.Module):
    """A module whose weights are a unit of FSDP of their own, among the GPUs of `expert_shard`."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return _Border.apply(self.module(_Border.apply(x, True)), False)


class _Border(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, is_entry):
        if is_entry:
            _watching[-1].events.append(Boundary())
        return x.view_as(x)

    @staticmethod
    def backward(ctx, *gradients):
        _watching[-1].events.append(Boundary())
        return *gradients, None


def record_kernel(size: int) -> None:
    """A kernel that reads and writes so many bytes, and that no operator of PyTorch's stands for."""
    gpu = _watching[-1].gpu
    _watching[-1].events.append(gpu.shortest + size / (gpu.bandwidth * gpu.streams))


def trace(make: Callable[[], nn.Module], inputs: tuple[torch.Tensor, ...], gpu: GpuProfile) -> Trace:
    """The trace of the module that `make` makes, for inputs whose first is what another block has made (or data)."""
    with torch.device("meta"):
        module = make()
    watch, weights = KernelRecorder(gpu), list(module.parameters())
    first = inputs[0].detach()
    if first.is_floating_point():
        first.requires_grad_()
    watch.leave_out([*weights, *module.buffers(), *inputs])
    _watching.append(watch)
    try:
        with simgpu.AttentionInOneKernel(), watch, torch.device("meta"):
            x = _Begin.apply(first, watch) if first.requires_grad else first
            watch.events.clear()
            out = module(x, *inputs[1:])
            size = 0 if out.dim() == 0 else out.numel() * out.element_size()
            forward, forward_peak = watch.take_events(), watch.peak
            end = out if out.dim() == 0 else _End.apply(out, watch)
            del x, out
            watch.events.clear()
            kept = watch.peak = watch.count()
            end.backward()
    finally:
        _watching.pop()
    backward = watch.take_events()
    apart = [w for each in module.modules() if isinstance(each, ShardedApart) for w in each.parameters()]
    known = {id(w) for w in apart}
    units = [Unit("shard", tuple(w.numel() for w in weights if id(w) not in known))]
    units += [Unit("expert_shard", tuple(w.numel() for w in apart))] * bool(apart)
    return Trace(forward, backward, kept, forward_peak, watch.peak, size, tuple(units))
