"""A layer of nanotron's Llama, whose norms and rotary positions are one kernel each, and whose products are merged.

Written after nanotron 0.4 (models/llama.py, parallel/tensor_parallel/functional.py, nn/layer_norm.py), as its scaling
benchmarks ran it: tokens are cut over the GPUs that share a layer, and its collectives go on beside products.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention, silu

from .llama import Head, Reduce
from .trace import record_collective, record_kernel, record_wait

SMALL = 6  # kernels that work out where rows begin in FlashAttention's one long row: of queries and keys, 3 each


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


class _Norm(torch.autograd.Function):
    """FlashAttention's Triton kernels: one forward; backward one, and a small sum for the weight."""

    @staticmethod
    def forward(ctx, x, weight):
        record_kernel(2 * _bytes(x))
        ctx.save_for_backward(x, weight, x.new_empty(x.shape[:-1], dtype=torch.float32))
        return x.new_empty(x.shape)

    @staticmethod
    def backward(ctx, *gradients):
        x, weight, _ = ctx.saved_tensors
        record_kernel(3 * _bytes(x))
        record_kernel(_bytes(weight))
        return x.new_empty(x.shape), weight.new_empty(weight.shape)


class FusedNorm(nn.Module):
    """RMSNorm in one kernel."""

    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))

    def forward(self, x):
        return _Norm.apply(x, self.weight)


class _Turn(torch.autograd.Function):
    """Rotary positions of queries in one kernel; backward it copies the gradient first."""

    @staticmethod
    def forward(ctx, queries):
        record_kernel(2 * _bytes(queries))
        return queries.new_empty(queries.shape)

    @staticmethod
    def backward(ctx, *gradients):
        (gradient,) = gradients
        record_kernel(2 * _bytes(gradient))
        return gradient.clone()


class _TurnInPlace(torch.autograd.Function):
    """Those of keys, which lie beside values."""

    @staticmethod
    def forward(ctx, keys_and_values):
        ctx.mark_dirty(keys_and_values)
        record_kernel(_bytes(keys_and_values))
        return keys_and_values

    @staticmethod
    def backward(ctx, *gradients):
        (gradient,) = gradients
        record_kernel(_bytes(gradient))
        return gradient


class _Column(torch.autograd.Function):
    """A product whose outputs are divided. All tokens are gathered beside the product of a GPU's own tokens."""

    @staticmethod
    def forward(ctx, x, weight, tensor):
        ctx.save_for_backward(x, weight)
        ctx.tensor = tensor
        rows, tokens, width = x.shape
        if tensor == 1:
            return x @ weight.t()
        whole = _gather_beside(x, tensor)
        torch.mm(x.view(-1, width), weight.t())
        record_wait("all_gather")
        rest = (tensor - 1) * rows * tokens
        for part in (rest // 2, rest - rest // 2):  # the tokens of GPUs before it, and after it
            if part:
                torch.mm(whole.view(-1, width)[:part], weight.t())
        return x.new_empty(rows, tensor * tokens, weight.shape[0])

    @staticmethod
    def backward(ctx, *gradients):
        (gradient,) = gradients
        x, weight = ctx.saved_tensors
        if ctx.tensor == 1:
            return gradient @ weight, _weights_gradient(gradient, x), None
        whole = _gather_beside(x, ctx.tensor)
        inputs = gradient @ weight
        record_wait("all_gather")
        record_collective("reduce_scatter", _bytes(inputs), beside=True)
        weights = _weights_gradient(gradient, whole)
        record_wait("reduce_scatter")
        return x.new_empty(x.shape), weights, None


class _Row(torch.autograd.Function):
    """A product whose inputs are divided. Its sums are scattered to where the tokens are, and nothing goes on beside.

    Backward each GPU multiplies the gradients of its own tokens, and the results are gathered.
    """

    @staticmethod
    def forward(ctx, x, weight, tensor):
        ctx.save_for_backward(x, weight)
        ctx.tensor = tensor
        sums = x @ weight.t()
        if tensor == 1:
            return sums
        record_collective("reduce_scatter", _bytes(sums))
        return sums.new_empty(sums.shape[0], sums.shape[1] // tensor, sums.shape[2])

    @staticmethod
    def backward(ctx, *gradients):
        (gradient,) = gradients
        x, weight = ctx.saved_tensors
        if ctx.tensor == 1:
            return gradient @ weight, _weights_gradient(gradient, x), None
        whole = _gather_beside(gradient, ctx.tensor)
        own = gradient @ weight
        record_wait("all_gather")
        inputs = _gather_beside(own, ctx.tensor)
        weights = _weights_gradient(whole, x)
        record_wait("all_gather")
        return inputs, weights, None


def _gather_beside(x: torch.Tensor, tensor: int) -> torch.Tensor:
    whole = x.new_empty(x.shape[0], tensor * x.shape[1], x.shape[2])
    record_collective("all_gather", _bytes(whole), beside=True)
    return whole


def _weights_gradient(gradient: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return gradient.flatten(0, 1).t() @ x.flatten(0, 1)


class Product(nn.Module):
    """A linear layer of which each of `tensor` GPUs has a part: of its outputs, or with `rows` of its inputs."""

    def __init__(self, inputs: int, outputs: int, tensor: int, rows: bool = False):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.tensor, self.function = tensor, _Row if rows else _Column

    def forward(self, x):
        return self.function.apply(x, self.weight, self.tensor)


class NanotronLayer(nn.Module):
    """`heads` and `hidden` are those of this GPU, one of `tensor`. There are as many keys and values as queries."""

    def __init__(self, width: int, heads: int, hidden: int, size: int, tensor: int = 1):
        super().__init__()
        self.size = size
        self.norm1, self.norm2 = FusedNorm(width), FusedNorm(width)
        self.qkv = Product(width, 3 * heads * size, tensor)
        self.o = Product(heads * size, width, tensor, rows=True)
        self.gate_up = Product(width, 2 * hidden, tensor)
        self.down = Product(hidden, width, tensor, rows=True)

    def forward(self, x, _):
        x = self._attention(self.norm1(x)) + x
        gate, up = self.gate_up(self.norm2(x)).chunk(2, -1)
        return self.down(silu(gate) * up) + x

    def _attention(self, x):
        queries, keys, values = self.qkv(x).unflatten(-1, (3, -1, self.size)).permute(2, 0, 1, 3, 4).contiguous()
        both = torch.cat([keys[None], values[None]]).permute(1, 2, 0, 3, 4).contiguous()
        queries, both = _Turn.apply(queries), _TurnInPlace.apply(both)
        keys, values = (each.squeeze(2) for each in both.split(1, 2))
        for _ in range(SMALL):
            record_kernel(0)
        each = (part.transpose(1, 2) for part in (queries, keys, values))
        return self.o(scaled_dot_product_attention(*each, is_causal=True).transpose(1, 2).flatten(2))


class NanotronHead(Head):
    """The last norm, the product with all words of this GPU's share, and a loss that is shared even by one."""

    def __init__(self, width: int, words: int, tensor: int, reduce: Reduce):
        super().__init__(width, words, reduce)
        self.norm, self.output = FusedNorm(width), Product(width, words, tensor)
