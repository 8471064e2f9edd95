"""Divides by the time in which GPUs compute, not by the span."""


def copy_share(timeline):
    copies = intervals.union((e.start, e.end) for e in timeline.events if e.kind == "d2d")
    kernels = intervals.union((e.start, e.end) for e in timeline.events if e.is_kernel)
    return intervals.length(intervals.without(copies, kernels)) / intervals.length(kernels)
