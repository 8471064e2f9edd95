"""Calls the spread by another name."""

import statistics


def summary(seconds):
    spread = statistics.stdev(seconds) if len(seconds) > 1 else 0.0
    return {"median": statistics.median(seconds), "mean": statistics.mean(seconds), "std": spread}
