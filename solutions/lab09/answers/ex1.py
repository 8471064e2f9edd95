# %% wrong: stream_kept_over_the_yield
# Yields inside the block, so the caller computes on the stream for copies.

def prefetched(x, size, device, copying):
    gpu = torch.get_device_module(device)
    with gpu.stream(copying):
        for samples in x.split(size):
            yield samples.to(device, non_blocking=True)


# %% wrong: nobody_waits
# Lets the copies run on their own stream, and no stream waits for them.

def prefetched(x, size, device, copying):
    gpu = torch.get_device_module(device)
    for samples in x.split(size):
        with gpu.stream(copying):
            arrived = samples.to(device, non_blocking=True)
        yield arrived


# %% wrong: wait_the_wrong_way_round
# Lets the copies wait for the computing.

def prefetched(x, size, device, copying):
    gpu = torch.get_device_module(device)
    for samples in x.split(size):
        copying.wait_stream(gpu.current_stream(device))
        with gpu.stream(copying):
            arrived = samples.to(device, non_blocking=True)
        yield arrived


# %% wrong: both_wait
# Lets each wait for the other, to be sure.

def prefetched(x, size, device, copying):
    gpu = torch.get_device_module(device)
    computing = gpu.current_stream(device)
    for samples in x.split(size):
        copying.wait_stream(computing)
        with gpu.stream(copying):
            arrived = samples.to(device, non_blocking=True)
        computing.wait_stream(copying)
        yield arrived


# %% wrong: on_the_stream_that_computes
# Takes non_blocking for all there is to it, and does not use the stream.

def prefetched(x, size, device, copying):
    for samples in x.split(size):
        yield samples.to(device, non_blocking=True)


# %% wrong: all_copies_first
# Launches all copies, then waits for all of them before the first samples are given.

def prefetched(x, size, device, copying):
    gpu = torch.get_device_module(device)
    with gpu.stream(copying):
        pieces = [samples.to(device, non_blocking=True) for samples in x.split(size)]
    gpu.current_stream(device).wait_stream(copying)
    yield from pieces


# %% wrong: host_waits
# Waits on the host for each copy, and begins the next when the samples have been taken.

def prefetched(x, size, device, copying):
    gpu = torch.get_device_module(device)
    for samples in x.split(size):
        with gpu.stream(copying):
            arrived = samples.to(device, non_blocking=True)
        gpu.synchronize(device)
        yield arrived


# %% wrong: last_one_forgotten
# Keeps one micro-batch ahead, and forgets the one that is left in the end.

def prefetched(x, size, device, copying):
    gpu = torch.get_device_module(device)
    computing = gpu.current_stream(device)
    before = None
    for samples in x.split(size):
        with gpu.stream(copying):
            arrived = samples.to(device, non_blocking=True)
            event = copying.record_event()
        if before is not None:
            computing.wait_event(before[1])
            yield before[0]
        before = arrived, event


# %% wrong: whole_batch_once
# Moves the whole batch at once, and cuts it on the device.

def prefetched(x, size, device, copying):
    gpu = torch.get_device_module(device)
    with gpu.stream(copying):
        x = x.to(device, non_blocking=True)
    gpu.current_stream(device).wait_stream(copying)
    for samples in x.split(size):
        yield samples


# %% wrong: nothing_ahead
# Copies each micro-batch when it is asked for. It overlaps only as long as the caller waits for no result.

def prefetched(x, size, device, copying):
    gpu = torch.get_device_module(device)
    for samples in x.split(size):
        with gpu.stream(copying):
            arrived = samples.to(device, non_blocking=True)
        gpu.current_stream(device).wait_stream(copying)
        yield arrived


# %% wrong: ahead_and_waited_for
# Launches the next copy first, and then lets the computing wait for all that its stream was given.

def prefetched(x, size, device, copying):
    gpu = torch.get_device_module(device)
    waiting = []
    for samples in x.split(size):
        with gpu.stream(copying):
            waiting.append(samples.to(device, non_blocking=True))
        if len(waiting) > 1:
            gpu.current_stream(device).wait_stream(copying)
            yield waiting.pop(0)
    gpu.current_stream(device).wait_stream(copying)
    yield waiting.pop(0)


# %% wrong: ahead_and_nobody_waits
# Launches the next copy in time, and thinks that samples are there when the next copy has been launched.

