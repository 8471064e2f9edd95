# %% wrong: rank_by_rank
# Launches the list of rank 0 to its end, then that of rank 1, and so on.

def run_schedule(stages, lists, x, y, loss_fn, devices):
    rows = [[Action.parse(text) for text in row.split()] for row in lists]
    number = 1 + max(action.micro_batch for row in rows for action in row)
    xs, ys = x.tensor_split(number), y.tensor_split(number)
    place = {a.stage: torch.device(devices[rank]) for rank, row in enumerate(rows) for a in row}
    streams, outputs, gradients, kept, total = {}, {}, {}, {}, 0

    def carry(tensor, device):
        if tensor.device == device:
            return tensor, None
        gpu = torch.get_device_module(device)
        way = tensor.device, device
        if way not in streams:
            streams[way] = gpu.Stream(tensor.device), gpu.Stream(device)
        giving, taking = streams[way]
        giving.wait_stream(gpu.current_stream(tensor.device))
        with gpu.stream(giving), gpu.stream(taking):
            copied = tensor.to(device, non_blocking=True)
        tensor.record_stream(giving)
        return copied, taking.record_event()

    def arrived(tensor, event):
        if event is not None:
            here = torch.get_device_module(tensor.device).current_stream(tensor.device)
            here.wait_event(event)
            tensor.record_stream(here)
        return tensor

    for row in rows:
        for kind, stage, m in row:
            if kind == "F":
                received = xs[m] if stage == 0 else arrived(*outputs.pop((stage, m)))
                if stage:
                    received.requires_grad_()
                output = stages[stage](received)
                if stage == len(stages) - 1:
                    output = loss_fn(output, ys[m]) * len(ys[m]) / len(y)
                    total = total + output.detach()
                else:
                    outputs[stage + 1, m] = carry(output.detach(), place[stage + 1])
                kept[stage, m] = received, output
            else:
                received, output = kept.pop((stage, m))
                if stage == len(stages) - 1:
                    output.backward()
                else:
                    output.backward(arrived(*gradients.pop((stage, m))))
                if stage:
                    gradients[stage - 1, m] = carry(received.grad, place[stage - 1])
    return total


# %% wrong: copies_on_the_streams_that_compute
# Copies with .to, on the streams that compute.

def run_schedule(stages, lists, x, y, loss_fn, devices):
    rows = [[Action.parse(text) for text in row.split()] for row in lists]
    number = 1 + max(action.micro_batch for row in rows for action in row)
    xs, ys = x.tensor_split(number), y.tensor_split(number)
    place = {a.stage: torch.device(devices[rank]) for rank, row in enumerate(rows) for a in row}
    outputs, gradients, kept, total = {}, {}, {}, 0

    def carry(tensor, device):
        if tensor.device == device:
            return tensor, None
        return tensor.to(device, non_blocking=True), None

    def arrived(tensor, event):
        if event is not None:
            here = torch.get_device_module(tensor.device).current_stream(tensor.device)
            here.wait_event(event)
            tensor.record_stream(here)
        return tensor

    def possible(a):
        if a.kind == "F":
            return a.stage == 0 or (a.stage, a.micro_batch) in outputs
        return (a.stage, a.micro_batch) in kept and (
            a.stage == len(stages) - 1 or (a.stage, a.micro_batch) in gradients
        )

    while any(rows):
        for row in rows:
            if not row or not possible(row[0]):
                continue
            kind, stage, m = row.pop(0)
            if kind == "F":
                received = xs[m] if stage == 0 else arrived(*outputs.pop((stage, m)))
                if stage:
                    received.requires_grad_()
                output = stages[stage](received)
                if stage == len(stages) - 1:
                    output = loss_fn(output, ys[m]) * len(ys[m]) / len(y)
                    total = total + output.detach()
                else:
                    outputs[stage + 1, m] = carry(output.detach(), place[stage + 1])
                kept[stage, m] = received, output
            else:
                received, output = kept.pop((stage, m))
                if stage == len(stages) - 1:
                    output.backward()
                else:
                    output.backward(arrived(*gradients.pop((stage, m))))
                if stage:
                    gradients[stage - 1, m] = carry(received.grad, place[stage - 1])
    return total


# %% wrong: everything_kept
# Keeps what every micro-batch has received and made, to the end.

def run_schedule(stages, lists, x, y, loss_fn, devices):
    rows = [[Action.parse(text) for text in row.split()] for row in lists]
    number = 1 + max(action.micro_batch for row in rows for action in row)
    xs, ys = x.tensor_split(number), y.tensor_split(number)
    place = {a.stage: torch.device(devices[rank]) for rank, row in enumerate(rows) for a in row}
    streams, outputs, gradients, kept, total = {}, {}, {}, {}, 0

    def carry(tensor, device):
        if tensor.device == device:
            return tensor, None
        gpu = torch.get_device_module(device)
        way = tensor.device, device
        if way not in streams:
            streams[way] = gpu.Stream(tensor.device), gpu.Stream(device)
        giving, taking = streams[way]
        giving.wait_stream(gpu.current_stream(tensor.device))
        with gpu.stream(giving), gpu.stream(taking):
            copied = tensor.to(device, non_blocking=True)
        tensor.record_stream(giving)
        return copied, taking.record_event()

    def arrived(tensor, event):
        if event is not None:
            here = torch.get_device_module(tensor.device).current_stream(tensor.device)
            here.wait_event(event)
            tensor.record_stream(here)
        return tensor

    def possible(a):
        if a.kind == "F":
            return a.stage == 0 or (a.stage, a.micro_batch) in outputs
        return (a.stage, a.micro_batch) in kept and (
            a.stage == len(stages) - 1 or (a.stage, a.micro_batch) in gradients
        )

    while any(rows):
        for row in rows:
            if not row or not possible(row[0]):
                continue
            kind, stage, m = row.pop(0)
            if kind == "F":
                received = xs[m] if stage == 0 else arrived(*outputs[stage, m])
                if stage:
                    received.requires_grad_()
                output = stages[stage](received)
                if stage == len(stages) - 1:
                    output = loss_fn(output, ys[m]) * len(ys[m]) / len(y)
                    total = total + output.detach()
                else:
                    outputs[stage + 1, m] = carry(output.detach(), place[stage + 1])
                kept[stage, m] = received, output
            else:
                received, output = kept[stage, m]
                if stage == len(stages) - 1:
                    output.backward()
                else:
                    output.backward(arrived(*gradients[stage, m]))
                if stage:
                    gradients[stage - 1, m] = carry(received.grad, place[stage - 1])
    return total


