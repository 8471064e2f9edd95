"""Sweeps over starts and ends, and counts how many kernels run at the moment. Returns a NumPy number."""

import warnings

import numpy as np


def busy_percent(kernels, begin, end):
    if not kernels:
        warnings.warn("no kernels")
        return np.float64(0)
    changes = []
    for start, stop in kernels:
        start, stop = np.clip([start, stop], begin, end)
        changes += [(start, 1), (stop, -1)]
    running, busy, since = 0, 0.0, begin
    for moment, change in sorted(changes, key=lambda c: (c[0], -c[1])):
        if running:
            busy += moment - since
        running += change
        since = moment
    return np.float64(100 * busy / (end - begin))
