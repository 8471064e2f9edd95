# %% wrong: forward_only
# Thinks that a training step is its forward pass, and records no more.

def watch(model, optimizer, x, y, device0, device1):
    def step():
        optimizer.zero_grad()
        output = model(x)
        loss = nn.functional.mse_loss(output, y.to(output.device))
        loss.backward()
        optimizer.step()

    step()
    step()
    with record(device0, device1) as timeline:
        model(x)

    both = 0
    for s0, e0 in timeline.busy_times(device0):
        for s1, e1 in timeline.busy_times(device1):
            both += max(0, min(e0, e1) - max(s0, s1))

    result = {str(d): 100 * timeline.busy(d) / timeline.span for d in (device0, device1)}
    result["both"] = 100 * both / timeline.span
    return result


# %% wrong: no_warm_up
# Records the first step, in which things are done that no other step does.

def watch(model, optimizer, x, y, device0, device1):
    def step():
        optimizer.zero_grad()
        output = model(x)
        loss = nn.functional.mse_loss(output, y.to(output.device))
        loss.backward()
        optimizer.step()

    with record(device0, device1) as timeline:
        step()
    step()

    both = 0
    for s0, e0 in timeline.busy_times(device0):
        for s1, e1 in timeline.busy_times(device1):
            both += max(0, min(e0, e1) - max(s0, s1))

    result = {str(d): 100 * timeline.busy(d) / timeline.span for d in (device0, device1)}
    result["both"] = 100 * both / timeline.span
    return result


# %% wrong: both_steps_recorded
# Records the warm-up together with the step.

def watch(model, optimizer, x, y, device0, device1):
    def step():
        optimizer.zero_grad()
        output = model(x)
        loss = nn.functional.mse_loss(output, y.to(output.device))
        loss.backward()
        optimizer.step()

    with record(device0, device1) as timeline:
        step()
        step()

    both = 0
    for s0, e0 in timeline.busy_times(device0):
        for s1, e1 in timeline.busy_times(device1):
            both += max(0, min(e0, e1) - max(s0, s1))

    result = {str(d): 100 * timeline.busy(d) / timeline.span for d in (device0, device1)}
    result["both"] = 100 * both / timeline.span
    return result


# %% wrong: gradients_pile_up
# Never clears the gradients, so that the second step uses those of both.

def watch(model, optimizer, x, y, device0, device1):
    def step():
        output = model(x)
        nn.functional.mse_loss(output, y.to(output.device)).backward()
        optimizer.step()

    step()
    with record(device0, device1) as timeline:
        step()

    both = 0
    for s0, e0 in timeline.busy_times(device0):
        for s1, e1 in timeline.busy_times(device1):
            both += max(0, min(e0, e1) - max(s0, s1))

    result = {str(d): 100 * timeline.busy(d) / timeline.span for d in (device0, device1)}
    result["both"] = 100 * both / timeline.span
    return result


# %% wrong: update_forgotten
# Goes forward and backward, and never lets the optimizer step.

def watch(model, optimizer, x, y, device0, device1):
    def step():
        optimizer.zero_grad()
        output = model(x)
        loss = nn.functional.mse_loss(output, y.to(output.device))
        loss.backward()

    step()
    with record(device0, device1) as timeline:
        step()

    both = 0
    for s0, e0 in timeline.busy_times(device0):
        for s1, e1 in timeline.busy_times(device1):
            both += max(0, min(e0, e1) - max(s0, s1))

    result = {str(d): 100 * timeline.busy(d) / timeline.span for d in (device0, device1)}
    result["both"] = 100 * both / timeline.span
    return result


# %% wrong: share_not_percent
# Returns shares from 0 to 1 where percent are asked for.

def watch(model, optimizer, x, y, device0, device1):
    def step():
        optimizer.zero_grad()
        output = model(x)
        loss = nn.functional.mse_loss(output, y.to(output.device))
        loss.backward()
        optimizer.step()

    step()
    with record(device0, device1) as timeline:
        step()

    both = 0
    for s0, e0 in timeline.busy_times(device0):
        for s1, e1 in timeline.busy_times(device1):
            both += max(0, min(e0, e1) - max(s0, s1))

    result = dict(timeline.utilization())
    result["both"] = both / timeline.span
    return result


# %% wrong: both_of_the_busy_time
# Divides by the time in which a device computes, not by the recorded time.

