"""Attention whose sequence lies on several GPUs, as PyTorch's `context_parallel` computes it, for traces.

Each GPU has two chunks of the sequence (zig-zag), so all have as much of the causal mask. Keys and values are gathered
from all beside the product of the GPU's own, and each further block of pairs is merged by its log-sum-exp; backward the
gradients of keys and values go round a ring. The steps and their dtypes are those of
torch/distributed/tensor/experimental/_context_parallel/_attention.py (2.15), of the last GPU, which has most to merge.
"""

from __future__ import annotations

import torch
from torch.nn.functional import logsigmoid, scaled_dot_product_attention

from .trace import record_collective, record_wait


class RingAttention(torch.autograd.Function):
    """Causal attention of this GPU's queries, (rows, heads, tokens, head size), to the tokens of `context` GPUs."""

    @staticmethod
    def forward(ctx, query, key, value, context):
        key, value = key.contiguous(), value.contiguous()
        _gather(key, value, context)
        out = scaled_dot_product_attention(query, key, value, is_causal=True).float()
        norm = _of_each_query(query)
        record_wait("all_gather")
        for _ in range(context - 1):
            halves = (each.chunk(2, dim=2)[0] for each in (key, value))
            block, its_norm = scaled_dot_product_attention(query, *halves).float(), _of_each_query(query)
            out = out - torch.sigmoid(its_norm - norm) * (out - block)
            norm = norm - logsigmoid(norm - its_norm)
        out = out.to(query.dtype)
        ctx.save_for_backward(query, key, value, out, norm)
        ctx.context = context
        return out

    @staticmethod
    def backward(ctx, *gradients):
        (gradient,) = gradients
        query, key, value, _, _ = ctx.saved_tensors
        context, wide = ctx.context, torch.float32
        of_query, of_key, of_value = (torch.zeros_like(each, dtype=wide) for each in (query, key, value))
        together = _gather(key, value, context)
        for number in range(context):
            if number == 1:
                record_wait("all_gather")
            block = (key, value) if number == 0 else tuple(each.chunk(2, dim=2)[0] for each in (key, value))
            found = _attention_backward(gradient, query, *block, causal=number == 0)
            if number:
                record_wait("send")
                of_key, of_value = (
                    _added_to_half(each, new) for each, new in zip((of_key, of_value), found[1:], strict=True)
                )
            else:
                of_key += found[1]
                of_value += found[2]
            together = torch.cat([of_key.flatten(), of_value.flatten()])
            record_collective("send", together.numel() * 4, "context", beside=True)
            of_query += found[0]
        of_query = of_query.to(query.dtype)
        record_wait("send")
        of_key, of_value = together.to(key.dtype).chunk(2)
        return of_query, of_key.view_as(key), of_value.view_as(value), None


def _gather(key: torch.Tensor, value: torch.Tensor, context: int) -> torch.Tensor:
    own = torch.cat([key.flatten(), value.flatten()])
    whole = own.new_empty(context * own.numel())
    record_collective("all_gather", whole.numel() * whole.element_size(), "context", beside=True)
    return whole


def _of_each_query(query: torch.Tensor) -> torch.Tensor:
    """The log-sum-exp that attention gives with its result."""
    return torch.empty(*query.shape[:-1], 1, dtype=torch.float32, device=query.device)


def _attention_backward(gradient, query, key, value, causal: bool):
    seed = torch.empty(0, dtype=torch.long, device=query.device)
    scale = query.shape[-1] ** -0.5
    return torch.ops.simgpu.attention_backward(gradient, query, key, value, None, 0.0, causal, scale, seed)


def _added_to_half(whole: torch.Tensor, half: torch.Tensor) -> torch.Tensor:
    chunks = list(whole.chunk(2, dim=2))
    chunks[0] += half
    return torch.cat(chunks, dim=2)
