"""Goes through all starts and ends and counts how many kernels run."""


def busy_seconds(events, device):
    changes = []
    for where, kind, start, end in events:
        if where == device and kind == "kernel":
            changes += [(start, 1), (end, -1)]
    busy, running, before = 0, 0, None
    for moment, change in sorted(changes):
        if running > 0:
            busy += moment - before
        running += change
        before = moment
    return busy
