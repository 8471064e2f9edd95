"""What the facts about lesson 12's tasks measure on a rank, with the student's function. All returns are plain data."""

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.utils import parameters_to_vector

from utils.exercises.facts.probes import array, fill, gradient_of
from utils.observe.trace import record

WIDTH = 128  # of the model that is sharded


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


def three_layers():
    layers = [nn.Linear(WIDTH, WIDTH) for _ in range(3)]
    return nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])


def building(sharded_model):
    """What a rank holds at most while it builds the model, what its parameters are, and what a pass of it sends."""
    gpu, module = place(), torch.get_device_module(place())
    torch.manual_seed(0)  # the same on every rank, as DTensor asks for
    before = module.memory_allocated(gpu)
    module.reset_peak_memory_stats(gpu)
    model = sharded_model(three_layers, gpu)
    most = module.max_memory_allocated(gpu) - before
    told = {"kind": type(model).__name__, "most": most, "parameters": [], "sent": [], "output": ""}
    if not isinstance(model, nn.Module):
        return told
    for name, p in model.named_parameters():
        sharded = isinstance(p, DTensor)
        mine = p.to_local() if sharded else p
        spread = None if mine.device.type == "meta" else np.abs(array(mine)).max().item()
        told["parameters"].append([name, sharded, str(mine.device.type), str(p.dtype), spread])
    if all(sharded and kind == "simgpu" for _, sharded, kind, _, _ in told["parameters"]):
        with record() as timeline:
            output = model(torch.ones(4, WIDTH, device=gpu))
            output.float().square().mean().backward()
        told["sent"], told["output"] = communication(timeline), str(output.dtype)
    return told


def steps_with_micro_batches(accumulated_step, seed, count, max_norm, steps):
    """The whole weights after some steps on a share of the batch, and what each step has sent."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 6))
    fill(model, seed)
    model.to(place())
    for layer in (model[0], model[2]):
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    after, sent = [], []
    for step in range(steps):
        x, y = (numbers(seed + 10 * step + which, ranks * count * 2, 6).chunk(ranks)[rank] for which in range(2))
        batches = [(a.to(place()), b.to(place())) for a, b in zip(x.chunk(count), y.chunk(count), strict=True)]
        with record() as timeline:
            accumulated_step(model, optimizer, batches, nn.functional.mse_loss, max_norm)
        after.append(np.concatenate([array(p.full_tensor()).ravel() for p in model.parameters()]))
        sent.append(communication(timeline))
    return {"after": after, "sent": sent}


def on_one_device(seed, ranks, count, max_norm, steps):
    """The weights before and after each of the same steps, by one process with the whole batch."""
    model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 6))
    fill(model, seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    yield vector(model)
    for step in range(steps):
        x, y = (numbers(seed + 10 * step + which, ranks * count * 2, 6) for which in range(2))
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        yield vector(model)
