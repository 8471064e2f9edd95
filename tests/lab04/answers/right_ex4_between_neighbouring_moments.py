"""Cuts time at every start and end, and asks for each piece whether a kernel covers it."""


def busy_seconds(events, device):
    kernels = [event[2:] for event in events if event[:2] == (device, "kernel")]
    moments = sorted({moment for kernel in kernels for moment in kernel})
    pieces = zip(moments, moments[1:], strict=False)
    return sum(b - a for a, b in pieces if any(start <= a and b <= end for start, end in kernels))
