"""Allows a cut that leaves the second device without layers."""


def choose_cut(costs, most):
    best = None
    for cut in range(1, len(costs) + 1):
        first = sum(c.forward + c.backward for c in costs[:cut])
        second = sum(c.forward + c.backward for c in costs[cut:])
        if min(first, second) == 0 or max(first, second) <= most * min(first, second):
            if best is None or costs[cut - 1].output < costs[best - 1].output:
                best = cut
    return best
