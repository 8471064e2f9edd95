"""Adds up the outputs of all layers on the first device."""


def choose_cut(costs, most):
    best = None
    for cut in range(1, len(costs)):
        first = sum(c.forward + c.backward for c in costs[:cut])
        second = sum(c.forward + c.backward for c in costs[cut:])
        if max(first, second) <= most * min(first, second):
            if best is None or sum(c.output for c in costs[:cut]) < sum(c.output for c in costs[:best]):
                best = cut
    return best
