import torch


def fast_and_right(part0, part1, loss_fn, x, y, size, giving, taking):
    gpu = torch.get_device_module(x.device)
    computing0, computing1 = gpu.current_stream(x.device), gpu.current_stream(y.device)
    losses = []
    for rows, target in zip(x.split(size), y.split(size), strict=True):
        hidden = part0(rows)
        giving.wait_stream(computing0)  # the copy waits for what it reads
        with gpu.stream(giving), gpu.stream(taking):
            arrived = hidden.to(y.device)
        computing1.wait_stream(taking)  # part1 waits for the copy
        hidden.record_stream(giving)  # CUDA: do not give this memory away before that stream has read it
        arrived.record_stream(computing1)
        losses.append(loss_fn(part1(arrived), target) * len(rows) / len(x))  # each row counts the same
    loss = sum(losses)
    loss.backward()
    return loss.detach()
