"""Lets min() raise where no cut is allowed."""


def choose_cut(costs, most):
    times = [c.forward + c.backward for c in costs]
    cuts = range(1, len(costs))
    allowed = [c for c in cuts if max(sum(times[:c]), sum(times[c:])) <= most * min(sum(times[:c]), sum(times[c:]))]
    return min(allowed, key=lambda cut: costs[cut - 1].output)
