"""Stops before half of the work is passed, though one layer more may be better."""


def best_cut(costs):
    half, first, cut = sum(costs) / 2, 0, 0
    for cost in costs:
        if first + cost > half:
            break
        first += cost
        cut += 1
    return max(cut, 1)