# %% wrong: losses_keep_their_graphs
# Keeps the loss of each micro-batch with its graph, and frees everything else.

def run_schedule(stages, lists, x, y, loss_fn, devices):
    rows = [[Action.parse(text) for text in row.split()] for row in lists]
    number = 1 + max(action.micro_batch for row in rows for action in row)
    xs, ys = x.tensor_split(number), y.tensor_split(number)
    place = {a.stage: torch.device(devices[rank]) for rank, row in enumerate(rows) for a in row}
    streams, outputs, gradients, kept, total = {}, {}, {}, {}, 0

    def carry(tensor, device):
        if tensor.device == device:
            return tensor, None
        gpu = torch.get_device_module(device)
        way = tensor.device, device
        if way not in streams:
            streams[way] = gpu.Stream(tensor.device), gpu.Stream(device)
        giving, taking = streams[way]
        giving.wait_stream(gpu.current_stream(tensor.device))
        with gpu.stream(giving), gpu.stream(taking):
            copied = tensor.to(device, non_blocking=True)
        tensor.record_stream(giving)
        return copied, taking.record_event()

    def arrived(tensor, event):
        if event is not None:
            here = torch.get_device_module(tensor.device).current_stream(tensor.device)
            here.wait_event(event)
            tensor.record_stream(here)
        return tensor

    def possible(a):
        if a.kind == "F":
            return a.stage == 0 or (a.stage, a.micro_batch) in outputs
        return (a.stage, a.micro_batch) in kept and (
            a.stage == len(stages) - 1 or (a.stage, a.micro_batch) in gradients
        )

    while any(rows):
        for row in rows:
            if not row or not possible(row[0]):
                continue
            kind, stage, m = row.pop(0)
            if kind == "F":
                received = xs[m] if stage == 0 else arrived(*outputs.pop((stage, m)))
                if stage:
                    received.requires_grad_()
                output = stages[stage](received)
                if stage == len(stages) - 1:
                    output = loss_fn(output, ys[m]) * len(ys[m]) / len(y)
                    total = total + output
                else:
                    outputs[stage + 1, m] = carry(output.detach(), place[stage + 1])
                kept[stage, m] = received, output
            else:
                received, output = kept.pop((stage, m))
                if stage == len(stages) - 1:
                    output.backward(retain_graph=True)
                else:
                    output.backward(arrived(*gradients.pop((stage, m))))
                if stage:
                    gradients[stage - 1, m] = carry(received.grad, place[stage - 1])
    return total


# %% wrong: zeroes_the_gradients
# Begins the step with zero_grad, which is not asked for.

def run_schedule(stages, lists, x, y, loss_fn, devices):
    for stage in stages:
        stage.zero_grad()
    rows = [[Action.parse(text) for text in row.split()] for row in lists]
    number = 1 + max(action.micro_batch for row in rows for action in row)
    xs, ys = x.tensor_split(number), y.tensor_split(number)
    place = {a.stage: torch.device(devices[rank]) for rank, row in enumerate(rows) for a in row}
    streams, outputs, gradients, kept, total = {}, {}, {}, {}, 0

    def carry(tensor, device):
        if tensor.device == device:
            return tensor, None
        gpu = torch.get_device_module(device)
        way = tensor.device, device
        if way not in streams:
            streams[way] = gpu.Stream(tensor.device), gpu.Stream(device)
        giving, taking = streams[way]
        giving.wait_stream(gpu.current_stream(tensor.device))
        with gpu.stream(giving), gpu.stream(taking):
            copied = tensor.to(device, non_blocking=True)
        tensor.record_stream(giving)
        return copied, taking.record_event()

    def arrived(tensor, event):
        if event is not None:
            here = torch.get_device_module(tensor.device).current_stream(tensor.device)
            here.wait_event(event)
            tensor.record_stream(here)
        return tensor

    def possible(a):
        if a.kind == "F":
            return a.stage == 0 or (a.stage, a.micro_batch) in outputs
        return (a.stage, a.micro_batch) in kept and (
            a.stage == len(stages) - 1 or (a.stage, a.micro_batch) in gradients
        )

    while any(rows):
        for row in rows:
            if not row or not possible(row[0]):
                continue
            kind, stage, m = row.pop(0)
            if kind == "F":
                received = xs[m] if stage == 0 else arrived(*outputs.pop((stage, m)))
                if stage:
                    received.requires_grad_()
                output = stages[stage](received)
                if stage == len(stages) - 1:
                    output = loss_fn(output, ys[m]) * len(ys[m]) / len(y)
                    total = total + output.detach()
                else:
                    outputs[stage + 1, m] = carry(output.detach(), place[stage + 1])
                kept[stage, m] = received, output
            else:
                received, output = kept.pop((stage, m))
                if stage == len(stages) - 1:
                    output.backward()
                else:
                    output.backward(arrived(*gradients.pop((stage, m))))
                if stage:
                    gradients[stage - 1, m] = carry(received.grad, place[stage - 1])
    return total


# %% wrong: not_divided
# Adds the mean losses of the micro-batches, and does not divide them.

