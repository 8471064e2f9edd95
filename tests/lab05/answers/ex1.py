# %% wrong: adds_lengths
# Thinks that the lengths of the kernels add up, so that two at the same moment count twice.

def busy_percent(kernels, begin, end):
    busy = sum(min(stop, end) - max(start, begin) for start, stop in kernels if stop > begin and start < end)
    return 100 * busy / (end - begin)


# %% wrong: divides_by_end
# Thinks that every period begins at 0, and divides by its end.

def busy_percent(kernels, begin, end):
    busy, reached = 0.0, begin
    for start, stop in sorted(kernels):
        start, stop = max(start, reached), min(stop, end)
        if stop > start:
            busy += stop - start
            reached = stop
    return 100 * busy / end


# %% wrong: first_to_last
# Thinks that a device is busy from its first kernel to its last, so that the gaps count as work.

def busy_percent(kernels, begin, end):
    if not kernels:
        return 0
    first = max(begin, min(start for start, stop in kernels))
    last = min(end, max(stop for start, stop in kernels))
    return 100 * max(0, last - first) / (end - begin)


# %% wrong: never_above_100
# Thinks that counting an overlap twice is mended by cutting the percent off at 100.

def busy_percent(kernels, begin, end):
    busy = 0
    for start, stop in kernels:
        busy += max(0, min(stop, end) - max(start, begin))
    return min(100, 100 * busy / (end - begin))


# %% wrong: not_clipped
# Thinks that every kernel in the list lies inside the period.

def busy_percent(kernels, begin, end):
    busy, reached = 0.0, None
    for start, stop in sorted(kernels):
        if reached is not None:
            start = max(start, reached)
        if stop > start:
            busy += stop - start
            reached = stop
    return 100 * busy / (end - begin)


# %% wrong: not_sorted
# Thinks that the kernels come in the order in which they started.

def busy_percent(kernels, begin, end):
    busy, reached = 0.0, begin
    for start, stop in kernels:
        start, stop = max(start, reached), min(stop, end)
        if stop > start:
            busy += stop - start
            reached = stop
    return 100 * busy / (end - begin)


# %% wrong: prints
# Thinks that printing a result is the same as returning it.

def busy_percent(kernels, begin, end):
    busy, reached = 0.0, begin
    for start, stop in sorted(kernels):
        start, stop = max(start, reached), min(stop, end)
        if stop > start:
            busy += stop - start
            reached = stop
    print(100 * busy / (end - begin), "%")


# %% wrong: share_not_percent
# Returns the share, 0 to 1, where the percent is asked for.

def busy_percent(kernels, begin, end):
    busy, reached = 0.0, begin
    for start, stop in sorted(kernels):
        start, stop = max(start, reached), min(stop, end)
        if stop > start:
            busy += stop - start
            reached = stop
    return busy / (end - begin)


# %% wrong: short_inside_long
# Thinks that the kernel that started last also ends last, so a short one inside a long one hides the rest.

def busy_percent(kernels, begin, end):
    merged = []
    for start, stop in sorted(kernels):
        start, stop = max(start, begin), min(stop, end)
        if stop <= start:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], stop)
        else:
            merged.append((start, stop))
    return 100 * sum(stop - start for start, stop in merged) / (end - begin)


# %% wrong: whole_kernels_only
# Thinks that a kernel which lies partly outside the period does not belong to it.

def busy_percent(kernels, begin, end):
    busy, reached = 0.0, begin
    for start, stop in sorted(kernels):
        if start < begin or stop > end:
            continue
        start = max(start, reached)
        if stop > start:
            busy += stop - start
            reached = stop
    return 100 * busy / (end - begin)


# %% right: counts_running
# Sweeps over starts and ends, and counts how many kernels run at the moment. Returns a NumPy number.

import warnings

import numpy as np


def busy_percent(kernels, begin, end):
    if not kernels:
        warnings.warn("no kernels")
        return np.float64(0)
    changes = []
    for start, stop in kernels:
        start, stop = np.clip([start, stop], begin, end)
        changes += [(start, 1), (stop, -1)]
    running, busy, since = 0, 0.0, begin
    for moment, change in sorted(changes, key=lambda c: (c[0], -c[1])):
        if running:
            busy += moment - since
        running += change
        since = moment
    return np.float64(100 * busy / (end - begin))


# %% right: edges
# Cuts time at every start and end, and asks for each piece whether a kernel covers it. Prints as it goes.

def busy_percent(kernels, begin, end):
    edges = sorted({begin, end} | {min(max(t, begin), end) for kernel in kernels for t in kernel})
    busy = 0
    for left, right in zip(edges, edges[1:]):
        if any(start <= left and right <= stop for start, stop in kernels):
            busy = busy + (right - left)
    print(busy, "of", end - begin, "seconds")
    return 100.0 * busy / (end - begin)


# %% right: merges_first
# Merges the kernels into stretches that do not touch, then adds up what lies inside.

def busy_percent(kernels, begin, end):
    merged = []
    for start, stop in sorted(kernels):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], stop)
        else:
            merged.append([start, stop])
    inside = [min(stop, end) - max(start, begin) for start, stop in merged]
    return sum(length for length in inside if length > 0) / (end - begin) * 100
