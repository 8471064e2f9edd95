"""Thinks that the events come in the order of their start."""


def busy_seconds(events, device):
    busy, until = 0.0, 0.0
    for where, kind, start, end in events:
        if where == device and kind == "kernel" and end > until:
            busy += end - max(start, until)
            until = end
    return busy
