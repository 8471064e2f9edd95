"""Thinks that a device without a value need not be told about."""


def mean_utilisation(samples):
    values = {}
    for device, percent in samples:
        if percent is not None:
            values.setdefault(device, []).append(percent)
    return {device: sum(v) / len(v) for device, v in values.items()}
