"""Waits for the whole device and not for the event."""


def by_events(work, gpu):
    before = gpu.Event(enable_timing=True)
    before.record()
    work()
    after = gpu.Event(enable_timing=True)
    after.record()
    gpu.synchronize()
    milliseconds = before.elapsed_time(after)
    return milliseconds / 1e3
