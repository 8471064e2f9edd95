"""Returns the three numbers without their names."""

import statistics


def summary(seconds):
    spread = statistics.stdev(seconds) if len(seconds) > 1 else 0.0
    return statistics.median(seconds), statistics.mean(seconds), spread
