"""Thinks that half of the layers is half of the work."""


def best_cut(costs):
    return len(costs) // 2
