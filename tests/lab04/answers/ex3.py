# %% wrong: asks_the_wrong_event
# Asks the end for the time until the start.

def by_events(work, gpu):
    start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
    start.record()
    work()
    end.record()
    gpu.synchronize()
    return end.elapsed_time(start) / 1000


# %% wrong: both_before_the_work
# Records both events before the work.

def by_events(work, gpu):
    start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
    start.record()
    end.record()
    work()
    end.synchronize()
    return start.elapsed_time(end) / 1000


# %% wrong: events_without_timing
# Makes events that keep no time.

def by_events(work, gpu):
    start, end = gpu.Event(), gpu.Event()
    start.record()
    work()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1000


# %% wrong: milliseconds
# Returns milliseconds.

def by_events(work, gpu):
    start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
    start.record()
    work()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


# %% wrong: not_waited
# Reads the time before the device has reached the second event.

def by_events(work, gpu):
    start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
    start.record()
    work()
    end.record()
    return start.elapsed_time(end) / 1000


# %% wrong: returns_nothing
# Prints the time.

def by_events(work, gpu):
    start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
    start.record()
    work()
    end.record()
    end.synchronize()
    print(start.elapsed_time(end) / 1000)


# %% wrong: start_never_recorded
# Thinks that an event is recorded when it is made.

def by_events(work, gpu):
    start = gpu.Event(enable_timing=True)
    work()
    end = gpu.Event(enable_timing=True)
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1000


# %% wrong: the_host_clock
# Uses the host's clock with a synchronize.

import time


def by_events(work, gpu):
    gpu.synchronize()
    begin = time.perf_counter()
    work()
    gpu.synchronize()
    return time.perf_counter() - begin


# %% wrong: warms_up
# Runs the work once more, to warm up.

def by_events(work, gpu):
    start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
    work()
    start.record()
    work()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1000


# %% right: idle_first
# Lets the device finish what it was doing, and then starts.

def by_events(work, gpu):
    gpu.synchronize()
    start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
    start.record()
    result = work()
    end.record()
    end.synchronize()
    print("got", result)
    return start.elapsed_time(end) / 1000


# %% right: on_the_current_stream
# Names the stream, and asks whether the event has happened.

def by_events(work, gpu):
    queue = gpu.current_stream()
    events = [gpu.Event(enable_timing=True) for _ in range(2)]
    events[0].record(queue)
    work()
    events[1].record(queue)
    if not events[1].query():
        print("still at work")
        events[1].synchronize()
    return events[0].elapsed_time(events[1]) * 0.001


# %% right: waits_for_the_device
# Waits for the whole device and not for the event.

def by_events(work, gpu):
    before = gpu.Event(enable_timing=True)
    before.record()
    work()
    after = gpu.Event(enable_timing=True)
    after.record()
    gpu.synchronize()
    milliseconds = before.elapsed_time(after)
    return milliseconds / 1e3
