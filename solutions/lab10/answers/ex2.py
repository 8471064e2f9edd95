# %% wrong: same_warm_up
# Gives every rank the warm-up of the first.

def one_f_one_b(rank, ranks, micro_batches, cap):
    warm = min(ranks - 1, cap - 1, micro_batches)
    forward = [f"F{rank}.{m}" for m in range(micro_batches)]
    backward = [f"B{rank}.{m}" for m in range(micro_batches)]
    row = forward[:warm]
    for f, b in zip(forward[warm:], backward):
        row += [f, b]
    return " ".join(row + backward[micro_batches - warm :])


# %% wrong: ranks_reversed
# Lets the last rank warm up longest.

def one_f_one_b(rank, ranks, micro_batches, cap):
    warm = min(rank, cap - 1, micro_batches)
    forward = [f"F{rank}.{m}" for m in range(micro_batches)]
    backward = [f"B{rank}.{m}" for m in range(micro_batches)]
    row = forward[:warm]
    for f, b in zip(forward[warm:], backward):
        row += [f, b]
    return " ".join(row + backward[micro_batches - warm :])


# %% wrong: one_too_many
# Warms up with ranks - rank forward passes, and then goes forward once more before it goes backward.

def one_f_one_b(rank, ranks, micro_batches, cap):
    warm = min(ranks - rank, cap - 1, micro_batches)
    forward = [f"F{rank}.{m}" for m in range(micro_batches)]
    backward = [f"B{rank}.{m}" for m in range(micro_batches)]
    row = forward[:warm]
    for f, b in zip(forward[warm:], backward):
        row += [f, b]
    return " ".join(row + backward[micro_batches - warm :])


# %% wrong: newest_first
# Goes backward the way that autograd does, the newest micro-batch first.

def one_f_one_b(rank, ranks, micro_batches, cap):
    limit, flying, forward, row = min(ranks - rank, cap), [], 0, []
    while forward < micro_batches or flying:
        if forward < micro_batches and len(flying) < limit:
            flying.append(forward)
            row.append(f"F{rank}.{forward}")
            forward += 1
        else:
            row.append(f"B{rank}.{flying.pop()}")
    return " ".join(row)


# %% wrong: no_drain
# Stops when the last forward pass is done.

def one_f_one_b(rank, ranks, micro_batches, cap):
    warm = min(ranks - rank, cap) - 1
    row = [f"F{rank}.{m}" for m in range(min(warm, micro_batches))]
    for m in range(warm, micro_batches):
        row += [f"F{rank}.{m}", f"B{rank}.{m - warm}"]
    return " ".join(row)


# %% wrong: enough_micro_batches
# Takes for granted that there are more micro-batches than ranks.

def one_f_one_b(rank, ranks, micro_batches, cap):
    warm = min(ranks - rank, cap) - 1
    row = [f"F{rank}.{m}" for m in range(warm)]
    for m in range(micro_batches - warm):
        row += [f"F{rank}.{m + warm}", f"B{rank}.{m}"]
    row += [f"B{rank}.{m}" for m in range(micro_batches - warm, micro_batches)]
    return " ".join(row)


# %% wrong: cap_forgotten
# Writes 1F1B as it stands in the papers.

def one_f_one_b(rank, ranks, micro_batches, cap):
    warm = min(ranks - rank - 1, micro_batches)
    forward = [f"F{rank}.{m}" for m in range(micro_batches)]
    backward = [f"B{rank}.{m}" for m in range(micro_batches)]
    row = forward[:warm]
    for f, b in zip(forward[warm:], backward):
        row += [f, b]
    return " ".join(row + backward[micro_batches - warm :])


# %% wrong: gpipe_in_groups
# Goes forward with as many as fit, then backward with all of them, and again.

def one_f_one_b(rank, ranks, micro_batches, cap):
    limit, row = min(ranks - rank, cap), []
    for start in range(0, micro_batches, limit):
        group = range(start, min(start + limit, micro_batches))
        row += [f"F{rank}.{m}" for m in group] + [f"B{rank}.{m}" for m in group]
    return " ".join(row)


# %% wrong: all_ranks_at_once
# Returns the lists of all ranks, a line for each.

def one_f_one_b(rank, ranks, micro_batches, cap):
    rows = []
    for r in range(ranks):
        limit, forward, backward, row = min(ranks - r, cap), 0, 0, []
        while backward < micro_batches:
            if forward < micro_batches and forward - backward < limit:
                row.append(f"F{r}.{forward}")
                forward += 1
            else:
                row.append(f"B{r}.{backward}")
                backward += 1
        rows.append(" ".join(row))
    return "\n".join(rows)


# %% wrong: a_list_of_texts
# "It returns the list": so it returns a Python list. One text was asked for.

def one_f_one_b(rank, ranks, micro_batches, cap):
    actions, forward, backward = [], 0, 0
    while backward < micro_batches:
        if forward < micro_batches and forward - backward < min(ranks - rank, cap):
            actions.append(f"F{rank}.{forward}")
            forward += 1
        else:
            actions.append(f"B{rank}.{backward}")
            backward += 1
    return actions


# %% right: three_parts
# Warm-up, one and one, drain.

def one_f_one_b(rank, ranks, micro_batches, cap):
    warm = min(ranks - rank - 1, cap - 1, micro_batches)
    row = [f"F{rank}.{m}" for m in range(warm)]
    for m in range(micro_batches - warm):
        row.append(f"F{rank}.{m + warm}")
        row.append(f"B{rank}.{m}")
    for m in range(micro_batches - warm, micro_batches):
        row.append(f"B{rank}.{m}")
    return " ".join(row)


# %% right: a_queue
# A queue of what is in flight.

from collections import deque


def one_f_one_b(rank, ranks, micro_batches, cap):
    row, flying = [], deque()
    for m in range(micro_batches):
        if len(flying) == min(ranks - rank, cap):
            row.append(f"B{rank}.{flying.popleft()}")
        flying.append(m)
        row.append(f"F{rank}.{m}")
    return " ".join(row + [f"B{rank}.{m}" for m in flying])


# %% wrong: cap_in_place_of_ranks
# Lets the first rank have as many in flight as the cap says, and each other rank one less than the rank before.

def one_f_one_b(rank, ranks, micro_batches, cap):
    limit = max(1, cap - rank)
    forward = backward = 0
    actions = []
    while backward < micro_batches:
        if forward < micro_batches and forward - backward < limit:
            actions.append(f"F{rank}.{forward}")
            forward += 1
        else:
            actions.append(f"B{rank}.{backward}")
            backward += 1
    return " ".join(actions)
