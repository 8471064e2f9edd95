"""Sequence parallelism's two collectives with a backward pass, for the ranks of lesson and lab 18."""

from __future__ import annotations

import torch
import torch.distributed as dist


class AllGatherTokens(torch.autograd.Function):
    """All ranks' tokens, along the first dimension. `group`: None for all ranks.

    Backward, a rank's tokens get the sum of all ranks' gradients, or with `summed=False` those of its own: where each
    rank computes the same from all tokens.
    """

    @staticmethod
    def forward(ctx, x, group=None, summed=True):
        ctx.group, ctx.summed = group, summed
        return _gathered(x, group)

    @staticmethod
    def backward(ctx, gradient):  # pyright: ignore[reportIncompatibleMethodOverride]
        if ctx.summed:
            return _scattered(gradient, ctx.group), None, None
        return gradient.chunk(dist.get_world_size(ctx.group))[dist.get_rank(ctx.group)].clone(), None, None


class ReduceScatterTokens(torch.autograd.Function):
    """A rank's tokens of the sum over all ranks. Backward, the gradients of all tokens."""

    @staticmethod
    def forward(ctx, x, group=None):
        ctx.group = group
        return _scattered(x, group)

    @staticmethod
    def backward(ctx, gradient):  # pyright: ignore[reportIncompatibleMethodOverride]
        return _gathered(gradient, ctx.group), None


def _gathered(x: torch.Tensor, group) -> torch.Tensor:
    whole = x.new_empty(len(x) * dist.get_world_size(group), *x.shape[1:])
    dist.all_gather_into_tensor(whole, x.contiguous(), group=group)
    return whole


def _scattered(x: torch.Tensor, group) -> torch.Tensor:
    own = x.new_empty(len(x) // dist.get_world_size(group), *x.shape[1:])
    dist.reduce_scatter_tensor(own, x.contiguous(), group=group)
    return own
