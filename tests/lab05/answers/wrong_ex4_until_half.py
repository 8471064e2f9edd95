"""Stops at the first layer with which half of the work is reached, though one layer less may be better."""


def best_cut(costs):
    half, first = sum(costs) / 2, 0
    for cut, cost in enumerate(costs, start=1):
        first += cost
        if first >= half:
            return min(cut, len(costs) - 1)
