"""Thinks that no answer from the driver means an idle device."""


def mean_utilisation(samples):
    values = {}
    for device, percent in samples:
        values.setdefault(device, []).append(percent or 0)
    return {device: sum(v) / len(v) for device, v in values.items()}