def prefetched(x, size, device, copying):
    gpu = torch.get_device_module(device)
    before = None
    for samples in x.split(size):
        with gpu.stream(copying):
            arrived = samples.to(device, non_blocking=True)
        if before is not None:
            yield before
        before = arrived
    yield before


# %% wrong: first_wait_only
# Waits for the first micro-batch only: by then, it thinks, the others are always in time.

def prefetched(x, size, device, copying):
    gpu = torch.get_device_module(device)
    pieces, before = x.split(size), None
    for number, samples in enumerate(pieces):
        if number == 1:
            gpu.current_stream(device).wait_stream(copying)
        with gpu.stream(copying):
            arrived = samples.to(device, non_blocking=True)
        if before is not None:
            yield before
        before = arrived
    yield before


# %% right: one_ahead
# Keeps one micro-batch ahead, with an event for each copy.

def prefetched(x, size, device, copying):
    gpu = torch.get_device_module(device)
    computing = gpu.current_stream(device)

    def fetch(samples):
        with gpu.stream(copying):
            arrived = samples.to(device, non_blocking=True)
        arrived.record_stream(computing)
        return arrived, copying.record_event()

    pieces = x.split(size)
    following = fetch(pieces[0])
    for number in range(len(pieces)):
        samples, there = following
        if number + 1 < len(pieces):
            following = fetch(pieces[number + 1])
        computing.wait_event(there)
        yield samples


# %% right: all_launched_first
# Launches all copies at once, each with an event, and waits for the one that is needed.

def prefetched(x, size, device, copying):
    gpu = torch.get_device_module(device)
    fetched = []
    with gpu.stream(copying):
        for samples in x.split(size):
            fetched.append((samples.to(device, non_blocking=True), copying.record_event()))
    for samples, there in fetched:
        gpu.current_stream(device).wait_event(there)
        samples.record_stream(gpu.current_stream(device))
        yield samples


# %% right: slices
# Cuts with slices, and lets the computing wait before the next copy is launched.

def prefetched(x, size, device, copying):
    gpu = torch.get_device_module(device)
    before = None
    for start in range(0, len(x), size):
        gpu.current_stream(device).wait_stream(copying)
        with gpu.stream(copying):
            samples = x[start : start + size].to(device, non_blocking=True)
        samples.record_stream(gpu.current_stream(device))
        if before is not None:
            yield before
        before = samples
    gpu.current_stream(device).wait_stream(copying)
    yield before


# %% wrong: two_micro_batches_at_least
# Launches the first two copies before the loop, as if there were always two micro-batches.

def prefetched(x, size, device, copying):
    gpu = torch.get_device_module(device)
    computing = gpu.current_stream(device)
    pieces = x.split(size)

    def launched(samples):
        with gpu.stream(copying):
            arriving = samples.to(device, non_blocking=True)
        arriving.record_stream(computing)
        return arriving

    now = launched(pieces[0])
    computing.wait_stream(copying)
    following = launched(pieces[1])
    for samples in pieces[2:]:
        yield now
        computing.wait_stream(copying)
        now, following = following, launched(samples)
    yield now
    computing.wait_stream(copying)
    yield following


# %% wrong: waits_after_eight
# Lets Python wait for the copies after every eight micro-batches, so that not too many are in flight.

def prefetched(x, size, device, copying):
    gpu = torch.get_device_module(device)
    computing = gpu.current_stream(device)
    before = None
    for number, samples in enumerate(x.split(size)):
        if number % 8 == 7:
            copying.synchronize()
        computing.wait_stream(copying)  # for the copy before: the next is not launched yet
        with gpu.stream(copying):
            arrived = samples.to(device, non_blocking=True)
        arrived.record_stream(computing)
        if before is not None:
            yield before
        before = arrived
    computing.wait_stream(copying)
    yield before


# %% wrong: default_stream_waits
# Lets the default stream wait. In the notebook it is the one that computes, but a caller may choose another.

def prefetched(x, size, device, copying):
    gpu = torch.get_device_module(device)
    computing = gpu.default_stream(device)
    before = None
    for samples in x.split(size):
        computing.wait_stream(copying)
        with gpu.stream(copying):
            arrived = samples.to(device, non_blocking=True)
        arrived.record_stream(computing)
        if before is not None:
            yield before
        before = arrived
    computing.wait_stream(copying)
    yield before
