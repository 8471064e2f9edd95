# %% wrong: logits_gathered
# Gathers the logits of all ranks and computes the loss of one device.

class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits):
        parts = [torch.empty_like(logits) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, logits)
        return torch.cat(parts, 1)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.chunk(dist.get_world_size(), 1)[dist.get_rank()]


def sharded_cross_entropy(logits, targets):
    return nn.functional.cross_entropy(Gather.apply(logits), targets)


# %% wrong: no_maximum
# Takes exponentials of the logits as they are: large ones overflow.

def sharded_cross_entropy(logits, targets):
    first = dist.get_rank() * logits.shape[1]
    largest = logits.detach().amax(1)
    shifted = logits
    here = (targets >= first) & (targets < first + logits.shape[1])
    picked = shifted.gather(1, (targets - first).where(here, 0)[:, None])[:, 0].where(here, 0)
    mine = torch.stack([shifted.exp().sum(1), picked])
    total = mine.detach().clone()
    dist.all_reduce(total)
    sums, target = total + (mine - mine.detach())
    counts = targets != -100
    return ((sums.log() - target) * counts).sum() / counts.sum()


# %% wrong: own_maximum
# Subtracts the rank's own largest logit, so that sums of different ranks do not fit together.

def sharded_cross_entropy(logits, targets):
    first = dist.get_rank() * logits.shape[1]
    largest = logits.detach().amax(1)
    shifted = logits - largest[:, None]
    here = (targets >= first) & (targets < first + logits.shape[1])
    picked = shifted.gather(1, (targets - first).where(here, 0)[:, None])[:, 0].where(here, 0)
    mine = torch.stack([shifted.exp().sum(1), picked])
    total = mine.detach().clone()
    dist.all_reduce(total)
    sums, target = total + (mine - mine.detach())
    counts = targets != -100
    return ((sums.log() - target) * counts).sum() / counts.sum()


# %% wrong: maximum_with_a_gradient
# Leaves the largest logit in autograd: the rank that has it gets a gradient for it.

def sharded_cross_entropy(logits, targets):
    first = dist.get_rank() * logits.shape[1]
    own = logits.amax(1)
    largest = own.detach().clone()
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    largest = torch.where(own == largest, own, largest)
    shifted = logits - largest[:, None]
    here = (targets >= first) & (targets < first + logits.shape[1])
    picked = shifted.gather(1, (targets - first).where(here, 0)[:, None])[:, 0].where(here, 0)
    mine = torch.stack([shifted.exp().sum(1), picked])
    total = mine.detach().clone()
    dist.all_reduce(total)
    sums, target = total + (mine - mine.detach())
    counts = targets != -100
    return ((sums.log() - target) * counts).sum() / counts.sum()


# %% wrong: gradient_times_ranks
# Sums with a function whose backward pass sums, too: each rank has the loss, so the gradient comes once from each.

import torch.distributed.nn.functional as with_gradient


def sharded_cross_entropy(logits, targets):
    first = dist.get_rank() * logits.shape[1]
    largest = logits.detach().amax(1)
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    shifted = logits - largest[:, None]
    here = (targets >= first) & (targets < first + logits.shape[1])
    picked = shifted.gather(1, (targets - first).where(here, 0)[:, None])[:, 0].where(here, 0)
    mine = torch.stack([shifted.exp().sum(1), picked])
    sums, target = with_gradient.all_reduce(mine)
    counts = targets != -100
    return ((sums.log() - target) * counts).sum() / counts.sum()


# %% wrong: no_gradient_through_the_sum
# All-reduces detached sums, so the gradient of the logarithm is lost.

def sharded_cross_entropy(logits, targets):
    first = dist.get_rank() * logits.shape[1]
    largest = logits.detach().amax(1)
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    shifted = logits - largest[:, None]
    here = (targets >= first) & (targets < first + logits.shape[1])
    picked = shifted.gather(1, (targets - first).where(here, 0)[:, None])[:, 0].where(here, 0)
    mine = torch.stack([shifted.exp().sum(1), picked])
    total = mine.detach().clone()
    dist.all_reduce(total)
    sums, target = total[0], total[1] + (mine - mine.detach())[1]
    counts = targets != -100
    return ((sums.log() - target) * counts).sum() / counts.sum()


# %% wrong: no_gradient_at_all
# All-reduces detached numbers and returns a loss without a gradient.

