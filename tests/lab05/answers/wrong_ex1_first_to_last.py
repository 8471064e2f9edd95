"""Thinks that a device is busy from its first kernel to its last, so that the gaps count as work."""


def busy_percent(kernels, begin, end):
    if not kernels:
        return 0
    first = max(begin, min(start for start, stop in kernels))
    last = min(end, max(stop for start, stop in kernels))
    return 100 * max(0, last - first) / (end - begin)
