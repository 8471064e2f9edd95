import statistics

import torch


def time_it(work, gpus, clock, warm_up=2, repeats=5):
    """The median and the interquartile range of `repeats` runs of `work()`, in seconds."""

    def wait():
        for device in gpus:  # every device, not only the current one
            torch.get_device_module(device).synchronize(device)

    for _ in range(warm_up):
        work()
    seconds = []
    for _ in range(repeats):
        wait()  # otherwise earlier work would be timed, too
        begin = clock()
        work()
        wait()  # launched kernels may still be running
        seconds.append(clock() - begin)
    first, median, third = statistics.quantiles(seconds, n=4, method="inclusive")
    return median, third - first


def split_times(model, x, device0, device1):
    """Milliseconds of part0, the copy and part1 in one forward pass, timed with events."""
    gpu = torch.get_device_module(device0)
    stream0, stream1 = gpu.current_stream(device0), gpu.current_stream(device1)
    begin0, end0, copied, begin1, end1 = (gpu.Event(enable_timing=True) for _ in range(5))
    stream0.record_event(begin0)
    hidden = model.part0(x)
    stream0.record_event(end0)
    hidden = hidden.to(device1)
    stream0.record_event(copied)
    stream1.record_event(begin1)  # stream1 waits for the copy first
    model.part1(hidden)
    stream1.record_event(end1)
    copied.synchronize()
    end1.synchronize()
    return [begin0.elapsed_time(end0), end0.elapsed_time(copied), begin1.elapsed_time(end1)]


def six_pairs(work_a, work_b, gpus, clock):
    """The smallest and the largest of six differences in seconds: work_b's time minus work_a's."""
    differences = []
    for pair in range(6):
        if pair % 2 == 0:
            a = time_it(work_a, gpus, clock)[0]
            b = time_it(work_b, gpus, clock)[0]
        else:  # in turns, because times drift
            b = time_it(work_b, gpus, clock)[0]
            a = time_it(work_a, gpus, clock)[0]
        differences.append(b - a)
    return min(differences), max(differences)
