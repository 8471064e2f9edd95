"""Keeps the last value of each device: a later one overwrites an earlier one."""


def mean_utilisation(samples):
    result = {}
    for device, percent in samples:
        if percent is not None or device not in result:
            result[device] = percent
    return result
