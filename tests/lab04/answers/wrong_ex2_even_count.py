"""Takes the upper of the two in the middle."""

import statistics


def summary(seconds):
    ordered = sorted(seconds)
    spread = statistics.stdev(seconds) if len(seconds) > 1 else 0.0
    return {"median": ordered[len(ordered) // 2], "mean": sum(seconds) / len(seconds), "spread": spread}
