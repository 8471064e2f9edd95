"""Returns percent."""


def copy_share(timeline):
    copies = intervals.union((e.start, e.end) for e in timeline.events if e.kind == "d2d")
    kernels = intervals.union((e.start, e.end) for e in timeline.events if e.is_kernel)
    return 100 * intervals.length(intervals.without(copies, kernels)) / timeline.span