def run_schedule(stages, lists, x, y, loss_fn, devices):
    rows = [[Action.parse(text) for text in row.split()] for row in lists]
    number = 1 + max(action.micro_batch for row in rows for action in row)
    xs, ys = x.tensor_split(number), y.tensor_split(number)
    place = {a.stage: torch.device(devices[rank]) for rank, row in enumerate(rows) for a in row}
    streams, outputs, gradients, kept, total = {}, {}, {}, {}, 0

    def carry(tensor, device):
        if tensor.device == device:
            return tensor, None
        gpu = torch.get_device_module(device)
        way = tensor.device, device
        if way not in streams:
            streams[way] = gpu.Stream(tensor.device), gpu.Stream(device)
        giving, taking = streams[way]
        giving.wait_stream(gpu.current_stream(tensor.device))
        with gpu.stream(giving), gpu.stream(taking):
            copied = tensor.to(device, non_blocking=True)
        tensor.record_stream(giving)
        return copied, taking.record_event()

    def arrived(tensor, event):
        if event is not None:
            here = torch.get_device_module(tensor.device).current_stream(tensor.device)
            here.wait_event(event)
            tensor.record_stream(here)
        return tensor

    def possible(a):
        if a.kind == "F":
            return a.stage == 0 or (a.stage, a.micro_batch) in outputs
        return (a.stage, a.micro_batch) in kept and (
            a.stage == len(stages) - 1 or (a.stage, a.micro_batch) in gradients
        )

    while any(rows):
        for row in rows:
            if not row or not possible(row[0]):
                continue
            kind, stage, m = row.pop(0)
            if kind == "F":
                received = xs[m] if stage == 0 else arrived(*outputs.pop((stage, m)))
                if stage:
                    received.requires_grad_()
                output = stages[stage](received)
                if stage == len(stages) - 1:
                    output = loss_fn(output, ys[m])
                    total = total + output.detach()
                else:
                    outputs[stage + 1, m] = carry(output.detach(), place[stage + 1])
                kept[stage, m] = received, output
            else:
                received, output = kept.pop((stage, m))
                if stage == len(stages) - 1:
                    output.backward()
                else:
                    output.backward(arrived(*gradients.pop((stage, m))))
                if stage:
                    gradients[stage - 1, m] = carry(received.grad, place[stage - 1])
    return total


# %% wrong: means_of_means
# Gives each micro-batch the same weight, also the smaller ones.

def run_schedule(stages, lists, x, y, loss_fn, devices):
    rows = [[Action.parse(text) for text in row.split()] for row in lists]
    number = 1 + max(action.micro_batch for row in rows for action in row)
    xs, ys = x.tensor_split(number), y.tensor_split(number)
    place = {a.stage: torch.device(devices[rank]) for rank, row in enumerate(rows) for a in row}
    streams, outputs, gradients, kept, total = {}, {}, {}, {}, 0

    def carry(tensor, device):
        if tensor.device == device:
            return tensor, None
        gpu = torch.get_device_module(device)
        way = tensor.device, device
        if way not in streams:
            streams[way] = gpu.Stream(tensor.device), gpu.Stream(device)
        giving, taking = streams[way]
        giving.wait_stream(gpu.current_stream(tensor.device))
        with gpu.stream(giving), gpu.stream(taking):
            copied = tensor.to(device, non_blocking=True)
        tensor.record_stream(giving)
        return copied, taking.record_event()

    def arrived(tensor, event):
        if event is not None:
            here = torch.get_device_module(tensor.device).current_stream(tensor.device)
            here.wait_event(event)
            tensor.record_stream(here)
        return tensor

    def possible(a):
        if a.kind == "F":
            return a.stage == 0 or (a.stage, a.micro_batch) in outputs
        return (a.stage, a.micro_batch) in kept and (
            a.stage == len(stages) - 1 or (a.stage, a.micro_batch) in gradients
        )

    while any(rows):
        for row in rows:
            if not row or not possible(row[0]):
                continue
            kind, stage, m = row.pop(0)
            if kind == "F":
                received = xs[m] if stage == 0 else arrived(*outputs.pop((stage, m)))
                if stage:
                    received.requires_grad_()
                output = stages[stage](received)
                if stage == len(stages) - 1:
                    output = loss_fn(output, ys[m]) / number
                    total = total + output.detach()
                else:
                    outputs[stage + 1, m] = carry(output.detach(), place[stage + 1])
                kept[stage, m] = received, output
            else:
                received, output = kept.pop((stage, m))
                if stage == len(stages) - 1:
                    output.backward()
                else:
                    output.backward(arrived(*gradients.pop((stage, m))))
                if stage:
                    gradients[stage - 1, m] = carry(received.grad, place[stage - 1])
    return total


# %% wrong: nobody_waits_for_copies
# Launches copies on streams of their own, and reads them without waiting.

def run_schedule(stages, lists, x, y, loss_fn, devices):
    rows = [[Action.parse(text) for text in row.split()] for row in lists]
    number = 1 + max(action.micro_batch for row in rows for action in row)
    xs, ys = x.tensor_split(number), y.tensor_split(number)
    place = {a.stage: torch.device(devices[rank]) for rank, row in enumerate(rows) for a in row}
    streams, outputs, gradients, kept, total = {}, {}, {}, {}, 0

    def carry(tensor, device):
        if tensor.device == device:
            return tensor, None
        gpu = torch.get_device_module(device)
        way = tensor.device, device
        if way not in streams:
            streams[way] = gpu.Stream(tensor.device), gpu.Stream(device)
        giving, taking = streams[way]
        giving.wait_stream(gpu.current_stream(tensor.device))
        with gpu.stream(giving), gpu.stream(taking):
            copied = tensor.to(device, non_blocking=True)
        tensor.record_stream(giving)
        return copied, taking.record_event()

    def arrived(tensor, event):
        if event is not None:
            here = torch.get_device_module(tensor.device).current_stream(tensor.device)
            tensor.record_stream(here)
        return tensor

    def possible(a):
        if a.kind == "F":
            return a.stage == 0 or (a.stage, a.micro_batch) in outputs
        return (a.stage, a.micro_batch) in kept and (
            a.stage == len(stages) - 1 or (a.stage, a.micro_batch) in gradients
        )

    while any(rows):
        for row in rows:
            if not row or not possible(row[0]):
                continue
            kind, stage, m = row.pop(0)
            if kind == "F":
                received = xs[m] if stage == 0 else arrived(*outputs.pop((stage, m)))
                if stage:
                    received.requires_grad_()
                output = stages[stage](received)
                if stage == len(stages) - 1:
                    output = loss_fn(output, ys[m]) * len(ys[m]) / len(y)
                    total = total + output.detach()
                else:
                    outputs[stage + 1, m] = carry(output.detach(), place[stage + 1])
                kept[stage, m] = received, output
            else:
                received, output = kept.pop((stage, m))
                if stage == len(stages) - 1:
                    output.backward()
                else:
                    output.backward(arrived(*gradients.pop((stage, m))))
                if stage:
                    gradients[stage - 1, m] = carry(received.grad, place[stage - 1])
    return total