def sharded_cross_entropy(logits, targets):
    first = dist.get_rank() * logits.shape[1]
    largest = logits.detach().amax(1)
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    shifted = logits - largest[:, None]
    here = (targets >= first) & (targets < first + logits.shape[1])
    picked = shifted.gather(1, (targets - first).where(here, 0)[:, None])[:, 0].where(here, 0)
    mine = torch.stack([shifted.exp().sum(1), picked])
    total = mine.detach().clone()
    dist.all_reduce(total)
    sums, target = total
    counts = targets != -100
    return ((sums.log() - target) * counts).sum() / counts.sum()


# %% wrong: target_modulo
# Picks the column target % (V / P) on every rank.

def sharded_cross_entropy(logits, targets):
    first = dist.get_rank() * logits.shape[1]
    largest = logits.detach().amax(1)
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    shifted = logits - largest[:, None]
    here = (targets >= first) & (targets < first + logits.shape[1])
    picked = shifted.gather(1, (targets % logits.shape[1])[:, None])[:, 0] * (targets >= 0)
    mine = torch.stack([shifted.exp().sum(1), picked])
    total = mine.detach().clone()
    dist.all_reduce(total)
    sums, target = total + (mine - mine.detach())
    counts = targets != -100
    return ((sums.log() - target) * counts).sum() / counts.sum()


# %% wrong: target_not_on_this_rank
# Takes the target's logit as 0 where another rank has it, and does not add up.

def sharded_cross_entropy(logits, targets):
    first = dist.get_rank() * logits.shape[1]
    largest = logits.detach().amax(1)
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    shifted = logits - largest[:, None]
    here = (targets >= first) & (targets < first + logits.shape[1])
    picked = shifted.gather(1, (targets - first).where(here, 0)[:, None])[:, 0].where(here, 0)
    mine = torch.stack([shifted.exp().sum(1), picked])
    total = mine.detach().clone()
    dist.all_reduce(total)
    sums, target = total[0] + mine[0] - mine[0].detach(), (picked + largest * here)
    counts = targets != -100
    return ((sums.log() + largest - target) * counts).sum() / counts.sum()


# %% wrong: column_outside
# Picks target − first without asking whether the column is here.

def sharded_cross_entropy(logits, targets):
    first = dist.get_rank() * logits.shape[1]
    largest = logits.detach().amax(1)
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    shifted = logits - largest[:, None]
    here = (targets >= first) & (targets < first + logits.shape[1])
    picked = shifted.gather(1, (targets - first)[:, None])[:, 0].where(here, 0)
    mine = torch.stack([shifted.exp().sum(1), picked])
    total = mine.detach().clone()
    dist.all_reduce(total)
    sums, target = total + (mine - mine.detach())
    counts = targets != -100
    return ((sums.log() - target) * counts).sum() / counts.sum()


# %% wrong: edge_of_the_shard
# Takes its columns as those greater than the first: the first one belongs to no rank.

def sharded_cross_entropy(logits, targets):
    first = dist.get_rank() * logits.shape[1]
    largest = logits.detach().amax(1)
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    shifted = logits - largest[:, None]
    here = (targets > first) & (targets < first + logits.shape[1])
    picked = shifted.gather(1, (targets - first).where(here, 0)[:, None])[:, 0].where(here, 0)
    mine = torch.stack([shifted.exp().sum(1), picked])
    total = mine.detach().clone()
    dist.all_reduce(total)
    sums, target = total + (mine - mine.detach())
    counts = targets != -100
    return ((sums.log() - target) * counts).sum() / counts.sum()


# %% wrong: one_column_too_many
# Takes the first column of the next rank for its own.

def sharded_cross_entropy(logits, targets):
    first = dist.get_rank() * logits.shape[1]
    largest = logits.detach().amax(1)
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    shifted = logits - largest[:, None]
    here = (targets >= first) & (targets <= first + logits.shape[1])
    picked = shifted.gather(1, (targets - first).where(here, 0).clamp(max=logits.shape[1] - 1)[:, None])[:, 0].where(here, 0)
    mine = torch.stack([shifted.exp().sum(1), picked])
    total = mine.detach().clone()
    dist.all_reduce(total)
    sums, target = total + (mine - mine.detach())
    counts = targets != -100
    return ((sums.log() - target) * counts).sum() / counts.sum()


# %% wrong: ignored_tokens_count
# Divides by all tokens.

