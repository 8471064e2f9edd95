"""Keeps a sum and a count for each device, and prints them."""


def mean_utilisation(samples):
    sums, counts = {}, {}
    for device, percent in samples:
        sums.setdefault(device, 0)
        counts.setdefault(device, 0)
        if percent is not None:
            sums[device] += percent
            counts[device] += 1
    print(sums, counts)
    result = {}
    for device in sums:
        try:
            result[device] = sums[device] / counts[device]
        except ZeroDivisionError:
            result[device] = None
    return result
