# %% wrong: not_sorted
# Sends the rows in the order of x.

def dispatch(x, chosen, experts, exchange):
    order = chosen.argsort(stable=True)
    counts = torch.bincount(chosen, minlength=experts)
    ones = [1] * experts
    send, receive = counts.tolist(), exchange(counts, ones, ones).tolist()
    return exchange(x, send, receive), send, receive, order


# %% wrong: same_splits
# Takes what it sends for what it receives.

def dispatch(x, chosen, experts, exchange):
    order = chosen.argsort(stable=True)
    send = torch.bincount(chosen, minlength=experts).tolist()
    return exchange(x[order], send, send), send, send, order


# %% wrong: no_minlength
# Forgets experts that no row has chosen.

def dispatch(x, chosen, experts, exchange):
    order = chosen.argsort(stable=True)
    counts = torch.zeros(experts, dtype=torch.long, device=x.device)
    counts[: int(chosen.max()) + 1] = torch.bincount(chosen)
    ones = [1] * experts
    send, receive = torch.bincount(chosen).tolist(), exchange(counts, ones, ones).tolist()
    return exchange(x[order], counts.tolist(), receive), send, receive, order


# %% wrong: inverse_order
# Returns the inverse of the order.

def dispatch(x, chosen, experts, exchange):
    order = chosen.argsort(stable=True)
    counts = torch.bincount(chosen, minlength=experts)
    ones = [1] * experts
    send, receive = counts.tolist(), exchange(counts, ones, ones).tolist()
    return exchange(x[order], send, receive), send, receive, order.argsort()


# %% wrong: everything_to_all
# Sends all rows to all experts, which pick their own.
import torch.distributed as dist

def dispatch(x, chosen, experts, exchange):
    order = chosen.argsort(stable=True)
    counts = torch.bincount(chosen, minlength=experts)
    ones = [1] * experts
    send, receive = counts.tolist(), exchange(counts, ones, ones).tolist()
    lengths = exchange(torch.full_like(counts, len(x)), ones, ones).tolist()
    rows = exchange(x.repeat(experts, 1), [len(x)] * experts, lengths)
    choices = exchange(chosen.repeat(experts), [len(x)] * experts, lengths)
    return rows[choices == dist.get_rank()], send, receive, order


# %% wrong: one_value
# Returns the received rows only.

def dispatch(x, chosen, experts, exchange):
    order = chosen.argsort(stable=True)
    counts = torch.bincount(chosen, minlength=experts)
    ones = [1] * experts
    return exchange(x[order], counts.tolist(), exchange(counts, ones, ones).tolist())


# %% right: by_masks
# Counts and sorts by masks, one for each expert.

def dispatch(x, chosen, experts, exchange):
    places = [torch.nonzero(chosen == expert).flatten() for expert in range(experts)]
    order = torch.cat(places)
    send = [len(each) for each in places]
    counts = torch.tensor(send, device=x.device)
    receive = exchange(counts, [1] * experts, [1] * experts).tolist()
    return exchange(x[order], send, receive), send, receive, order


# %% right: own_collective
# Exchanges counts with PyTorch's call.
import torch.distributed as dist

def dispatch(x, chosen, experts, exchange):
    order = torch.sort(chosen, stable=True).indices
    counts = torch.bincount(chosen, minlength=experts)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts)
    send, receive = counts.tolist(), theirs.tolist()
    return exchange(x.index_select(0, order), send, receive), send, receive, order
