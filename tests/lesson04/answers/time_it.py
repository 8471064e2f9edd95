# %% wrong: waits_without_a_device
# Thinks that synchronize() without a device waits for all of them.

import statistics


def time_it(work, gpus, clock, warm_up=2, repeats=5):
    for _ in range(warm_up):
        work()
    seconds = []
    for _ in range(repeats):
        for gpu in gpus[:1]:
            torch.get_device_module(gpu).synchronize()
        begin = clock()
        work()
        for gpu in gpus[:1]:
            torch.get_device_module(gpu).synchronize()
        seconds.append(clock() - begin)
    first, _, third = statistics.quantiles(seconds, n=4, method="inclusive")
    return statistics.median(seconds), third - first


# %% wrong: last_device_only
# Thinks that the last device is done last, as in a forward pass.

import statistics

from utils.observe.devices import synchronize


def time_it(work, gpus, clock, warm_up=2, repeats=5):
    for _ in range(warm_up):
        work()
    seconds = []
    for _ in range(repeats):
        if gpus:
            synchronize(gpus[-1])
        begin = clock()
        work()
        if gpus:
            synchronize(gpus[-1])
        seconds.append(clock() - begin)
    first, _, third = statistics.quantiles(seconds, n=4, method="inclusive")
    return statistics.median(seconds), third - first


# %% wrong: only_after
# Waits before the clock stops, and not before it starts, so the first run has the warm-up in it.

import statistics

from utils.observe.devices import synchronize


def time_it(work, gpus, clock, warm_up=2, repeats=5):
    for _ in range(warm_up):
        work()
    seconds = []
    for _ in range(repeats):
        begin = clock()
        work()
        for gpu in gpus:
            synchronize(gpu)
        seconds.append(clock() - begin)
    first, _, third = statistics.quantiles(seconds, n=4, method="inclusive")
    return statistics.median(seconds), third - first


# %% wrong: never_waits
# Times the launches.

import statistics


def time_it(work, gpus, clock, warm_up=2, repeats=5):
    for _ in range(warm_up):
        work()
    seconds = []
    for _ in range(repeats):
        begin = clock()
        work()
        seconds.append(clock() - begin)
    first, _, third = statistics.quantiles(seconds, n=4, method="inclusive")
    return statistics.median(seconds), third - first


# %% wrong: one_average
# Times all runs together and divides.

from utils.observe.devices import synchronize


def time_it(work, gpus, clock, warm_up=2, repeats=5):
    for _ in range(warm_up):
        work()
    for gpu in gpus:
        synchronize(gpu)
    begin = clock()
    for _ in range(repeats):
        work()
    for gpu in gpus:
        synchronize(gpu)
    return (clock() - begin) / repeats, 0.0


# %% wrong: mean
# Returns the mean.

import statistics

from utils.observe.devices import synchronize


def time_it(work, gpus, clock, warm_up=2, repeats=5):
    seconds = []
    for run in range(warm_up + repeats):
        for gpu in gpus:
            synchronize(gpu)
        begin = clock()
        work()
        for gpu in gpus:
            synchronize(gpu)
        if run >= warm_up:
            seconds.append(clock() - begin)
    first, _, third = statistics.quantiles(seconds, n=4, method="inclusive")
    return statistics.mean(seconds), third - first


# %% wrong: own_clock
# Uses the wall clock, and not the clock that it is given.

import statistics
import time

from utils.observe.devices import synchronize


def time_it(work, gpus, clock, warm_up=2, repeats=5):
    for _ in range(warm_up):
        work()
    seconds = []
    for _ in range(repeats):
        for gpu in gpus:
            synchronize(gpu)
        begin = time.perf_counter()
        work()
        for gpu in gpus:
            synchronize(gpu)
        seconds.append(time.perf_counter() - begin)
    first, _, third = statistics.quantiles(seconds, n=4, method="inclusive")
    return statistics.median(seconds), third - first


# %% wrong: median_only
# Forgets the spread.

import statistics

from utils.observe.devices import synchronize


def time_it(work, gpus, clock, warm_up=2, repeats=5):
    for _ in range(warm_up):
        work()
    seconds = []
    for _ in range(repeats):
        [synchronize(gpu) for gpu in gpus]
        begin = clock()
        work()
        [synchronize(gpu) for gpu in gpus]
        seconds.append(clock() - begin)
    return statistics.median(seconds)


