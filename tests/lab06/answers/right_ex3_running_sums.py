"""Running sums from itertools, and tuples that compare by bytes first."""

from itertools import accumulate


def choose_cut(costs, most):
    until = list(accumulate(c.forward + c.backward for c in costs))
    found = []
    for index, (first, cost) in enumerate(zip(until[:-1], costs)):
        second = until[-1] - first
        if first <= most * second and second <= most * first:
            found.append((cost.output, index + 1))
    return min(found)[1] if found else None
