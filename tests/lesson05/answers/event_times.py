# %% wrong: host_clock
# Reads the host's clock around each job, and so times its launch.

def event_times(jobs, clock):
    times, begin = [], clock()
    for device, work in jobs:
        start = clock()
        work()
        times.append((clock() - start) * 1e3)
    for device, _ in jobs:
        torch.get_device_module(device).synchronize(device)
    return times, (clock() - begin) * 1e3


# %% wrong: waits_after_each_job
# Waits for each job before the next is launched, so that devices which could work together take turns.

def event_times(jobs, clock):
    times, begin = [], clock()
    for device, work in jobs:
        gpu = torch.get_device_module(device)
        start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
        stream = gpu.current_stream(device)
        start.record(stream)
        work()
        end.record(stream)
        end.synchronize()
        times.append(start.elapsed_time(end))
    return times, (clock() - begin) * 1e3


# %% wrong: events_of_the_current_device
# Records without a stream, and so in the queue of the current device, whatever device the job is for.

def event_times(jobs, clock):
    marks, begin = [], clock()
    for device, work in jobs:
        gpu = torch.get_device_module(device)
        start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
        start.record()
        work()
        end.record()
        marks.append((start, end))
    for device, _ in jobs:
        torch.get_device_module(device).synchronize(device)
    total = (clock() - begin) * 1e3
    return [start.elapsed_time(end) for start, end in marks], total


# %% wrong: never_waits
# Reads the events as soon as all jobs have been launched.

def event_times(jobs, clock):
    marks, begin = [], clock()
    for device, work in jobs:
        gpu = torch.get_device_module(device)
        start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
        stream = gpu.current_stream(device)
        stream.record_event(start)
        work()
        stream.record_event(end)
        marks.append((start, end))
    total = (clock() - begin) * 1e3
    return [start.elapsed_time(end) for start, end in marks], total


# %% wrong: clock_before_the_wait
# Takes the total when all is launched, and waits afterwards.

def event_times(jobs, clock):
    marks, begin = [], clock()
    for device, work in jobs:
        gpu = torch.get_device_module(device)
        start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
        stream = gpu.current_stream(device)
        stream.record_event(start)
        work()
        stream.record_event(end)
        marks.append((start, end))
    total = (clock() - begin) * 1e3
    for _, end in marks:
        end.synchronize()
    return [start.elapsed_time(end) for start, end in marks], total


# %% wrong: seconds
# Gives seconds, as the clock does.

def event_times(jobs, clock):
    marks, begin = [], clock()
    for device, work in jobs:
        gpu = torch.get_device_module(device)
        start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
        stream = gpu.current_stream(device)
        stream.record_event(start)
        work()
        stream.record_event(end)
        marks.append((start, end))
    for _, end in marks:
        end.synchronize()
    return [start.elapsed_time(end) / 1e3 for start, end in marks], clock() - begin


# %% wrong: total_is_the_sum
# Thinks that all jobs take as long as their times together.

def event_times(jobs, clock):
    marks = []
    for device, work in jobs:
        gpu = torch.get_device_module(device)
        start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
        stream = gpu.current_stream(device)
        stream.record_event(start)
        work()
        stream.record_event(end)
        marks.append((start, end))
    for _, end in marks:
        end.synchronize()
    times = [start.elapsed_time(end) for start, end in marks]
    return times, sum(times)


# %% right: current_device
# Makes the job's device the current one, so that record() finds its stream; waits for whole devices.

def event_times(jobs, clock):
    begin, starts, ends = clock(), [], []
    for device, work in jobs:
        gpu = torch.get_device_module(device)
        with gpu.device(device):
            starts.append(gpu.Event(enable_timing=True))
            ends.append(gpu.Event(enable_timing=True))
            starts[-1].record()
            work()
            ends[-1].record()
    for device in {device for device, _ in jobs}:
        torch.get_device_module(device).synchronize(device)
    seconds = clock() - begin
    return [a.elapsed_time(b) for a, b in zip(starts, ends)], 1000 * seconds


# %% right: streams_make_their_events
# Lets the streams make the events; a tuple of times.

def event_times(jobs, clock):
    def mark(device):
        gpu = torch.get_device_module(device)
        event = gpu.Event(enable_timing=True)
        event.record(gpu.current_stream(device))
        return event

    before = clock()
    marks = tuple((mark(device), work(), mark(device)) for device, work in jobs)
    for _, _, end in reversed(marks):
        end.synchronize()
    after = clock()
    return tuple(start.elapsed_time(end) for start, _, end in marks), (after - before) * 1000
