import statistics

import torch


def time_it(work, gpus, clock, warm_up=2, repeats=5):
    """The median and the interquartile range, in seconds, of `repeats` runs of `work()`."""

    def wait():
        for gpu in gpus:  # each of them: the current device is only one
            torch.get_device_module(gpu).synchronize(gpu)

    for _ in range(warm_up):
        work()
    seconds = []
    for _ in range(repeats):
        wait()  # what is left from before would be timed, too
        begin = clock()
        work()
        wait()  # launched is not done
        seconds.append(clock() - begin)
    first, median, third = statistics.quantiles(seconds, n=4, method="inclusive")
    return median, third - first
