"""Adds up the copies one by one, so that two at the same moment count twice."""


def copy_share(timeline):
    kernels = intervals.union((e.start, e.end) for e in timeline.events if e.is_kernel)
    total = 0.0
    for e in timeline.events:
        if e.kind == "d2d":
            total += intervals.length(intervals.without([(e.start, e.end)], kernels))
    return total / timeline.span
