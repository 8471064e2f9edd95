"""Takes the element in the middle without putting them in order."""

import statistics


def summary(seconds):
    spread = statistics.stdev(seconds) if len(seconds) > 1 else 0.0
    return {"median": seconds[len(seconds) // 2], "mean": statistics.mean(seconds), "spread": spread}
