"""Thinks that every period begins at 0, and divides by its end."""


def busy_percent(kernels, begin, end):
    busy, reached = 0.0, begin
    for start, stop in sorted(kernels):
        start, stop = max(start, reached), min(stop, end)
        if stop > start:
            busy += stop - start
            reached = stop
    return 100 * busy / end