# %% wrong: copy_does_not_wait
# Lets readers wait for copies, and copies not for what they read.

def run_schedule(stages, lists, x, y, loss_fn, devices):
    rows = [[Action.parse(text) for text in row.split()] for row in lists]
    number = 1 + max(action.micro_batch for row in rows for action in row)
    xs, ys = x.tensor_split(number), y.tensor_split(number)
    place = {a.stage: torch.device(devices[rank]) for rank, row in enumerate(rows) for a in row}
    streams, outputs, gradients, kept, total = {}, {}, {}, {}, 0

    def carry(tensor, device):
        if tensor.device == device:
            return tensor, None
        gpu = torch.get_device_module(device)
        way = tensor.device, device
        if way not in streams:
            streams[way] = gpu.Stream(tensor.device), gpu.Stream(device)
        giving, taking = streams[way]
        with gpu.stream(giving), gpu.stream(taking):
            copied = tensor.to(device, non_blocking=True)
        tensor.record_stream(giving)
        return copied, taking.record_event()

    def arrived(tensor, event):
        if event is not None:
            here = torch.get_device_module(tensor.device).current_stream(tensor.device)
            here.wait_event(event)
            tensor.record_stream(here)
        return tensor

    def possible(a):
        if a.kind == "F":
            return a.stage == 0 or (a.stage, a.micro_batch) in outputs
        return (a.stage, a.micro_batch) in kept and (
            a.stage == len(stages) - 1 or (a.stage, a.micro_batch) in gradients
        )

    while any(rows):
        for row in rows:
            if not row or not possible(row[0]):
                continue
            kind, stage, m = row.pop(0)
            if kind == "F":
                received = xs[m] if stage == 0 else arrived(*outputs.pop((stage, m)))
                if stage:
                    received.requires_grad_()
                output = stages[stage](received)
                if stage == len(stages) - 1:
                    output = loss_fn(output, ys[m]) * len(ys[m]) / len(y)
                    total = total + output.detach()
                else:
                    outputs[stage + 1, m] = carry(output.detach(), place[stage + 1])
                kept[stage, m] = received, output
            else:
                received, output = kept.pop((stage, m))
                if stage == len(stages) - 1:
                    output.backward()
                else:
                    output.backward(arrived(*gradients.pop((stage, m))))
                if stage:
                    gradients[stage - 1, m] = carry(received.grad, place[stage - 1])
    return total


# %% wrong: gpipe_always
# Does all forward passes, then all backward passes, whatever the lists say.

def run_schedule(stages, lists, x, y, loss_fn, devices):
    rows = [[Action.parse(text) for text in row.split()] for row in lists]
    number = 1 + max(action.micro_batch for row in rows for action in row)
    xs, ys = x.tensor_split(number), y.tensor_split(number)
    place = {a.stage: torch.device(devices[rank]) for rank, row in enumerate(rows) for a in row}
    streams, outputs, gradients, kept, total = {}, {}, {}, {}, 0

    def carry(tensor, device):
        if tensor.device == device:
            return tensor, None
        gpu = torch.get_device_module(device)
        way = tensor.device, device
        if way not in streams:
            streams[way] = gpu.Stream(tensor.device), gpu.Stream(device)
        giving, taking = streams[way]
        giving.wait_stream(gpu.current_stream(tensor.device))
        with gpu.stream(giving), gpu.stream(taking):
            copied = tensor.to(device, non_blocking=True)
        tensor.record_stream(giving)
        return copied, taking.record_event()

    def arrived(tensor, event):
        if event is not None:
            here = torch.get_device_module(tensor.device).current_stream(tensor.device)
            here.wait_event(event)
            tensor.record_stream(here)
        return tensor

    def possible(a):
        if a.kind == "F":
            return a.stage == 0 or (a.stage, a.micro_batch) in outputs
        return (a.stage, a.micro_batch) in kept and (
            a.stage == len(stages) - 1 or (a.stage, a.micro_batch) in gradients
        )

    for row in rows:
        row.sort(key=lambda a: (a.kind == "B", a.micro_batch, a.stage if a.kind == "F" else -a.stage))
    while any(rows):
        for row in rows:
            if not row or not possible(row[0]):
                continue
            kind, stage, m = row.pop(0)
            if kind == "F":
                received = xs[m] if stage == 0 else arrived(*outputs.pop((stage, m)))
                if stage:
                    received.requires_grad_()
                output = stages[stage](received)
                if stage == len(stages) - 1:
                    output = loss_fn(output, ys[m]) * len(ys[m]) / len(y)
                    total = total + output.detach()
                else:
                    outputs[stage + 1, m] = carry(output.detach(), place[stage + 1])
                kept[stage, m] = received, output
            else:
                received, output = kept.pop((stage, m))
                if stage == len(stages) - 1:
                    output.backward()
                else:
                    output.backward(arrived(*gradients.pop((stage, m))))
                if stage:
                    gradients[stage - 1, m] = carry(received.grad, place[stage - 1])
    return total


