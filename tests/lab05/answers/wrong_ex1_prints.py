"""Thinks that printing a result is the same as returning it."""


def busy_percent(kernels, begin, end):
    busy, reached = 0.0, begin
    for start, stop in sorted(kernels):
        start, stop = max(start, reached), min(stop, end)
        if stop > start:
            busy += stop - start
            reached = stop
    print(100 * busy / (end - begin), "%")
