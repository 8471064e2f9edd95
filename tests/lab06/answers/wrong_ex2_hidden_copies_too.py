"""Counts copies behind which a GPU computes."""


def copy_share(timeline):
    copies = intervals.union((e.start, e.end) for e in timeline.events if e.kind == "d2d")
    return intervals.length(copies) / timeline.span
