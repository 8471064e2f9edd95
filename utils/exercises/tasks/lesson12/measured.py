"""What the facts about lesson 12's tasks measure on a rank, with the student's function. All returns are plain data."""

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.utils import parameters_to_vector

from utils.exercises.facts.probes import array, fill, gradient_of
from utils.observe.trace import record


def place():
    return torch.device("simgpu", dist.get_rank())


def communication(timeline):
    """[name, bytes] of each collective, where an all-reduce counts as two: it is a reduce-scatter and an all-gather."""
    return [[e.name, e.bytes * (2 if e.name == "all_reduce" else 1)] for e in timeline.events if e.kind == "comm"]


def numbers(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def steps_with_shards(sharded_step, seed, steps):
    """Weights and gradients of this rank before and after some steps, by SGD with momentum on a shard."""
    rank, count = dist.get_rank(), dist.get_world_size()
    model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 6))  # 162 parameters: for 2 ranks, and for 3
    fill(model, seed)
    model.to(place())
    shard = nn.Parameter(parameters_to_vector(model.parameters()).detach().chunk(count)[rank].clone())
    optimizer = torch.optim.SGD([shard], lr=0.1, momentum=0.9)
    before, given, after, left, sent = vector(model), [], [], [], []
    for step in range(steps):
        for index, weight in enumerate(model.parameters()):
            weight.grad = numbers(seed + 1000 * step + 100 * rank + index, *weight.shape).to(place())
        given.append(np.concatenate([gradient_of(p).ravel() for p in model.parameters()]))
        with record() as timeline:
            sharded_step(model, shard, optimizer)
        after.append(vector(model))
        left.append(shard.grad is not None)
        sent.append(communication(timeline))
    return {"before": before, "given": given, "after": after, "left": left, "sent": sent}


def vector(model):
    return np.concatenate([array(p).ravel() for p in model.parameters()])


def halves():
    return nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 6))


def steps_with_micro_batches(accumulated_step, seed, count, reduce_once, keep_weights):
    """The whole weights after two steps on a share of the batch, and what each step has sent."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    model = halves()
    fill(model, seed)
    model.to(place())
    for layer in (model[0], model[2]):
        fully_shard(layer, reshard_after_forward=False)
    fully_shard(model)
    shards = list(model.parameters())
    optimizer, sent = torch.optim.SGD(shards, lr=0.5), []
    for step in range(2):
        x, y = (numbers(seed + 10 * step + which, ranks * count * 2, 6).chunk(ranks)[rank] for which in range(2))
        batches = [(a.to(place()), b.to(place())) for a, b in zip(x.chunk(count), y.chunk(count), strict=True)]
        with record() as timeline:
            accumulated_step(model, optimizer, batches, nn.functional.mse_loss, reduce_once, keep_weights)
        sent.append(communication(timeline))
    return {"after": np.concatenate([array(p.full_tensor()).ravel() for p in shards]), "sent": sent}


def on_one_device(seed, ranks, count):
    """The weights before and after two of the same steps, by one process with the whole batch."""
    model = halves()
    fill(model, seed)
    optimizer, before = torch.optim.SGD(model.parameters(), lr=0.5), vector(model)
    for step in range(2):
        x, y = (numbers(seed + 10 * step + which, ranks * count * 2, 6) for which in range(2))
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    return before, vector(model)