def watch(model, optimizer, x, y, device0, device1):
    def step():
        optimizer.zero_grad()
        output = model(x)
        loss = nn.functional.mse_loss(output, y.to(output.device))
        loss.backward()
        optimizer.step()

    step()
    with record(device0, device1) as timeline:
        step()

    both = 0
    for s0, e0 in timeline.busy_times(device0):
        for s1, e1 in timeline.busy_times(device1):
            both += max(0, min(e0, e1) - max(s0, s1))

    busy0, busy1 = timeline.busy(device0), timeline.busy(device1)
    result = {str(device0): 100 * busy0 / timeline.span, str(device1): 100 * busy1 / timeline.span}
    result["both"] = 100 * both / (busy0 + busy1 - both)
    return result


# %% wrong: product_of_the_shares
# Thinks that two devices at 50% compute together in 25% of the time, as if by chance.

def watch(model, optimizer, x, y, device0, device1):
    def step():
        optimizer.zero_grad()
        output = model(x)
        loss = nn.functional.mse_loss(output, y.to(output.device))
        loss.backward()
        optimizer.step()

    step()
    with record(device0, device1) as timeline:
        step()

    share0, share1 = timeline.utilization().values()
    return {str(device0): 100 * share0, str(device1): 100 * share1, "both": 100 * share0 * share1}


# %% wrong: less_busy_is_both
# Thinks that the device with the lower utilization computes only while the other does.

def watch(model, optimizer, x, y, device0, device1):
    def step():
        optimizer.zero_grad()
        output = model(x)
        loss = nn.functional.mse_loss(output, y.to(output.device))
        loss.backward()
        optimizer.step()

    step()
    with record(device0, device1) as timeline:
        step()

    percent = {name: 100 * share for name, share in timeline.utilization().items()}
    percent["both"] = min(percent.values())
    return percent


# %% wrong: idle_for_busy
# Returns how long each device was idle.

def watch(model, optimizer, x, y, device0, device1):
    def step():
        optimizer.zero_grad()
        output = model(x)
        loss = nn.functional.mse_loss(output, y.to(output.device))
        loss.backward()
        optimizer.step()

    step()
    with record(device0, device1) as timeline:
        step()

    both = 0
    for s0, e0 in timeline.busy_times(device0):
        for s1, e1 in timeline.busy_times(device1):
            both += max(0, min(e0, e1) - max(s0, s1))

    percent = {str(d): 100 * timeline.idle(d) / timeline.span for d in (device0, device1)}
    percent["both"] = 100 * both / timeline.span
    return percent


# %% wrong: device_objects
# Gives the devices themselves where their names are asked for.

def watch(model, optimizer, x, y, device0, device1):
    def step():
        optimizer.zero_grad()
        output = model(x)
        loss = nn.functional.mse_loss(output, y.to(output.device))
        loss.backward()
        optimizer.step()

    step()
    with record(device0, device1) as timeline:
        step()

    both = 0
    for s0, e0 in timeline.busy_times(device0):
        for s1, e1 in timeline.busy_times(device1):
            both += max(0, min(e0, e1) - max(s0, s1))

    return {
        device0: 100 * timeline.busy(device0) / timeline.span,
        device1: 100 * timeline.busy(device1) / timeline.span,
        "both": 100 * both / timeline.span,
    }


# %% wrong: targets_to_the_second_device
# Takes it for granted that the output of a split model is on device1.

def watch(model, optimizer, x, y, device0, device1):
    y = y.to(device1)

    def step():
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()

    step()
    with record(device0, device1) as timeline:
        step()
    found = {str(device): 100 * timeline.busy(device) / timeline.span for device in (device0, device1)}
    pairs = [(a, b) for a in timeline.busy_times(device0) for b in timeline.busy_times(device1)]
    overlaps = [max(0, min(a[1], b[1]) - max(a[0], b[0])) for a, b in pairs]
    return {**found, "both": 100 * sum(overlaps) / timeline.span}


# %% wrong: update_not_recorded
# Ends the recording before the optimizer's step, because that is no part of the model.

