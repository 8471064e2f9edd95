"""Takes the time from the first start to the last end."""


def busy_seconds(events, device):
    kernels = [(start, end) for where, kind, start, end in events if where == device and kind == "kernel"]
    if not kernels:
        return 0.0
    return max(end for _, end in kernels) - min(start for start, _ in kernels)
