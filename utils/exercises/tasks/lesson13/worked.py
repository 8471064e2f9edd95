import torch


def run_stage(stage, micro_batches, loss_fn, rank, count, send, recv):
    passed = []
    for x, y in micro_batches:
        if rank > 0:
            x = torch.empty_like(x)
            recv(x, rank - 1)
            x.requires_grad_()  # a leaf: its gradient is what the rank before waits for
        out = stage(x)
        if rank < count - 1:
            send(out.detach(), rank + 1)
        else:
            out = loss_fn(out, y) / len(micro_batches)
        passed.append((x, out))
    for x, out in passed:
        if rank < count - 1:
            gradient = torch.empty_like(out)
            recv(gradient, rank + 1)
            out.backward(gradient)
        else:
            out.backward()
        if rank > 0:
            send(x.grad, rank - 1)
