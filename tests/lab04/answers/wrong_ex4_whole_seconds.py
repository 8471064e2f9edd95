"""Counts on a grid of whole and half seconds."""


def busy_seconds(events, device):
    taken = set()
    for where, kind, start, end in events:
        if where == device and kind == "kernel":
            taken |= set(range(int(start * 2), int(end * 2)))
    return len(taken) / 2
