"""Tries the cuts from the last to the first, so that it finds another one of those that are equally good."""

import numpy as np


def best_cut(costs):
    cuts = np.arange(len(costs) - 1, 0, -1)
    heavier = [max(np.sum(costs[:cut]), np.sum(costs[cut:])) for cut in cuts]
    return cuts[np.argmin(heavier)]
