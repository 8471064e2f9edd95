# %% wrong: before_half
# Stops before half of the work is passed, though one layer more may be better.

def best_cut(costs):
    half, first, cut = sum(costs) / 2, 0, 0
    for cost in costs:
        if first + cost > half:
            break
        first += cost
        cut += 1
    return max(cut, 1)


# %% wrong: index_of_last_layer
# Returns the number of the last layer of the first part, counted from 0, which is one less than the cut.

def best_cut(costs):
    def heavier(cut):
        return max(sum(costs[:cut]), sum(costs[cut:]))

    return min(range(1, len(costs)), key=heavier) - 1


# %% wrong: last_cut_forgotten
# Thinks that range includes its end, so that the last possible cut is never tried.

def best_cut(costs):
    best = 1
    for cut in range(1, len(costs) - 1):
        if max(sum(costs[:cut]), sum(costs[cut:])) < max(sum(costs[:best]), sum(costs[best:])):
            best = cut
    return best


# %% wrong: lightest_first_part
# Makes the lighter part as light as possible, which is the worst balance.

def best_cut(costs):
    def lighter(cut):
        return min(sum(costs[:cut]), sum(costs[cut:]))

    return min(range(1, len(costs)), key=lighter)


# %% wrong: middle
# Thinks that half of the layers is half of the work.

def best_cut(costs):
    return len(costs) // 2


# %% wrong: returns_the_cost
# Returns what the heavier part costs, not where to cut.

def best_cut(costs):
    return min(max(sum(costs[:cut]), sum(costs[cut:])) for cut in range(1, len(costs)))


# %% wrong: sorted
# Sorts the layers by cost first, but their order is the order of the computation.

def best_cut(costs):
    costs = sorted(costs, reverse=True)

    def heavier(cut):
        return max(sum(costs[:cut]), sum(costs[cut:]))

    return min(range(1, len(costs)), key=heavier)


# %% wrong: until_half
# Stops at the first layer with which half of the work is reached, though one layer less may be better.

def best_cut(costs):
    half, first = sum(costs) / 2, 0
    for cut, cost in enumerate(costs, start=1):
        first += cost
        if first >= half:
            return min(cut, len(costs) - 1)


# %% right: from_the_back
# Tries the cuts from the last to the first, so that it finds another one of those that are equally good.

import numpy as np


def best_cut(costs):
    cuts = np.arange(len(costs) - 1, 0, -1)
    heavier = [max(np.sum(costs[:cut]), np.sum(costs[cut:])) for cut in cuts]
    return cuts[np.argmin(heavier)]


# %% right: smallest_difference
# Looks for the smallest difference between the parts, which is the same thing.

def best_cut(costs):
    total, first = sum(costs), 0
    best, smallest = None, float("inf")
    for cut, cost in enumerate(costs[:-1], start=1):
        first += cost
        difference = abs(total - 2 * first)
        if difference < smallest:
            best, smallest = cut, difference
    return best


# %% right: tensor_cumsum
# Lets PyTorch add up from the front, and returns an integer.

import torch


def best_cut(costs):
    first = torch.tensor(costs, dtype=torch.float64).cumsum(0)
    heavier = torch.maximum(first, first[-1] - first)[:-1]
    print(heavier)
    return int(heavier.argmin()) + 1