# %% wrong: one_micro_batch_after_the_other
# Brings each micro-batch through all stages and back before the next.

def run_schedule(stages, lists, x, y, loss_fn, devices):
    rows = [[Action.parse(text) for text in row.split()] for row in lists]
    number = 1 + max(action.micro_batch for row in rows for action in row)
    xs, ys = x.tensor_split(number), y.tensor_split(number)
    place = {a.stage: torch.device(devices[rank]) for rank, row in enumerate(rows) for a in row}
    streams, outputs, gradients, kept, total = {}, {}, {}, {}, 0

    def carry(tensor, device):
        if tensor.device == device:
            return tensor, None
        gpu = torch.get_device_module(device)
        way = tensor.device, device
        if way not in streams:
            streams[way] = gpu.Stream(tensor.device), gpu.Stream(device)
        giving, taking = streams[way]
        giving.wait_stream(gpu.current_stream(tensor.device))
        with gpu.stream(giving), gpu.stream(taking):
            copied = tensor.to(device, non_blocking=True)
        tensor.record_stream(giving)
        return copied, taking.record_event()

    def arrived(tensor, event):
        if event is not None:
            here = torch.get_device_module(tensor.device).current_stream(tensor.device)
            here.wait_event(event)
            tensor.record_stream(here)
        return tensor

    order = sorted({a for row in rows for a in row}, key=lambda a: (a.micro_batch, a.kind == "B", a.stage if a.kind == "F" else -a.stage))
    for row in [order]:
        for kind, stage, m in row:
            if kind == "F":
                received = xs[m] if stage == 0 else arrived(*outputs.pop((stage, m)))
                if stage:
                    received.requires_grad_()
                output = stages[stage](received)
                if stage == len(stages) - 1:
                    output = loss_fn(output, ys[m]) * len(ys[m]) / len(y)
                    total = total + output.detach()
                else:
                    outputs[stage + 1, m] = carry(output.detach(), place[stage + 1])
                kept[stage, m] = received, output
            else:
                received, output = kept.pop((stage, m))
                if stage == len(stages) - 1:
                    output.backward()
                else:
                    output.backward(arrived(*gradients.pop((stage, m))))
                if stage:
                    gradients[stage - 1, m] = carry(received.grad, place[stage - 1])
    return total


# %% wrong: stage_is_rank
# Takes stage s to be on device s.

def run_schedule(stages, lists, x, y, loss_fn, devices):
    rows = [[Action.parse(text) for text in row.split()] for row in lists]
    number = 1 + max(action.micro_batch for row in rows for action in row)
    xs, ys = x.tensor_split(number), y.tensor_split(number)
    place = [torch.device(device) for device in devices]
    streams, outputs, gradients, kept, total = {}, {}, {}, {}, 0

    def carry(tensor, device):
        if tensor.device == device:
            return tensor, None
        gpu = torch.get_device_module(device)
        way = tensor.device, device
        if way not in streams:
            streams[way] = gpu.Stream(tensor.device), gpu.Stream(device)
        giving, taking = streams[way]
        giving.wait_stream(gpu.current_stream(tensor.device))
        with gpu.stream(giving), gpu.stream(taking):
            copied = tensor.to(device, non_blocking=True)
        tensor.record_stream(giving)
        return copied, taking.record_event()

    def arrived(tensor, event):
        if event is not None:
            here = torch.get_device_module(tensor.device).current_stream(tensor.device)
            here.wait_event(event)
            tensor.record_stream(here)
        return tensor

    def possible(a):
        if a.kind == "F":
            return a.stage == 0 or (a.stage, a.micro_batch) in outputs
        return (a.stage, a.micro_batch) in kept and (
            a.stage == len(stages) - 1 or (a.stage, a.micro_batch) in gradients
        )

    while any(rows):
        for row in rows:
            if not row or not possible(row[0]):
                continue
            kind, stage, m = row.pop(0)
            if kind == "F":
                received = xs[m] if stage == 0 else arrived(*outputs.pop((stage, m)))
                if stage:
                    received.requires_grad_()
                output = stages[stage](received)
                if stage == len(stages) - 1:
                    output = loss_fn(output, ys[m]) * len(ys[m]) / len(y)
                    total = total + output.detach()
                else:
                    outputs[stage + 1, m] = carry(output.detach(), place[stage + 1])
                kept[stage, m] = received, output
            else:
                received, output = kept.pop((stage, m))
                if stage == len(stages) - 1:
                    output.backward()
                else:
                    output.backward(arrived(*gradients.pop((stage, m))))
                if stage:
                    gradients[stage - 1, m] = carry(received.grad, place[stage - 1])
    return total


# %% wrong: asks_for_each_loss
# Adds up the losses as numbers, with .item() in the loop.

