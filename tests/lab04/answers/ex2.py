# %% wrong: divides_by_the_count
# Uses the standard deviation of a population, as numpy does unless told.

import numpy as np


def summary(seconds):
    return {"median": float(np.median(seconds)), "mean": float(np.mean(seconds)), "spread": float(np.std(seconds))}


# %% wrong: equal_times_once
# Sorts a set, in which equal times are there only once.

import statistics


def summary(seconds):
    ordered = sorted(set(seconds))
    return {
        "median": statistics.median(ordered),
        "mean": sum(seconds) / len(seconds),
        "spread": statistics.stdev(seconds) if len(seconds) > 1 else 0.0,
    }


# %% wrong: even_count
# Takes the upper of the two in the middle.

import statistics


def summary(seconds):
    ordered = sorted(seconds)
    spread = statistics.stdev(seconds) if len(seconds) > 1 else 0.0
    return {"median": ordered[len(ordered) // 2], "mean": sum(seconds) / len(seconds), "spread": spread}


# %% wrong: median_of_unsorted
# Takes the element in the middle without putting them in order.

import statistics


def summary(seconds):
    spread = statistics.stdev(seconds) if len(seconds) > 1 else 0.0
    return {"median": seconds[len(seconds) // 2], "mean": statistics.mean(seconds), "spread": spread}


# %% wrong: no_spread_for_two
# Thinks that two times are too few for a standard deviation, too.

import statistics


def summary(seconds):
    seconds = list(seconds)
    if len(seconds) > 2:
        spread = statistics.stdev(seconds)
    else:
        spread = 0.0
    return {"median": statistics.median(seconds), "mean": statistics.mean(seconds), "spread": spread}


# %% wrong: other_names
# Calls the spread by another name.

import statistics


def summary(seconds):
    spread = statistics.stdev(seconds) if len(seconds) > 1 else 0.0
    return {"median": statistics.median(seconds), "mean": statistics.mean(seconds), "std": spread}


# %% wrong: range_for_spread
# Thinks that the spread is the largest less the smallest.

import statistics


def summary(seconds):
    return {
        "median": statistics.median(seconds),
        "mean": statistics.mean(seconds),
        "spread": max(seconds) - min(seconds),
    }


# %% wrong: returns_a_tuple
# Returns the three numbers without their names.

import statistics


def summary(seconds):
    spread = statistics.stdev(seconds) if len(seconds) > 1 else 0.0
    return statistics.median(seconds), statistics.mean(seconds), spread


# %% wrong: rounded_text
# Returns text, rounded for people.

import statistics


def summary(seconds):
    spread = statistics.stdev(seconds) if len(seconds) > 1 else 0.0
    return {
        "median": f"{statistics.median(seconds):.1f} s",
        "mean": f"{statistics.mean(seconds):.1f} s",
        "spread": f"{spread:.1f} s",
    }


# %% wrong: single_time
# Forgets that one time has no standard deviation.

import statistics


def summary(seconds):
    return {
        "median": statistics.median(seconds),
        "mean": statistics.mean(seconds),
        "spread": statistics.stdev(seconds),
    }


# %% wrong: sorts_the_list
# Sorts what it was given in place.

import statistics


def summary(seconds):
    seconds.sort()
    half = len(seconds) // 2
    median = (seconds[half] + seconds[-half - 1]) / 2
    spread = statistics.stdev(seconds) if len(seconds) > 1 else 0.0
    return {"median": median, "mean": sum(seconds) / len(seconds), "spread": spread}


# %% right: by_hand
# Without a module, on a sorted copy.

def summary(seconds):
    ordered = sorted(seconds)
    count = len(ordered)
    mean = sum(ordered) / count
    median = (ordered[count // 2] + ordered[(count - 1) // 2]) / 2
    spread = 0
    if count > 1:
        spread = (sum((value - mean) ** 2 for value in ordered) / (count - 1)) ** 0.5
    return {"median": median, "mean": mean, "spread": spread}


# %% right: numpy
# With numpy, and a print.

import numpy as np


def summary(seconds):
    values = np.array(seconds)
    print(len(values), "times")
    spread = values.std(ddof=1) if len(values) > 1 else 0.0
    return dict(median=np.median(values), mean=values.mean(), spread=spread)


# %% right: torch
# With torch, in float64, and one entry more than was asked for.

def summary(seconds):
    values = torch.tensor(seconds, dtype=torch.float64)
    return {
        "median": values.quantile(0.5).item(),
        "mean": values.mean().item(),
        "spread": values.std().item() if len(values) > 1 else 0.0,
        "worst": values.max().item(),
    }
