# %% wrong: divides_by_samples
# Leaves out what is unknown in the sum, but not in what it divides by.

def mean_utilisation(samples):
    result = {}
    for name in {device for device, _ in samples}:
        mine = [percent for device, percent in samples if device == name]
        known = [percent for percent in mine if percent is not None]
        result[name] = sum(known) / len(mine) if known else None
    return result


# %% wrong: last_value
# Keeps the last value of each device: a later one overwrites an earlier one.

def mean_utilisation(samples):
    result = {}
    for device, percent in samples:
        if percent is not None or device not in result:
            result[device] = percent
    return result


# %% wrong: none_is_zero
# Thinks that no answer from the driver means an idle device.

def mean_utilisation(samples):
    values = {}
    for device, percent in samples:
        values.setdefault(device, []).append(percent or 0)
    return {device: sum(v) / len(v) for device, v in values.items()}


# %% wrong: one_mean_for_all
# Thinks that one number describes the machine, and gives each device the mean of all.

def mean_utilisation(samples):
    known = [percent for _, percent in samples if percent is not None]
    mean = sum(known) / len(known) if known else None
    return {device: mean for device, _ in samples}


# %% wrong: text_for_unknown
# Thinks that what a table shows is what a function should return, and writes the text n/a.

def mean_utilisation(samples):
    values = {}
    for device, percent in samples:
        known = values.setdefault(device, [])
        if percent is not None:
            known.append(percent)
    return {device: sum(v) / len(v) if v else "n/a" for device, v in values.items()}


# %% wrong: two_devices_only
# Thinks that every machine has the two devices of the example.

def mean_utilisation(samples):
    result = {}
    for name in ("cuda:0", "cuda:1"):
        known = [percent for device, percent in samples if device == name and percent is not None]
        result[name] = sum(known) / len(known) if known else None
    return result


# %% wrong: unknown_device_left_out
# Thinks that a device without a value need not be told about.

def mean_utilisation(samples):
    values = {}
    for device, percent in samples:
        if percent is not None:
            values.setdefault(device, []).append(percent)
    return {device: sum(v) / len(v) for device, v in values.items()}


# %% wrong: unknown_device_zero
# Leaves samples without a value out, but calls a device that has none idle.

def mean_utilisation(samples):
    values = {device: [] for device, _ in samples}
    for device, percent in samples:
        if percent is not None:
            values[device].append(percent)
    return {device: sum(v) / max(len(v), 1) for device, v in values.items()}


# %% wrong: zero_is_none
# Writes `if percent`, which drops the samples in which the device was idle.

def mean_utilisation(samples):
    values = {}
    for device, percent in samples:
        known = values.setdefault(device, [])
        if percent:
            known.append(percent)
    return {device: sum(v) / len(v) if v else None for device, v in values.items()}


# %% right: defaultdict
# Collects with a defaultdict and takes the mean from the statistics module.

import statistics
from collections import defaultdict


def mean_utilisation(samples):
    values = defaultdict(list)
    for device, percent in samples:
        values[device] += [] if percent is None else [percent]
    return {device: statistics.mean(known) if known else None for device, known in values.items()}


# %% right: pandas
# Lets pandas group the samples, and turns its NaN back into None.

import pandas as pd


def mean_utilisation(samples):
    table = pd.DataFrame(samples, columns=["device", "percent"])
    table["percent"] = table["percent"].astype(float)
    means = table.groupby("device")["percent"].mean()
    return {device: None if pd.isna(mean) else mean for device, mean in means.items()}


# %% right: sums_and_counts
# Keeps a sum and a count for each device, and prints them.

def mean_utilisation(samples):
    sums, counts = {}, {}
    for device, percent in samples:
        sums.setdefault(device, 0)
        counts.setdefault(device, 0)
        if percent is not None:
            sums[device] += percent
            counts[device] += 1
    print(sums, counts)
    result = {}
    for device in sums:
        try:
            result[device] = sums[device] / counts[device]
        except ZeroDivisionError:
            result[device] = None
    return result
