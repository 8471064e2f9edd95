"""Lesson 17: working versions of its tasks."""

import torch
import torch.distributed as dist


def dispatch(x, chosen, experts, exchange):
    order = chosen.argsort(stable=True)
    counts = torch.bincount(chosen, minlength=experts)
    one_each = [1] * experts
    send, receive = counts.tolist(), exchange(counts, one_each, one_each).tolist()
    return exchange(x[order], send, receive), send, receive, order


def combine(y, send, receive, order, exchange):
    back = exchange(y, receive, send)  # sorted by expert, as dispatch sent them
    return back[order.argsort()]


class AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, send, receive, group):
        ctx.send, ctx.receive, ctx.group = send, receive, group
        received = rows.new_empty(sum(receive), *rows.shape[1:])
        dist.all_to_all_single(received, rows.contiguous(), receive, send, group=group)
        return received

    @staticmethod
    def backward(ctx, gradient):  # pyright: ignore[reportIncompatibleMethodOverride]
        # A row's gradient takes its row's way back.
        returned = gradient.new_empty(sum(ctx.send), *gradient.shape[1:])
        dist.all_to_all_single(returned, gradient.contiguous(), ctx.send, ctx.receive, group=ctx.group)
        return returned, None, None, None
