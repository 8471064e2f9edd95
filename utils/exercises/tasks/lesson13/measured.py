"""What the facts about lesson 13's tasks measure on a rank, with the student's function. All returns are plain data."""

import os
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from utils.exercises.facts.probes import array, fill

STEPS, HALF = 4, 2


class Crash(Exception):
    """Ends a process in the middle of a save."""


def place():
    return torch.device("simgpu", dist.get_rank())


def fresh(seed):
    """A replica and its optimizer, as a process has them that has just begun."""
    model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 6))
    fill(model, seed)
    model = DistributedDataParallel(model.to(place()))
    return model, torch.optim.Adam(model.parameters(), lr=0.01)


def share_of_batches():
    numbers = torch.Generator().manual_seed(7)
    return [tuple(torch.randn(8, 6, generator=numbers).chunk(2)[dist.get_rank()].to(place()) for _ in "xy")] * STEPS


def vector(model):
    return np.concatenate([array(p).ravel() for p in model.parameters()])


def run(train, file, seed, batches):
    """Weights at the end, how many batches were computed, and how often this rank called torch.save."""
    model, optimizer = fresh(seed)
    computed, saves, save = [], [], torch.save
    model.register_forward_hook(lambda *_: computed.append(1))

    def counted(*args, **kwargs):
        saves.append(1)
        return save(*args, **kwargs)

    torch.save = counted
    try:
        train(file, model, optimizer, nn.functional.mse_loss, batches)
    finally:
        torch.save = save
    dist.barrier()
    return {"weights": vector(model), "computed": len(computed), "saves": len(saves), "file": file.exists()}


def plain(seed, batches, start=None):
    """The weights by a plain loop: without a file, or with loaded weights and Adam's state lost."""
    model, optimizer = fresh(seed)
    before = vector(model)
    if start is not None:
        numbers = torch.from_numpy(start).to(place())
        nn.utils.vector_to_parameters(numbers, model.parameters())
    for x, y in batches:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    return before, vector(model)


def trained(train, folder):
    """All batches at once, and the same in two jobs of which the second begins with other weights."""
    batches = share_of_batches()
    once = run(train, Path(folder, "once.pt"), 1, batches)
    before, right = plain(1, batches)
    first = run(train, Path(folder, "twice.pt"), 1, batches[:HALF])
    again = run(train, Path(folder, "twice.pt"), 2, batches)
    _, forgot = plain(1, batches[HALF:], first["weights"])
    return {"once": once, "before": before, "right": right, "again": again, "forgot": forgot}


def crashed(train, folder):
    """What a job finds that begins after a crash half-way through a save."""
    file, batches, save = Path(folder, "crash.pt"), share_of_batches(), torch.save
    run(train, file, 1, batches[:HALF])

    def half(what, where, *args, **kwargs):
        save(what, where, *args, **kwargs)
        if isinstance(where, (str, os.PathLike)):
            os.truncate(where, os.path.getsize(where) // 2)
        raise Crash("in the middle of a save")

    model, optimizer = fresh(1)
    torch.save = half
    try:
        train(file, model, optimizer, nn.functional.mse_loss, batches[: HALF + 1])
    except Crash:
        pass
    finally:
        torch.save = save
    dist.barrier()
    try:
        torch.load(file, map_location="cpu")
    except Exception as error:
        return type(error).__name__
    return ""


def shifted(ring_shift):
    """What this rank gets, and what it has sent afterwards."""
    tensor = torch.full((3,), float(dist.get_rank()), device=place())
    got = ring_shift(tensor)
    return {
        "kind": type(got).__name__,
        "got": array(got).tolist() if isinstance(got, torch.Tensor) else None,
        "left": array(tensor).tolist(),
    }
