"""Records both events before the work."""


def by_events(work, gpu):
    start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
    start.record()
    end.record()
    work()
    end.synchronize()
    return start.elapsed_time(end) / 1000
