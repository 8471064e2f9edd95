# %% wrong: adds_all
# Adds up the lengths of all kernels: overlaps count twice.

def busy_seconds(events, device):
    return sum(end - start for where, kind, start, end in events if where == device and kind == "kernel")


# %% wrong: adjacent_pairs_only
# Takes off the overlap of neighbours, also where a kernel lies inside another.

def busy_seconds(events, device):
    kernels = sorted((s, e) for where, kind, s, e in events if where == device and kind == "kernel")
    busy = sum(end - start for start, end in kernels)
    for (_, end), (start, _) in zip(kernels, kernels[1:], strict=False):
        busy -= max(0.0, end - start)
    return busy


# %% wrong: copies_too
# Counts copies as work.

def busy_seconds(events, device):
    busy, until = 0.0, 0.0
    for start, end in sorted((start, end) for where, _, start, end in events if where == device):
        busy += max(0.0, end - max(start, until))
        until = max(until, end)
    return busy


# %% wrong: every_device
# Does not look at the device.

def busy_seconds(events, device):
    busy, until = 0.0, 0.0
    for start, end in sorted((start, end) for _, kind, start, end in events if kind == "kernel"):
        busy += max(0.0, end - max(start, until))
        until = max(until, end)
    return busy


# %% wrong: first_to_last
# Takes the time from the first start to the last end.

def busy_seconds(events, device):
    kernels = [(start, end) for where, kind, start, end in events if where == device and kind == "kernel"]
    if not kernels:
        return 0.0
    return max(end for _, end in kernels) - min(start for start, _ in kernels)


# %% wrong: inside_moves_back
# After a kernel inside another it goes on from the end of the inner one.

def busy_seconds(events, device):
    busy, until = 0.0, 0.0
    for start, end in sorted((s, e) for where, kind, s, e in events if where == device and kind == "kernel"):
        busy += max(0.0, end - max(start, until))
        until = end
    return busy


# %% wrong: name_inside_another
# Asks whether the name is in the event's: gpu1 gets what gpu10 did.

def busy_seconds(events, device):
    spans = sorted((start, end) for where, kind, start, end in events if device in where and kind == "kernel")
    total, reach = 0.0, float("-inf")
    for start, end in spans:
        total += max(0.0, end - max(start, reach))
        reach = max(reach, end)
    return total


# %% wrong: nothing_is_an_error
# Takes the first kernel without asking whether there is one.

def busy_seconds(events, device):
    kernels = sorted((s, e) for where, kind, s, e in events if where == device and kind == "kernel")
    begin, until = kernels[0]
    busy = 0.0
    for start, end in kernels[1:]:
        if start > until:
            busy += until - begin
            begin, until = start, end
        else:
            until = max(until, end)
    return busy + until - begin


# %% wrong: one_for_each_start
# Puts the kernels into a dict by their start: of two that begin together one is lost.

def busy_seconds(events, device):
    by_start = {start: end for where, kind, start, end in events if where == device and kind == "kernel"}
    total, reach = 0.0, float("-inf")
    for start in sorted(by_start):
        end = by_start[start]
        if end > reach:
            total += end - max(start, reach)
            reach = end
    return total


# %% wrong: overlap_of_each_pair
# Takes off the overlap of each pair: what three kernels do at once is taken off three times.

from itertools import combinations


def busy_seconds(events, device):
    kernels = [(e[2], e[3]) for e in events if e[0] == device and e[1] == "kernel"]
    total = sum(end - start for start, end in kernels)
    for (s1, e1), (s2, e2) in combinations(kernels, 2):
        overlap = min(e1, e2) - max(s1, s2)
        if overlap > 0:
            total -= overlap
    return total


# %% wrong: trusts_the_order
# Thinks that the events come in the order of their start.

def busy_seconds(events, device):
    busy, until = 0.0, 0.0
    for where, kind, start, end in events:
        if where == device and kind == "kernel" and end > until:
            busy += end - max(start, until)
            until = end
    return busy


# %% wrong: whole_seconds
# Counts on a grid of whole and half seconds.

def busy_seconds(events, device):
    taken = set()
    for where, kind, start, end in events:
        if where == device and kind == "kernel":
            taken |= set(range(int(start * 2), int(end * 2)))
    return len(taken) / 2


# %% right: between_neighbouring_moments
# Cuts time at every start and end, and asks for each piece whether a kernel covers it.

def busy_seconds(events, device):
    kernels = [event[2:] for event in events if event[:2] == (device, "kernel")]
    moments = sorted({moment for kernel in kernels for moment in kernel})
    pieces = zip(moments, moments[1:], strict=False)
    return sum(b - a for a, b in pieces if any(start <= a and b <= end for start, end in kernels))


# %% right: counts_those_that_run
# Goes through all starts and ends and counts how many kernels run.

def busy_seconds(events, device):
    changes = []
    for where, kind, start, end in events:
        if where == device and kind == "kernel":
            changes += [(start, 1), (end, -1)]
    busy, running, before = 0, 0, None
    for moment, change in sorted(changes):
        if running > 0:
            busy += moment - before
        running += change
        before = moment
    return busy


# %% right: merging
# Merges the kernels into a list of times that do not touch, and adds those up.

def busy_seconds(events, device):
    merged = []
    for event in sorted(events, key=lambda event: event[2]):
        if event[0] != device or event[1] != "kernel":
            continue
        if merged and event[2] <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], event[3])
        else:
            merged.append([event[2], event[3]])
    print(merged)
    return sum(end - start for start, end in merged)