def run_schedule(stages, lists, x, y, loss_fn, devices):
    rows = [[Action.parse(text) for text in row.split()] for row in lists]
    number = 1 + max(action.micro_batch for row in rows for action in row)
    xs, ys = x.tensor_split(number), y.tensor_split(number)
    place = {a.stage: torch.device(devices[rank]) for rank, row in enumerate(rows) for a in row}
    streams, outputs, gradients, kept, total = {}, {}, {}, {}, 0

    def carry(tensor, device):
        if tensor.device == device:
            return tensor, None
        gpu = torch.get_device_module(device)
        way = tensor.device, device
        if way not in streams:
            streams[way] = gpu.Stream(tensor.device), gpu.Stream(device)
        giving, taking = streams[way]
        giving.wait_stream(gpu.current_stream(tensor.device))
        with gpu.stream(giving), gpu.stream(taking):
            copied = tensor.to(device, non_blocking=True)
        tensor.record_stream(giving)
        return copied, taking.record_event()

    def arrived(tensor, event):
        if event is not None:
            here = torch.get_device_module(tensor.device).current_stream(tensor.device)
            here.wait_event(event)
            tensor.record_stream(here)
        return tensor

    def possible(a):
        if a.kind == "F":
            return a.stage == 0 or (a.stage, a.micro_batch) in outputs
        return (a.stage, a.micro_batch) in kept and (
            a.stage == len(stages) - 1 or (a.stage, a.micro_batch) in gradients
        )

    while any(rows):
        for row in rows:
            if not row or not possible(row[0]):
                continue
            kind, stage, m = row.pop(0)
            if kind == "F":
                received = xs[m] if stage == 0 else arrived(*outputs.pop((stage, m)))
                if stage:
                    received.requires_grad_()
                output = stages[stage](received)
                if stage == len(stages) - 1:
                    output = loss_fn(output, ys[m]) * len(ys[m]) / len(y)
                    total = total + output.item()
                else:
                    outputs[stage + 1, m] = carry(output.detach(), place[stage + 1])
                kept[stage, m] = received, output
            else:
                received, output = kept.pop((stage, m))
                if stage == len(stages) - 1:
                    output.backward()
                else:
                    output.backward(arrived(*gradients.pop((stage, m))))
                if stage:
                    gradients[stage - 1, m] = carry(received.grad, place[stage - 1])
    return total


# %% wrong: graph_not_cut
# Sends outputs with their graph, so the first backward pass goes through all stages.

def run_schedule(stages, lists, x, y, loss_fn, devices):
    rows = [[Action.parse(text) for text in row.split()] for row in lists]
    number = 1 + max(action.micro_batch for row in rows for action in row)
    xs, ys = x.tensor_split(number), y.tensor_split(number)
    place = {a.stage: torch.device(devices[rank]) for rank, row in enumerate(rows) for a in row}
    streams, outputs, gradients, kept, total = {}, {}, {}, {}, 0

    def carry(tensor, device):
        if tensor.device == device:
            return tensor, None
        gpu = torch.get_device_module(device)
        way = tensor.device, device
        if way not in streams:
            streams[way] = gpu.Stream(tensor.device), gpu.Stream(device)
        giving, taking = streams[way]
        giving.wait_stream(gpu.current_stream(tensor.device))
        with gpu.stream(giving), gpu.stream(taking):
            copied = tensor.to(device, non_blocking=True)
        tensor.record_stream(giving)
        return copied, taking.record_event()

    def arrived(tensor, event):
        if event is not None:
            here = torch.get_device_module(tensor.device).current_stream(tensor.device)
            here.wait_event(event)
            tensor.record_stream(here)
        return tensor

    def possible(a):
        if a.kind == "F":
            return a.stage == 0 or (a.stage, a.micro_batch) in outputs
        return (a.stage, a.micro_batch) in kept and (
            a.stage == len(stages) - 1 or (a.stage, a.micro_batch) in gradients
        )

    while any(rows):
        for row in rows:
            if not row or not possible(row[0]):
                continue
            kind, stage, m = row.pop(0)
            if kind == "F":
                received = xs[m] if stage == 0 else arrived(*outputs.pop((stage, m)))
                output = stages[stage](received)
                if stage == len(stages) - 1:
                    output = loss_fn(output, ys[m]) * len(ys[m]) / len(y)
                    total = total + output.detach()
                else:
                    outputs[stage + 1, m] = carry(output, place[stage + 1])
                kept[stage, m] = received.retain_grad() if received.requires_grad else None, output
            else:
                received, output = kept.pop((stage, m))
                if stage < len(stages) - 1:
                    continue
                if stage == len(stages) - 1:
                    output.backward()
                else:
                    output.backward(arrived(*gradients.pop((stage, m))))
                if stage:
                    gradients.update({(s, m): None for s in range(stage)})
    return total


# %% right: turns
# The ranks in turns, with what has arrived and what is kept in dictionaries.

def run_schedule(stages, lists, x, y, loss_fn, devices):
    rows = [[Action.parse(text) for text in row.split()] for row in lists]
    number = 1 + max(action.micro_batch for row in rows for action in row)
    xs, ys = x.tensor_split(number), y.tensor_split(number)
    place = {a.stage: torch.device(devices[rank]) for rank, row in enumerate(rows) for a in row}
    streams, outputs, gradients, kept, total = {}, {}, {}, {}, 0

    def carry(tensor, device):
        if tensor.device == device:
            return tensor, None
        gpu = torch.get_device_module(device)
        way = tensor.device, device
        if way not in streams:
            streams[way] = gpu.Stream(tensor.device), gpu.Stream(device)
        giving, taking = streams[way]
        giving.wait_stream(gpu.current_stream(tensor.device))
        with gpu.stream(giving), gpu.stream(taking):
            copied = tensor.to(device, non_blocking=True)
        tensor.record_stream(giving)
        return copied, taking.record_event()

    def arrived(tensor, event):
        if event is not None:
            here = torch.get_device_module(tensor.device).current_stream(tensor.device)
            here.wait_event(event)
            tensor.record_stream(here)
        return tensor

    def possible(a):
        if a.kind == "F":
            return a.stage == 0 or (a.stage, a.micro_batch) in outputs
        return (a.stage, a.micro_batch) in kept and (
            a.stage == len(stages) - 1 or (a.stage, a.micro_batch) in gradients
        )

    while any(rows):
        for row in rows:
            if not row or not possible(row[0]):
                continue
            kind, stage, m = row.pop(0)
            if kind == "F":
                received = xs[m] if stage == 0 else arrived(*outputs.pop((stage, m)))
                if stage:
                    received.requires_grad_()
                output = stages[stage](received)
                if stage == len(stages) - 1:
                    output = loss_fn(output, ys[m]) * len(ys[m]) / len(y)
                    total = total + output.detach()
                else:
                    outputs[stage + 1, m] = carry(output.detach(), place[stage + 1])
                kept[stage, m] = received, output
            else:
                received, output = kept.pop((stage, m))
                if stage == len(stages) - 1:
                    output.backward()
                else:
                    output.backward(arrived(*gradients.pop((stage, m))))
                if stage:
                    gradients[stage - 1, m] = carry(received.grad, place[stage - 1])
    return total


