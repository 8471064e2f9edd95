"""nn.LSTM, nn.GRU and nn.RNN as on CUDA: one call of cuDNN's for all layers and time steps, forward and backward.

For other devices PyTorch takes them apart into products and cells, step by step. So values and gradients are computed
here; what is charged is cuDNN's one call (`cost.recurrent`), and of its parts nothing. A cell by itself
(nn.LSTMCell) is no such call on CUDA either.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from functools import cache

import torch

from . import cost, ordering, origin
from .hardware import DEVICE_TYPE, machine
from .tensor import SimTensor

aten = torch.ops.aten


class _Call:
    """One call of cuDNN's, and its backward pass."""

    def __init__(self, x, batches, params, groups: int):
        self.gpu = x._gpu
        self.batches = tuple(Counter(batches).items())
        lower = torch.is_autocast_enabled(DEVICE_TYPE) and x.dtype is torch.float32
        self.dtype = torch.get_autocast_dtype(DEVICE_TYPE) if lower else x.dtype
        weights = [(i % (len(params) // groups), tuple(p.shape)) for i, p in enumerate(params) if p.dim() == 2]
        self.of_inputs = [shape for place, shape in weights if place == 0]
        self.of_states = [shape for place, shape in weights if place]

    def launch(self, name: str, backward: bool) -> None:
        work = cost.recurrent(self.of_inputs, self.of_states, self.batches, self.dtype, backward)
        machine.launch(self.gpu, cost.seconds_for(self.gpu.profile, work), name, work.bytes, work.flops)

    @contextlib.contextmanager
    def forward(self) -> Iterator[None]:
        """Around the parts of the forward pass."""
        self.launch("_cudnn_rnn", False)
        self.gpu.within += 1
        try:
            yield
        finally:
            self.gpu.within -= 1


# The parts' nodes are numbered one after another, and the autograd engine takes the highest number that is ready:
# between the nodes of `_Results` and `_Operands` it runs the parts and nothing else.


class _Results(torch.autograd.Function):
    """What comes out of the parts. Its node is the first of them in a backward pass."""

    @staticmethod
    def forward(ctx, call, *results):
        ctx.set_materialize_grads(False)
        ctx.call = call
        ctx.save_for_backward(results[0])
        origin.here()  # whose node this is
        return tuple(result.detach() for result in results)

    @staticmethod
    def backward(ctx, *gradients):
        _ = ctx.saved_tensors  # what a checkpoint computes again comes before
        read = [(g._gpu, g._storage) for g in gradients if type(g) is SimTensor]
        with ordering.of(read) if machine.several_streams else contextlib.nullcontext():
            ctx.call.launch("_cudnn_rnn_backward", True)
        ctx.call.gpu.within += 1
        return None, *gradients


class _Operands(torch.autograd.Function):
    """What goes into the parts. Its node is the last of them in a backward pass."""

    @staticmethod
    def forward(ctx, call, *operands):
        ctx.set_materialize_grads(False)
        ctx.call = call
        return tuple(operand.detach() for operand in operands)

    @staticmethod
    def backward(ctx, *gradients):
        ctx.call.gpu.within -= 1
        return None, *gradients


def _as_one_call(func, packed: bool):
    """A recurrent operator of PyTorch's, charged as one."""

    def run(x, *args):
        first = 1 if packed else 0
        batch_sizes, args = args[:first], args[first:]
        hidden, params, _, layers, _, _, bidirectional, *batch_first = args
        states = list(hidden) if isinstance(hidden, (list, tuple)) else [hidden]
        operands = [x, *states, *params]
        if not all(type(t) is SimTensor and t._gpu is operands[0]._gpu for t in operands):
            return func.decompose(x, *batch_sizes, *args)  # which says what is wrong
        batches = batch_sizes[0].tolist() if packed else _batches(x, *batch_first)
        call = _Call(x, batches, params, layers * (1 + bidirectional))
        learning = {id(t): t for t in operands if torch.is_grad_enabled() and t.requires_grad}
        with call.forward():
            replaced = dict(zip(learning, _Operands.apply(call, *learning.values()), strict=True)) if learning else {}
            x, *rest = (replaced.get(id(t), t) for t in operands)
            states, params = rest[: len(states)], rest[len(states) :]
            hidden = states if isinstance(hidden, (list, tuple)) else states[0]
            results = func.decompose(x, *batch_sizes, hidden, params, *args[2:])
            return _Results.apply(call, *results) if learning else results

    return run


def _batches(x, batch_first: bool) -> list[int]:
    """The size of the batch at each time step."""
    steps, batch = (x.shape[1], x.shape[0]) if batch_first else x.shape[:2]
    return [batch] * steps


_ATEN = torch.library.Library("aten", "IMPL")


@cache
def register_sequences() -> None:
    """Make recurrent layers one operator on simulated GPUs."""
    for packet in (aten.lstm, aten.gru, aten.rnn_tanh, aten.rnn_relu):
        for overload in ("input", "data"):
            func = getattr(packet, overload)
            _ATEN.impl(f"{packet.__name__}.{overload}", _as_one_call(func, overload == "data"), "AutogradPrivateUse1")
