"""Thinks that the kernels come in the order in which they started."""


def busy_percent(kernels, begin, end):
    busy, reached = 0.0, begin
    for start, stop in kernels:
        start, stop = max(start, reached), min(stop, end)
        if stop > start:
            busy += stop - start
            reached = stop
    return 100 * busy / (end - begin)
