# %% wrong: all_layers_on_one_device
# Allows a cut that leaves the second device without layers.

def choose_cut(costs, most):
    best = None
    for cut in range(1, len(costs) + 1):
        first = sum(c.forward + c.backward for c in costs[:cut])
        second = sum(c.forward + c.backward for c in costs[cut:])
        if min(first, second) == 0 or max(first, second) <= most * min(first, second):
            if best is None or costs[cut - 1].output < costs[best - 1].output:
                best = cut
    return best


# %% wrong: all_outputs
# Adds up the outputs of all layers on the first device.

def choose_cut(costs, most):
    best = None
    for cut in range(1, len(costs)):
        first = sum(c.forward + c.backward for c in costs[:cut])
        second = sum(c.forward + c.backward for c in costs[cut:])
        if max(first, second) <= most * min(first, second):
            if best is None or sum(c.output for c in costs[:cut]) < sum(c.output for c in costs[:best]):
                best = cut
    return best


# %% wrong: difference_for_ratio
# Takes the difference of the two times for how many times as long.

def choose_cut(costs, most):
    best = None
    for cut in range(1, len(costs)):
        first = sum(c.forward + c.backward for c in costs[:cut])
        second = sum(c.forward + c.backward for c in costs[cut:])
        if abs(first - second) <= most:
            if best is None or costs[cut - 1].output < costs[best - 1].output:
                best = cut
    return best


# %% wrong: first_device_only
# Thinks that only the first device can be the slower one.

def choose_cut(costs, most):
    best = None
    for cut in range(1, len(costs)):
        first = sum(c.forward + c.backward for c in costs[:cut])
        second = sum(c.forward + c.backward for c in costs[cut:])
        if first <= most * second:
            if best is None or costs[cut - 1].output < costs[best - 1].output:
                best = cut
    return best


# %% wrong: forward_only
# Forgets the backward pass.

def choose_cut(costs, most):
    best = None
    for cut in range(1, len(costs)):
        first = sum(c.forward for c in costs[:cut])
        second = sum(c.forward for c in costs[cut:])
        if max(first, second) <= most * min(first, second):
            if best is None or costs[cut - 1].output < costs[best - 1].output:
                best = cut
    return best


# %% wrong: index_of_the_last_layer
# Returns the index of the last layer on the first device.

def choose_cut(costs, most):
    best = None
    for cut in range(1, len(costs)):
        first = sum(c.forward + c.backward for c in costs[:cut])
        second = sum(c.forward + c.backward for c in costs[cut:])
        if max(first, second) <= most * min(first, second):
            if best is None or costs[cut - 1].output < costs[best - 1].output:
                best = cut
    return None if best is None else best - 1


# %% wrong: last_cut_forgotten
# Stops one cut too early.

def choose_cut(costs, most):
    best = None
    for cut in range(1, len(costs) - 1):
        first = sum(c.forward + c.backward for c in costs[:cut])
        second = sum(c.forward + c.backward for c in costs[cut:])
        if max(first, second) <= most * min(first, second):
            if best is None or costs[cut - 1].output < costs[best - 1].output:
                best = cut
    return best


# %% wrong: limit_ignored
# Takes the cut that copies least, however uneven.

def choose_cut(costs, most):
    best = None
    for cut in range(1, len(costs)):
        first = sum(c.forward + c.backward for c in costs[:cut])
        second = sum(c.forward + c.backward for c in costs[cut:])
        if True:
            if best is None or costs[cut - 1].output < costs[best - 1].output:
                best = cut
    return best


# %% wrong: most_even
# Takes the most even cut, whatever it copies.

def choose_cut(costs, most):
    def uneven(cut):
        first = sum(c.forward + c.backward for c in costs[:cut])
        second = sum(c.forward + c.backward for c in costs[cut:])
        return max(first, second) / max(min(first, second), 1e-9)

    best = min(range(1, len(costs)), key=uneven)
    return best if uneven(best) <= most else None


# %% wrong: number_of_layers
# Takes the number of layers for the work.

def choose_cut(costs, most):
    best = None
    for cut in range(1, len(costs)):
        first = cut
        second = len(costs) - cut
        if max(first, second) <= most * min(first, second):
            if best is None or costs[cut - 1].output < costs[best - 1].output:
                best = cut
    return best


# %% wrong: output_after_the_cut
# Takes the output of the first layer behind the cut.

def choose_cut(costs, most):
    best = None
    for cut in range(1, len(costs)):
        first = sum(c.forward + c.backward for c in costs[:cut])
        second = sum(c.forward + c.backward for c in costs[cut:])
        if max(first, second) <= most * min(first, second):
            if best is None or costs[cut].output < costs[best].output:
                best = cut
    return best


# %% wrong: raises_for_none
# Lets min() raise where no cut is allowed.

def choose_cut(costs, most):
    times = [c.forward + c.backward for c in costs]
    cuts = range(1, len(costs))
    allowed = [c for c in cuts if max(sum(times[:c]), sum(times[c:])) <= most * min(sum(times[:c]), sum(times[c:]))]
    return min(allowed, key=lambda cut: costs[cut - 1].output)


# %% wrong: strictly_below
# Thinks that exactly as uneven as allowed is too uneven.

def choose_cut(costs, most):
    best = None
    for cut in range(1, len(costs)):
        first = sum(c.forward + c.backward for c in costs[:cut])
        second = sum(c.forward + c.backward for c in costs[cut:])
        if max(first, second) < most * min(first, second):
            if best is None or costs[cut - 1].output < costs[best - 1].output:
                best = cut
    return best


# %% wrong: zero_for_none
# Returns 0 where no cut is allowed.

def choose_cut(costs, most):
    best = 0
    for cut in range(1, len(costs)):
        first = sum(c.forward + c.backward for c in costs[:cut])
        second = sum(c.forward + c.backward for c in costs[cut:])
        if max(first, second) <= most * min(first, second):
            if not best or costs[cut - 1].output < costs[best - 1].output:
                best = cut
    return best


# %% right: loop
# One loop that remembers the best.

def choose_cut(costs, most):
    best = None
    for cut in range(1, len(costs)):
        first = sum(c.forward + c.backward for c in costs[:cut])
        second = sum(c.forward + c.backward for c in costs[cut:])
        if max(first, second) <= most * min(first, second):
            if best is None or costs[cut - 1].output < costs[best - 1].output:
                best = cut
    return best


# %% right: running_sums
# Running sums from itertools, and tuples that compare by bytes first.

from itertools import accumulate


def choose_cut(costs, most):
    until = list(accumulate(c.forward + c.backward for c in costs))
    found = []
    for index, (first, cost) in enumerate(zip(until[:-1], costs)):
        second = until[-1] - first
        if first <= most * second and second <= most * first:
            found.append((cost.output, index + 1))
    return min(found)[1] if found else None


# %% right: sorted_by_bytes
# Goes through the cuts from the fewest bytes on, and takes the first that is even enough.

def choose_cut(costs, most):
    times = [c.forward + c.backward for c in costs]
    for cut in sorted(range(1, len(costs)), key=lambda cut: costs[cut - 1].output):
        slow, fast = sorted((sum(times[:cut]), sum(times[cut:])), reverse=True)
        if slow <= most * fast:
            return cut