# %% right: an_order_first
# Finds an order of all actions first, then does them. One stream for copies at each end of each way.

def an_order(rows, last):
    done, order, places = set(), [], [0] * len(rows)
    while len(order) < sum(map(len, rows)):
        for rank, row in enumerate(rows):
            if places[rank] == len(row):
                continue
            kind, stage, m = row[places[rank]]
            if kind == "F":
                needs = {("F", stage - 1, m)} if stage else set()
            else:
                needs = {("F", stage, m), ("B", stage + 1, m)} if stage < last else {("F", stage, m)}
            if needs <= done:
                order.append((rank, kind, stage, m))
                places[rank] += 1
        done = {(kind, stage, m) for _, kind, stage, m in order}
    return order


class Post:
    """Sends tensors between devices, on streams for nothing else."""

    def __init__(self):
        self.streams, self.boxes = {}, {}

    def stream(self, *which):
        device = which[0]
        if which not in self.streams:
            self.streams[which] = torch.get_device_module(device).Stream(device)
        return self.streams[which]

    def send(self, name, tensor, device):
        gpu, event = torch.get_device_module(device), None
        if device != tensor.device:
            out, into = self.stream(tensor.device, "to", device), self.stream(device, "from", tensor.device)
            out.wait_event(gpu.current_stream(tensor.device).record_event())
            with gpu.stream(into), gpu.stream(out):
                tensor.record_stream(out)
                tensor = tensor.to(device, non_blocking=True)
            event = into.record_event()
        self.boxes[name] = tensor, event

    def fetch(self, name):
        tensor, event = self.boxes.pop(name)
        if event:
            stream = torch.get_device_module(tensor.device).current_stream(tensor.device)
            stream.wait_event(event)
            tensor.record_stream(stream)
        return tensor


def run_schedule(stages, lists, x, y, loss_fn, devices):
    rows = [[(text[0], *map(int, text[1:].split("."))) for text in row.split()] for row in lists]
    last, post, graphs, losses = len(stages) - 1, Post(), {}, []
    device_of = {}
    for rank, row in enumerate(rows):
        for _, stage, _ in row:
            device_of[stage] = torch.device(devices[rank])
    many = max(m for row in rows for _, _, m in row) + 1
    batches, targets = x.tensor_split(many), y.tensor_split(many)
    for _, kind, stage, m in an_order(rows, last):
        if kind == "F":
            data = post.fetch(("F", stage, m)).detach().requires_grad_() if stage else batches[m]
            result = stages[stage](data)
            if stage == last:
                result = loss_fn(result, targets[m]) * (len(targets[m]) / len(y))
                losses.append(result.detach())
            else:
                post.send(("F", stage + 1, m), result.detach(), device_of[stage + 1])
            graphs[stage, m] = data, result
        else:
            data, result = graphs.pop((stage, m))
            result.backward(None if stage == last else post.fetch(("B", stage, m)))
            if stage:
                post.send(("B", stage - 1, m), data.grad, device_of[stage - 1])
    return torch.stack(losses).sum().item()


# %% wrong: last_stage_on_the_last_rank
# Thinks that the last stage is on the last rank, and brings the targets to its device.

def run_schedule(stages, lists, x, y, loss_fn, devices):
    gpu = torch.get_device_module(devices[0])
    rows = [[Action.parse(text) for text in row.split()] for row in lists]
    place = {stage: torch.device(device) for row, device in zip(rows, devices, strict=True) for _, stage, _ in row}
    count, last = 1 + max(m for row in rows for _, _, m in row), len(stages) - 1
    xs, ys = x.tensor_split(count), y.tensor_split(count)
    arrived = {("F", 0, m): (xs[m], None) for m in range(count)} | {("B", last, m): (None, None) for m in range(count)}
    ways, kept, losses = {}, {}, []

    def send(tensor, *key):
        source, target, event = tensor.device, place[key[1]], None
        if source != target:
            if (source, target) not in ways:
                ways[source, target] = gpu.Stream(source), gpu.Stream(target)
            giving, taking = ways[source, target]
            giving.wait_stream(gpu.current_stream(source))
            tensor.record_stream(giving)
            with gpu.stream(giving), gpu.stream(taking):
                tensor = tensor.to(target, non_blocking=True)
            event = taking.record_event()
        arrived[key] = tensor, event

    def take(*key):
        tensor, event = arrived.pop(key)
        if event is not None:
            computing = gpu.current_stream(tensor.device)
            computing.wait_event(event)
            tensor.record_stream(computing)
        return tensor

    def do(kind, s, m):
        if kind == "F":
            received = take("F", s, m).requires_grad_(s > 0)
            output = stages[s](received)
            if s == last:
                output = loss_fn(output, ys[m].to(devices[-1])) * len(ys[m]) / len(y)
                losses.append(output.detach())
            else:
                send(output.detach(), "F", s + 1, m)
            kept[s, m] = received, output
        else:
            received, output = kept.pop((s, m))
            output.backward(take("B", s, m))
            if s > 0:
                send(received.grad, "B", s - 1, m)

    while any(rows):
        for row in rows:
            if row and row[0] in arrived and (row[0].kind == "F" or row[0][1:] in kept):
                do(*row.pop(0))
    return sum(losses)


# %% wrong: losses_on_the_notebooks_device1
# Collects the losses on the device1 of the notebook. Where the first rank is there, each copy to it stands in the way
# of its forward passes.

