"""Prints the time."""


def by_events(work, gpu):
    start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
    start.record()
    work()
    end.record()
    end.synchronize()
    print(start.elapsed_time(end) / 1000)