def sharded_cross_entropy(logits, targets):
    first = dist.get_rank() * logits.shape[1]
    largest = logits.detach().amax(1)
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    shifted = logits - largest[:, None]
    here = (targets >= first) & (targets < first + logits.shape[1])
    picked = shifted.gather(1, (targets - first).where(here, 0)[:, None])[:, 0].where(here, 0)
    mine = torch.stack([shifted.exp().sum(1), picked])
    total = mine.detach().clone()
    dist.all_reduce(total)
    sums, target = total + (mine - mine.detach())
    counts = targets != -100
    return ((sums.log() - target) * counts).sum() / len(targets)


# %% wrong: ignored_tokens_in_the_sum
# Adds the logarithm of tokens that do not count.

def sharded_cross_entropy(logits, targets):
    first = dist.get_rank() * logits.shape[1]
    largest = logits.detach().amax(1)
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    shifted = logits - largest[:, None]
    here = (targets >= first) & (targets < first + logits.shape[1])
    picked = shifted.gather(1, (targets - first).where(here, 0)[:, None])[:, 0].where(here, 0)
    mine = torch.stack([shifted.exp().sum(1), picked])
    total = mine.detach().clone()
    dist.all_reduce(total)
    sums, target = total + (mine - mine.detach())
    counts = targets != -100
    return (sums.log() - target).sum() / counts.sum()


# %% wrong: ignored_tokens_have_a_gradient
# Leaves tokens that do not count out of the loss and not out of the gradient.

class ShardedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, targets):
        first = dist.get_rank() * logits.shape[1]
        largest = logits.amax(1)
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        shares = (logits - largest[:, None]).exp()
        sums = shares.sum(1)
        here = (targets >= first) & (targets < first + logits.shape[1])
        column = (targets - first).where(here, 0)
        picked = logits.gather(1, column[:, None])[:, 0].where(here, 0)
        dist.all_reduce(sums)
        dist.all_reduce(picked)
        counts = targets != -100
        shares = shares / sums[:, None]
        ctx.save_for_backward(shares, here, column, counts)
        return ((sums.log() + largest - picked) * counts).sum() / counts.sum()

    @staticmethod
    def backward(ctx, gradient):
        shares, here, column, counts = ctx.saved_tensors
        found = shares.clone()
        found[torch.arange(len(column)), column] -= here.to(found.dtype)
        return gradient * found / counts.sum(), None


def sharded_cross_entropy(logits, targets):
    return ShardedCrossEntropy.apply(logits, targets)


# %% wrong: maximum_not_added
# Subtracts the largest logit in the sum, and not from the target's logit.

def sharded_cross_entropy(logits, targets):
    first = dist.get_rank() * logits.shape[1]
    largest = logits.detach().amax(1)
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    shifted = logits - largest[:, None]
    here = (targets >= first) & (targets < first + logits.shape[1])
    picked = logits.gather(1, (targets - first).where(here, 0)[:, None])[:, 0].where(here, 0)
    mine = torch.stack([shifted.exp().sum(1), picked])
    total = mine.detach().clone()
    dist.all_reduce(total)
    sums, target = total + (mine - mine.detach())
    counts = targets != -100
    return ((sums.log() - target) * counts).sum() / counts.sum()


# %% wrong: log_sums_added
# Adds up the logarithms of the ranks' sums.

def sharded_cross_entropy(logits, targets):
    first = dist.get_rank() * logits.shape[1]
    largest = logits.detach().amax(1)
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    shifted = logits - largest[:, None]
    here = (targets >= first) & (targets < first + logits.shape[1])
    picked = shifted.gather(1, (targets - first).where(here, 0)[:, None])[:, 0].where(here, 0)
    mine = torch.stack([shifted.exp().sum(1).log(), picked])
    total = mine.detach().clone()
    dist.all_reduce(total)
    sums, target = total + (mine - mine.detach())
    counts = targets != -100
    return ((sums - target) * counts).sum() / counts.sum()


# %% wrong: upstream_forgotten
# Ignores the gradient that backward() is given.

class ShardedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, targets):
        first = dist.get_rank() * logits.shape[1]
        largest = logits.amax(1)
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        shares = (logits - largest[:, None]).exp()
        sums = shares.sum(1)
        here = (targets >= first) & (targets < first + logits.shape[1])
        column = (targets - first).where(here, 0)
        picked = logits.gather(1, column[:, None])[:, 0].where(here, 0)
        dist.all_reduce(sums)
        dist.all_reduce(picked)
        counts = targets != -100
        shares = shares / sums[:, None]
        ctx.save_for_backward(shares, here, column, counts)
        return ((sums.log() + largest - picked) * counts).sum() / counts.sum()

    @staticmethod
    def backward(ctx, gradient):
        shares, here, column, counts = ctx.saved_tensors
        found = shares.clone()
        found[torch.arange(len(column)), column] -= here.to(found.dtype)
        return found * (counts / counts.sum())[:, None].to(found.dtype), None


def sharded_cross_entropy(logits, targets):
    return ShardedCrossEntropy.apply(logits, targets)


# %% wrong: logits_changed
# Subtracts the largest logit in place, in the caller's tensor.

class ShardedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, targets):
        first = dist.get_rank() * logits.shape[1]
        largest = logits.amax(1)
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        shares = logits.data.sub_(largest[:, None]).exp()
        sums = shares.sum(1)
        here = (targets >= first) & (targets < first + logits.shape[1])
        column = (targets - first).where(here, 0)
        picked = logits.gather(1, column[:, None])[:, 0].where(here, 0)
        dist.all_reduce(sums)
        dist.all_reduce(picked)
        counts = targets != -100
        shares = shares / sums[:, None]
        ctx.save_for_backward(shares, here, column, counts)
        return ((sums.log() - picked) * counts).sum() / counts.sum()

    @staticmethod
    def backward(ctx, gradient):
        shares, here, column, counts = ctx.saved_tensors
        found = shares.clone()
        found[torch.arange(len(column)), column] -= here.to(found.dtype)
        return gradient * found * (counts / counts.sum())[:, None].to(found.dtype), None


def sharded_cross_entropy(logits, targets):
    return ShardedCrossEntropy.apply(logits, targets)


# %% wrong: many_all_reduces
# All-reduces a whole distribution: one-hot targets and exponentials for each column of the rank.

def sharded_cross_entropy(logits, targets):
    first = dist.get_rank() * logits.shape[1]
    largest = logits.detach().amax(1)
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    shifted = logits - largest[:, None]
    here = (targets >= first) & (targets < first + logits.shape[1])
    picked = shifted.gather(1, (targets - first).where(here, 0)[:, None])[:, 0].where(here, 0)
    mine = torch.stack([shifted.exp().sum(1), picked])
    spread = (shifted.exp() * here[:, None]).detach().contiguous()
    dist.all_reduce(spread)
    total = mine.detach().clone()
    dist.all_reduce(total)
    sums, target = total + (mine - mine.detach())
    counts = targets != -100
    return ((sums.log() - target) * counts).sum() / counts.sum()


# %% wrong: one_maximum_for_all_tokens
# Subtracts the largest logit of all tokens: where a token has much smaller ones, the sum is 0.

def sharded_cross_entropy(logits, targets):
    first = dist.get_rank() * logits.shape[1]
    largest = logits.detach().amax().expand(len(logits)).clone()
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    shifted = logits - largest[:, None]
    here = (targets >= first) & (targets < first + logits.shape[1])
    picked = shifted.gather(1, (targets - first).where(here, 0)[:, None])[:, 0].where(here, 0)
    mine = torch.stack([shifted.exp().sum(1), picked])
    total = mine.detach().clone()
    dist.all_reduce(total)
    sums, target = total + (mine - mine.detach())
    counts = targets != -100
    return ((sums.log() - target) * counts).sum() / counts.sum()


# %% wrong: divided_by_own_targets
# Divides by the number of targets on this rank.

def sharded_cross_entropy(logits, targets):
    first = dist.get_rank() * logits.shape[1]
    largest = logits.detach().amax(1)
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    shifted = logits - largest[:, None]
    here = (targets >= first) & (targets < first + logits.shape[1])
    picked = shifted.gather(1, (targets - first).where(here, 0)[:, None])[:, 0].where(here, 0)
    mine = torch.stack([shifted.exp().sum(1), picked])
    total = mine.detach().clone()
    dist.all_reduce(total)
    sums, target = total + (mine - mine.detach())
    counts = targets != -100
    return ((sums.log() - target) * counts).sum() / here.sum().clamp(min=1)


# %% wrong: no_target_no_gradient
# Thinks that a rank without a target adds nothing to the loss, so its logits need no gradient.

