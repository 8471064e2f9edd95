"""Merges the kernels into a list of times that do not touch, and adds those up."""


def busy_seconds(events, device):
    merged = []
    for event in sorted(events, key=lambda event: event[2]):
        if event[0] != device or event[1] != "kernel":
            continue
        if merged and event[2] <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], event[3])
        else:
            merged.append([event[2], event[3]])
    print(merged)
    return sum(end - start for start, end in merged)