def watch(model, optimizer, x, y, device0, device1):
    def gradients():
        optimizer.zero_grad()
        output = model(x)
        nn.functional.mse_loss(output, y.to(output.device)).backward()

    gradients()
    optimizer.step()
    with record(device0, device1) as timeline:
        gradients()
    optimizer.step()

    both = 0
    for s0, e0 in timeline.busy_times(device0):
        for s1, e1 in timeline.busy_times(device1):
            both += max(0, min(e0, e1) - max(s0, s1))

    result = {str(d): 100 * timeline.busy(d) / timeline.span for d in (device0, device1)}
    result["both"] = 100 * both / timeline.span
    return result


# %% wrong: loss_on_the_cpu
# Brings the output to the CPU, where y is.

def watch(model, optimizer, x, y, device0, device1):
    def step():
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x).cpu(), y).backward()
        optimizer.step()

    step()
    with record(device0, device1) as timeline:
        step()

    both = 0
    for s0, e0 in timeline.busy_times(device0):
        for s1, e1 in timeline.busy_times(device1):
            both += max(0, min(e0, e1) - max(s0, s1))

    result = {str(d): 100 * timeline.busy(d) / timeline.span for d in (device0, device1)}
    result["both"] = 100 * both / timeline.span
    return result


# %% right: intervals_of_the_course
# Uses the course's own module for times, and a loop over the two steps.

from contextlib import nullcontext

from utils.observe.intervals import common, length


def watch(model, optimizer, x, y, device0, device1):
    for recording in (nullcontext(), record(device0, device1)):
        with recording as timeline:
            optimizer.zero_grad(set_to_none=True)
            prediction = model(x)
            target = y.to(prediction.device)
            nn.MSELoss()(prediction, target).backward()
            optimizer.step()
    both = length(common(timeline.busy_times(device0), timeline.busy_times(device1)))
    return {
        str(device0): 100 * timeline.busy(device0) / timeline.span,
        str(device1): 100 * timeline.busy(device1) / timeline.span,
        "both": 100 * both / timeline.span,
    }


# %% right: from_the_events
# Computes it all from the single kernels, and prints a table.

def watch(model, optimizer, x, y, device0, device1):
    def train():
        out = model(x)
        loss = ((out - y.to(out.device)) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    train()
    with record(device0, device1) as timeline:
        train()
    display_table = timeline.table()
    print(display_table)
    edges = {timeline.begin, timeline.end}
    kernels = {str(device0): [], str(device1): []}
    for event in timeline.events:
        if event.is_kernel:
            kernels[event.device].append((event.start, event.end))
            edges.update((event.start, event.end))
    edges = sorted(edges)
    result = {str(device0): 0.0, str(device1): 0.0, "both": 0.0}
    for left, right in zip(edges, edges[1:]):
        busy = [d for d in kernels if any(s <= left and right <= e for s, e in kernels[d])]
        for name in busy + ["both"] * (len(busy) == 2):
            result[name] += 100 * (right - left) / (timeline.end - timeline.begin)
    return result


# %% right: target_moved_once
# Moves the target before both steps, to where the model's last parameter is.

def watch(model, optimizer, x, y, device0, device1):
    y = y.to(model(x).device) if False else y.to(list(model.parameters())[-1].device)
    timelines = []
    for number in range(2):
        optimizer.zero_grad()
        if number == 0:
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
        else:
            with record(device0, device1) as timeline:
                loss = nn.functional.mse_loss(model(x), y)
                loss.backward()
                optimizer.step()
            timelines.append(timeline)
    t = timelines[0]
    overlap = sum(
        max(0, min(a[1], b[1]) - max(a[0], b[0])) for a in t.busy_times(device0) for b in t.busy_times(device1)
    )
    shares = t.utilization()
    return {"both": overlap / t.span * 100, **{d: s * 100 for d, s in shares.items()}}


# %% wrong: order_of_the_names
# Records the devices in the order of their names, and takes the shares for those of device0 and device1.

def watch(model, optimizer, x, y, device0, device1):
    def step():
        optimizer.zero_grad()
        output = model(x)
        loss = nn.functional.mse_loss(output, y.to(output.device))
        loss.backward()
        optimizer.step()

    step()
    with record(*sorted((device0, device1), key=str)) as timeline:
        step()

    shares = timeline.utilization().values()
    percent = {str(device): 100 * share for device, share in zip((device0, device1), shares, strict=True)}
    both = 0.0
    for start0, end0 in timeline.busy_times(device0):
        for start1, end1 in timeline.busy_times(device1):
            both += max(0.0, min(end0, end1) - max(start0, start1))
    percent["both"] = 100 * both / timeline.span
    return percent
