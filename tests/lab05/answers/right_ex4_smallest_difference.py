"""Looks for the smallest difference between the parts, which is the same thing."""


def best_cut(costs):
    total, first = sum(costs), 0
    best, smallest = None, float("inf")
    for cut, cost in enumerate(costs[:-1], start=1):
        first += cost
        difference = abs(total - 2 * first)
        if difference < smallest:
            best, smallest = cut, difference
    return best
