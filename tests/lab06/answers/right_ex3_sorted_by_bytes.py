"""Goes through the cuts from the fewest bytes on, and takes the first that is even enough."""


def choose_cut(costs, most):
    times = [c.forward + c.backward for c in costs]
    for cut in sorted(range(1, len(costs)), key=lambda cut: costs[cut - 1].output):
        slow, fast = sorted((sum(times[:cut]), sum(times[cut:])), reverse=True)
        if slow <= most * fast:
            return cut
