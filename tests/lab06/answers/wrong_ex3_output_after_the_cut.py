"""Takes the output of the first layer behind the cut."""


def choose_cut(costs, most):
    best = None
    for cut in range(1, len(costs)):
        first = sum(c.forward + c.backward for c in costs[:cut])
        second = sum(c.forward + c.backward for c in costs[cut:])
        if max(first, second) <= most * min(first, second):
            if best is None or costs[cut].output < costs[best].output:
                best = cut
    return best
