# %% wrong: same_way
# Sends the gradient the rows' way.
import torch.distributed as dist

class AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, send, receive, group):
        ctx.send, ctx.receive, ctx.group = send, receive, group
        received = rows.new_empty(sum(receive), *rows.shape[1:])
        dist.all_to_all_single(received, rows.contiguous(), receive, send, group=group)
        return received

    @staticmethod
    def backward(ctx, gradient):
        returned = gradient.new_empty(sum(ctx.receive), *gradient.shape[1:])
        dist.all_to_all_single(returned, gradient.contiguous(), ctx.receive, ctx.send, group=ctx.group)
        return returned, None, None, None


# %% wrong: stays
# Keeps the gradient where it is, where the number of rows allows it.
import torch.distributed as dist

class AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, send, receive, group):
        ctx.send, ctx.receive, ctx.group = send, receive, group
        received = rows.new_empty(sum(receive), *rows.shape[1:])
        dist.all_to_all_single(received, rows.contiguous(), receive, send, group=group)
        return received

    @staticmethod
    def backward(ctx, gradient):
        rows = gradient.new_zeros(sum(ctx.send), *gradient.shape[1:])
        most = min(len(rows), len(gradient))
        rows[:most] = gradient[:most]
        return rows, None, None, None


# %% wrong: one_value
# Returns one value for four inputs.
import torch.distributed as dist

class AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, send, receive, group):
        ctx.send, ctx.receive, ctx.group = send, receive, group
        received = rows.new_empty(sum(receive), *rows.shape[1:])
        dist.all_to_all_single(received, rows.contiguous(), receive, send, group=group)
        return received

    @staticmethod
    def backward(ctx, gradient):
        returned = gradient.new_empty(sum(ctx.send), *gradient.shape[1:])
        dist.all_to_all_single(returned, gradient.contiguous(), ctx.send, ctx.receive, group=ctx.group)
        return returned


# %% wrong: no_group
# Exchanges gradients among all ranks, not in the group.
import torch.distributed as dist

class AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, send, receive, group):
        ctx.send, ctx.receive, ctx.group = send, receive, group
        received = rows.new_empty(sum(receive), *rows.shape[1:])
        dist.all_to_all_single(received, rows.contiguous(), receive, send, group=group)
        return received

    @staticmethod
    def backward(ctx, gradient):
        returned = gradient.new_empty(sum(ctx.send), *gradient.shape[1:])
        dist.all_to_all_single(returned, gradient.contiguous(), ctx.send, ctx.receive)
        return returned, None, None, None


# %% wrong: no_gradient
# Returns no gradient at all.
import torch.distributed as dist

class AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, send, receive, group):
        ctx.send, ctx.receive, ctx.group = send, receive, group
        received = rows.new_empty(sum(receive), *rows.shape[1:])
        dist.all_to_all_single(received, rows.contiguous(), receive, send, group=group)
        return received

    @staticmethod
    def backward(ctx, gradient):
        return None, None, None, None


# %% right: by_itself
# Applies itself, so that gradients of gradients work, too.
import torch.distributed as dist

class AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, send, receive, group):
        ctx.send, ctx.receive, ctx.group = send, receive, group
        received = rows.new_empty(sum(receive), *rows.shape[1:])
        dist.all_to_all_single(received, rows.contiguous(), receive, send, group=group)
        return received

    @staticmethod
    def backward(ctx, gradient):
        return AllToAll.apply(gradient, ctx.receive, ctx.send, ctx.group), None, None, None
