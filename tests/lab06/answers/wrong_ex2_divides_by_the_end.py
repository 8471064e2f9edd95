"""Divides by the end of the timeline, as if each began at 0."""


def copy_share(timeline):
    copies = intervals.union((e.start, e.end) for e in timeline.events if e.kind == "d2d")
    kernels = intervals.union((e.start, e.end) for e in timeline.events if e.is_kernel)
    return intervals.length(intervals.without(copies, kernels)) / timeline.end
