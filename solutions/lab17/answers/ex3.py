"""Answers to exercise 3 that the grader is tested with. tests/support/answers.py says how to read them."""

# %% wrong: in_order
# Puts the first experts on rank 0, the next ones on rank 1, and so on, whatever is asked of them.

def place_experts(tokens, per_node, expert_seconds, network_seconds):
    ranks, experts = len(tokens), len(tokens[0])
    return [expert * ranks // experts for expert in range(experts)]


# %% wrong: balances_counts
# Balances the tokens of the ranks and does not ask where they come from.

def place_experts(tokens, per_node, expert_seconds, network_seconds):
    ranks, experts = len(tokens), len(tokens[0])
    total = [sum(row[expert] for row in tokens) for expert in range(experts)]
    load, free, placement = [0] * ranks, [experts // ranks] * ranks, [0] * experts
    for expert in sorted(range(experts), key=lambda expert: -total[expert]):
        rank = min((rank for rank in range(ranks) if free[rank]), key=lambda rank: load[rank])
        placement[expert] = rank
        load[rank] += total[expert]
        free[rank] -= 1
    return placement


# %% wrong: best_by_counts
# Searches for the best placement, and the time that it looks at is that of the experts alone.

def place_experts(tokens, per_node, expert_seconds, network_seconds):
    ranks, experts = len(tokens), len(tokens[0])
    placement = [expert % ranks for expert in range(experts)]

    def cost():
        load = [0] * ranks
        for row in tokens:
            for expert, count in enumerate(row):
                load[placement[expert]] += count
        return max(load)

    best, better = cost(), True
    while better:
        better = False
        for a in range(experts):
            for b in range(a):
                placement[a], placement[b] = placement[b], placement[a]
                if cost() < best:
                    best, better = cost(), True
                else:
                    placement[a], placement[b] = placement[b], placement[a]
    return placement


# %% wrong: nearest_node
# Puts each expert on the node that asks most for it, as long as there is room, and lets its ranks fill up in order.

def place_experts(tokens, per_node, expert_seconds, network_seconds):
    ranks, experts = len(tokens), len(tokens[0])
    free, placement = [experts // ranks] * ranks, [0] * experts

    def asked(expert, rank):
        first = rank - rank % per_node
        return sum(tokens[source][expert] for source in range(first, first + per_node))

    for expert in sorted(range(experts), key=lambda expert: -sum(row[expert] for row in tokens)):
        rank = max((rank for rank in range(ranks) if free[rank]), key=lambda rank: asked(expert, rank))
        placement[expert] = rank
        free[rank] -= 1
    return placement


# %% wrong: network_only
# Searches for the best placement, and the time that it looks at is that of the network alone.

def place_experts(tokens, per_node, expert_seconds, network_seconds):
    ranks, experts = len(tokens), len(tokens[0])
    placement = [expert % ranks for expert in range(experts)]

    def cost():
        out, into = [0] * ranks, [0] * ranks
        for source, row in enumerate(tokens):
            for expert, count in enumerate(row):
                there = placement[expert] // per_node
                if there != source // per_node:
                    out[source // per_node] += count
                    into[there] += count
        return max(out + into)

    best, better = cost(), True
    while better:
        better = False
        for a in range(experts):
            for b in range(a):
                placement[a], placement[b] = placement[b], placement[a]
                if cost() < best:
                    best, better = cost(), True
                else:
                    placement[a], placement[b] = placement[b], placement[a]
    return placement


# %% wrong: all_traffic_together
# Adds up what crosses the network in all nodes, where the node with the most traffic decides.

def place_experts(tokens, per_node, expert_seconds, network_seconds):
    ranks, experts = len(tokens), len(tokens[0])
    placement = [expert * ranks // experts for expert in range(experts)]

    def cost():
        load, crossing = [0] * ranks, 0
        for source, row in enumerate(tokens):
            for expert, count in enumerate(row):
                load[placement[expert]] += count
                crossing += count * (placement[expert] // per_node != source // per_node)
        return max(load) * expert_seconds + crossing * network_seconds

    best, better = cost(), True
    while better:
        better = False
        for a in range(experts):
            for b in range(a):
                placement[a], placement[b] = placement[b], placement[a]
                if cost() < best:
                    best, better = cost(), True
                else:
                    placement[a], placement[b] = placement[b], placement[a]
    return placement


# %% wrong: arriving_tokens_only
# Counts the tokens that arrive at a node, and not those that leave it.

def place_experts(tokens, per_node, expert_seconds, network_seconds):
    ranks, experts = len(tokens), len(tokens[0])
    placement = [expert * ranks // experts for expert in range(experts)]

    def cost():
        load, into = [0] * ranks, [0] * ranks
        for source, row in enumerate(tokens):
            for expert, count in enumerate(row):
                there = placement[expert] // per_node
                load[placement[expert]] += count
                into[there] += count * (there != source // per_node)
        return max(load) * expert_seconds + max(into) * network_seconds

    best, better = cost(), True
    while better:
        better = False
        for a in range(experts):
            for b in range(a):
                placement[a], placement[b] = placement[b], placement[a]
                if cost() < best:
                    best, better = cost(), True
                else:
                    placement[a], placement[b] = placement[b], placement[a]
    return placement


# %% wrong: leaving_tokens_only
# Counts the tokens that leave a node, and not those that arrive.

def place_experts(tokens, per_node, expert_seconds, network_seconds):
    ranks, experts = len(tokens), len(tokens[0])
    placement = [expert * ranks // experts for expert in range(experts)]

    def cost():
        load, out = [0] * ranks, [0] * ranks
        for source, row in enumerate(tokens):
            for expert, count in enumerate(row):
                load[placement[expert]] += count
                out[source // per_node] += count * (placement[expert] // per_node != source // per_node)
        return max(load) * expert_seconds + max(out) * network_seconds

    best, better = cost(), True
    while better:
        better = False
        for a in range(experts):
            for b in range(a):
                placement[a], placement[b] = placement[b], placement[a]
                if cost() < best:
                    best, better = cost(), True
                else:
                    placement[a], placement[b] = placement[b], placement[a]
    return placement


# %% wrong: every_rank_is_a_node
# Lets every token that goes to another rank cross the network, also between ranks of one node.

def place_experts(tokens, per_node, expert_seconds, network_seconds):
    ranks, experts = len(tokens), len(tokens[0])
    placement = [expert * ranks // experts for expert in range(experts)]

    def cost():
        load, out, into = [0] * ranks, [0] * ranks, [0] * ranks
        for source, row in enumerate(tokens):
            for expert, count in enumerate(row):
                load[placement[expert]] += count
                if placement[expert] != source:
                    out[source] += count
                    into[placement[expert]] += count
        return max(load) * expert_seconds + max(out + into) * network_seconds

    best, better = cost(), True
    while better:
        better = False
        for a in range(experts):
            for b in range(a):
                placement[a], placement[b] = placement[b], placement[a]
                if cost() < best:
                    best, better = cost(), True
                else:
                    placement[a], placement[b] = placement[b], placement[a]
    return placement


# %% wrong: tokens_added_without_seconds
# Adds up tokens that are computed and tokens that cross, as if they took the same time.

def place_experts(tokens, per_node, expert_seconds, network_seconds):
    ranks, experts = len(tokens), len(tokens[0])
    placement = [expert * ranks // experts for expert in range(experts)]

    def cost():
        load, out, into = [0] * ranks, [0] * ranks, [0] * ranks
        for source, row in enumerate(tokens):
            for expert, count in enumerate(row):
                here, there = source // per_node, placement[expert] // per_node
                load[placement[expert]] += count
                if here != there:
                    out[here] += count
                    into[there] += count
        return max(load) + max(out + into)

    best, better = cost(), True
    while better:
        better = False
        for a in range(experts):
            for b in range(a):
                placement[a], placement[b] = placement[b], placement[a]
                if cost() < best:
                    best, better = cost(), True
                else:
                    placement[a], placement[b] = placement[b], placement[a]
    return placement


# %% wrong: popular_ones_alone
# Gives a popular expert a rank of its own and the others to the rest, more than a rank has memory for.

def place_experts(tokens, per_node, expert_seconds, network_seconds):
    ranks, experts = len(tokens), len(tokens[0])
    total = [sum(row[expert] for row in tokens) for expert in range(experts)]
    load, placement = [0] * ranks, [0] * experts
    for expert in sorted(range(experts), key=lambda expert: -total[expert]):
        rank = load.index(min(load))
        placement[expert] = rank
        load[rank] += total[expert]
    return placement


# %% wrong: one_after_the_other
# Places the experts one after the other, the most popular first, each where the time is least so far.

def place_experts(tokens, per_node, expert_seconds, network_seconds):
    ranks, experts = len(tokens), len(tokens[0])
    placement = {}

    def cost(more):
        load, out, into = [0] * ranks, [0] * ranks, [0] * ranks
        for expert, rank in {**placement, **more}.items():
            for source, row in enumerate(tokens):
                load[rank] += row[expert]
                if source // per_node != rank // per_node:
                    out[source // per_node] += row[expert]
                    into[rank // per_node] += row[expert]
        return max(load) * expert_seconds + max(out + into) * network_seconds

    for expert in sorted(range(experts), key=lambda expert: -sum(row[expert] for row in tokens)):
        free = [rank for rank in range(ranks) if list(placement.values()).count(rank) < experts // ranks]
        placement[expert] = min(free, key=lambda rank: cost({expert: rank}))
    return [placement[expert] for expert in range(experts)]


# %% wrong: a_thousand_random_ones
# Draws a thousand placements and takes the best.

def place_experts(tokens, per_node, expert_seconds, network_seconds):
    import random

    own, best = random.Random(1), None
    placement = [expert % len(tokens) for expert in range(len(tokens[0]))]
    for _ in range(1000):
        own.shuffle(placement)
        seconds = step_seconds(tokens, placement, per_node, expert_seconds, network_seconds)
        if best is None or seconds < best[0]:
            best = seconds, list(placement)
    return best[1]


# %% wrong: five_thousand_random_ones
# Draws five thousand placements and takes the best, which are still too few.

def place_experts(tokens, per_node, expert_seconds, network_seconds):
    import random

    own, best = random.Random(1), None
    placement = [expert % len(tokens) for expert in range(len(tokens[0]))]
    for _ in range(5000):
        own.shuffle(placement)
        seconds = step_seconds(tokens, placement, per_node, expert_seconds, network_seconds)
        if best is None or seconds < best[0]:
            best = seconds, list(placement)
    return best[1]


# %% wrong: lists_of_experts
# Returns the experts of each rank, not the rank of each expert.

def place_experts(tokens, per_node, expert_seconds, network_seconds):
    ranks, experts = len(tokens), len(tokens[0])
    each = experts // ranks
    return [list(range(rank * each, rank * each + each)) for rank in range(ranks)]


# %% wrong: nodes_not_ranks
# Returns the node of each expert.

def place_experts(tokens, per_node, expert_seconds, network_seconds):
    ranks, experts = len(tokens), len(tokens[0])
    placement = [expert * ranks // experts // per_node for expert in range(experts)]
    return placement


# %% wrong: two_experts_a_rank
# Thinks that each rank has two experts.

import itertools
import random

from utils.kits.experts import step_seconds


def place_experts(tokens, per_node, expert_seconds, network_seconds):
    R, E = len(tokens), len(tokens[0])
    n = 2
    cost = lambda p: step_seconds(tokens, p, per_node, expert_seconds, network_seconds)
    def descend(p):
        best = cost(p)
        better = True
        while better:
            better = False
            for a, b in itertools.combinations(range(E), 2):
                if p[a] != p[b]:
                    p[a], p[b] = p[b], p[a]
                    c = cost(p)
                    if c < best - 1e-15:
                        best, better = c, True
                    else:
                        p[a], p[b] = p[b], p[a]
        return best, p
    rng = random.Random(0)
    return min((descend(rng.sample([e // 2 for e in range(E)], E)) for _ in range(12)), key=lambda t: t[0])[1]


# %% wrong: nodes_of_two
# Thinks that each node has two ranks.

import itertools
import random

from utils.kits.experts import step_seconds


def place_experts(tokens, per_node, expert_seconds, network_seconds):
    R, E = len(tokens), len(tokens[0])
    n = E // R
    cost = lambda p: step_seconds(tokens, p, 2, expert_seconds, network_seconds)
    def descend(p):
        best = cost(p)
        better = True
        while better:
            better = False
            for a, b in itertools.combinations(range(E), 2):
                if p[a] != p[b]:
                    p[a], p[b] = p[b], p[a]
                    c = cost(p)
                    if c < best - 1e-15:
                        best, better = c, True
                    else:
                        p[a], p[b] = p[b], p[a]
        return best, p
    rng = random.Random(0)
    return min((descend(rng.sample([e // n for e in range(E)], E)) for _ in range(12)), key=lambda t: t[0])[1]


# %% right: swaps_until_nothing_helps
# Starts in order and swaps two experts as long as that saves time.

def place_experts(tokens, per_node, expert_seconds, network_seconds):
    ranks, experts = len(tokens), len(tokens[0])
    placement = [expert * ranks // experts for expert in range(experts)]

    def cost():
        load, out, into = [0] * ranks, [0] * ranks, [0] * ranks
        for source, row in enumerate(tokens):
            for expert, count in enumerate(row):
                here, there = source // per_node, placement[expert] // per_node
                load[placement[expert]] += count
                if here != there:
                    out[here] += count
                    into[there] += count
        return max(load) * expert_seconds + max(out + into) * network_seconds

    best, better = cost(), True
    while better:
        better = False
        for a in range(experts):
            for b in range(a):
                placement[a], placement[b] = placement[b], placement[a]
                if cost() < best:
                    best, better = cost(), True
                else:
                    placement[a], placement[b] = placement[b], placement[a]
    return placement


# %% right: best_swap_each_time
# Starts with the nearest node and makes the best of all swaps, each time.

def place_experts(tokens, per_node, expert_seconds, network_seconds):
    from itertools import combinations

    ranks, experts = len(tokens), len(tokens[0])
    free, placement = [experts // ranks] * ranks, {}

    def asked(expert, rank):
        first = rank - rank % per_node
        return sum(tokens[source][expert] for source in range(first, first + per_node))

    for expert in sorted(range(experts), key=lambda expert: -sum(row[expert] for row in tokens)):
        rank = max((rank for rank in range(ranks) if free[rank]), key=lambda rank: asked(expert, rank))
        placement[expert] = rank
        free[rank] -= 1
    found = [placement[expert] for expert in range(experts)]

    def swapped(pair):
        other = list(found)
        for one, two in (pair, pair[::-1]):
            other[one] = found[two]
        return other

    def cost(which):
        return step_seconds(tokens, which, per_node, expert_seconds, network_seconds)

    while True:
        other = min(map(swapped, combinations(range(experts), 2)), key=cost)
        if cost(other) >= cost(found):
            return found
        found = other


# %% right: random_starts
# Swaps as long as it helps, from several random placements, with tensors for the sums.

def place_experts(tokens, per_node, expert_seconds, network_seconds):
    import random

    table = torch.tensor(tokens, dtype=torch.float64)
    ranks, experts = table.shape
    nodes = table.unflatten(0, (-1, per_node)).sum(1)  # (nodes, experts)
    own = random.Random(0)

    def cost(placement):
        where = torch.tensor(placement)
        on_rank = torch.nn.functional.one_hot(where, ranks).double()
        on_node = torch.nn.functional.one_hot(where // per_node, ranks // per_node).double()
        ways = nodes @ on_node
        ways.fill_diagonal_(0)
        return table.sum(0) @ on_rank, ways

    def seconds(placement):
        load, ways = cost(placement)
        network = max(ways.sum(0).max().item(), ways.sum(1).max().item())
        return load.max().item() * expert_seconds + network * network_seconds

    best = None
    for _ in range(2):
        placement = [expert % ranks for expert in range(experts)]
        own.shuffle(placement)
        now, better = seconds(placement), True
        while better:
            better = False
            for a in range(experts):
                for b in range(a):
                    placement[a], placement[b] = placement[b], placement[a]
                    then = seconds(placement)
                    if then < now:
                        now, better = then, True
                    else:
                        placement[a], placement[b] = placement[b], placement[a]
        if best is None or now < best[0]:
            best = now, list(placement)
    return tuple(best[1])


# %% right: annealing
# Swaps two experts by chance, and accepts a worse placement the more rarely the later it is.

def place_experts(tokens, per_node, expert_seconds, network_seconds):
    import math
    import random

    own = random.Random(3)
    ranks, experts = len(tokens), len(tokens[0])
    placement = [expert % ranks for expert in range(experts)]
    now = step_seconds(tokens, placement, per_node, expert_seconds, network_seconds)
    best, kept = now, list(placement)
    for turn in range(2500):
        heat = 0.1 * best * (1 - turn / 2500)
        a, b = own.sample(range(experts), 2)
        placement[a], placement[b] = placement[b], placement[a]
        then = step_seconds(tokens, placement, per_node, expert_seconds, network_seconds)
        if then <= now or own.random() < math.exp((now - then) / heat):
            now = then
            if now < best:
                best, kept = now, list(placement)
        else:
            placement[a], placement[b] = placement[b], placement[a]
    return kept
