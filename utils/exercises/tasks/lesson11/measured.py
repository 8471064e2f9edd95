"""What the facts about lesson 11's tasks measure on a rank, with the student's function. All returns are plain data."""

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from utils.exercises.facts.probes import array, fill
from utils.observe.trace import record

LAYERS = 3
mse = nn.functional.mse_loss


def place():
    return torch.device("simgpu", dist.get_rank())


def network(seed):
    model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 12), nn.Tanh(), nn.Linear(12, 6))
    fill(model, seed)
    return model


def batch(seed, samples):
    return torch.randn(2, samples, 6, generator=torch.Generator().manual_seed(seed))


def vector(tensors):
    return np.concatenate([array(each).ravel() for each in tensors])


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.5)


def on_one_device(seed, samples, steps, scale=1):
    """The weights before and after each step, and the losses, of one process with the whole batch."""
    model = network(seed)
    optimizer, weights, losses = sgd(model), [vector(model.parameters())], []
    for step in range(steps):
        x, y = batch(seed + step, samples)
        optimizer.zero_grad()
        loss = mse(model(x), y)
        (loss * scale).backward()
        optimizer.step()
        weights.append(vector(model.parameters()))
        losses.append(loss.item())
    return weights, losses


def stepped(train_step, seed, samples, steps):
    """The weights after each step, what each returned, and how many samples this rank's model was given."""
    model, given = network(seed).to(place()), []
    model.register_forward_pre_hook(lambda _, inputs: given.append(len(inputs[0])))
    optimizer, weights, losses = sgd(model), [], []
    for step in range(steps):
        x, y = batch(seed + step, samples).to(place())
        loss = train_step(model, optimizer, mse, x, y)
        weights.append(vector(model.parameters()))
        losses.append(float(loss) if isinstance(loss, (torch.Tensor, float)) else type(loss).__name__)
    return {"weights": weights, "losses": losses, "given": given}


class Watched:
    """A running collective that writes down that it was waited for."""

    def __init__(self, work, happened):
        self.work, self.happened = work, happened

    def wait(self, *args):
        self.happened.append("wait")
        return self.work.wait(*args)

    def __getattr__(self, name):
        return getattr(self.work, name)


def watched(overlapped, seed):
    """In two steps: gradients of this rank alone, those after finish(), and in which order what happened."""
    alone, model = network(seed).to(place()), network(seed).to(place())
    happened, all_reduce = [], dist.all_reduce
    for layer in model[::2]:
        layer.register_full_backward_pre_hook(lambda *_: happened.append("layer"))

    def noted(*args, **kwargs):
        work = all_reduce(*args, **kwargs)
        happened.append("all-reduce" if work is not None else "all-reduce that the backward pass waits for")
        return work and Watched(work, happened)

    dist.all_reduce = noted
    try:
        finish = overlapped(model)
        steps = []
        for step in range(2):
            x, y = batch(seed + 10 * step + dist.get_rank(), 8).to(place())
            for each in (alone, model):
                each.zero_grad()
                mse(each(x), y).backward()
            happened.append("backward ends")
            if callable(finish):
                finish()
            gradients = [vector(p.grad for p in each.parameters()) for each in (alone, model)]
            steps.append([*gradients, list(happened)])
            happened.clear()
    finally:
        dist.all_reduce = all_reduce
    return {"steps": steps, "kind": None if callable(finish) else type(finish).__name__}


def accumulated(one_sync_step, seed, count, steps):
    """The weights after each step of `count` micro-batches, and the bytes all-reduced in it by those of the weights."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    model = DistributedDataParallel(network(seed).to(place()))
    optimizer, weights, reduced = sgd(model), [], []
    size = sum(p.nbytes for p in model.parameters())
    for step in range(steps):
        x, y = (each.chunk(ranks)[rank].to(place()) for each in batch(seed + step, ranks * count * 2))
        micro_batches = list(zip(x.chunk(count), y.chunk(count), strict=True))
        with record() as timeline:
            one_sync_step(model, optimizer, micro_batches, mse)
        weights.append(vector(model.parameters()))
        reduced.append(sum(e.bytes for e in timeline.events if e.kind == "comm" and e.name == "all_reduce") / size)
    return {"weights": weights, "reduced": reduced}
