# %% wrong: as_given
# Leaves it as it is: it is fast.

def fast_and_right(stage0, stage1, loss_fn, x, y, size, copy0, copy1):
    gpu = torch.get_device_module(x.device)
    losses = []
    for samples, targets in zip(x.split(size), y.split(size)):
        hidden = stage0(samples)
        with gpu.stream(copy0), gpu.stream(copy1):
            arrived = hidden.to(y.device, non_blocking=True)
        losses.append(loss_fn(stage1(arrived), targets))
    loss = sum(losses) / len(losses)
    loss.backward()
    return loss.detach()


# %% wrong: loss_only
# Sees the loss, and not the streams.

def fast_and_right(stage0, stage1, loss_fn, x, y, size, copy0, copy1):
    gpu = torch.get_device_module(x.device)
    loss = 0
    for samples, targets in zip(x.split(size), y.split(size)):
        hidden = stage0(samples)
        with gpu.stream(copy0), gpu.stream(copy1):
            arrived = hidden.to(y.device, non_blocking=True)
        loss = loss + loss_fn(stage1(arrived), targets) * len(samples) / len(x)
    loss.backward()
    return loss.detach()


# %% wrong: one_wait
# Lets stage1 wait for the copy, and the copy for nothing.

def fast_and_right(stage0, stage1, loss_fn, x, y, size, copy0, copy1):
    gpu = torch.get_device_module(x.device)
    losses = []
    for samples, targets in zip(x.split(size), y.split(size)):
        hidden = stage0(samples)
        with gpu.stream(copy0), gpu.stream(copy1):
            arrived = hidden.to(y.device, non_blocking=True)
        gpu.current_stream(y.device).wait_stream(copy1)
        losses.append(loss_fn(stage1(arrived), targets) * len(samples) / len(x))
    loss = sum(losses)
    loss.backward()
    return loss.detach()


# %% wrong: waits_the_wrong_way_round
# Lets the stream that computes wait for the copies' stream, where the copy has to wait for the computing.

def fast_and_right(stage0, stage1, loss_fn, x, y, size, copy0, copy1):
    gpu = torch.get_device_module(x.device)
    computing0, computing1 = gpu.current_stream(x.device), gpu.current_stream(y.device)
    losses = []
    for samples, targets in zip(x.split(size), y.split(size)):
        hidden = stage0(samples)
        computing0.wait_stream(copy0)
        with gpu.stream(copy0), gpu.stream(copy1):
            arrived = hidden.to(y.device, non_blocking=True)
        copy1.wait_stream(computing1)
        losses.append(loss_fn(stage1(arrived), targets) * len(samples) / len(x))
    loss = sum(losses)
    loss.backward()
    return loss.detach()


# %% wrong: synchronized
# Waits on the host, so everything is right and nothing overlaps.

def fast_and_right(stage0, stage1, loss_fn, x, y, size, copy0, copy1):
    gpu = torch.get_device_module(x.device)
    losses = []
    for samples, targets in zip(x.split(size), y.split(size)):
        hidden = stage0(samples)
        gpu.synchronize(x.device)
        with gpu.stream(copy0), gpu.stream(copy1):
            arrived = hidden.to(y.device, non_blocking=True)
        gpu.synchronize(y.device)
        losses.append(loss_fn(stage1(arrived), targets) * len(samples) / len(x))
        gpu.synchronize(y.device)
    loss = sum(losses)
    loss.backward()
    return loss.detach()


# %% wrong: streams_given_up
# Goes back to the streams that compute: right, and the copies overlap with nothing.

def fast_and_right(stage0, stage1, loss_fn, x, y, size, copy0, copy1):
    losses = []
    for samples, targets in zip(x.split(size), y.split(size)):
        arrived = stage0(samples).to(y.device)
        losses.append(loss_fn(stage1(arrived), targets) * len(samples) / len(x))
    loss = sum(losses)
    loss.backward()
    return loss.detach()


# %% wrong: divided_by_the_size
# Weights each loss by size over the samples, the smaller last one too.

def fast_and_right(stage0, stage1, loss_fn, x, y, size, copy0, copy1):
    gpu = torch.get_device_module(x.device)
    losses = []
    for samples, targets in zip(x.split(size), y.split(size)):
        hidden = stage0(samples)
        copy0.wait_stream(gpu.current_stream(x.device))
        with gpu.stream(copy0), gpu.stream(copy1):
            arrived = hidden.to(y.device, non_blocking=True)
        gpu.current_stream(y.device).wait_stream(copy1)
        losses.append(loss_fn(stage1(arrived), targets) * size / len(x))
    loss = sum(losses)
    loss.backward()
    return loss.detach()


# %% wrong: copy0_alone
# Thinks that a copy is on the stream of the device that gives, and leaves the other device's as it is.

