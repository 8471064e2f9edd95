# %% wrong: host_clock
# Times the launches by the host's clock.


def split_times(model, x, device0, device1):
    import time

    moments = [time.perf_counter()]
    hidden = model.part0(x)
    moments.append(time.perf_counter())
    hidden = hidden.to(device1)
    moments.append(time.perf_counter())
    model.part1(hidden)
    moments.append(time.perf_counter())
    return [(after - before) * 1e3 for before, after in zip(moments, moments[1:])]


# %% wrong: one_stream
# Records all events in device0's stream, which has no kernel of part1.


def split_times(model, x, device0, device1):
    gpu = torch.get_device_module(device0)
    stream0 = gpu.current_stream(device0)
    begin0, end0, copied, begin1, end1 = (gpu.Event(enable_timing=True) for _ in range(5))
    stream0.record_event(begin0)
    hidden = model.part0(x)
    stream0.record_event(end0)
    hidden = hidden.to(device1)
    stream0.record_event(copied)
    stream0.record_event(begin1)
    model.part1(hidden)
    stream0.record_event(end1)
    copied.synchronize()
    end1.synchronize()
    return [begin0.elapsed_time(end0), end0.elapsed_time(copied), begin1.elapsed_time(end1)]


# %% wrong: current_stream
# Thinks that record() finds the stream of the part.


def split_times(model, x, device0, device1):
    gpu = torch.get_device_module(device0)
    begin0, end0, copied, begin1, end1 = (gpu.Event(enable_timing=True) for _ in range(5))
    begin0.record()
    hidden = model.part0(x)
    end0.record()
    hidden = hidden.to(device1)
    copied.record()
    begin1.record()
    model.part1(hidden)
    end1.record()
    copied.synchronize()
    end1.synchronize()
    return [begin0.elapsed_time(end0), end0.elapsed_time(copied), begin1.elapsed_time(end1)]


# %% wrong: part1_begins_before_the_copy
# Thinks that a stream's event happens when the next kernel begins.


def split_times(model, x, device0, device1):
    gpu = torch.get_device_module(device0)
    stream0, stream1 = gpu.current_stream(device0), gpu.current_stream(device1)
    begin0, end0, copied, begin1, end1 = (gpu.Event(enable_timing=True) for _ in range(5))
    stream0.record_event(begin0)
    hidden = model.part0(x)
    stream0.record_event(end0)
    stream1.record_event(begin1)
    hidden = hidden.to(device1)
    stream0.record_event(copied)
    model.part1(hidden)
    stream1.record_event(end1)
    copied.synchronize()
    end1.synchronize()
    return [begin0.elapsed_time(end0), end0.elapsed_time(copied), begin1.elapsed_time(end1)]


# %% wrong: from_device_to_device
# Times part1 from the end of the copy, an event of device0, to an event of device1. CUDA refuses it.


def split_times(model, x, device0, device1):
    gpu = torch.get_device_module(device0)
    stream0, stream1 = gpu.current_stream(device0), gpu.current_stream(device1)
    begin0, end0, copied, end1 = (gpu.Event(enable_timing=True) for _ in range(4))
    stream0.record_event(begin0)
    hidden = model.part0(x)
    stream0.record_event(end0)
    hidden = hidden.to(device1)
    stream0.record_event(copied)
    model.part1(hidden)
    stream1.record_event(end1)
    copied.synchronize()
    end1.synchronize()
    return [begin0.elapsed_time(end0), end0.elapsed_time(copied), copied.elapsed_time(end1)]


# %% wrong: copy_in_the_stream_it_goes_to
# Takes the copy for device1's work.


def split_times(model, x, device0, device1):
    gpu = torch.get_device_module(device0)
    stream0, stream1 = gpu.current_stream(device0), gpu.current_stream(device1)
    begin0, end0, leaves, copied, begin1, end1 = (gpu.Event(enable_timing=True) for _ in range(6))
    stream0.record_event(begin0)
    hidden = model.part0(x)
    stream0.record_event(end0)
    stream1.record_event(leaves)
    hidden = hidden.to(device1)
    stream1.record_event(copied)
    stream1.record_event(begin1)
    model.part1(hidden)
    stream1.record_event(end1)
    copied.synchronize()
    end1.synchronize()
    return [begin0.elapsed_time(end0), leaves.elapsed_time(copied), begin1.elapsed_time(end1)]


# %% wrong: waits_after_each_part
# Synchronizes after each part: true times of a pass that takes longer.


def split_times(model, x, device0, device1):
    gpu = torch.get_device_module(device0)
    stream0, stream1 = gpu.current_stream(device0), gpu.current_stream(device1)
    begin0, end0, copied, begin1, end1 = (gpu.Event(enable_timing=True) for _ in range(5))
    stream0.record_event(begin0)
    hidden = model.part0(x)
    stream0.record_event(end0)
    end0.synchronize()
    hidden = hidden.to(device1)
    stream0.record_event(copied)
    copied.synchronize()
    stream1.record_event(begin1)
    model.part1(hidden)
    stream1.record_event(end1)
    end1.synchronize()
    return [begin0.elapsed_time(end0), end0.elapsed_time(copied), begin1.elapsed_time(end1)]


