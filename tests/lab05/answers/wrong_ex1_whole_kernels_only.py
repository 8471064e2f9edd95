"""Thinks that a kernel which lies partly outside the period does not belong to it."""


def busy_percent(kernels, begin, end):
    busy, reached = 0.0, begin
    for start, stop in sorted(kernels):
        if start < begin or stop > end:
            continue
        start = max(start, reached)
        if stop > start:
            busy += stop - start
            reached = stop
    return 100 * busy / (end - begin)
