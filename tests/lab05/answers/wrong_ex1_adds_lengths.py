"""Thinks that the lengths of the kernels add up, so that two at the same moment count twice."""


def busy_percent(kernels, begin, end):
    busy = sum(min(stop, end) - max(start, begin) for start, stop in kernels if stop > begin and start < end)
    return 100 * busy / (end - begin)
