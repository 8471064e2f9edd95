# %% wrong: as_given
# Leaves it as it is: it is fast.

def fast_and_right(part0, part1, loss_fn, x, y, size, giving, taking):
    gpu = torch.get_device_module(x.device)
    losses = []
    for rows, target in zip(x.split(size), y.split(size)):
        hidden = part0(rows)
        with gpu.stream(giving), gpu.stream(taking):
            arrived = hidden.to(y.device, non_blocking=True)
        losses.append(loss_fn(part1(arrived), target))
    loss = sum(losses) / len(losses)
    loss.backward()
    return loss.detach()


# %% wrong: loss_only
# Sees the loss, and not the streams.

def fast_and_right(part0, part1, loss_fn, x, y, size, giving, taking):
    gpu = torch.get_device_module(x.device)
    loss = 0
    for rows, target in zip(x.split(size), y.split(size)):
        hidden = part0(rows)
        with gpu.stream(giving), gpu.stream(taking):
            arrived = hidden.to(y.device, non_blocking=True)
        loss = loss + loss_fn(part1(arrived), target) * len(rows) / len(x)
    loss.backward()
    return loss.detach()


# %% wrong: one_wait
# Lets part1 wait for the copy, and the copy for nothing.

def fast_and_right(part0, part1, loss_fn, x, y, size, giving, taking):
    gpu = torch.get_device_module(x.device)
    losses = []
    for rows, target in zip(x.split(size), y.split(size)):
        hidden = part0(rows)
        with gpu.stream(giving), gpu.stream(taking):
            arrived = hidden.to(y.device, non_blocking=True)
        gpu.current_stream(y.device).wait_stream(taking)
        losses.append(loss_fn(part1(arrived), target) * len(rows) / len(x))
    loss = sum(losses)
    loss.backward()
    return loss.detach()


# %% wrong: waits_the_wrong_way_round
# Lets the stream that computes wait for the copies' stream, where the copy has to wait for the computing.

def fast_and_right(part0, part1, loss_fn, x, y, size, giving, taking):
    gpu = torch.get_device_module(x.device)
    computing0, computing1 = gpu.current_stream(x.device), gpu.current_stream(y.device)
    losses = []
    for rows, target in zip(x.split(size), y.split(size)):
        hidden = part0(rows)
        computing0.wait_stream(giving)
        with gpu.stream(giving), gpu.stream(taking):
            arrived = hidden.to(y.device, non_blocking=True)
        taking.wait_stream(computing1)
        losses.append(loss_fn(part1(arrived), target) * len(rows) / len(x))
    loss = sum(losses)
    loss.backward()
    return loss.detach()


# %% wrong: synchronised
# Waits on the host, so everything is right and nothing overlaps.

def fast_and_right(part0, part1, loss_fn, x, y, size, giving, taking):
    gpu = torch.get_device_module(x.device)
    losses = []
    for rows, target in zip(x.split(size), y.split(size)):
        hidden = part0(rows)
        gpu.synchronize(x.device)
        with gpu.stream(giving), gpu.stream(taking):
            arrived = hidden.to(y.device, non_blocking=True)
        gpu.synchronize(y.device)
        losses.append(loss_fn(part1(arrived), target) * len(rows) / len(x))
        gpu.synchronize(y.device)
    loss = sum(losses)
    loss.backward()
    return loss.detach()


# %% wrong: streams_given_up
# Goes back to the streams that compute: right, and the copies overlap with nothing.

def fast_and_right(part0, part1, loss_fn, x, y, size, giving, taking):
    losses = []
    for rows, target in zip(x.split(size), y.split(size)):
        arrived = part0(rows).to(y.device)
        losses.append(loss_fn(part1(arrived), target) * len(rows) / len(x))
    loss = sum(losses)
    loss.backward()
    return loss.detach()


# %% wrong: divided_by_the_size
# Weights each loss by size over the rows, the smaller last one too.

def fast_and_right(part0, part1, loss_fn, x, y, size, giving, taking):
    gpu = torch.get_device_module(x.device)
    losses = []
    for rows, target in zip(x.split(size), y.split(size)):
        hidden = part0(rows)
        giving.wait_stream(gpu.current_stream(x.device))
        with gpu.stream(giving), gpu.stream(taking):
            arrived = hidden.to(y.device, non_blocking=True)
        gpu.current_stream(y.device).wait_stream(taking)
        losses.append(loss_fn(part1(arrived), target) * size / len(x))
    loss = sum(losses)
    loss.backward()
    return loss.detach()


# %% wrong: giving_alone
# Thinks that a copy is on the stream of the device that gives, and leaves the other device's as it is.

def fast_and_right(part0, part1, loss_fn, x, y, size, giving, taking):
    gpu = torch.get_device_module(x.device)
    computing0, computing1 = gpu.current_stream(x.device), gpu.current_stream(y.device)
    losses = []
    for rows, target in zip(x.split(size), y.split(size)):
        hidden = part0(rows)
        giving.wait_stream(computing0)
        with gpu.stream(giving):
            arrived = hidden.to(y.device, non_blocking=True)
        computing1.wait_stream(taking)
        losses.append(loss_fn(part1(arrived), target) * len(rows) / len(x))
    loss = sum(losses)
    loss.backward()
    return loss.detach()


# %% wrong: taking_alone
# Thinks that a copy is on the stream of the device that takes.

def fast_and_right(part0, part1, loss_fn, x, y, size, giving, taking):
    gpu = torch.get_device_module(x.device)
    computing0, computing1 = gpu.current_stream(x.device), gpu.current_stream(y.device)
    losses = []
    for rows, target in zip(x.split(size), y.split(size)):
        hidden = part0(rows)
        giving.wait_stream(computing0)
        with gpu.stream(taking):
            arrived = hidden.to(y.device, non_blocking=True)
        computing1.wait_stream(taking)
        losses.append(loss_fn(part1(arrived), target) * len(rows) / len(x))
    loss = sum(losses)
    loss.backward()
    return loss.detach()


# %% right: events
# Waits for events in place of streams, and joins the outputs for one loss.

def fast_and_right(part0, part1, loss_fn, x, y, size, giving, taking):
    gpu = torch.get_device_module(x.device)
    outputs = []
    for rows in x.split(size):
        hidden = part0(rows)
        giving.wait_event(gpu.current_stream(x.device).record_event())
        with gpu.stream(giving), gpu.stream(taking):
            arrived = hidden.to(y.device, non_blocking=True)
            there = taking.record_event()
        gpu.current_stream(y.device).wait_event(there)
        outputs.append(part1(arrived))
    loss = loss_fn(torch.cat(outputs), y)
    loss.backward()
    return loss.detach()


# %% right: backward_one_by_one
# Goes backward through one loss after the other, the newest first.

def fast_and_right(part0, part1, loss_fn, x, y, size, giving, taking):
    gpu = torch.get_device_module(x.device)
    computing0, computing1 = gpu.current_stream(x.device), gpu.current_stream(y.device)
    losses = []
    for start in range(0, len(x), size):
        rows, target = x[start : start + size], y[start : start + size]
        hidden = part0(rows)
        giving.wait_stream(computing0)
        with gpu.stream(giving), gpu.stream(taking):
            arrived = hidden.to(y.device, non_blocking=True)
        computing1.wait_stream(taking)
        losses.append(loss_fn(part1(arrived), target) * (len(rows) / len(x)))
    for loss in reversed(losses):
        loss.backward()
    return torch.stack(losses).sum().detach()
