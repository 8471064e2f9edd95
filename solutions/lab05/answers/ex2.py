# %% wrong: copies_first
# Thinks that a copy always costs time, also while a device computes.

def where_time_goes(timeline, device0, device1):
    busy0, busy1 = timeline.busy_times(device0), timeline.busy_times(device1)
    copies = timeline.copy_times(device0) + timeline.copy_times(device1)

    def covered(moment, times):
        return any(start <= moment < end for start, end in times)

    points = {timeline.begin, timeline.end}
    for times in (busy0, busy1, copies):
        for pair in times:
            points.update(pair)
    points = sorted(points)
    shares = dict.fromkeys(["both", "one", "copy", "host"], 0.0)
    for a, b in zip(points, points[1:]):
        middle = (a + b) / 2
        n = covered(middle, busy0) + covered(middle, busy1)
        part = "copy" if covered(middle, copies) else "both" if n == 2 else "one" if n else "host"
        shares[part] += (b - a) / timeline.span
    return shares


# %% wrong: waits_of_device0
# Takes the causes for which device0 waits, and forgets device1.

def where_time_goes(timeline, device0, device1):
    waits, span = timeline.waits(device0), timeline.span
    both = sum(
        max(0, min(e0, e1) - max(s0, s1))
        for s0, e0 in timeline.busy_times(device0)
        for s1, e1 in timeline.busy_times(device1)
    )
    return {
        "both": both / span,
        "one": (timeline.busy(device0) - both + waits["another device"]) / span,
        "copy": waits["a copy"] / span,
        "host": waits["the host"] / span,
    }


# %% wrong: seconds
# Returns seconds where shares are asked for.

def where_time_goes(timeline, device0, device1):
    busy0, busy1 = timeline.busy_times(device0), timeline.busy_times(device1)
    copies = timeline.copy_times(device0) + timeline.copy_times(device1)

    def covered(moment, times):
        return any(start <= moment < end for start, end in times)

    points = {timeline.begin, timeline.end}
    for times in (busy0, busy1, copies):
        for pair in times:
            points.update(pair)
    points = sorted(points)
    shares = dict.fromkeys(["both", "one", "copy", "host"], 0.0)
    for a, b in zip(points, points[1:]):
        middle = (a + b) / 2
        n = covered(middle, busy0) + covered(middle, busy1)
        part = "both" if n == 2 else "one" if n == 1 else "copy" if covered(middle, copies) else "host"
        shares[part] += b - a
    return shares


# %% wrong: edges_without_the_ends
# Begins with the first kernel and ends with the last, so that the host's time around them is lost.

def where_time_goes(timeline, device0, device1):
    busy0, busy1 = timeline.busy_times(device0), timeline.busy_times(device1)
    copies = timeline.copy_times(device0) + timeline.copy_times(device1)

    def covered(moment, times):
        return any(start <= moment < end for start, end in times)

    points = set()
    for times in (busy0, busy1, copies):
        for pair in times:
            points.update(pair)
    points = sorted(points)
    shares = dict.fromkeys(["both", "one", "copy", "host"], 0.0)
    for a, b in zip(points, points[1:]):
        middle = (a + b) / 2
        n = covered(middle, busy0) + covered(middle, busy1)
        part = "both" if n == 2 else "one" if n == 1 else "copy" if covered(middle, copies) else "host"
        shares[part] += (b - a) / timeline.span
    return shares


# %% wrong: copies_twice
# Adds up the copies of both devices, so that a copy between them counts twice.

def where_time_goes(timeline, device0, device1):
    span = timeline.span
    busy0, busy1 = timeline.busy(device0), timeline.busy(device1)
    both = 0
    for s0, e0 in timeline.busy_times(device0):
        for s1, e1 in timeline.busy_times(device1):
            both += max(0, min(e0, e1) - max(s0, s1))
    one = busy0 + busy1 - 2 * both
    copy = sum(e - s for d in (device0, device1) for s, e in timeline.copy_times(d))
    return {"both": both / span, "one": one / span, "copy": copy / span, "host": (span - both - one - copy) / span}


# %% wrong: one_counts_both
# Counts the time in which at least one computes as one, so that the four make more than 1.

def where_time_goes(timeline, device0, device1):
    busy0, busy1 = timeline.busy_times(device0), timeline.busy_times(device1)
    copies = timeline.copy_times(device0) + timeline.copy_times(device1)

    def covered(moment, times):
        return any(start <= moment < end for start, end in times)

    points = {timeline.begin, timeline.end}
    for times in (busy0, busy1, copies):
        for pair in times:
            points.update(pair)
    points = sorted(points)
    shares = dict.fromkeys(["both", "one", "copy", "host"], 0.0)
    for a, b in zip(points, points[1:]):
        middle = (a + b) / 2
        n = covered(middle, busy0) + covered(middle, busy1)
        if n == 2:
            shares["both"] += (b - a) / timeline.span
        part = "one" if n else "copy" if covered(middle, copies) else "host"
        shares[part] += (b - a) / timeline.span
    return shares


