# %% wrong: waits_longest
# Blames the rank that waits longest.

def straggler(starts):
    waited = [sum(max(ranks) - ranks[rank] for ranks in starts) for rank in range(len(starts[0]))]
    return waited.index(max(waited)), max(waited)


# %% wrong: most_often
# Counts how often a rank comes last, however short the wait.

def straggler(starts):
    last = [ranks.index(max(ranks)) for ranks in starts]
    rank = max(last, key=last.count)
    return rank, sum(max(ranks) - start for ranks in starts for start in ranks if ranks.index(max(ranks)) == rank)


# %% wrong: longest_collective
# Looks at the one collective with the longest wait only.

def straggler(starts):
    worst = max(starts, key=lambda ranks: max(ranks) - min(ranks))
    return worst.index(max(worst)), max(worst) - min(worst)


# %% wrong: rank_only
# Returns no seconds.

def straggler(starts):
    waited = [0] * len(starts[0])
    for ranks in starts:
        waited[ranks.index(max(ranks))] += sum(max(ranks) - start for start in ranks)
    return waited.index(max(waited))


# %% wrong: longest_wait_only
# Adds the longest wait of each collective, not all ranks'.

def straggler(starts):
    waited = [0] * len(starts[0])
    for ranks in starts:
        waited[ranks.index(max(ranks))] += max(ranks) - min(ranks)
    return waited.index(max(waited)), max(waited)


# %% wrong: largest_sum_of_starts
# Adds up when each rank came, over all collectives.

def straggler(starts):
    sums = [sum(times) for times in zip(*starts)]
    rank = sums.index(max(sums))
    return rank, sum(max(ranks) - start for ranks in starts for start in ranks if ranks.index(max(ranks)) == rank)


# %% right: in_a_dict
# A dict of sums.

def straggler(starts):
    waited = {}
    for ranks in starts:
        for start in ranks:
            rank = ranks.index(max(ranks))
            waited[rank] = waited.get(rank, 0.0) + max(ranks) - start
    rank = max(waited, key=waited.get)
    return rank, waited[rank]


# %% right: by_tensors
# With tensors.

def straggler(starts):
    times = torch.tensor(starts, dtype=torch.float64)
    last, rank = times.max(1)
    waited = torch.zeros(times.shape[1], dtype=torch.float64).index_add(0, rank, (last[:, None] - times).sum(1))
    return waited.argmax().item(), waited.max().item()
