"""After a kernel inside another it goes on from the end of the inner one."""


def busy_seconds(events, device):
    busy, until = 0.0, 0.0
    for start, end in sorted((s, e) for where, kind, s, e in events if where == device and kind == "kernel"):
        busy += max(0.0, end - max(start, until))
        until = end
    return busy