# %% wrong: seconds
# Turns milliseconds into seconds.


def split_times(model, x, device0, device1):
    gpu = torch.get_device_module(device0)
    stream0, stream1 = gpu.current_stream(device0), gpu.current_stream(device1)
    begin0, end0, copied, begin1, end1 = (gpu.Event(enable_timing=True) for _ in range(5))
    stream0.record_event(begin0)
    hidden = model.part0(x)
    stream0.record_event(end0)
    hidden = hidden.to(device1)
    stream0.record_event(copied)
    stream1.record_event(begin1)
    model.part1(hidden)
    stream1.record_event(end1)
    copied.synchronize()
    end1.synchronize()
    times = begin0.elapsed_time(end0), end0.elapsed_time(copied), begin1.elapsed_time(end1)
    return [milliseconds / 1000 for milliseconds in times]


# %% wrong: never_waits
# Reads events that have not happened.


def split_times(model, x, device0, device1):
    gpu = torch.get_device_module(device0)
    stream0, stream1 = gpu.current_stream(device0), gpu.current_stream(device1)
    begin0, end0, copied, begin1, end1 = (gpu.Event(enable_timing=True) for _ in range(5))
    stream0.record_event(begin0)
    hidden = model.part0(x)
    stream0.record_event(end0)
    hidden = hidden.to(device1)
    stream0.record_event(copied)
    stream1.record_event(begin1)
    model.part1(hidden)
    stream1.record_event(end1)
    return [begin0.elapsed_time(end0), end0.elapsed_time(copied), begin1.elapsed_time(end1)]


# %% wrong: whole_pass_too
# Runs the model for its output, and then the parts.


def split_times(model, x, device0, device1):
    gpu = torch.get_device_module(device0)
    stream0, stream1 = gpu.current_stream(device0), gpu.current_stream(device1)
    begin0, end0, copied, begin1, end1 = (gpu.Event(enable_timing=True) for _ in range(5))
    model(x)
    stream0.record_event(begin0)
    hidden = model.part0(x)
    stream0.record_event(end0)
    hidden = hidden.to(device1)
    stream0.record_event(copied)
    stream1.record_event(begin1)
    model.part1(hidden)
    stream1.record_event(end1)
    copied.synchronize()
    end1.synchronize()
    return [begin0.elapsed_time(end0), end0.elapsed_time(copied), begin1.elapsed_time(end1)]


# %% wrong: only_two
# Leaves the copy out.


def split_times(model, x, device0, device1):
    gpu = torch.get_device_module(device0)
    stream0, stream1 = gpu.current_stream(device0), gpu.current_stream(device1)
    begin0, end0, copied, begin1, end1 = (gpu.Event(enable_timing=True) for _ in range(5))
    stream0.record_event(begin0)
    hidden = model.part0(x)
    stream0.record_event(end0)
    hidden = hidden.to(device1)
    stream0.record_event(copied)
    stream1.record_event(begin1)
    model.part1(hidden)
    stream1.record_event(end1)
    copied.synchronize()
    end1.synchronize()
    return [begin0.elapsed_time(end0), begin1.elapsed_time(end1)]


# %% right: by_hooks
# Hooks of the two parts record the events, and the model runs as it is.


def split_times(model, x, device0, device1):
    gpu = torch.get_device_module(device0)
    streams = [gpu.current_stream(device0), gpu.current_stream(device1)]
    events = {name: gpu.Event(enable_timing=True) for name in ("begin0", "end0", "copied", "begin1", "end1")}

    def before_part1(*_):
        events["copied"].record(streams[0])
        events["begin1"].record(streams[1])

    handles = [
        model.part0.register_forward_pre_hook(lambda *_: events["begin0"].record(streams[0])),
        model.part0.register_forward_hook(lambda *_: events["end0"].record(streams[0])),
        model.part1.register_forward_pre_hook(before_part1),
        model.part1.register_forward_hook(lambda *_: events["end1"].record(streams[1])),
    ]
    model(x)
    for handle in handles:
        handle.remove()
    for device in (device0, device1):
        gpu.synchronize(device)
    pairs = [("begin0", "end0"), ("end0", "copied"), ("begin1", "end1")]
    return [events[first].elapsed_time(events[last]) for first, last in pairs]


# %% right: a_helper
# A function times each piece of work, and synchronizes later.


def split_times(model, x, device0, device1):
    pairs = []

    def timed(work, device):
        gpu = torch.get_device_module(device)
        pair = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
        pair[0].record(gpu.current_stream(device))
        result = work()
        pair[1].record(gpu.current_stream(device))
        pairs.append(pair)
        return result

    hidden = timed(lambda: model.part0(x), device0)
    moved = timed(lambda: hidden.to(device1), device0)
    timed(lambda: model.part1(moved), device1)
    for _, end in pairs:
        end.synchronize()
    return tuple(start.elapsed_time(end) for start, end in pairs)
