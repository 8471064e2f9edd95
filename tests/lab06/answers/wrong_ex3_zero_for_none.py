"""Returns 0 where no cut is allowed."""


def choose_cut(costs, most):
    best = 0
    for cut in range(1, len(costs)):
        first = sum(c.forward + c.backward for c in costs[:cut])
        second = sum(c.forward + c.backward for c in costs[cut:])
        if max(first, second) <= most * min(first, second):
            if not best or costs[cut - 1].output < costs[best - 1].output:
                best = cut
    return best
