"""Thinks that one number describes the machine, and gives each device the mean of all."""


def mean_utilisation(samples):
    known = [percent for _, percent in samples if percent is not None]
    mean = sum(known) / len(known) if known else None
    return {device: mean for device, _ in samples}
