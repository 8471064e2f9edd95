"""Returns the number of the last layer of the first part, counted from 0, which is one less than the cut."""


def best_cut(costs):
    def heavier(cut):
        return max(sum(costs[:cut]), sum(costs[cut:]))

    return min(range(1, len(costs)), key=heavier) - 1
