"""Reads the time before the device has reached the second event."""


def by_events(work, gpu):
    start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
    start.record()
    work()
    end.record()
    return start.elapsed_time(end) / 1000
