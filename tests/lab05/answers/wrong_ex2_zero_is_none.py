"""Writes `if percent`, which drops the samples in which the device was idle."""


def mean_utilisation(samples):
    values = {}
    for device, percent in samples:
        known = values.setdefault(device, [])
        if percent:
            known.append(percent)
    return {device: sum(v) / len(v) if v else None for device, v in values.items()}
