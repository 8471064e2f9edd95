import torch


def pipelined(part0, part1, device0, device1, x, size):
    outputs = []
    for piece in x.to(device0).split(size):
        hidden = part0(piece).to(device1)  # nothing waits here: kernel and copy are only launched
        outputs.append(part1(hidden))  # in device1's queue before the next copy, so it need not wait for that
    return torch.cat(outputs)
