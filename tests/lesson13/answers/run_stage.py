# %% wrong: no_grad_on_what_arrives
# What is received needs no gradient, the student thinks: it is no parameter.


def run_stage(stage, micro_batches, loss_fn, rank, count, send, recv):
    kept = []
    for x, y in micro_batches:
        if rank > 0:
            x = torch.zeros(x.shape, device=x.device)
            recv(x, rank - 1)
        out = stage(x)
        if rank < count - 1:
            send(out.detach(), rank + 1)
        else:
            out = loss_fn(out, y) / len(micro_batches)
        kept.append((x, out))
    for x, out in kept:
        if rank < count - 1:
            grad = torch.zeros_like(out)
            recv(grad, rank + 1)
            out.backward(grad)
        else:
            out.backward()
        if rank > 0:
            send(torch.zeros_like(x) if x.grad is None else x.grad, rank - 1)


# %% wrong: loss_not_divided
# Each micro-batch has its own loss.


def run_stage(stage, micro_batches, loss_fn, rank, count, send, recv):
    kept = []
    for x, y in micro_batches:
        if rank > 0:
            x = torch.empty_like(x)
            recv(x, rank - 1)
            x.requires_grad_()
        out = stage(x)
        if rank == count - 1:
            out = loss_fn(out, y)
        else:
            send(out.detach(), rank + 1)
        kept.append((x, out))
    for x, out in kept:
        if rank == count - 1:
            out.backward()
        else:
            grad = torch.empty_like(out)
            recv(grad, rank + 1)
            out.backward(grad)
        if rank > 0:
            send(x.grad, rank - 1)


# %% wrong: newest_first
# Goes backward in the reverse order, as autograd would; the messages carry the order of the others.


def run_stage(stage, micro_batches, loss_fn, rank, count, send, recv):
    kept = []
    for x, y in micro_batches:
        if rank > 0:
            x = torch.empty_like(x)
            recv(x, rank - 1)
            x.requires_grad_()
        out = stage(x)
        if rank == count - 1:
            out = loss_fn(out, y) / len(micro_batches)
        else:
            send(out.detach(), rank + 1)
        kept.append((x, out))
    for x, out in reversed(kept):
        if rank == count - 1:
            out.backward()
        else:
            grad = torch.empty_like(out)
            recv(grad, rank + 1)
            out.backward(grad)
        if rank > 0:
            send(x.grad, rank - 1)


# %% wrong: gradient_awaited_first
# Waits for the gradient before it has sent what the gradient is of.


def run_stage(stage, micro_batches, loss_fn, rank, count, send, recv):
    for x, y in micro_batches:
        if rank > 0:
            x = torch.empty_like(x)
            recv(x, rank - 1)
            x.requires_grad_()
        out = stage(x)
        if rank == count - 1:
            (loss_fn(out, y) / len(micro_batches)).backward()
        else:
            grad = torch.empty_like(out)
            recv(grad, rank + 1)
            send(out.detach(), rank + 1)
            out.backward(grad)
        if rank > 0:
            send(x.grad, rank - 1)


# %% wrong: gradients_go_nowhere
# Every rank goes backward, and none sends its gradient to the rank before.


def run_stage(stage, micro_batches, loss_fn, rank, count, send, recv):
    kept = []
    for x, y in micro_batches:
        if rank > 0:
            x = torch.empty_like(x)
            recv(x, rank - 1)
            x.requires_grad_()
        out = stage(x)
        if rank == count - 1:
            out = loss_fn(out, y) / len(micro_batches)
        else:
            send(out.detach(), rank + 1)
        kept.append(out)
    for out in kept:
        if rank == count - 1:
            out.backward()
        else:
            grad = torch.empty_like(out)
            recv(grad, rank + 1)
            out.backward(grad)


# %% wrong: shape_of_the_first
# Makes one buffer, from the first micro-batch, and a copy of it for each.


def run_stage(stage, micro_batches, loss_fn, rank, count, send, recv):
    like = torch.empty_like(micro_batches[0][0])
    kept = []
    for x, y in micro_batches:
        if rank > 0:
            x = like.clone()
            recv(x, rank - 1)
            x.requires_grad_()
        out = stage(x)
        if rank == count - 1:
            out = loss_fn(out, y) / len(micro_batches)
        else:
            send(out.detach(), rank + 1)
        kept.append((x, out))
    for x, out in kept:
        if rank == count - 1:
            out.backward()
        else:
            grad = torch.empty_like(out)
            recv(grad, rank + 1)
            out.backward(grad)
        if rank > 0:
            send(x.grad, rank - 1)