# %% wrong: one_is_the_rest
# Takes for one whatever is left, so that the host never costs anything.

def where_time_goes(timeline, device0, device1):
    busy0, busy1 = timeline.busy_times(device0), timeline.busy_times(device1)
    copies = timeline.copy_times(device0) + timeline.copy_times(device1)

    def covered(moment, times):
        return any(start <= moment < end for start, end in times)

    points = {timeline.begin, timeline.end}
    for times in (busy0, busy1, copies):
        for pair in times:
            points.update(pair)
    points = sorted(points)
    shares = dict.fromkeys(["both", "one", "copy", "host"], 0.0)
    for a, b in zip(points, points[1:]):
        middle = (a + b) / 2
        n = covered(middle, busy0) + covered(middle, busy1)
        part = "both" if n == 2 else "copy" if n == 0 and covered(middle, copies) else "one"
        shares[part] += (b - a) / timeline.span
    return shares


# %% wrong: copies_of_device0_only
# Looks at the copies of device0 only.

def where_time_goes(timeline, device0, device1):
    busy0, busy1 = timeline.busy_times(device0), timeline.busy_times(device1)
    copies = timeline.copy_times(device0)

    def covered(moment, times):
        return any(start <= moment < end for start, end in times)

    points = {timeline.begin, timeline.end}
    for times in (busy0, busy1, copies):
        for pair in times:
            points.update(pair)
    points = sorted(points)
    shares = dict.fromkeys(["both", "one", "copy", "host"], 0.0)
    for a, b in zip(points, points[1:]):
        middle = (a + b) / 2
        n = covered(middle, busy0) + covered(middle, busy1)
        part = "both" if n == 2 else "one" if n == 1 else "copy" if covered(middle, copies) else "host"
        shares[part] += (b - a) / timeline.span
    return shares


# %% wrong: thousand_samples
# Looks a thousand times, as a monitor would, and misses what is between.

def where_time_goes(timeline, device0, device1):
    shares = {"both": 0, "one": 0, "copy": 0, "host": 0}
    inside = lambda t, times: any(s <= t < e for s, e in times)
    for k in range(1000):
        t = timeline.begin + k * timeline.span / 1000
        n = inside(t, timeline.busy_times(device0)) + inside(t, timeline.busy_times(device1))
        copying = inside(t, timeline.copy_times(device0)) or inside(t, timeline.copy_times(device1))
        shares["both" if n == 2 else "one" if n == 1 else "copy" if copying else "host"] += 1 / 1000
    return shares


# %% wrong: divides_by_the_end
# Thinks that every recording begins at 0.

def where_time_goes(timeline, device0, device1):
    busy0, busy1 = timeline.busy_times(device0), timeline.busy_times(device1)
    copies = timeline.copy_times(device0) + timeline.copy_times(device1)

    def covered(moment, times):
        return any(start <= moment < end for start, end in times)

    points = {timeline.begin, timeline.end}
    for times in (busy0, busy1, copies):
        for pair in times:
            points.update(pair)
    points = sorted(points)
    shares = dict.fromkeys(["both", "one", "copy", "host"], 0.0)
    for a, b in zip(points, points[1:]):
        middle = (a + b) / 2
        n = covered(middle, busy0) + covered(middle, busy1)
        part = "both" if n == 2 else "one" if n == 1 else "copy" if covered(middle, copies) else "host"
        shares[part] += (b - a) / timeline.end
    return shares


# %% right: sets_of_times
# Uses the course's module for sets of times.

from utils.observe.intervals import common, length, union, without


def where_time_goes(timeline, device0, device1):
    busy0, busy1 = timeline.busy_times(device0), timeline.busy_times(device1)
    copies = union(timeline.copy_times(device0) + timeline.copy_times(device1))
    both, any_busy = common(busy0, busy1), union(busy0 + busy1)
    copying = without(copies, any_busy)
    seconds = {"both": length(both), "one": length(any_busy) - length(both), "copy": length(copying)}
    seconds["host"] = timeline.span - sum(seconds.values())
    return {part: s / timeline.span for part, s in seconds.items()}


# %% right: waits_and_common
# Takes copy and host from what the timeline says of waiting, and the rest from each device's compute time.

import warnings


