"""Leaves out what is unknown in the sum, but not in what it divides by."""


def mean_utilisation(samples):
    result = {}
    for name in {device for device, _ in samples}:
        mine = [percent for device, percent in samples if device == name]
        known = [percent for percent in mine if percent is not None]
        result[name] = sum(known) / len(mine) if known else None
    return result