# %% wrong: one_f_one_b_without_warm_up
# Each micro-batch forward and backward at once: right gradients, and no two ranks compute at the same time.


def run_stage(stage, micro_batches, loss_fn, rank, count, send, recv):
    for x, y in micro_batches:
        if rank > 0:
            x = torch.empty_like(x)
            recv(x, rank - 1)
            x.requires_grad_()
        out = stage(x)
        if rank == count - 1:
            (loss_fn(out, y) / len(micro_batches)).backward()
        else:
            send(out.detach(), rank + 1)
            grad = torch.empty_like(out)
            recv(grad, rank + 1)
            out.backward(grad)
        if rank > 0:
            send(x.grad, rank - 1)


# %% wrong: sends_at_the_end
# Computes all micro-batches first and sends their outputs afterwards: the next rank has nothing to do meanwhile.


def run_stage(stage, micro_batches, loss_fn, rank, count, send, recv):
    kept = []
    for x, y in micro_batches:
        if rank:
            x = torch.empty_like(x)
            recv(x, rank - 1)
            x.requires_grad_()
        out = stage(x)
        kept.append((x, loss_fn(out, y) / len(micro_batches) if rank == count - 1 else out))
    for _, out in kept:
        if rank < count - 1:
            send(out.detach(), rank + 1)
    for x, out in kept:
        gradient = None
        if rank < count - 1:
            gradient = torch.empty_like(out)
            recv(gradient, rank + 1)
        out.backward(gradient)
        if rank:
            send(x.grad, rank - 1)


# %% wrong: gradients_at_the_end
# Keeps all gradients back until the last backward pass is done.


def run_stage(stage, micro_batches, loss_fn, rank, count, send, recv):
    kept = []
    for x, y in micro_batches:
        if rank:
            x = torch.empty_like(x)
            recv(x, rank - 1)
            x.requires_grad_()
        out = stage(x)
        if rank == count - 1:
            out = loss_fn(out, y) / len(micro_batches)
        else:
            send(out.detach(), rank + 1)
        kept.append((x, out))
    for _, out in kept:
        gradient = None
        if rank < count - 1:
            gradient = torch.empty_like(out)
            recv(gradient, rank + 1)
        out.backward(gradient)
    for x, _ in kept:
        if rank:
            send(x.grad, rank - 1)


# %% right: autograd_grad
# Asks autograd for the gradients, and adds them by hand.


def run_stage(stage, micro_batches, loss_fn, rank, count, send, recv):
    first, last = rank == 0, rank == count - 1
    inputs, outputs = [], []
    for x, y in micro_batches:
        if not first:
            x = torch.empty(x.shape, dtype=x.dtype, device=x.device)
            recv(x, rank - 1)
        x = x.detach().requires_grad_(not first)
        out = stage(x)
        if last:
            out = loss_fn(out, y) / len(micro_batches)
        else:
            send(out.detach().clone(), rank + 1)
        inputs.append(x)
        outputs.append(out)
    weights = list(stage.parameters())
    for x, out in zip(inputs, outputs):
        grad = None
        if not last:
            grad = torch.empty_like(out)
            recv(grad, rank + 1)
        wanted = weights if first else [*weights, x]
        found = torch.autograd.grad(out, wanted, grad)
        for p, g in zip(weights, found):
            p.grad = g if p.grad is None else p.grad + g
        if not first:
            send(found[-1], rank - 1)


# %% right: two_functions
# Forward and backward as functions of their own.


def run_stage(stage, micro_batches, loss_fn, rank, count, send, recv):
    def forward(x, y):
        if rank:
            recv(x := torch.empty_like(x), rank - 1)
            x.requires_grad_(True)
        out = stage(x)
        if rank + 1 == count:
            return x, loss_fn(out, y) / len(micro_batches)
        send(out.data, rank + 1)
        return x, out

    def backward(x, out):
        if rank + 1 < count:
            recv(got := torch.empty_like(out), rank + 1)
            torch.autograd.backward(out, got)
        else:
            out.backward()
        if rank:
            send(x.grad, rank - 1)

    for pair in [forward(x, y) for x, y in micro_batches]:
        backward(*pair)