def run_schedule(stages, lists, x, y, loss_fn, devices):
    gpu = torch.get_device_module(devices[0])
    rows = [[Action.parse(text) for text in row.split()] for row in lists]
    place = {stage: torch.device(device) for row, device in zip(rows, devices, strict=True) for _, stage, _ in row}
    count, last = 1 + max(m for row in rows for _, _, m in row), len(stages) - 1
    xs, ys = x.tensor_split(count), y.tensor_split(count)
    arrived = {("F", 0, m): (xs[m], None) for m in range(count)} | {("B", last, m): (None, None) for m in range(count)}
    ways, kept, losses = {}, {}, []

    def send(tensor, *key):
        source, target, event = tensor.device, place[key[1]], None
        if source != target:
            if (source, target) not in ways:
                ways[source, target] = gpu.Stream(source), gpu.Stream(target)
            giving, taking = ways[source, target]
            giving.wait_stream(gpu.current_stream(source))
            tensor.record_stream(giving)
            with gpu.stream(giving), gpu.stream(taking):
                tensor = tensor.to(target, non_blocking=True)
            event = taking.record_event()
        arrived[key] = tensor, event

    def take(*key):
        tensor, event = arrived.pop(key)
        if event is not None:
            computing = gpu.current_stream(tensor.device)
            computing.wait_event(event)
            tensor.record_stream(computing)
        return tensor

    def do(kind, s, m):
        if kind == "F":
            received = take("F", s, m).requires_grad_(s > 0)
            output = stages[s](received)
            if s == last:
                output = loss_fn(output, ys[m]) * len(ys[m]) / len(y)
                losses.append(output.detach().to(device1))
            else:
                send(output.detach(), "F", s + 1, m)
            kept[s, m] = received, output
        else:
            received, output = kept.pop((s, m))
            output.backward(take("B", s, m))
            if s > 0:
                send(received.grad, "B", s - 1, m)

    while any(rows):
        for row in rows:
            if row and row[0] in arrived and (row[0].kind == "F" or row[0][1:] in kept):
                do(*row.pop(0))
    return sum(losses)


# %% wrong: middle_stages_kept
# Writes first, last and middle stages apart, and takes out of the dictionaries what the first and the last have kept.

def run_schedule(stages, lists, x, y, loss_fn, devices):
    rows = [[Action.parse(text) for text in row.split()] for row in lists]
    device_of = {stage: torch.device(device) for row, device in zip(rows, devices, strict=True) for _, stage, _ in row}
    count = 1 + max(micro_batch for row in rows for _, _, micro_batch in row)
    xs, ys, copies = x.tensor_split(count), y.tensor_split(count), Copies()
    inputs, outputs, came, last, total = {}, {}, {}, len(stages) - 1, 0

    def wait(tensor, event):
        if event is not None:
            torch.get_device_module(tensor.device).current_stream(tensor.device).wait_event(event)
        return tensor

    def forward(s, m):
        inputs[s, m] = wait(*came["F", s, m]).requires_grad_() if s else xs[m]
        outputs[s, m] = stages[s](inputs[s, m])
        if s < last:
            came["F", s + 1, m] = copies.send(outputs[s, m].detach(), device_of[s + 1])
            return 0
        outputs[s, m] = loss_fn(outputs[s, m], ys[m]) * len(ys[m]) / len(y)
        return outputs[s, m].detach()

    def backward(s, m):
        if s == last:
            outputs.pop((s, m)).backward()
        else:
            outputs[s, m].backward(wait(*came["B", s, m]))
        if s:
            came["B", s - 1, m] = copies.send(inputs[s, m].grad, device_of[s - 1])
        if s in (0, last):
            for held in (inputs, outputs):
                held.pop((s, m), None)
            for kind in "FB":
                came.pop((kind, s, m), None)

    def possible(kind, s, m):
        if kind == "F":
            return s == 0 or (kind, s, m) in came
        return (s, m) in inputs and (s == last or (kind, s, m) in came)

    while any(rows):
        for row in rows:
            while row and possible(*row[0]):
                kind, s, m = row.pop(0)
                if kind == "F":
                    total = total + forward(s, m)
                else:
                    backward(s, m)
    return total


# %% right: first_lines_as_given
# Goes on with a rank as long as its next action can be launched, with the copies that are given.

def run_schedule(stages, lists, x, y, loss_fn, devices):
    rows = [[Action.parse(text) for text in row.split()] for row in lists]
    device_of = {stage: torch.device(device) for row, device in zip(rows, devices, strict=True) for _, stage, _ in row}
    count = 1 + max(micro_batch for row in rows for _, _, micro_batch in row)
    xs, ys, copies = x.tensor_split(count), y.tensor_split(count), Copies()
    kept, came, last, total = {}, {}, len(stages) - 1, torch.zeros((), device=y.device)

    def needs(kind, s, m):
        if kind == "F":
            return s > 0 and ("F", s, m) not in came
        return (s, m) not in kept or (s < last and ("B", s, m) not in came)

    def take(*key):
        tensor, event = came.pop(key)
        if event:
            event.wait(torch.get_device_module(tensor.device).current_stream(tensor.device))
        return tensor

    def forward(s, m):
        inputs = take("F", s, m).requires_grad_() if s else xs[m]
        output = stages[s](inputs)
        if s == last:
            output = loss_fn(output, ys[m]) * (len(ys[m]) / len(y))
            total.add_(output.detach())
        else:
            came["F", s + 1, m] = copies.send(output.detach(), device_of[s + 1])
        kept[s, m] = inputs, output

    def backward(s, m):
        inputs, output = kept.pop((s, m))
        torch.autograd.backward(output, None if s == last else take("B", s, m))
        if s:
            came["B", s - 1, m] = copies.send(inputs.grad, device_of[s - 1])

    while any(rows):
        for row in rows:
            while row and not needs(*row[0]):
                action = row.pop(0)
                (forward if action.kind == "F" else backward)(*action[1:])
    return total
