"""Collects with a defaultdict and takes the mean from the statistics module."""

import statistics
from collections import defaultdict


def mean_utilisation(samples):
    values = defaultdict(list)
    for device, percent in samples:
        values[device] += [] if percent is None else [percent]
    return {device: statistics.mean(known) if known else None for device, known in values.items()}
