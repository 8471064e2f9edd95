"""Looks only at the kernels of the device that gives the copy."""


def copy_share(timeline):
    total = 0.0
    for device in timeline.devices:
        copies = intervals.union((e.start, e.end) for e in timeline.events if e.kind == "d2d" and e.device == device)
        total += intervals.length(intervals.without(copies, timeline.busy_times(device)))
    return total / timeline.span
