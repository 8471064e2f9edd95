import torch


def event_times(jobs, clock):
    """Milliseconds of each job, timed with events, and of all jobs together, timed with the clock."""
    marks = []
    begin = clock()
    for device, work in jobs:
        gpu = torch.get_device_module(device)
        stream = gpu.current_stream(device)
        start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
        stream.record_event(start)
        work()
        stream.record_event(end)
        marks.append((start, end))
    for _, end in marks:
        end.synchronize()  # only now: a wait inside the loop would make the devices take turns
    total = (clock() - begin) * 1e3
    return [start.elapsed_time(end) for start, end in marks], total


def memory_of_step(step, devices):
    """For each device: the bytes that it holds after `step()`, and the most that it held during the step."""
    for device in devices:
        torch.get_device_module(device).reset_peak_memory_stats(device)
    step()
    found = {}
    for device in devices:
        gpu = torch.get_device_module(device)
        found[str(device)] = gpu.memory_allocated(device), gpu.max_memory_allocated(device)
    return found
