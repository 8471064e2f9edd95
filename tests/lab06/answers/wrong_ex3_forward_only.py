"""Forgets the backward pass."""


def choose_cut(costs, most):
    best = None
    for cut in range(1, len(costs)):
        first = sum(c.forward for c in costs[:cut])
        second = sum(c.forward for c in costs[cut:])
        if max(first, second) <= most * min(first, second):
            if best is None or costs[cut - 1].output < costs[best - 1].output:
                best = cut
    return best
