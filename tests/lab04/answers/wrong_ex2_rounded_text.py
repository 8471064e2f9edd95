"""Returns text, rounded for people."""

import statistics


def summary(seconds):
    spread = statistics.stdev(seconds) if len(seconds) > 1 else 0.0
    return {
        "median": f"{statistics.median(seconds):.1f} s",
        "mean": f"{statistics.mean(seconds):.1f} s",
        "spread": f"{spread:.1f} s",
    }
