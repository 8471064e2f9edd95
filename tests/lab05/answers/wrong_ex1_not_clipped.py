"""Thinks that every kernel in the list lies inside the period."""


def busy_percent(kernels, begin, end):
    busy, reached = 0.0, None
    for start, stop in sorted(kernels):
        if reached is not None:
            start = max(start, reached)
        if stop > start:
            busy += stop - start
            reached = stop
    return 100 * busy / (end - begin)
