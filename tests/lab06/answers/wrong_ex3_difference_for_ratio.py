"""Takes the difference of the two times for how many times as long."""


def choose_cut(costs, most):
    best = None
    for cut in range(1, len(costs)):
        first = sum(c.forward + c.backward for c in costs[:cut])
        second = sum(c.forward + c.backward for c in costs[cut:])
        if abs(first - second) <= most:
            if best is None or costs[cut - 1].output < costs[best - 1].output:
                best = cut
    return best