def sharded_cross_entropy(logits, targets):
    first = dist.get_rank() * logits.shape[1]
    largest = logits.detach().amax(1)
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    shifted = logits - largest[:, None]
    here = (targets >= first) & (targets < first + logits.shape[1])
    picked = shifted.gather(1, (targets - first).where(here, 0)[:, None])[:, 0].where(here, 0)
    mine = torch.stack([shifted.exp().sum(1), picked])
    total = mine.detach().clone()
    dist.all_reduce(total)
    sums, target = total + (mine - mine.detach())
    if not here.any():
        sums, target = total + 0 * mine
    counts = targets != -100
    return ((sums.log() - target) * counts).sum() / counts.sum()


# %% right: function
# An autograd.Function with three all-reduces of one number per token.

class ShardedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, targets):
        first = dist.get_rank() * logits.shape[1]
        largest = logits.amax(1)
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        shares = (logits - largest[:, None]).exp()
        sums = shares.sum(1)
        here = (targets >= first) & (targets < first + logits.shape[1])
        column = (targets - first).where(here, 0)
        picked = logits.gather(1, column[:, None])[:, 0].where(here, 0)
        dist.all_reduce(sums)
        dist.all_reduce(picked)
        counts = targets != -100
        shares = shares / sums[:, None]
        ctx.save_for_backward(shares, here, column, counts)
        return ((sums.log() + largest - picked) * counts).sum() / counts.sum()

    @staticmethod
    def backward(ctx, gradient):
        shares, here, column, counts = ctx.saved_tensors
        found = shares.clone()
        found[torch.arange(len(column)), column] -= here.to(found.dtype)
        return gradient * found * (counts / counts.sum())[:, None].to(found.dtype), None


def sharded_cross_entropy(logits, targets):
    return ShardedCrossEntropy.apply(logits, targets)


# %% right: gather_of_log_sums
# Gathers each rank's log-sum-exp and reduces it with the target's logit: two collectives.

class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part):
        total = part.contiguous().clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def sharded_cross_entropy(logits, targets):
    rank, ranks, width = dist.get_rank(), dist.get_world_size(), logits.shape[1]
    own = torch.logsumexp(logits, dim=1)
    parts = [torch.empty_like(own) for _ in range(ranks)]
    dist.all_gather(parts, own.detach().contiguous())
    parts[rank] = own
    lse = torch.logsumexp(torch.stack(parts), dim=0)
    here = targets // width == rank
    safe = torch.where(here, targets % width, torch.zeros_like(targets))
    picked = Sum.apply(torch.where(here, logits[torch.arange(len(targets)), safe], torch.zeros_like(own)))
    return (lse - picked)[targets != -100].mean()


# %% right: differentiable_collectives
# torch.distributed.nn's all_reduce, whose backward pass sums, with the gradient divided by the ranks.

import torch.distributed.nn.functional as with_gradient


def sharded_cross_entropy(logits, targets):
    first = dist.get_rank() * logits.shape[1]
    largest = logits.detach().amax(1)
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    shifted = logits - largest[:, None]
    here = (targets >= first) & (targets < first + logits.shape[1])
    picked = shifted.gather(1, (targets - first).where(here, 0)[:, None])[:, 0].where(here, 0)
    mine = torch.stack([shifted.exp().sum(1), picked])
    total = with_gradient.all_reduce(mine)
    sums, target = total.detach() + (total - total.detach()) / dist.get_world_size()
    counts = targets != -100
    return ((sums.log() - target) * counts).sum() / counts.sum()


# %% right: functional_collectives
# Functional collectives, whose results are new tensors.

import torch.distributed._functional_collectives as functional


def sharded_cross_entropy(logits, targets):
    first = dist.get_rank() * logits.shape[1]
    largest = logits.detach().amax(1)
    largest = functional.all_reduce(largest, "max", dist.group.WORLD)
    shifted = logits - largest[:, None]
    here = (targets >= first) & (targets < first + logits.shape[1])
    picked = shifted.gather(1, (targets - first).where(here, 0)[:, None])[:, 0].where(here, 0)
    mine = torch.stack([shifted.exp().sum(1), picked])
    total = functional.all_reduce(mine.detach(), "sum", dist.group.WORLD)
    sums, target = total + (mine - mine.detach())
    counts = targets != -100
    return ((sums.log() - target) * counts).sum() / counts.sum()
