"""Thinks that counting an overlap twice is mended by cutting the percent off at 100."""


def busy_percent(kernels, begin, end):
    busy = 0
    for start, stop in kernels:
        busy += max(0, min(stop, end) - max(start, begin))
    return min(100, 100 * busy / (end - begin))
