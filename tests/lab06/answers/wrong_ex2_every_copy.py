"""Counts copies to and from the CPU too."""


def copy_share(timeline):
    copies = intervals.union((e.start, e.end) for e in timeline.events if not e.is_kernel)
    kernels = intervals.union((e.start, e.end) for e in timeline.events if e.is_kernel)
    return intervals.length(intervals.without(copies, kernels)) / timeline.span