def where_time_goes(timeline, device0, device1):
    span = timeline.span
    both = 0.0
    for a, b in timeline.busy_times(device0):
        for c, d in timeline.busy_times(device1):
            if min(b, d) > max(a, c):
                both += min(b, d) - max(a, c)
    one = timeline.busy(device0) + timeline.busy(device1) - 2 * both
    host = min(timeline.waits(device0)["the host"], timeline.waits(device1)["the host"])
    edges = sorted({m for d in (device0, device1) for times in (timeline.busy_times(d), timeline.copy_times(d)) for p in times for m in p} | {timeline.begin, timeline.end})
    host = 0.0
    for left, right in zip(edges[:-1], edges[1:]):
        quiet = True
        for d in (device0, device1):
            for start, end in timeline.busy_times(d) + timeline.copy_times(d):
                quiet = quiet and not (start <= left and right <= end)
        host += (right - left) * quiet
    warnings.warn("nothing is as slow as a host")
    copy = span - both - one - host
    return {"both": both / span, "one": one / span, "copy": copy / span, "host": host / span}


# %% right: changes
# Sweeps over starts and ends, and counts what is open.

def where_time_goes(timeline, device0, device1):
    changes = []
    for kind, times in (
        ("kernels", timeline.busy_times(device0)),
        ("kernels", timeline.busy_times(device1)),
        ("copies", timeline.copy_times(device0)),
        ("copies", timeline.copy_times(device1)),
    ):
        for start, end in times:
            changes.append((start, kind, 1))
            changes.append((end, kind, -1))
    changes.append((timeline.end, "copies", 0))
    changes.sort(key=lambda change: change[0])
    going_on = {"kernels": 0, "copies": 0}
    result = {"both": 0, "one": 0, "copy": 0, "host": 0}
    last = timeline.begin
    for moment, kind, change in changes:
        if going_on["kernels"] == 2:
            state = "both"
        elif going_on["kernels"] == 1:
            state = "one"
        elif going_on["copies"] > 0:
            state = "copy"
        else:
            state = "host"
        result[state] += moment - last
        last = moment
        going_on[kind] += change
    return {state: seconds / (timeline.end - timeline.begin) for state, seconds in result.items()}


# %% wrong: pairs_the_kernels
# Lays the first kernel of one device beside the first of the other, the second beside the second, and so on.

def where_time_goes(timeline, device0, device1):
    def length(pieces):
        total, until = 0, timeline.begin
        for start, end in sorted(pieces):
            total, until = total + max(0, end - max(start, until)), max(until, end)
        return total

    first, second = timeline.busy_times(device0), timeline.busy_times(device1)
    copies = timeline.copy_times(device0) + timeline.copy_times(device1)
    both = sum(max(0, min(b, d) - max(a, c)) for (a, b), (c, d) in zip(first, second, strict=False))
    busy, anything = length(first + second), length(first + second + copies)
    whole = timeline.end - timeline.begin
    return {
        "both": both / whole,
        "one": (busy - both) / whole,
        "copy": (anything - busy) / whole,
        "host": 1 - anything / whole,
    }


# %% wrong: nothing_at_all_is_zero
# Returns zeros where the recording is empty, though all of its time is the host's.

def where_time_goes(timeline, device0, device1):
    from itertools import pairwise

    busy0, busy1 = timeline.busy_times(device0), timeline.busy_times(device1)
    copies = timeline.copy_times(device0) + timeline.copy_times(device1)

    if not (busy0 or busy1 or copies):
        return {"both": 0.0, "one": 0.0, "copy": 0.0, "host": 0.0}

    def at(moment, times):
        return any(start <= moment < end for start, end in times)

    edges = {timeline.begin, timeline.end}
    for start, end in busy0 + busy1 + copies:
        edges |= {start, end}
    edges = sorted(edges)

    shares = {"both": 0.0, "one": 0.0, "copy": 0.0, "host": 0.0}
    for left, right in pairwise(edges):
        middle = (left + right) / 2  # between two edges nothing changes
        computing = at(middle, busy0) + at(middle, busy1)
        part = ("copy" if at(middle, copies) else "host", "one", "both")[computing]
        shares[part] += (right - left) / timeline.span
    return shares


# %% wrong: copies_are_added_up
# Adds up the copies of both devices, and takes off what a kernel covers, as if no two copies overlapped.

def where_time_goes(timeline, device0, device1):
    def length(times):
        return sum(end - start for start, end in times)

    def common(one, other):
        pairs = [(max(a, c), min(b, d)) for a, b in one for c, d in other]
        return [(start, end) for start, end in pairs if start < end]

    busy0, busy1 = timeline.busy_times(device0), timeline.busy_times(device1)
    both = common(busy0, busy1)
    one = length(busy0) + length(busy1) - 2 * length(both)
    copies = sorted({*timeline.copy_times(device0), *timeline.copy_times(device1)})  # one between both is there twice
    covered = length(common(copies, busy0)) + length(common(copies, busy1)) - length(common(copies, both))
    parts = {"both": length(both), "one": one, "copy": length(copies) - covered}
    parts["host"] = timeline.span - sum(parts.values())
    return {part: seconds / timeline.span for part, seconds in parts.items()}
