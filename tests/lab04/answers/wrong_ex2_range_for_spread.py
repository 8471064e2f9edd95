"""Thinks that the spread is the largest less the smallest."""

import statistics


def summary(seconds):
    return {
        "median": statistics.median(seconds),
        "mean": statistics.mean(seconds),
        "spread": max(seconds) - min(seconds),
    }
