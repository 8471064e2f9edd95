"""Sorts what it was given in place."""

import statistics


def summary(seconds):
    seconds.sort()
    half = len(seconds) // 2
    median = (seconds[half] + seconds[-half - 1]) / 2
    spread = statistics.stdev(seconds) if len(seconds) > 1 else 0.0
    return {"median": median, "mean": sum(seconds) / len(seconds), "spread": spread}
