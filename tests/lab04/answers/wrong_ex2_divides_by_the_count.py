"""Uses the standard deviation of a population, as numpy does unless told."""

import numpy as np


def summary(seconds):
    return {"median": float(np.median(seconds)), "mean": float(np.mean(seconds)), "spread": float(np.std(seconds))}
