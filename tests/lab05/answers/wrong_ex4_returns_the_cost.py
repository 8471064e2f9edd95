"""Returns what the heavier part costs, not where to cut."""


def best_cut(costs):
    return min(max(sum(costs[:cut]), sum(costs[cut:])) for cut in range(1, len(costs)))
