"""Returns the index of the last layer on the first device."""


def choose_cut(costs, most):
    best = None
    for cut in range(1, len(costs)):
        first = sum(c.forward + c.backward for c in costs[:cut])
        second = sum(c.forward + c.backward for c in costs[cut:])
        if max(first, second) <= most * min(first, second):
            if best is None or costs[cut - 1].output < costs[best - 1].output:
                best = cut
    return None if best is None else best - 1
