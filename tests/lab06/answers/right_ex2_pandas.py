"""Uses the table of events."""


def copy_share(timeline):
    table = timeline.kernels()
    between = table[table.kind == "d2d"]
    busy = table[table.kind == "kernel"]
    copies = intervals.union(zip(between.start, between.end))
    kernels = intervals.union(zip(busy.start, busy.end))
    return intervals.length(intervals.without(copies, kernels)) / (1e3 * timeline.span)
