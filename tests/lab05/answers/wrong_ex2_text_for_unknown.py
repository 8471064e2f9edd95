"""Thinks that what a table shows is what a function should return, and writes the text n/a."""


def mean_utilisation(samples):
    values = {}
    for device, percent in samples:
        known = values.setdefault(device, [])
        if percent is not None:
            known.append(percent)
    return {device: sum(v) / len(v) if v else "n/a" for device, v in values.items()}
