"""Asks the timeline when each device was busy."""


def copy_share(timeline):
    busy = intervals.union(each for device in timeline.devices for each in timeline.busy_times(device))
    copies = intervals.union((e.start, e.end) for e in timeline.events if e.kind == "d2d")
    hidden = intervals.length(intervals.common(copies, busy))
    return (intervals.length(copies) - hidden) / (timeline.end - timeline.begin)
