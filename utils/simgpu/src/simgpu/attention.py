"""Scaled dot product attention as one operator, forward and backward, as it is one kernel on a GPU.

For other devices PyTorch takes attention apart into products and a softmax, whose matrix of all pairs a GPU's kernel
never writes (Dao and others, FlashAttention, 2022). Here the values are computed in those steps, and what is charged is
the one kernel (`cost`). What it does not cover goes PyTorch's own way: masks that learn, and shapes that broadcast.
"""

from __future__ import annotations

import sys
from functools import cache

import torch

from . import attention_blocks
from .attention_blocks import for_each_query_head, in_float32, masked_scores

aten = torch.ops.aten

SCHEMA = "Tensor query, Tensor key, Tensor value, Tensor? mask, float dropout, bool causal, float scale"


def _weights(query, key, mask, causal, scale):
    return aten._safe_softmax(masked_scores(query, key, mask, causal, scale), -1)


def _kept(weights, dropout, seed):
    """What dropout keeps, as factors. Drawn by `seed` in forward, and again in backward: a GPU keeps seeds, too."""
    if weights.is_meta:
        return torch.empty_like(weights)
    drawn = torch.rand(weights.shape, generator=torch.Generator().manual_seed(seed.item()))
    return drawn.ge(dropout).to(weights.dtype) / (1 - dropout)


def attention(query, key, value, mask, dropout, causal, scale):
    """(result, the seed of what dropout kept; empty without it)."""
    dtype = query.dtype
    query, key, value = in_float32(query, key, value)
    key, value = for_each_query_head(query, key, value)
    weights = _weights(query, key, mask, causal, scale)
    seed = torch.empty(1 if dropout else 0, dtype=torch.long, device=query.device)
    if dropout:
        seed.random_()
        weights = weights * _kept(weights, dropout, seed)
    return (weights @ value).to(dtype), seed


def attention_backward(gradient, query, key, value, mask, dropout, causal, scale, seed):
    dtype, shared = query.dtype, key.shape[1]
    gradient, query, key, value = in_float32(gradient, query, key, value)
    key, value = for_each_query_head(query, key, value)
    weights = _weights(query, key, mask, causal, scale)
    of_weights = gradient @ value.transpose(-2, -1)
    dropped = weights
    if dropout:
        kept = _kept(weights, dropout, seed)
        of_weights, dropped = of_weights * kept, weights * kept
    of_scores = weights * (of_weights - (of_weights * weights).sum(-1, keepdim=True)) * scale
    of_key, of_value = of_scores.transpose(-2, -1) @ query, dropped.transpose(-2, -1) @ gradient
    if query.shape[1] != shared:
        of_key, of_value = (tensor.unflatten(1, (shared, -1)).sum(2) for tensor in (of_key, of_value))
    return tuple(tensor.to(dtype) for tensor in (of_scores @ key, of_key, of_value))


def _save(ctx, inputs, output):
    query, key, value, mask, *ctx.settings = inputs
    ctx.save_for_backward(query, key, value, mask, output[1])
    ctx.set_materialize_grads(False)


def _gradients(ctx, gradient, _):
    query, key, value, mask, seed = ctx.saved_tensors
    found = torch.ops.simgpu.attention_backward(gradient, query, key, value, mask, *ctx.settings, seed)
    return *found, None, None, None, None


def scaled_dot_product_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False
):
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    if attention_blocks.are_shared(query, key, value):
        return attention_blocks.attend(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    if not _is_plain(query, key, value, attn_mask, enable_gqa):
        return aten._scaled_dot_product_attention_math(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )[0]
    if "torch.distributed.tensor" in sys.modules:
        _let_dtensor_shard_it()
    # Two operators, since what one keeps is known by the shapes of its arguments (`plans`).
    operator = torch.ops.simgpu.attention_with_dropout if dropout_p else torch.ops.simgpu.attention
    return operator(query, key, value, attn_mask, dropout_p, is_causal, scale)[0]


@cache
def _let_dtensor_shard_it() -> None:
    """Tell DTensor how attention may lie on several ranks: whole, or split by batch or by heads."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.experimental import register_sharding

    def ways(mask):
        for place in (Replicate(), Shard(0), Shard(1)):
            if mask is None or place == Replicate():  # a mask has dimensions of its own
                yield place

    @register_sharding([torch.ops.simgpu.attention.default, torch.ops.simgpu.attention_with_dropout.default])
    def _(query, key, value, mask, dropout, causal, scale):
        of_mask = None if mask is None else Replicate()
        return [([place, Replicate()], [place, place, place, of_mask, None, None, None]) for place in ways(mask)]

    @register_sharding(torch.ops.simgpu.attention_backward.default)
    def _(gradient, query, key, value, mask, dropout, causal, scale, seed):
        of_mask = None if mask is None else Replicate()
        return [([place] * 3, [*[place] * 4, of_mask, None, None, None, Replicate()]) for place in ways(mask)]


def _is_plain(query, key, value, mask, grouped) -> bool:
    if not query.dim() == key.dim() == value.dim() == 4 or key.shape[:-1] != value.shape[:-1]:
        return False
    queries, keys = query.shape[1], key.shape[1]
    heads = queries % keys == 0 if grouped and keys else queries == keys
    types = {query.dtype, key.dtype, value.dtype}
    learns = mask is not None and (mask.requires_grad or mask.device != query.device)
    same = query.shape[0] == key.shape[0] and heads
    return same and len(types) == 1 and query.is_floating_point() and not learns


_OWN, _ATEN = torch.library.Library("simgpu", "DEF"), torch.library.Library("aten", "IMPL")
FORWARD = ("attention", "attention_with_dropout")
for _name in FORWARD:
    _OWN.define(f"{_name}({SCHEMA}) -> (Tensor, Tensor)")
_OWN.define(f"attention_backward(Tensor gradient, {SCHEMA}, Tensor seed) -> (Tensor, Tensor, Tensor)")
for _name, _function in (*((_name, attention) for _name in FORWARD), ("attention_backward", attention_backward)):
    _OWN.impl(_name, _function, "CPU")
    _OWN.impl(_name, _function, "Meta")
for _name in FORWARD:
    torch.library.register_autograd(f"simgpu::{_name}", _gradients, setup_context=_save, lib=_OWN)


@cache
def register_attention() -> None:
    """Make attention one operator on simulated GPUs."""
    _ATEN.impl("scaled_dot_product_attention", scaled_dot_product_attention, "AutogradPrivateUse1")
