"""Cuts time at every start and end, and asks for each piece whether a kernel covers it. Prints as it goes."""


def busy_percent(kernels, begin, end):
    edges = sorted({begin, end} | {min(max(t, begin), end) for kernel in kernels for t in kernel})
    busy = 0
    for left, right in zip(edges, edges[1:]):
        if any(start <= left and right <= stop for start, stop in kernels):
            busy = busy + (right - left)
    print(busy, "of", end - begin, "seconds")
    return 100.0 * busy / (end - begin)
