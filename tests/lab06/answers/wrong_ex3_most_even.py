"""Takes the most even cut, whatever it copies."""


def choose_cut(costs, most):
    def uneven(cut):
        first = sum(c.forward + c.backward for c in costs[:cut])
        second = sum(c.forward + c.backward for c in costs[cut:])
        return max(first, second) / max(min(first, second), 1e-9)

    best = min(range(1, len(costs)), key=uneven)
    return best if uneven(best) <= most else None
