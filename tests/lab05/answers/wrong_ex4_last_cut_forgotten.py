"""Thinks that range includes its end, so that the last possible cut is never tried."""


def best_cut(costs):
    best = 1
    for cut in range(1, len(costs) - 1):
        if max(sum(costs[:cut]), sum(costs[cut:])) < max(sum(costs[:best]), sum(costs[best:])):
            best = cut
    return best
