"""Attention with its log-sum-exp, as PyTorch's kernels for CUDA give it: what context parallel passes round a ring.

A rank attends to one block of keys at a time, and weighs each block's result by the log-sum-exp of its scores. The
backward pass of a block is given the log-sum-exp and the result of all blocks (Liu, Zaharia and Abbeel, Ring Attention,
2023). PyTorch has these operators for CUDA only: flash attention for 16 bits, the memory-efficient one for float32.
"""

from __future__ import annotations

import torch
from torch.nn.functional import pad

from . import refusals, torch_private

aten = torch.ops.aten
FLASH, EFFICIENT = aten._scaled_dot_product_flash_attention, aten._scaled_dot_product_efficient_attention
FLASH_BACKWARD = aten._scaled_dot_product_flash_attention_backward
EFFICIENT_BACKWARD = aten._scaled_dot_product_efficient_attention_backward
HALF = (torch.float16, torch.bfloat16)
# The memory-efficient kernel rounds the queries of its log-sum-exp up to as many (kAlignLSE in PyTorch's
# aten/src/ATen/native/transformers/cuda/mem_eff_attention/kernel_forward.h).
ALIGNED = 32


def masked_scores(query, key, mask, causal, scale):
    scores = query @ key.transpose(-2, -1) * scale
    if causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(~seen, float("-inf"))
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype is torch.bool else scores + mask
    return scores


def in_float32(*tensors):
    """Half precision in float32, in which a GPU's kernel keeps scores, weights and sums."""
    return [tensor.to(torch.promote_types(tensor.dtype, torch.float32)) for tensor in tensors]


def for_each_query_head(query, *shared):
    """Keys and values with as many heads as the queries: with grouped queries several share one. A GPU copies none."""
    times = query.shape[1] // shared[0].shape[1]
    return shared if times == 1 else [tensor.repeat_interleave(times, dim=1) for tensor in shared]


def _block(query, key, value, dropout, causal, scale):
    """(result, log-sum-exp of the scores, for each query)."""
    if dropout:
        raise NotImplementedError(refusals.NO_DROPOUT_IN_KERNELS)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    dtype = query.dtype
    query, key, value = in_float32(query, key, value)
    key, value = for_each_query_head(query, key, value)
    scores = masked_scores(query, key, None, causal, scale)
    sums = scores.logsumexp(-1)
    return ((scores - sums[..., None]).exp() @ value).to(dtype), sums


def _block_backward(gradient, query, key, value, out, sums, causal, scale):
    """Gradients of queries, keys and values, from the log-sum-exp and the result of all blocks."""
    dtype, shared = query.dtype, key.shape[1]
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    gradient, query, key, value, out = in_float32(gradient, query, key, value, out)
    key, value = for_each_query_head(query, key, value)
    weights = (masked_scores(query, key, None, causal, scale) - sums[..., None]).exp()
    of_weights = gradient @ value.transpose(-2, -1) - (gradient * out).sum(-1, keepdim=True)
    of_scores = weights * of_weights * scale
    of_key, of_value = of_scores.transpose(-2, -1) @ query, weights.transpose(-2, -1) @ gradient
    if query.shape[1] != shared:
        of_key, of_value = (tensor.unflatten(1, (shared, -1)).sum(2) for tensor in (of_key, of_value))
    return tuple(tensor.to(dtype) for tensor in (of_scores @ key, of_key, of_value))


def flash(query, key, value, dropout=0.0, causal=False, debug=False, *, scale=None):
    if query.dtype not in HALF:
        raise RuntimeError("FlashAttention only support fp16 and bf16 data type")  # as CUDA says it
    out, sums = _block(query, key, value, dropout, causal, scale)
    state, offset = (torch.zeros(shape, dtype=torch.uint64, device=query.device) for shape in (2, ()))
    return out, sums, None, None, query.shape[2], key.shape[2], state, offset, query.new_empty(0)


def flash_backward(gradient, query, key, value, out, sums, _q, _k, _max_q, _max_k, _dropout, causal, *_, scale=None):
    return _block_backward(gradient, query, key, value, out, sums, causal, scale)


def efficient(query, key, value, bias, with_sums, dropout=0.0, causal=False, *, scale=None):
    if bias is not None or query.dtype is torch.float64:
        raise NotImplementedError(refusals.NO_BIAS_IN_KERNELS)
    out, sums = _block(query, key, value, dropout, causal, scale)
    sums = pad(sums, (0, -sums.shape[-1] % ALIGNED), value=float("inf")) if with_sums else sums[..., :0]
    seed, offset = (torch.zeros((), dtype=torch.long, device=query.device) for _ in range(2))
    return out, sums, seed, offset


def efficient_backward(
    gradient, query, key, value, _bias, out, sums, _seed, _offset, _dropout, _wanted, causal=False, *, scale=None
):
    return *_block_backward(gradient, query, key, value, out, sums[..., : query.shape[2]], causal, scale), None


# What is computed in place of an operator that has no CPU kernel.
SUBSTITUTES = {
    FLASH.default: flash,
    FLASH_BACKWARD.default: flash_backward,
    EFFICIENT.default: efficient,
    EFFICIENT_BACKWARD.default: efficient_backward,
}


# --- PyTorch's context_parallel -----------------------------------------------------------------------------------


def are_shared(query, key, value) -> bool:
    """Whether context_parallel is on, and a call of attention is one for its ring.

    Raises RuntimeError where it has gone past the ring: it would see this rank's part of the sequence only.
    """
    if not torch_private.in_context_parallel():
        return False
    from torch.distributed.tensor import DTensor

    if all(isinstance(tensor, DTensor) for tensor in (query, key, value)):
        return True
    if torch_private.attention_is_replaced():
        raise RuntimeError(refusals.PAST_THE_RING)
    return False


def attend(query, key, value, mask, dropout, causal, scale, grouped):
    """Attention over all ranks, by the operator that CUDA would take of those for which PyTorch has a ring."""
    tokens = query.shape[2] // query.device_mesh.size() if query.dim() == 4 else 0
    step = ALIGNED * (2 if torch_private.ring_is_balanced() else 1)
    half = query.dtype in HALF
    if dropout:
        raise NotImplementedError(refusals.NO_DROPOUT_IN_A_RING)
    for refused, words in (
        (mask is not None, "an attn_mask: leave it out, or pass is_causal=True"),
        (not (half or query.dtype is torch.float32), "other numbers than float32, bfloat16 and float16"),
        (not query.dtype == key.dtype == value.dtype, "tensors of several dtypes: make them alike"),
        (not query.dim() == key.dim() == value.dim() == 4, "other shapes than (batch, heads, tokens, width)"),
        (query.shape[1] != key.shape[1] and not grouped, "fewer heads of keys than of queries without enable_gqa=True"),
        (query.shape[1] != key.shape[1] and not half, "grouped queries in float32: take bfloat16, or repeat the keys"),
        (not half and tokens % step, f"float32 with parts of {tokens} tokens: take a multiple of {step} on each rank"),
    ):
        if refused:
            raise NotImplementedError(refusals.no_ring(words))
    if half:
        out = FLASH(query, key, value, 0.0, causal, scale=scale)[0]
    else:
        out = EFFICIENT(query, key, value, None, True, 0.0, causal, scale=scale)[0]
    if out.requires_grad:
        out.register_hook(_require_the_ring)
    return out


def _require_the_ring(gradient):
    if not torch_private.in_context_parallel():
        raise RuntimeError(refusals.BACKWARD_PAST_THE_RING)
    return gradient
