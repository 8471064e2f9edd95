"""Forgets that one time has no standard deviation."""

import statistics


def summary(seconds):
    return {
        "median": statistics.median(seconds),
        "mean": statistics.mean(seconds),
        "spread": statistics.stdev(seconds),
    }
