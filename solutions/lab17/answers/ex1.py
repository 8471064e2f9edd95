"""Answers to exercise 1 that the grader is tested with. tests/support/answers.py says how to read them."""


# %% wrong: not_differentiable
# Calls dist.all_to_all_single on tensors as they are, as if autograd followed it.

def exchange(rows, send, receive):
    got = rows.new_empty(sum(receive), rows.shape[1])
    dist.all_to_all_single(got, rows.contiguous(), receive, send)
    return got


def expert_layer(x, router, experts, top_k):
    ranks, each = dist.get_world_size(), len(experts)
    weights, chosen = router(x).softmax(-1).topk(top_k, dim=-1)
    chosen = chosen.flatten()
    pairs = chosen.argsort(stable=True)
    counts = torch.bincount(chosen, minlength=ranks * each)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts)
    send = counts.view(ranks, each).sum(1).tolist()
    receive = theirs.view(ranks, each).sum(1).tolist()

    got = exchange(x[pairs // top_k], send, receive)
    which = torch.arange(each, device=x.device).repeat(ranks).repeat_interleave(theirs)
    order = which.argsort(stable=True)
    parts = got[order].split(theirs.view(ranks, each).sum(0).tolist())
    done = torch.cat([expert(part) for expert, part in zip(experts, parts)])
    back = exchange(done[order.argsort()], receive, send)

    weighted = back * weights.flatten()[pairs, None]
    return torch.zeros_like(x).index_add(0, pairs // top_k, weighted)


# %% wrong: order_lost
# Returns the rows as they come back, sorted by expert.

class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, send, receive):
        ctx.splits = send, receive
        got = rows.new_empty(sum(receive), rows.shape[1])
        dist.all_to_all_single(got, rows.contiguous(), receive, send)
        return got

    @staticmethod
    def backward(ctx, gradient):
        send, receive = ctx.splits
        back = gradient.new_empty(sum(send), gradient.shape[1])
        dist.all_to_all_single(back, gradient.contiguous(), send, receive)
        return back, None, None


def expert_layer(x, router, experts, top_k):
    ranks, each = dist.get_world_size(), len(experts)
    weights, chosen = router(x).softmax(-1).topk(top_k, dim=-1)
    chosen = chosen.flatten()
    pairs = chosen.argsort(stable=True)
    counts = torch.bincount(chosen, minlength=ranks * each)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts)
    send = counts.view(ranks, each).sum(1).tolist()
    receive = theirs.view(ranks, each).sum(1).tolist()

    got = Exchange.apply(x[pairs // top_k], send, receive)
    which = torch.arange(each, device=x.device).repeat(ranks).repeat_interleave(theirs)
    order = which.argsort(stable=True)
    parts = got[order].split(theirs.view(ranks, each).sum(0).tolist())
    done = torch.cat([expert(part) for expert, part in zip(experts, parts)])
    back = Exchange.apply(done[order.argsort()], receive, send)

    weighted = back * weights.flatten()[pairs, None]
    return weighted.unflatten(0, (-1, top_k)).sum(1)


# %% wrong: order_of_experts_kept
# Sends the outputs back in the order of the experts, not in that in which the rows came.

class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, send, receive):
        ctx.splits = send, receive
        got = rows.new_empty(sum(receive), rows.shape[1])
        dist.all_to_all_single(got, rows.contiguous(), receive, send)
        return got

    @staticmethod
    def backward(ctx, gradient):
        send, receive = ctx.splits
        back = gradient.new_empty(sum(send), gradient.shape[1])
        dist.all_to_all_single(back, gradient.contiguous(), send, receive)
        return back, None, None


def expert_layer(x, router, experts, top_k):
    ranks, each = dist.get_world_size(), len(experts)
    weights, chosen = router(x).softmax(-1).topk(top_k, dim=-1)
    chosen = chosen.flatten()
    pairs = chosen.argsort(stable=True)
    counts = torch.bincount(chosen, minlength=ranks * each)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts)
    send = counts.view(ranks, each).sum(1).tolist()
    receive = theirs.view(ranks, each).sum(1).tolist()

    got = Exchange.apply(x[pairs // top_k], send, receive)
    which = torch.arange(each, device=x.device).repeat(ranks).repeat_interleave(theirs)
    order = which.argsort(stable=True)
    parts = got[order].split(theirs.view(ranks, each).sum(0).tolist())
    done = torch.cat([expert(part) for expert, part in zip(experts, parts)])
    back = Exchange.apply(done, receive, send)

    weighted = back * weights.flatten()[pairs, None]
    return torch.zeros_like(x).index_add(0, pairs // top_k, weighted)


# %% wrong: weights_detached
# Takes the probabilities out of the graph: the router chooses, and learns nothing.

class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, send, receive):
        ctx.splits = send, receive
        got = rows.new_empty(sum(receive), rows.shape[1])
        dist.all_to_all_single(got, rows.contiguous(), receive, send)
        return got

    @staticmethod
    def backward(ctx, gradient):
        send, receive = ctx.splits
        back = gradient.new_empty(sum(send), gradient.shape[1])
        dist.all_to_all_single(back, gradient.contiguous(), send, receive)
        return back, None, None


def expert_layer(x, router, experts, top_k):
    ranks, each = dist.get_world_size(), len(experts)
    weights, chosen = router(x).softmax(-1).topk(top_k, dim=-1)
    chosen = chosen.flatten()
    pairs = chosen.argsort(stable=True)
    counts = torch.bincount(chosen, minlength=ranks * each)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts)
    send = counts.view(ranks, each).sum(1).tolist()
    receive = theirs.view(ranks, each).sum(1).tolist()

    got = Exchange.apply(x[pairs // top_k], send, receive)
    which = torch.arange(each, device=x.device).repeat(ranks).repeat_interleave(theirs)
    order = which.argsort(stable=True)
    parts = got[order].split(theirs.view(ranks, each).sum(0).tolist())
    done = torch.cat([expert(part) for expert, part in zip(experts, parts)])
    back = Exchange.apply(done[order.argsort()], receive, send)

    weighted = back * weights.detach().flatten()[pairs, None]
    return torch.zeros_like(x).index_add(0, pairs // top_k, weighted)


# %% wrong: not_weighted
# Adds up the experts' outputs without the router's probabilities.

class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, send, receive):
        ctx.splits = send, receive
        got = rows.new_empty(sum(receive), rows.shape[1])
        dist.all_to_all_single(got, rows.contiguous(), receive, send)
        return got

    @staticmethod
    def backward(ctx, gradient):
        send, receive = ctx.splits
        back = gradient.new_empty(sum(send), gradient.shape[1])
        dist.all_to_all_single(back, gradient.contiguous(), send, receive)
        return back, None, None


def expert_layer(x, router, experts, top_k):
    ranks, each = dist.get_world_size(), len(experts)
    weights, chosen = router(x).softmax(-1).topk(top_k, dim=-1)
    chosen = chosen.flatten()
    pairs = chosen.argsort(stable=True)
    counts = torch.bincount(chosen, minlength=ranks * each)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts)
    send = counts.view(ranks, each).sum(1).tolist()
    receive = theirs.view(ranks, each).sum(1).tolist()

    got = Exchange.apply(x[pairs // top_k], send, receive)
    which = torch.arange(each, device=x.device).repeat(ranks).repeat_interleave(theirs)
    order = which.argsort(stable=True)
    parts = got[order].split(theirs.view(ranks, each).sum(0).tolist())
    done = torch.cat([expert(part) for expert, part in zip(experts, parts)])
    back = Exchange.apply(done[order.argsort()], receive, send)

    weighted = back
    return torch.zeros_like(x).index_add(0, pairs // top_k, weighted)


# %% wrong: renormalized
# Divides the probabilities of the chosen experts by their sum, as some models do.

class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, send, receive):
        ctx.splits = send, receive
        got = rows.new_empty(sum(receive), rows.shape[1])
        dist.all_to_all_single(got, rows.contiguous(), receive, send)
        return got

    @staticmethod
    def backward(ctx, gradient):
        send, receive = ctx.splits
        back = gradient.new_empty(sum(send), gradient.shape[1])
        dist.all_to_all_single(back, gradient.contiguous(), send, receive)
        return back, None, None


def expert_layer(x, router, experts, top_k):
    ranks, each = dist.get_world_size(), len(experts)
    weights, chosen = router(x).softmax(-1).topk(top_k, dim=-1)
    weights = weights / weights.sum(-1, keepdim=True)
    chosen = chosen.flatten()
    pairs = chosen.argsort(stable=True)
    counts = torch.bincount(chosen, minlength=ranks * each)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts)
    send = counts.view(ranks, each).sum(1).tolist()
    receive = theirs.view(ranks, each).sum(1).tolist()

    got = Exchange.apply(x[pairs // top_k], send, receive)
    which = torch.arange(each, device=x.device).repeat(ranks).repeat_interleave(theirs)
    order = which.argsort(stable=True)
    parts = got[order].split(theirs.view(ranks, each).sum(0).tolist())
    done = torch.cat([expert(part) for expert, part in zip(experts, parts)])
    back = Exchange.apply(done[order.argsort()], receive, send)

    weighted = back * weights.flatten()[pairs, None]
    return torch.zeros_like(x).index_add(0, pairs // top_k, weighted)


# %% wrong: softmax_of_the_chosen
# Takes the softmax over the chosen logits alone.

class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, send, receive):
        ctx.splits = send, receive
        got = rows.new_empty(sum(receive), rows.shape[1])
        dist.all_to_all_single(got, rows.contiguous(), receive, send)
        return got

    @staticmethod
    def backward(ctx, gradient):
        send, receive = ctx.splits
        back = gradient.new_empty(sum(send), gradient.shape[1])
        dist.all_to_all_single(back, gradient.contiguous(), send, receive)
        return back, None, None


def expert_layer(x, router, experts, top_k):
    ranks, each = dist.get_world_size(), len(experts)
    weights, chosen = router(x).topk(top_k, dim=-1)
    weights = weights.softmax(-1)
    chosen = chosen.flatten()
    pairs = chosen.argsort(stable=True)
    counts = torch.bincount(chosen, minlength=ranks * each)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts)
    send = counts.view(ranks, each).sum(1).tolist()
    receive = theirs.view(ranks, each).sum(1).tolist()

    got = Exchange.apply(x[pairs // top_k], send, receive)
    which = torch.arange(each, device=x.device).repeat(ranks).repeat_interleave(theirs)
    order = which.argsort(stable=True)
    parts = got[order].split(theirs.view(ranks, each).sum(0).tolist())
    done = torch.cat([expert(part) for expert, part in zip(experts, parts)])
    back = Exchange.apply(done[order.argsort()], receive, send)

    weighted = back * weights.flatten()[pairs, None]
    return torch.zeros_like(x).index_add(0, pairs // top_k, weighted)


# %% wrong: first_choice_only
# Sends each token to its best expert, and forgets the others.

class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, send, receive):
        ctx.splits = send, receive
        got = rows.new_empty(sum(receive), rows.shape[1])
        dist.all_to_all_single(got, rows.contiguous(), receive, send)
        return got

    @staticmethod
    def backward(ctx, gradient):
        send, receive = ctx.splits
        back = gradient.new_empty(sum(send), gradient.shape[1])
        dist.all_to_all_single(back, gradient.contiguous(), send, receive)
        return back, None, None


def expert_layer(x, router, experts, top_k):
    ranks, each = dist.get_world_size(), len(experts)
    weights, chosen = router(x).softmax(-1).topk(top_k, dim=-1)
    weights, chosen, top_k = weights[:, :1], chosen[:, 0], 1
    pairs = chosen.argsort(stable=True)
    counts = torch.bincount(chosen, minlength=ranks * each)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts)
    send = counts.view(ranks, each).sum(1).tolist()
    receive = theirs.view(ranks, each).sum(1).tolist()

    got = Exchange.apply(x[pairs // top_k], send, receive)
    which = torch.arange(each, device=x.device).repeat(ranks).repeat_interleave(theirs)
    order = which.argsort(stable=True)
    parts = got[order].split(theirs.view(ranks, each).sum(0).tolist())
    done = torch.cat([expert(part) for expert, part in zip(experts, parts)])
    back = Exchange.apply(done[order.argsort()], receive, send)

    weighted = back * weights.flatten()[pairs, None]
    return torch.zeros_like(x).index_add(0, pairs // top_k, weighted)


# %% wrong: drops_over_capacity
# Gives each expert room for its even share and drops the tokens that come later, as with a capacity factor of 1.

class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, send, receive):
        ctx.splits = send, receive
        got = rows.new_empty(sum(receive), rows.shape[1])
        dist.all_to_all_single(got, rows.contiguous(), receive, send)
        return got

    @staticmethod
    def backward(ctx, gradient):
        send, receive = ctx.splits
        back = gradient.new_empty(sum(send), gradient.shape[1])
        dist.all_to_all_single(back, gradient.contiguous(), send, receive)
        return back, None, None


def expert_layer(x, router, experts, top_k):
    ranks, each = dist.get_world_size(), len(experts)
    weights, chosen = router(x).softmax(-1).topk(top_k, dim=-1)
    chosen = chosen.flatten()
    room = max(1, -(-len(chosen) // (ranks * each)))
    pairs = torch.cat([(chosen == e).nonzero()[:room, 0] for e in range(ranks * each)])
    counts = torch.bincount(chosen[pairs], minlength=ranks * each)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts)
    send = counts.view(ranks, each).sum(1).tolist()
    receive = theirs.view(ranks, each).sum(1).tolist()

    got = Exchange.apply(x[pairs // top_k], send, receive)
    which = torch.arange(each, device=x.device).repeat(ranks).repeat_interleave(theirs)
    order = which.argsort(stable=True)
    parts = got[order].split(theirs.view(ranks, each).sum(0).tolist())
    done = torch.cat([expert(part) for expert, part in zip(experts, parts)])
    back = Exchange.apply(done[order.argsort()], receive, send)

    weighted = back * weights.flatten()[pairs, None]
    return torch.zeros_like(x).index_add(0, pairs // top_k, weighted)


# %% wrong: padded_to_the_longest
# Pads all that ranks send each other to the same length, so that equal splits do.

class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, send, receive):
        ctx.splits = send, receive
        got = rows.new_empty(sum(receive), rows.shape[1])
        dist.all_to_all_single(got, rows.contiguous(), receive, send)
        return got

    @staticmethod
    def backward(ctx, gradient):
        send, receive = ctx.splits
        back = gradient.new_empty(sum(send), gradient.shape[1])
        dist.all_to_all_single(back, gradient.contiguous(), send, receive)
        return back, None, None


def expert_layer(x, router, experts, top_k):
    ranks, each = dist.get_world_size(), len(experts)
    weights, chosen = router(x).softmax(-1).topk(top_k, dim=-1)
    chosen = chosen.flatten()
    counts = torch.bincount(chosen, minlength=ranks * each)
    longest = counts.view(ranks, each).sum(1).max()
    dist.all_reduce(longest, op=dist.ReduceOp.MAX)
    longest = int(longest)
    pairs = chosen.argsort(stable=True)
    places = torch.cat(
        [rank * longest + torch.arange(n) for rank, n in enumerate(counts.view(ranks, each).sum(1).tolist())]
    )
    padded = x.new_zeros(ranks * longest, x.shape[1]).index_add(0, places, x[pairs // top_k])
    ids = torch.full((ranks * longest,), -1)
    ids[places] = chosen[pairs]
    theirs = torch.empty_like(ids)
    dist.all_to_all_single(theirs, ids)
    even = [longest] * ranks
    got = Exchange.apply(padded, even, even)
    done = torch.zeros_like(got)
    for place, expert in enumerate(experts):
        mine = (theirs == dist.get_rank() * each + place).nonzero()[:, 0]
        done = done.index_add(0, mine, expert(got[mine]))
    back = Exchange.apply(done, even, even)[places]
    weighted = back * weights.flatten()[pairs, None]
    return torch.zeros_like(x).index_add(0, pairs // top_k, weighted)


# %% wrong: everything_to_all
# Gathers all tokens on all ranks, computes those of the own experts, and adds up the outputs.

class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, counts):
        ctx.counts = counts
        padded = [x.new_zeros(max(counts), x.shape[1]) for _ in counts]
        own = x.new_zeros(max(counts), x.shape[1])
        own[: len(x)] = x
        dist.all_gather(padded, own)
        return torch.cat([each[:n] for each, n in zip(padded, counts)])

    @staticmethod
    def backward(ctx, gradient):
        total = gradient.clone()
        dist.all_reduce(total)
        return total.split(ctx.counts)[dist.get_rank()], None


class Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        total = x.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx, gradient):
        total = gradient.clone()
        dist.all_reduce(total)
        return total


def expert_layer(x, router, experts, top_k):
    ranks, rank, each = dist.get_world_size(), dist.get_rank(), len(experts)
    counts = [torch.zeros(1, dtype=torch.long) for _ in range(ranks)]
    dist.all_gather(counts, torch.tensor([len(x)]))
    counts = [int(n) for n in counts]
    weights, chosen = router(x).softmax(-1).topk(top_k, dim=-1)
    ids = Gather.apply(chosen.double(), counts).long()
    everyone = Gather.apply(x, counts)
    found = [everyone.new_zeros(len(everyone), x.shape[1]) for _ in range(top_k)]
    for place, expert in enumerate(experts):
        for choice in range(top_k):
            mine = (ids[:, choice] == rank * each + place).nonzero()[:, 0]
            found[choice] = found[choice].index_add(0, mine, expert(everyone[mine]))
    outputs = Total.apply(torch.stack(found, 1)).split(counts)[rank]
    return (outputs * weights[..., None]).sum(1)


# %% wrong: experts_without_tokens_left_out
# Calls an expert only if it has tokens: the output of a rank without any has no path to the all-to-all.

class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, send, receive):
        ctx.splits = send, receive
        got = rows.new_empty(sum(receive), rows.shape[1])
        dist.all_to_all_single(got, rows.contiguous(), receive, send)
        return got

    @staticmethod
    def backward(ctx, gradient):
        send, receive = ctx.splits
        back = gradient.new_empty(sum(send), gradient.shape[1])
        dist.all_to_all_single(back, gradient.contiguous(), send, receive)
        return back, None, None


def expert_layer(x, router, experts, top_k):
    ranks, each = dist.get_world_size(), len(experts)
    weights, chosen = router(x).softmax(-1).topk(top_k, dim=-1)
    chosen = chosen.flatten()
    pairs = chosen.argsort(stable=True)
    counts = torch.bincount(chosen, minlength=ranks * each)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts)
    send = counts.view(ranks, each).sum(1).tolist()
    receive = theirs.view(ranks, each).sum(1).tolist()

    got = Exchange.apply(x[pairs // top_k], send, receive)
    which = torch.arange(each, device=x.device).repeat(ranks).repeat_interleave(theirs)
    order = which.argsort(stable=True)
    parts = got[order].split(theirs.view(ranks, each).sum(0).tolist())
    done = [expert(part) for expert, part in zip(experts, parts) if len(part)]
    done = torch.cat(done) if done else torch.zeros(0, x.shape[1], dtype=x.dtype)
    back = Exchange.apply(done[order.argsort()], receive, send)

    weighted = back * weights.flatten()[pairs, None]
    return torch.zeros_like(x).index_add(0, pairs // top_k, weighted)


# %% wrong: no_tokens_no_call
# Returns at once on a rank without tokens of its own.

class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, send, receive):
        ctx.splits = send, receive
        got = rows.new_empty(sum(receive), rows.shape[1])
        dist.all_to_all_single(got, rows.contiguous(), receive, send)
        return got

    @staticmethod
    def backward(ctx, gradient):
        send, receive = ctx.splits
        back = gradient.new_empty(sum(send), gradient.shape[1])
        dist.all_to_all_single(back, gradient.contiguous(), send, receive)
        return back, None, None


def expert_layer(x, router, experts, top_k):
    if len(x) == 0:
        return x * 1.0
    ranks, each = dist.get_world_size(), len(experts)
    weights, chosen = router(x).softmax(-1).topk(top_k, dim=-1)
    chosen = chosen.flatten()
    pairs = chosen.argsort(stable=True)
    counts = torch.bincount(chosen, minlength=ranks * each)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts)
    send = counts.view(ranks, each).sum(1).tolist()
    receive = theirs.view(ranks, each).sum(1).tolist()

    got = Exchange.apply(x[pairs // top_k], send, receive)
    which = torch.arange(each, device=x.device).repeat(ranks).repeat_interleave(theirs)
    order = which.argsort(stable=True)
    parts = got[order].split(theirs.view(ranks, each).sum(0).tolist())
    done = torch.cat([expert(part) for expert, part in zip(experts, parts)])
    back = Exchange.apply(done[order.argsort()], receive, send)

    weighted = back * weights.flatten()[pairs, None]
    return torch.zeros_like(x).index_add(0, pairs // top_k, weighted)


# %% wrong: own_rows_only_differentiable
# Puts its own rows, which never left, back into the graph, so that gradients come from the own tokens only.

def exchange(rows, send, receive):
    got = rows.new_empty(sum(receive), rows.shape[1])
    dist.all_to_all_single(got, rows.detach().contiguous(), receive, send)
    own = dist.get_rank()
    parts = list(got.split(receive))
    parts[own] = rows.split(send)[own]
    return torch.cat(parts)


def expert_layer(x, router, experts, top_k):
    ranks, each = dist.get_world_size(), len(experts)
    weights, chosen = router(x).softmax(-1).topk(top_k, dim=-1)
    chosen = chosen.flatten()
    pairs = chosen.argsort(stable=True)
    counts = torch.bincount(chosen, minlength=ranks * each)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts)
    send = counts.view(ranks, each).sum(1).tolist()
    receive = theirs.view(ranks, each).sum(1).tolist()

    got = exchange(x[pairs // top_k], send, receive)
    which = torch.arange(each, device=x.device).repeat(ranks).repeat_interleave(theirs)
    order = which.argsort(stable=True)
    parts = got[order].split(theirs.view(ranks, each).sum(0).tolist())
    done = torch.cat([expert(part) for expert, part in zip(experts, parts)])
    back = exchange(done[order.argsort()], receive, send)

    weighted = back * weights.flatten()[pairs, None]
    return torch.zeros_like(x).index_add(0, pairs // top_k, weighted)


# %% wrong: backward_with_the_same_splits
# Sends gradients with the split sizes of the forward pass, not exchanged.

class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, send, receive):
        ctx.splits = send, receive
        got = rows.new_empty(sum(receive), rows.shape[1])
        dist.all_to_all_single(got, rows.contiguous(), receive, send)
        return got

    @staticmethod
    def backward(ctx, gradient):
        send, receive = ctx.splits
        back = gradient.new_empty(sum(send), gradient.shape[1])
        dist.all_to_all_single(back, gradient[: sum(send)].contiguous(), receive, send)
        return back, None, None


def expert_layer(x, router, experts, top_k):
    ranks, each = dist.get_world_size(), len(experts)
    weights, chosen = router(x).softmax(-1).topk(top_k, dim=-1)
    chosen = chosen.flatten()
    pairs = chosen.argsort(stable=True)
    counts = torch.bincount(chosen, minlength=ranks * each)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts)
    send = counts.view(ranks, each).sum(1).tolist()
    receive = theirs.view(ranks, each).sum(1).tolist()

    got = Exchange.apply(x[pairs // top_k], send, receive)
    which = torch.arange(each, device=x.device).repeat(ranks).repeat_interleave(theirs)
    order = which.argsort(stable=True)
    parts = got[order].split(theirs.view(ranks, each).sum(0).tolist())
    done = torch.cat([expert(part) for expert, part in zip(experts, parts)])
    back = Exchange.apply(done[order.argsort()], receive, send)

    weighted = back * weights.flatten()[pairs, None]
    return torch.zeros_like(x).index_add(0, pairs // top_k, weighted)


# %% wrong: routers_gradient_summed
# Adds up the router's gradient over all ranks itself, which the caller does.

class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, send, receive):
        ctx.splits = send, receive
        got = rows.new_empty(sum(receive), rows.shape[1])
        dist.all_to_all_single(got, rows.contiguous(), receive, send)
        return got

    @staticmethod
    def backward(ctx, gradient):
        send, receive = ctx.splits
        back = gradient.new_empty(sum(send), gradient.shape[1])
        dist.all_to_all_single(back, gradient.contiguous(), send, receive)
        return back, None, None


def expert_layer(x, router, experts, top_k):
    ranks, each = dist.get_world_size(), len(experts)
    for p in router.parameters():
        if not p._post_accumulate_grad_hooks:
            p.register_post_accumulate_grad_hook(lambda p: dist.all_reduce(p.grad))
    weights, chosen = router(x).softmax(-1).topk(top_k, dim=-1)
    chosen = chosen.flatten()
    pairs = chosen.argsort(stable=True)
    counts = torch.bincount(chosen, minlength=ranks * each)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts)
    send = counts.view(ranks, each).sum(1).tolist()
    receive = theirs.view(ranks, each).sum(1).tolist()

    got = Exchange.apply(x[pairs // top_k], send, receive)
    which = torch.arange(each, device=x.device).repeat(ranks).repeat_interleave(theirs)
    order = which.argsort(stable=True)
    parts = got[order].split(theirs.view(ranks, each).sum(0).tolist())
    done = torch.cat([expert(part) for expert, part in zip(experts, parts)])
    back = Exchange.apply(done[order.argsort()], receive, send)

    weighted = back * weights.flatten()[pairs, None]
    return torch.zeros_like(x).index_add(0, pairs // top_k, weighted)


# %% wrong: gradients_averaged
# Divides the gradients that come back by the number of ranks, as data parallelism does.

class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, send, receive):
        ctx.splits = send, receive
        got = rows.new_empty(sum(receive), rows.shape[1])
        dist.all_to_all_single(got, rows.contiguous(), receive, send)
        return got

    @staticmethod
    def backward(ctx, gradient):
        send, receive = ctx.splits
        back = gradient.new_empty(sum(send), gradient.shape[1])
        dist.all_to_all_single(back, gradient.contiguous(), send, receive)
        return back / dist.get_world_size(), None, None


def expert_layer(x, router, experts, top_k):
    ranks, each = dist.get_world_size(), len(experts)
    weights, chosen = router(x).softmax(-1).topk(top_k, dim=-1)
    chosen = chosen.flatten()
    pairs = chosen.argsort(stable=True)
    counts = torch.bincount(chosen, minlength=ranks * each)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts)
    send = counts.view(ranks, each).sum(1).tolist()
    receive = theirs.view(ranks, each).sum(1).tolist()

    got = Exchange.apply(x[pairs // top_k], send, receive)
    which = torch.arange(each, device=x.device).repeat(ranks).repeat_interleave(theirs)
    order = which.argsort(stable=True)
    parts = got[order].split(theirs.view(ranks, each).sum(0).tolist())
    done = torch.cat([expert(part) for expert, part in zip(experts, parts)])
    back = Exchange.apply(done[order.argsort()], receive, send)

    weighted = back * weights.flatten()[pairs, None]
    return torch.zeros_like(x).index_add(0, pairs // top_k, weighted)


# %% wrong: experts_dealt_like_cards
# Thinks that expert e is on rank e % ranks.

class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, send, receive):
        ctx.splits = send, receive
        got = rows.new_empty(sum(receive), rows.shape[1])
        dist.all_to_all_single(got, rows.contiguous(), receive, send)
        return got

    @staticmethod
    def backward(ctx, gradient):
        send, receive = ctx.splits
        back = gradient.new_empty(sum(send), gradient.shape[1])
        dist.all_to_all_single(back, gradient.contiguous(), send, receive)
        return back, None, None


def expert_layer(x, router, experts, top_k):
    ranks, each = dist.get_world_size(), len(experts)
    weights, chosen = router(x).softmax(-1).topk(top_k, dim=-1)
    chosen = chosen.flatten()
    chosen = chosen % ranks * each + chosen // ranks
    pairs = chosen.argsort(stable=True)
    counts = torch.bincount(chosen, minlength=ranks * each)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts)
    send = counts.view(ranks, each).sum(1).tolist()
    receive = theirs.view(ranks, each).sum(1).tolist()

    got = Exchange.apply(x[pairs // top_k], send, receive)
    which = torch.arange(each, device=x.device).repeat(ranks).repeat_interleave(theirs)
    order = which.argsort(stable=True)
    parts = got[order].split(theirs.view(ranks, each).sum(0).tolist())
    done = torch.cat([expert(part) for expert, part in zip(experts, parts)])
    back = Exchange.apply(done[order.argsort()], receive, send)

    weighted = back * weights.flatten()[pairs, None]
    return torch.zeros_like(x).index_add(0, pairs // top_k, weighted)


# %% wrong: counts_not_exchanged
# Thinks that a rank receives as many rows as it sends.

class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, send, receive):
        ctx.splits = send, receive
        got = rows.new_empty(sum(receive), rows.shape[1])
        dist.all_to_all_single(got, rows.contiguous(), receive, send)
        return got

    @staticmethod
    def backward(ctx, gradient):
        send, receive = ctx.splits
        back = gradient.new_empty(sum(send), gradient.shape[1])
        dist.all_to_all_single(back, gradient.contiguous(), send, receive)
        return back, None, None


def expert_layer(x, router, experts, top_k):
    ranks, each = dist.get_world_size(), len(experts)
    weights, chosen = router(x).softmax(-1).topk(top_k, dim=-1)
    chosen = chosen.flatten()
    pairs = chosen.argsort(stable=True)
    counts = torch.bincount(chosen, minlength=ranks * each)
    theirs = torch.empty_like(counts)
    theirs.copy_(counts)
    send = counts.view(ranks, each).sum(1).tolist()
    receive = theirs.view(ranks, each).sum(1).tolist()

    got = Exchange.apply(x[pairs // top_k], send, receive)
    which = torch.arange(each, device=x.device).repeat(ranks).repeat_interleave(theirs)
    order = which.argsort(stable=True)
    parts = got[order].split(theirs.view(ranks, each).sum(0).tolist())
    done = torch.cat([expert(part) for expert, part in zip(experts, parts)])
    back = Exchange.apply(done[order.argsort()], receive, send)

    weighted = back * weights.flatten()[pairs, None]
    return torch.zeros_like(x).index_add(0, pairs // top_k, weighted)


# %% wrong: equal_splits
# Leaves the split sizes out, so that each rank gets the same number of rows.

class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, send, receive):
        ctx.splits = send, receive
        got = rows.new_empty(sum(receive), rows.shape[1])
        dist.all_to_all_single(got, rows.contiguous())
        return got

    @staticmethod
    def backward(ctx, gradient):
        send, receive = ctx.splits
        back = gradient.new_empty(sum(send), gradient.shape[1])
        dist.all_to_all_single(back, gradient.contiguous())
        return back, None, None


def expert_layer(x, router, experts, top_k):
    ranks, each = dist.get_world_size(), len(experts)
    weights, chosen = router(x).softmax(-1).topk(top_k, dim=-1)
    chosen = chosen.flatten()
    pairs = chosen.argsort(stable=True)
    counts = torch.bincount(chosen, minlength=ranks * each)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts)
    send = counts.view(ranks, each).sum(1).tolist()
    receive = theirs.view(ranks, each).sum(1).tolist()

    got = Exchange.apply(x[pairs // top_k], send, receive)
    which = torch.arange(each, device=x.device).repeat(ranks).repeat_interleave(theirs)
    order = which.argsort(stable=True)
    parts = got[order].split(theirs.view(ranks, each).sum(0).tolist())
    done = torch.cat([expert(part) for expert, part in zip(experts, parts)])
    back = Exchange.apply(done[order.argsort()], receive, send)

    weighted = back * weights.flatten()[pairs, None]
    return torch.zeros_like(x).index_add(0, pairs // top_k, weighted)


# %% wrong: first_expert_for_all
# Forgets that a rank has several experts: all rows go through its first one.

class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, send, receive):
        ctx.splits = send, receive
        got = rows.new_empty(sum(receive), rows.shape[1])
        dist.all_to_all_single(got, rows.contiguous(), receive, send)
        return got

    @staticmethod
    def backward(ctx, gradient):
        send, receive = ctx.splits
        back = gradient.new_empty(sum(send), gradient.shape[1])
        dist.all_to_all_single(back, gradient.contiguous(), send, receive)
        return back, None, None


def expert_layer(x, router, experts, top_k):
    ranks, each = dist.get_world_size(), len(experts)
    weights, chosen = router(x).softmax(-1).topk(top_k, dim=-1)
    chosen = chosen.flatten()
    pairs = chosen.argsort(stable=True)
    counts = torch.bincount(chosen, minlength=ranks * each)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts)
    send = counts.view(ranks, each).sum(1).tolist()
    receive = theirs.view(ranks, each).sum(1).tolist()

    got = Exchange.apply(x[pairs // top_k], send, receive)
    which = torch.arange(each, device=x.device).repeat(ranks).repeat_interleave(theirs)
    order = which.argsort(stable=True)
    parts = got[order].split(theirs.view(ranks, each).sum(0).tolist())
    done = experts[0](torch.cat(parts))
    back = Exchange.apply(done[order.argsort()], receive, send)

    weighted = back * weights.flatten()[pairs, None]
    return torch.zeros_like(x).index_add(0, pairs // top_k, weighted)


# %% wrong: probability_sent_along
# Sends each row's probability with it, and the expert's rank multiplies.

class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, send, receive):
        ctx.splits = send, receive
        got = rows.new_empty(sum(receive), rows.shape[1])
        dist.all_to_all_single(got, rows.contiguous(), receive, send)
        return got

    @staticmethod
    def backward(ctx, gradient):
        send, receive = ctx.splits
        back = gradient.new_empty(sum(send), gradient.shape[1])
        dist.all_to_all_single(back, gradient.contiguous(), send, receive)
        return back, None, None


def expert_layer(x, router, experts, top_k):
    ranks, each = dist.get_world_size(), len(experts)
    weights, chosen = router(x).softmax(-1).topk(top_k, dim=-1)
    chosen = chosen.flatten()
    pairs = chosen.argsort(stable=True)
    counts = torch.bincount(chosen, minlength=ranks * each)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts)
    send = counts.view(ranks, each).sum(1).tolist()
    receive = theirs.view(ranks, each).sum(1).tolist()

    rows = torch.cat([x[pairs // top_k], weights.flatten()[pairs, None]], dim=1)
    got, factor = Exchange.apply(rows, send, receive).split([x.shape[1], 1], dim=1)
    which = torch.arange(each, device=x.device).repeat(ranks).repeat_interleave(theirs)
    order = which.argsort(stable=True)
    parts = got[order].split(theirs.view(ranks, each).sum(0).tolist())
    done = torch.cat([expert(part) for expert, part in zip(experts, parts)])
    weighted = Exchange.apply(done[order.argsort()] * factor, receive, send)
    return torch.zeros_like(x).index_add(0, pairs // top_k, weighted)


# %% wrong: weighted_twice
# Multiplies tokens by the probability on their way out, and outputs on their way back.

class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, send, receive):
        ctx.splits = send, receive
        got = rows.new_empty(sum(receive), rows.shape[1])
        dist.all_to_all_single(got, rows.contiguous(), receive, send)
        return got

    @staticmethod
    def backward(ctx, gradient):
        send, receive = ctx.splits
        back = gradient.new_empty(sum(send), gradient.shape[1])
        dist.all_to_all_single(back, gradient.contiguous(), send, receive)
        return back, None, None


def expert_layer(x, router, experts, top_k):
    ranks, each = dist.get_world_size(), len(experts)
    weights, chosen = router(x).softmax(-1).topk(top_k, dim=-1)
    chosen = chosen.flatten()
    pairs = chosen.argsort(stable=True)
    counts = torch.bincount(chosen, minlength=ranks * each)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts)
    send = counts.view(ranks, each).sum(1).tolist()
    receive = theirs.view(ranks, each).sum(1).tolist()

    got = Exchange.apply(x[pairs // top_k] * weights.flatten()[pairs, None], send, receive)
    which = torch.arange(each, device=x.device).repeat(ranks).repeat_interleave(theirs)
    order = which.argsort(stable=True)
    parts = got[order].split(theirs.view(ranks, each).sum(0).tolist())
    done = torch.cat([expert(part) for expert, part in zip(experts, parts)])
    back = Exchange.apply(done[order.argsort()], receive, send)

    weighted = back * weights.flatten()[pairs, None]
    return torch.zeros_like(x).index_add(0, pairs // top_k, weighted)


# %% wrong: gradient_of_x_stops
# Detaches the tokens that it sends: the experts learn, the layers below do not hear of them.

class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, send, receive):
        ctx.splits = send, receive
        got = rows.new_empty(sum(receive), rows.shape[1])
        dist.all_to_all_single(got, rows.contiguous(), receive, send)
        return got

    @staticmethod
    def backward(ctx, gradient):
        send, receive = ctx.splits
        back = gradient.new_empty(sum(send), gradient.shape[1])
        dist.all_to_all_single(back, gradient.contiguous(), send, receive)
        return back, None, None


def expert_layer(x, router, experts, top_k):
    ranks, each = dist.get_world_size(), len(experts)
    weights, chosen = router(x).softmax(-1).topk(top_k, dim=-1)
    chosen = chosen.flatten()
    pairs = chosen.argsort(stable=True)
    counts = torch.bincount(chosen, minlength=ranks * each)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts)
    send = counts.view(ranks, each).sum(1).tolist()
    receive = theirs.view(ranks, each).sum(1).tolist()

    got = Exchange.apply(x.detach()[pairs // top_k].requires_grad_(), send, receive)
    which = torch.arange(each, device=x.device).repeat(ranks).repeat_interleave(theirs)
    order = which.argsort(stable=True)
    parts = got[order].split(theirs.view(ranks, each).sum(0).tolist())
    done = torch.cat([expert(part) for expert, part in zip(experts, parts)])
    back = Exchange.apply(done[order.argsort()], receive, send)

    weighted = back * weights.flatten()[pairs, None]
    return torch.zeros_like(x).index_add(0, pairs // top_k, weighted)


# %% wrong: writes_into_x
# Puts the outputs where the tokens were.

class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, send, receive):
        ctx.splits = send, receive
        got = rows.new_empty(sum(receive), rows.shape[1])
        dist.all_to_all_single(got, rows.contiguous(), receive, send)
        return got

    @staticmethod
    def backward(ctx, gradient):
        send, receive = ctx.splits
        back = gradient.new_empty(sum(send), gradient.shape[1])
        dist.all_to_all_single(back, gradient.contiguous(), send, receive)
        return back, None, None


def expert_layer(x, router, experts, top_k):
    ranks, each = dist.get_world_size(), len(experts)
    weights, chosen = router(x).softmax(-1).topk(top_k, dim=-1)
    chosen = chosen.flatten()
    pairs = chosen.argsort(stable=True)
    counts = torch.bincount(chosen, minlength=ranks * each)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts)
    send = counts.view(ranks, each).sum(1).tolist()
    receive = theirs.view(ranks, each).sum(1).tolist()

    got = Exchange.apply(x[pairs // top_k], send, receive)
    which = torch.arange(each, device=x.device).repeat(ranks).repeat_interleave(theirs)
    order = which.argsort(stable=True)
    parts = got[order].split(theirs.view(ranks, each).sum(0).tolist())
    done = torch.cat([expert(part) for expert, part in zip(experts, parts)])
    back = Exchange.apply(done[order.argsort()], receive, send)

    weighted = back * weights.flatten()[pairs, None]
    found = torch.zeros_like(x).index_add(0, pairs // top_k, weighted)
    x.data.copy_(found.detach())
    return found


# %% wrong: room_in_float32
# Makes room for what arrives in PyTorch's default dtype.

class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, send, receive):
        ctx.splits = send, receive
        got = torch.empty(sum(receive), rows.shape[1])
        dist.all_to_all_single(got, rows.contiguous(), receive, send)
        return got

    @staticmethod
    def backward(ctx, gradient):
        send, receive = ctx.splits
        back = gradient.new_empty(sum(send), gradient.shape[1])
        dist.all_to_all_single(back, gradient.contiguous(), send, receive)
        return back, None, None


def expert_layer(x, router, experts, top_k):
    ranks, each = dist.get_world_size(), len(experts)
    weights, chosen = router(x).softmax(-1).topk(top_k, dim=-1)
    chosen = chosen.flatten()
    pairs = chosen.argsort(stable=True)
    counts = torch.bincount(chosen, minlength=ranks * each)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts)
    send = counts.view(ranks, each).sum(1).tolist()
    receive = theirs.view(ranks, each).sum(1).tolist()

    got = Exchange.apply(x[pairs // top_k], send, receive)
    which = torch.arange(each, device=x.device).repeat(ranks).repeat_interleave(theirs)
    order = which.argsort(stable=True)
    parts = got[order].split(theirs.view(ranks, each).sum(0).tolist())
    done = torch.cat([expert(part) for expert, part in zip(experts, parts)])
    back = Exchange.apply(done[order.argsort()], receive, send)

    weighted = back * weights.flatten()[pairs, None]
    return torch.zeros_like(x).index_add(0, pairs // top_k, weighted)


# %% wrong: idle_rank_skips_its_experts
# Skips the experts of a rank to which no token goes. That the rows, empty as they are, need a gradient keeps the path, unless x needs none.

class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, send, receive):
        ctx.splits = send, receive
        got = rows.new_empty(sum(receive), rows.shape[1])
        dist.all_to_all_single(got, rows.contiguous(), receive, send)
        return got

    @staticmethod
    def backward(ctx, gradient):
        send, receive = ctx.splits
        back = gradient.new_empty(sum(send), gradient.shape[1])
        dist.all_to_all_single(back, gradient.contiguous(), send, receive)
        return back, None, None


def expert_layer(x, router, experts, top_k):
    ranks, each = dist.get_world_size(), len(experts)
    weights, chosen = router(x).softmax(-1).topk(top_k, dim=-1)
    chosen = chosen.flatten()
    pairs = chosen.argsort(stable=True)
    counts = torch.bincount(chosen, minlength=ranks * each)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts)
    send = counts.view(ranks, each).sum(1).tolist()
    receive = theirs.view(ranks, each).sum(1).tolist()

    got = Exchange.apply(x[pairs // top_k], send, receive)
    which = torch.arange(each, device=x.device).repeat(ranks).repeat_interleave(theirs)
    order = which.argsort(stable=True)
    parts = got[order].split(theirs.view(ranks, each).sum(0).tolist())
    done = torch.cat([expert(part) for expert, part in zip(experts, parts)]) if len(got) else got
    back = Exchange.apply(done[order.argsort()], receive, send)

    weighted = back * weights.flatten()[pairs, None]
    return torch.zeros_like(x).index_add(0, pairs // top_k, weighted)


# %% wrong: drops_over_twice_its_share
# Gives each expert room for twice its even share of a rank's tokens, and one more, and drops what comes later.

import torch
import torch.distributed as dist


class AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, send, receive):
        ctx.send, ctx.receive = send, receive
        out = rows.new_empty(sum(receive), rows.shape[1])
        dist.all_to_all_single(out, rows.contiguous(), receive, send)
        return out

    @staticmethod
    def backward(ctx, gradient):
        out = gradient.new_empty(sum(ctx.send), gradient.shape[1])
        dist.all_to_all_single(out, gradient.contiguous(), ctx.send, ctx.receive)
        return out, None, None


def expert_layer(x, router, experts, top_k):
    world, n = dist.get_world_size(), len(experts)
    probabilities = router(x).softmax(-1)
    weights, chosen = probabilities.topk(top_k, dim=-1)
    cap = 2 * (len(x) * top_k) // (world * n) + 1
    seen = torch.nn.functional.one_hot(chosen.flatten(), world * n).cumsum(0).gather(1, chosen.flatten()[:, None]).view_as(chosen)
    weights = weights * (seen <= cap)
    flat = chosen.flatten()
    order = flat.argsort(stable=True)
    token = order // top_k
    counts = torch.bincount(flat, minlength=world * n)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts)
    send = counts.view(world, n).sum(1).tolist()
    receive = theirs.view(world, n).sum(1).tolist()
    rows = AllToAll.apply(x[token], send, receive)
    which = torch.arange(n).repeat(world).repeat_interleave(theirs)
    by = which.argsort(stable=True)
    sizes = theirs.view(world, n).sum(0).tolist()
    outs = torch.cat([e(r) for e, r in zip(experts, rows[by].split(sizes))])
    outs = outs[by.argsort()]
    back = AllToAll.apply(outs, receive, send)
    return torch.zeros_like(x).index_add(0, token, back * weights.flatten()[order, None])


# %% wrong: softmax_over_the_tokens
# Takes the softmax over the tokens, not over the experts.

import torch
import torch.distributed as dist


class AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, send, receive):
        ctx.send, ctx.receive = send, receive
        out = rows.new_empty(sum(receive), rows.shape[1])
        dist.all_to_all_single(out, rows.contiguous(), receive, send)
        return out

    @staticmethod
    def backward(ctx, gradient):
        out = gradient.new_empty(sum(ctx.send), gradient.shape[1])
        dist.all_to_all_single(out, gradient.contiguous(), ctx.send, ctx.receive)
        return out, None, None


def expert_layer(x, router, experts, top_k):
    world, n = dist.get_world_size(), len(experts)
    probabilities = router(x).softmax(0)
    weights, chosen = probabilities.topk(top_k, dim=-1)
    flat = chosen.flatten()
    order = flat.argsort(stable=True)
    token = order // top_k
    counts = torch.bincount(flat, minlength=world * n)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts)
    send = counts.view(world, n).sum(1).tolist()
    receive = theirs.view(world, n).sum(1).tolist()
    rows = AllToAll.apply(x[token], send, receive)
    which = torch.arange(n).repeat(world).repeat_interleave(theirs)
    by = which.argsort(stable=True)
    sizes = theirs.view(world, n).sum(0).tolist()
    outs = torch.cat([e(r) for e, r in zip(experts, rows[by].split(sizes))])
    outs = outs[by.argsort()]
    back = AllToAll.apply(outs, receive, send)
    return torch.zeros_like(x).index_add(0, token, back * weights.flatten()[order, None])


# %% wrong: counts_too_short
# Counts with bincount without minlength: the last experts have no count if no token chooses them.

import torch
import torch.distributed as dist


class AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, send, receive):
        ctx.send, ctx.receive = send, receive
        out = rows.new_empty(sum(receive), rows.shape[1])
        dist.all_to_all_single(out, rows.contiguous(), receive, send)
        return out

    @staticmethod
    def backward(ctx, gradient):
        out = gradient.new_empty(sum(ctx.send), gradient.shape[1])
        dist.all_to_all_single(out, gradient.contiguous(), ctx.send, ctx.receive)
        return out, None, None


def expert_layer(x, router, experts, top_k):
    world, n = dist.get_world_size(), len(experts)
    probabilities = router(x).softmax(-1)
    weights, chosen = probabilities.topk(top_k, dim=-1)
    flat = chosen.flatten()
    order = flat.argsort(stable=True)
    token = order // top_k
    counts = torch.bincount(flat)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts)
    send = counts.view(world, n).sum(1).tolist()
    receive = theirs.view(world, n).sum(1).tolist()
    rows = AllToAll.apply(x[token], send, receive)
    which = torch.arange(n).repeat(world).repeat_interleave(theirs)
    by = which.argsort(stable=True)
    sizes = theirs.view(world, n).sum(0).tolist()
    outs = torch.cat([e(r) for e, r in zip(experts, rows[by].split(sizes))])
    outs = outs[by.argsort()]
    back = AllToAll.apply(outs, receive, send)
    return torch.zeros_like(x).index_add(0, token, back * weights.flatten()[order, None])


# %% right: functional_collectives
# With PyTorch's own all-to-all for autograd.

from torch.distributed._functional_collectives import all_to_all_single_autograd


def exchange(rows, send, receive):
    return all_to_all_single_autograd(rows.contiguous(), receive, send, dist.group.WORLD)


def expert_layer(x, router, experts, top_k):
    ranks, each = dist.get_world_size(), len(experts)
    weights, chosen = router(x).softmax(-1).topk(top_k, dim=-1)
    chosen = chosen.flatten()
    pairs = chosen.argsort(stable=True)
    counts = torch.bincount(chosen, minlength=ranks * each)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts)
    send = counts.view(ranks, each).sum(1).tolist()
    receive = theirs.view(ranks, each).sum(1).tolist()

    got = exchange(x[pairs // top_k], send, receive)
    which = torch.arange(each, device=x.device).repeat(ranks).repeat_interleave(theirs)
    order = which.argsort(stable=True)
    parts = got[order].split(theirs.view(ranks, each).sum(0).tolist())
    done = torch.cat([expert(part) for expert, part in zip(experts, parts)])
    back = exchange(done[order.argsort()], receive, send)

    weighted = back * weights.flatten()[pairs, None]
    return torch.zeros_like(x).index_add(0, pairs // top_k, weighted)


# %% right: distributed_nn
# With torch.distributed.nn, which is older, and by going through the experts.

from torch.distributed.nn.functional import all_to_all_single


def expert_layer(x, router, experts, top_k):
    world, here = dist.get_world_size(), len(experts)
    probabilities = torch.softmax(router(x), dim=1)
    best = probabilities.topk(top_k, 1).indices
    token, of_expert, lots = [], [], []
    for number in range(world * here):
        rows = (best == number).nonzero()[:, 0]
        token.append(rows)
        of_expert.append(torch.full_like(rows, number))
        lots.append(len(rows))
    token, of_expert = torch.cat(token), torch.cat(of_expert)
    asked = torch.tensor(lots)
    asked_of_me = torch.zeros_like(asked)
    dist.all_to_all_single(asked_of_me, asked)
    outgoing = [sum(lots[rank * here : (rank + 1) * here]) for rank in range(world)]
    incoming = asked_of_me.reshape(world, here).sum(dim=1).tolist()
    arrived = all_to_all_single(x.new_empty(sum(incoming), x.shape[1]), x[token], incoming, outgoing)
    blocks = list(arrived.split(asked_of_me.tolist()))
    for number, expert in enumerate(experts):
        mine = blocks[number::here]
        blocks[number::here] = expert(torch.cat(mine)).split([len(block) for block in mine])
    home = all_to_all_single(x.new_empty(len(token), x.shape[1]), torch.cat(blocks), outgoing, incoming)
    return torch.zeros_like(x).index_add(0, token, home * probabilities[token, of_expert][:, None])


# %% right: lists_of_tensors
# With all_to_all of lists, and loops over ranks and experts.

class ToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, receive, *parts):
        ctx.sent = [len(part) for part in parts]
        got = [parts[0].new_empty(n, parts[0].shape[1]) for n in receive]
        dist.all_to_all(got, [part.contiguous() for part in parts])
        return tuple(got)

    @staticmethod
    def backward(ctx, *gradients):
        got = [gradients[0].new_empty(n, gradients[0].shape[1]) for n in ctx.sent]
        dist.all_to_all(got, [gradient.contiguous() for gradient in gradients])
        return None, *got


def expert_layer(x, router, experts, top_k):
    ranks, each = dist.get_world_size(), len(experts)
    probabilities = torch.softmax(router(x), dim=1)
    best = probabilities.argsort(dim=1, descending=True)[:, :top_k]
    tokens = [[(best == rank * each + place).any(1).nonzero()[:, 0] for place in range(each)] for rank in range(ranks)]
    counts = torch.tensor([[len(one) for one in of_rank] for of_rank in tokens])
    table = [torch.empty_like(counts) for _ in range(ranks)]
    dist.all_gather(table, counts)
    mine = [rows[dist.get_rank()].tolist() for rows in table]
    got = ToAll.apply([sum(row) for row in mine], *[x[torch.cat(of_rank)] for of_rank in tokens])
    pieces = [part.split(row) for part, row in zip(got, mine)]
    done = [expert(torch.cat([piece[place] for piece in pieces])) for place, expert in enumerate(experts)]
    done = [part.split([row[place] for row in mine]) for place, part in enumerate(done)]
    back = ToAll.apply(counts.sum(1).tolist(), *[torch.cat([part[rank] for part in done]) for rank in range(ranks)])
    result = torch.zeros_like(x)
    for rank in range(ranks):
        for place, part in enumerate(back[rank].split([len(one) for one in tokens[rank]])):
            rows = tokens[rank][place]
            share = probabilities[rows, rank * each + place]
            result = result.index_add(0, rows, part * share[:, None])
    return result


# %% right: sends_and_receives
# With isend and irecv between all pairs, and the experts' numbers sent with the rows.

def swap(rows, send, receive):
    """What all ranks send me."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    parts = list(rows.detach().contiguous().split(send))
    got = [rows.new_empty(n, *rows.shape[1:]) for n in receive]
    works = []
    for other in range(ranks):
        if other == rank:
            got[rank].copy_(parts[rank])
            continue
        if receive[other]:
            works.append(dist.irecv(got[other], other))
        if send[other]:
            works.append(dist.isend(parts[other], other))
    for work in works:
        work.wait()
    return torch.cat(got)


class Swap(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, send, receive):
        ctx.send, ctx.receive = send, receive
        return swap(rows, send, receive)

    @staticmethod
    def backward(ctx, gradient):
        return swap(gradient, ctx.receive, ctx.send), None, None


def expert_layer(x, router, experts, top_k):
    ranks, rank, each = dist.get_world_size(), dist.get_rank(), len(experts)
    weights, chosen = router(x).softmax(-1).topk(top_k, dim=-1)
    pairs = [(int(chosen[t, k]), t, k) for t in range(len(x)) for k in range(top_k)]
    pairs.sort(key=lambda pair: pair[0] // each)
    send = [sum(e // each == other for e, _, _ in pairs) for other in range(ranks)]
    counts = [torch.empty(ranks, dtype=torch.long) for _ in range(ranks)]
    dist.all_gather(counts, torch.tensor(send))
    receive = [int(row[rank]) for row in counts]
    tokens = torch.tensor([t for _, t, _ in pairs], dtype=torch.long)
    choices = torch.tensor([k for _, _, k in pairs], dtype=torch.long)
    ids = swap(torch.tensor([e for e, _, _ in pairs], dtype=torch.long), send, receive)
    got = Swap.apply(x[tokens], send, receive)
    done = torch.zeros_like(got)
    for place, expert in enumerate(experts):
        mine = (ids == rank * each + place).nonzero().flatten()
        done = done.index_add(0, mine, expert(got[mine]))
    back = Swap.apply(done, receive, send)
    return torch.zeros_like(x).index_add(0, tokens, back * weights[tokens, choices].unsqueeze(1))


# %% right: an_exchange_for_each_expert
# One exchange for each of a rank's experts and each choice.

class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, send, receive):
        ctx.splits = send, receive
        got = rows.new_empty(sum(receive), rows.shape[1])
        dist.all_to_all_single(got, rows.contiguous(), receive, send)
        return got

    @staticmethod
    def backward(ctx, gradient):
        send, receive = ctx.splits
        back = gradient.new_empty(sum(send), gradient.shape[1])
        dist.all_to_all_single(back, gradient.contiguous(), send, receive)
        return back, None, None


def expert_layer(x, router, experts, top_k):
    ranks, each = dist.get_world_size(), len(experts)
    weights, chosen = router(x).softmax(-1).topk(top_k, dim=-1)
    result = torch.zeros_like(x)
    for place, expert in enumerate(experts):
        for choice in range(top_k):
            rows = [(chosen[:, choice] == rank * each + place).nonzero().flatten() for rank in range(ranks)]
            send = [len(one) for one in rows]
            got = torch.empty(ranks, dtype=torch.long)
            dist.all_to_all_single(got, torch.tensor(send))
            receive, tokens = got.tolist(), torch.cat(rows)
            there = Exchange.apply(x[tokens], send, receive)
            back = Exchange.apply(expert(there), receive, send)
            result = result.index_add(0, tokens, weights[tokens, choice, None] * back)
    return result
