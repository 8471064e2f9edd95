"""Thinks that only the first device can be the slower one."""


def choose_cut(costs, most):
    best = None
    for cut in range(1, len(costs)):
        first = sum(c.forward + c.backward for c in costs[:cut])
        second = sum(c.forward + c.backward for c in costs[cut:])
        if first <= most * second:
            if best is None or costs[cut - 1].output < costs[best - 1].output:
                best = cut
    return best