def fast_and_right(stage0, stage1, loss_fn, x, y, size, copy0, copy1):
    gpu = torch.get_device_module(x.device)
    computing0, computing1 = gpu.current_stream(x.device), gpu.current_stream(y.device)
    losses = []
    for samples, targets in zip(x.split(size), y.split(size)):
        hidden = stage0(samples)
        copy0.wait_stream(computing0)
        with gpu.stream(copy0):
            arrived = hidden.to(y.device, non_blocking=True)
        computing1.wait_stream(copy1)
        losses.append(loss_fn(stage1(arrived), targets) * len(samples) / len(x))
    loss = sum(losses)
    loss.backward()
    return loss.detach()


# %% wrong: copy1_alone
# Thinks that a copy is on the stream of the device that takes.

def fast_and_right(stage0, stage1, loss_fn, x, y, size, copy0, copy1):
    gpu = torch.get_device_module(x.device)
    computing0, computing1 = gpu.current_stream(x.device), gpu.current_stream(y.device)
    losses = []
    for samples, targets in zip(x.split(size), y.split(size)):
        hidden = stage0(samples)
        copy0.wait_stream(computing0)
        with gpu.stream(copy1):
            arrived = hidden.to(y.device, non_blocking=True)
        computing1.wait_stream(copy1)
        losses.append(loss_fn(stage1(arrived), targets) * len(samples) / len(x))
    loss = sum(losses)
    loss.backward()
    return loss.detach()


# %% wrong: waits_for_itself
# Asks for the current streams inside `with`, where they are the copies' own.

def fast_and_right(stage0, stage1, loss_fn, x, y, size, copy0, copy1):
    gpu = torch.get_device_module(x.device)
    losses = []
    for samples, targets in zip(x.split(size), y.split(size)):
        hidden = stage0(samples)
        with gpu.stream(copy0), gpu.stream(copy1):
            copy0.wait_stream(gpu.current_stream(x.device))
            arrived = hidden.to(y.device, non_blocking=True)
        gpu.current_stream(y.device).wait_stream(copy1)
        losses.append(loss_fn(stage1(arrived), targets) * len(samples) / len(x))
    loss = sum(losses)
    loss.backward()
    return loss.detach()


# %% wrong: copy1_waits_too
# Lets both copies' streams wait for those that compute, so a copy waits for the stage that it feeds.

def fast_and_right(stage0, stage1, loss_fn, x, y, size, copy0, copy1):
    gpu = torch.get_device_module(x.device)
    computing0, computing1 = gpu.current_stream(x.device), gpu.current_stream(y.device)
    losses = []
    for samples, targets in zip(x.split(size), y.split(size)):
        hidden = stage0(samples)
        copy0.wait_stream(computing0)
        copy1.wait_stream(computing1)
        with gpu.stream(copy0), gpu.stream(copy1):
            arrived = hidden.to(y.device, non_blocking=True)
        computing1.wait_stream(copy1)
        losses.append(loss_fn(stage1(arrived), targets) * len(samples) / len(x))
    loss = sum(losses)
    loss.backward()
    return loss.detach()


# %% right: events
# Waits for events in place of streams, and joins the outputs for one loss.

def fast_and_right(stage0, stage1, loss_fn, x, y, size, copy0, copy1):
    gpu = torch.get_device_module(x.device)
    outputs = []
    for samples in x.split(size):
        hidden = stage0(samples)
        copy0.wait_event(gpu.current_stream(x.device).record_event())
        with gpu.stream(copy0), gpu.stream(copy1):
            arrived = hidden.to(y.device, non_blocking=True)
            there = copy1.record_event()
        gpu.current_stream(y.device).wait_event(there)
        outputs.append(stage1(arrived))
    loss = loss_fn(torch.cat(outputs), y)
    loss.backward()
    return loss.detach()


# %% right: backward_one_by_one
# Goes backward through one loss after the other, the newest first.

def fast_and_right(stage0, stage1, loss_fn, x, y, size, copy0, copy1):
    gpu = torch.get_device_module(x.device)
    computing0, computing1 = gpu.current_stream(x.device), gpu.current_stream(y.device)
    losses = []
    for start in range(0, len(x), size):
        samples, targets = x[start : start + size], y[start : start + size]
        hidden = stage0(samples)
        copy0.wait_stream(computing0)
        with gpu.stream(copy0), gpu.stream(copy1):
            arrived = hidden.to(y.device, non_blocking=True)
        computing1.wait_stream(copy1)
        losses.append(loss_fn(stage1(arrived), targets) * (len(samples) / len(x)))
    for loss in reversed(losses):
        loss.backward()
    return torch.stack(losses).sum().detach()
