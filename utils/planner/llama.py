"""A Llama-like model by its sizes: blocks that lie on one GPU, or on several by tensor and sequence parallelism.

    llama(layers=32, hidden_size=4096, heads=32, kv_heads=8, intermediate_size=14336, vocab_size=128256, length=8192)

Written as torchtitan's is: weights in float32, rotary positions as complex numbers, attention in one kernel.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional
from torch.nn.functional import cross_entropy, silu
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import simgpu

Reduce = Callable[[torch.Tensor, str], torch.Tensor]


def apply_rotary_emb(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    """Rotary positions: pairs of numbers as complex ones, in float32."""
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * angles).flatten(3).type_as(x)


def _causal(query, key, value):
    return functional.scaled_dot_product_attention(query, key, value, is_causal=True)  # its name may be replaced


class Attention(nn.Module):
    """`heads` and `kv_heads` are those of this GPU."""

    def __init__(self, width: int, heads: int, kv_heads: int, size: int):
        super().__init__()
        self.size, self.repeats, self.attend = size, heads // kv_heads, _causal
        self.q, self.o = nn.Linear(width, heads * size, bias=False), nn.Linear(heads * size, width, bias=False)
        self.k, self.v = (nn.Linear(width, kv_heads * size, bias=False) for _ in range(2))

    def forward(self, x, angles):
        q, k, v = (layer(x).unflatten(-1, (-1, self.size)) for layer in (self.q, self.k, self.v))
        q, k = apply_rotary_emb(q, angles), apply_rotary_emb(k, angles)
        if self.repeats > 1:
            k, v = (each.repeat_interleave(self.repeats, dim=2) for each in (k, v))
        q, k, v = (each.transpose(1, 2) for each in (q, k, v))
        return self.o(self.attend(q, k, v).transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.down(silu(self.gate(x)) * self.up(x))


class Layer(nn.Module):
    def __init__(self, width: int, heads: int, kv_heads: int, hidden: int, size: int, mlp: nn.Module | None = None):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        self.attention, self.mlp = Attention(width, heads, kv_heads, size), mlp or Mlp(width, hidden)

    def forward(self, x, angles):
        x = x + self.attention(self.norm1(x), angles)
        return x + self.mlp(self.norm2(x))


class Head(nn.Module):
    """The last norm, the product with all words of this GPU's share, and the loss."""

    def __init__(self, width: int, words: int, reduce: Reduce | None = None, first: int = 0):
        super().__init__()
        self.norm, self.output = nn.RMSNorm(width, eps=1e-5), nn.Linear(width, words, bias=False)
        self.reduce, self.first = reduce, first

    def forward(self, x, targets):
        logits = self.output(self.norm(x)).flatten(0, 1).float()
        if self.reduce is None:
            return cross_entropy(logits, targets.flatten())
        return _SharedLoss.apply(logits, targets.flatten(), self.reduce, self.first)


class _SharedLoss(torch.autograd.Function):
    """Cross entropy where each rank has the logits of some words (Megatron-LM's, arXiv 1909.08053, section 3)."""

    @staticmethod
    def forward(ctx, logits, targets, reduce, first):
        logits = logits - reduce(logits.amax(-1), "max")[:, None]
        own = targets - first
        elsewhere = (own < 0) | (own >= logits.shape[-1])
        own = own.masked_fill(elsewhere, 0)
        wanted = reduce(logits.gather(-1, own[:, None])[:, 0].masked_fill(elsewhere, 0), "sum")
        chances = logits.exp_()
        total = reduce(chances.sum(-1), "sum")
        ctx.save_for_backward(chances.div_(total[:, None]), own, elsewhere)
        return (total.log() - wanted).mean()

    @staticmethod
    def backward(ctx, gradient):
        chances, own, elsewhere = ctx.saved_tensors
        chances.scatter_add_(-1, own[:, None], (elsewhere.to(chances.dtype) - 1)[:, None])
        return chances.mul_(gradient / len(own)), None, None, None


class Selective(nn.Module):
    """torchtitan's selective checkpointing by operator: attention is kept, and every second product."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module

    def forward(self, *inputs):
        return checkpoint(self._run, *inputs, use_reentrant=False, context_fn=kept_in_part)

    def _run(self, *inputs):
        with simgpu.AttentionInOneKernel():  # again when it is run again, where no mode of a caller's reaches
            return self.module(*inputs)


def kept_in_part():
    """What `Selective` keeps: for each forward pass a policy of its own, which counts its products."""
    products = {"forward": 0, "recompute": 0}

    def policy(context, func, *args, **kwargs):
        name = str(func)
        if "aten.mm." in name or "aten.linear" in name:
            mode = "recompute" if context.is_recompute else "forward"
            products[mode] += 1
            keep = products[mode] % 2 == 1
        else:
            keep = "attention" in name
        return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)