# %% wrong: warm_up_counted
# Takes the warm-up from the repeats.

import statistics

from utils.observe.devices import synchronize


def time_it(work, gpus, clock, warm_up=2, repeats=5):
    seconds = []
    for _ in range(repeats + warm_up):
        for gpu in gpus:
            synchronize(gpu)
        begin = clock()
        work()
        for gpu in gpus:
            synchronize(gpu)
        seconds.append(clock() - begin)
    first, _, third = statistics.quantiles(seconds, n=4, method="inclusive")
    return statistics.median(seconds), third - first


# %% wrong: waits_always
# Waits for two devices that it has got from outside, also where it is told to wait for none.

import statistics

from utils.observe.devices import devices, synchronize

device0, device1 = devices(2, quiet=True)


def time_it(work, gpus, clock, warm_up=2, repeats=5):
    times = []
    for run in range(warm_up + repeats):
        synchronize(device0)
        synchronize(device1)
        begin = clock()
        work()
        synchronize(device0)
        if len(gpus) > 1:
            synchronize(gpus[0])
        times.append(clock() - begin)
    return statistics.median(times[warm_up:]), statistics.stdev(times[warm_up:])


# %% wrong: standard_deviation
# Reports the standard deviation, which one slow run moves far.

import statistics

from utils.observe.devices import synchronize


def time_it(work, gpus, clock, warm_up=2, repeats=5):
    for _ in range(warm_up):
        work()
    seconds = []
    for _ in range(repeats):
        for gpu in gpus:
            synchronize(gpu)
        begin = clock()
        work()
        for gpu in gpus:
            synchronize(gpu)
        seconds.append(clock() - begin)
    return statistics.median(seconds), statistics.stdev(seconds)


# %% wrong: other_quartiles
# Takes the quartiles of the population that the runs are a sample of, as statistics.quantiles does by itself.

import statistics

from utils.observe.devices import synchronize


def time_it(work, gpus, clock, warm_up=2, repeats=5):
    for _ in range(warm_up):
        work()
    seconds = []
    for _ in range(repeats):
        for gpu in gpus:
            synchronize(gpu)
        begin = clock()
        work()
        for gpu in gpus:
            synchronize(gpu)
        seconds.append(clock() - begin)
    first, median, third = statistics.quantiles(seconds, n=4)
    return median, third - first


# %% right: inner_functions
# A function for one run, and a list comprehension.

import statistics

from utils.observe.devices import synchronize


def time_it(work, gpus, clock, warm_up=2, repeats=5):
    def once():
        for gpu in gpus:
            synchronize(gpu)
        begin = clock()
        work()
        for gpu in gpus:
            synchronize(gpu)
        return clock() - begin

    [work() for _ in range(warm_up)]
    seconds = [once() for _ in range(repeats)]
    first, _, third = statistics.quantiles(seconds, n=4, method="inclusive")
    return statistics.median(seconds), third - first


# %% right: waits_once_at_the_start
# Each later run begins when the one before it is done. The statistics are numpy's.

import numpy as np


def time_it(work, gpus, clock, warm_up=2, repeats=5):
    def wait():
        for device in gpus:
            getattr(torch, device.type).synchronize(device)

    for _ in range(warm_up):
        work()
    wait()
    moments = [clock()]
    for _ in range(repeats):
        work()
        wait()
        moments.append(clock())
    seconds = np.diff(moments)
    return float(np.median(seconds)), float(np.percentile(seconds, 75) - np.percentile(seconds, 25))


# %% right: by_streams
# Waits for each device's stream; a list of two numbers.

import statistics


def time_it(work, gpus, clock, warm_up=2, repeats=5):
    streams = [torch.get_device_module(gpu).current_stream(gpu) for gpu in gpus]
    times = []
    for run in range(warm_up + repeats):
        for stream in streams:
            stream.synchronize()
        start = clock()
        work()
        for stream in streams:
            stream.synchronize()
        times.append(clock() - start)
    times = times[warm_up:]
    quartiles = torch.quantile(torch.tensor(times, dtype=torch.float64), torch.tensor([0.25, 0.75], dtype=torch.float64))
    return [statistics.median(times), float(quartiles[1] - quartiles[0])]
