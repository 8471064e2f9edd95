"""Counts copies as work."""


def busy_seconds(events, device):
    busy, until = 0.0, 0.0
    for start, end in sorted((start, end) for where, _, start, end in events if where == device):
        busy += max(0.0, end - max(start, until))
        until = max(until, end)
    return busy
