"""Thinks that the kernel that started last also ends last, so a short one inside a long one hides the rest."""


def busy_percent(kernels, begin, end):
    merged = []
    for start, stop in sorted(kernels):
        start, stop = max(start, begin), min(stop, end)
        if stop <= start:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], stop)
        else:
            merged.append((start, stop))
    return 100 * sum(stop - start for start, stop in merged) / (end - begin)
