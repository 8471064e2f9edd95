import torch
import torch.distributed as dist


def train_step(model, optimizer, loss_fn, x, y):
    rank, count = dist.get_rank(), dist.get_world_size()
    loss = loss_fn(model(x.chunk(count)[rank]), y.chunk(count)[rank])
    optimizer.zero_grad()
    loss.backward()
    for p in model.parameters():
        dist.all_reduce(p.grad, dist.ReduceOp.AVG)
    optimizer.step()
    mean = loss.detach()
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    return mean


def overlapped(model):
    running = []

    def reduce(p):
        running.append(dist.all_reduce(p.grad, dist.ReduceOp.AVG, async_op=True))

    def finish():
        while running:
            running.pop().wait()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(reduce)
    return finish


def one_sync_step(model, optimizer, micro_batches, loss_fn):
    *others, (last_x, last_y) = micro_batches
    optimizer.zero_grad()
    with model.no_sync():
        for x, y in others:
            loss = loss_fn(model(x), y) / len(micro_batches)
            loss.backward()
    loss = loss_fn(model(last_x), last_y) / len(micro_batches)
    loss.backward()
    optimizer.step()


class Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gpus, *weights):
        ctx.gpus = gpus
        return tuple(w.view_as(w) if w.device == gpu else w.to(gpu) for gpu in gpus for w in weights)

    @staticmethod
    def backward(ctx, *gradients):
        number, first = len(gradients) // len(ctx.gpus), ctx.gpus[0]
        sums = [sum((g.to(first) for g in gradients[i + number :: number]), gradients[i]) for i in range(number)]
        return None, *sums


def data_parallel(model, x, gpus):
    shares = [share.to(gpu) for gpu, share in zip(gpus, x.chunk(len(gpus)), strict=True)]
    names, weights = zip(*model.named_parameters(), strict=True)
    sent = Broadcast.apply(gpus, *weights)
    outputs = []
    for i, share in enumerate(shares):
        replica = dict(zip(names, sent[i * len(names) :], strict=False))
        outputs.append(torch.func.functional_call(model, replica, share))
    return torch.cat([output.to(gpus[0]) for output in outputs])
