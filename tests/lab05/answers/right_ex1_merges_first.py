"""Merges the kernels into stretches that do not touch, then adds up what lies inside."""


def busy_percent(kernels, begin, end):
    merged = []
    for start, stop in sorted(kernels):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], stop)
        else:
            merged.append([start, stop])
    inside = [min(stop, end) - max(start, begin) for start, stop in merged]
    return sum(length for length in inside if length > 0) / (end - begin) * 100
