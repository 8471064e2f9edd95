"""Lab 12's recipe that leaks: what it trains, and what a rank holds while it trains."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from functools import partial
from math import nan

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

import simgpu
from simgpu import torch_private
from utils.observe.trace import record

from .ranks_in_turns import ON_A_GPU, in_turns

Pair = tuple[torch.Tensor, torch.Tensor]
SAMPLES = 16  # of a batch
NEAR = 100  # times as far from the first outputs are targets that are not near
LR, CLIP = 0.5, 0.05


def stack(layers: int, hidden: int) -> nn.Sequential:
    """Equal layers, on whichever device is the default."""
    return nn.Sequential(*[nn.Linear(hidden, hidden, bias=False) for _ in range(layers)])


def training(layers: int, hidden: int, steps: int, seed: int, near=0) -> tuple[Callable, dict, list[Pair], Pair]:
    """On the CPU: a function that builds the model, the weights to begin with, the batches, and a held-out one.

    The targets of the first `near` batches are so near to the first outputs that their gradients are shorter than CLIP.
    """
    random = torch.Generator().manual_seed(seed)
    weights = [torch.randn(hidden, hidden, generator=random) / hidden**0.5 for _ in range(layers + 1)]
    inputs = [torch.randn(SAMPLES, hidden, generator=random) for _ in range(steps + 1)]
    *batches, held_out = [(x, x @ weights[-1]) for x in inputs]
    state = {f"{number}.weight": weight for number, weight in enumerate(weights[:-1])}
    for number, (x, y) in enumerate(batches[:near]):
        output = x
        for weight in weights[:-1]:
            output = output @ weight.T
        batches[number] = x, output + (y - output) / NEAR
    return partial(stack, layers, hidden), state, batches, held_out


def one_process(
    layers: int,
    hidden: int,
    steps: int,
    seed: int,
    near=0,
    *,
    lr: float = LR,
    clip: float = CLIP,
    momentum: float = 0.9,
    always=False,
    last=False,
) -> float:
    """The mean loss of the held-out batch after each step of one process, with whole weights and batches.

    Mistakes: with `always`, shorter gradients are scaled to `clip` too; with `last`, only the last loss counts.
    """
    build, weights, batches, (held_out, right) = training(layers, hidden, steps, seed, near)
    model, total, loss = build(), 0.0, nan
    model.load_state_dict(weights)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum)
    for x, y in batches:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), clip)
        if always and norm < clip:
            for p in model.parameters():
                p.grad *= clip / norm
        optimizer.step()
        with torch.no_grad():
            loss = nn.functional.mse_loss(model(held_out), right).item()
        total += loss
    return loss if last else total / len(batches)


def leaky(build, weights, batches, held_out, gpu):
    """A recipe with mistakes. A rank calls it with its share of the batches."""
    model = build().to(gpu)
    model.load_state_dict(weights)
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        nn.functional.mse_loss(model(inputs), targets).backward()
        gradients = [p.grad.full_tensor() for p in model.parameters()]
        factor = min(1.0, CLIP / nn.utils.get_total_norm(gradients).item())
        for p in model.parameters():
            p.grad *= factor
        optimizer.step()
        optimizer.zero_grad()
        total += nn.functional.mse_loss(model(x), y)
    return total / len(batches)


class Batches:
    """Pairs that note, whenever one is asked for, what the GPU holds and the most since the last."""

    def __init__(self, pairs: list[Pair], gpu: torch.device):
        self.pairs, self.gpu, self.memory = pairs, gpu, torch.get_device_module(gpu)
        self.held: list[int] = []
        self.most: list[int] = []
        self.before = self.memory.memory_allocated(gpu)
        self.memory.reset_peak_memory_stats(gpu)

    def __len__(self) -> int:
        return len(self.pairs)

    def __iter__(self) -> Iterator[Pair]:
        for pair in self.pairs:
            self.note()
            yield pair

    def note(self) -> None:
        self.held.append(self.memory.memory_allocated(self.gpu) - self.before)
        self.most.append(self.memory.max_memory_allocated(self.gpu) - self.before)
        self.memory.reset_peak_memory_stats(self.gpu)


def share(pairs: list[Pair], gpu: torch.device) -> list[Pair]:
    """This rank's part of each batch."""
    rank, count = dist.get_rank(), dist.get_world_size()
    return [(x.chunk(count)[rank].to(gpu), y.chunk(count)[rank].to(gpu)) for x, y in pairs]


def loss_and_kind(found: object) -> tuple[float, str]:
    """A recipe's result and "", or nan and the type of what is no number."""
    number = found.item() if isinstance(found, torch.Tensor) and found.numel() == 1 else found
    return (float(number), "") if isinstance(number, int | float) else (nan, type(found).__name__)


def losses_together(train: Callable, count: int, *recipe: int) -> list[tuple[float, str]]:
    """Each rank's `loss_and_kind`. The ranks take turns on one simulated GPU, and their collectives move data."""
    enable_simulated()
    gpu = torch.device("simgpu", 0)

    def main(_rank: int) -> tuple[float, str]:
        build, weights, pairs, (x, y) = training(*recipe)
        return loss_and_kind(train(build, weights, share(pairs, gpu), (x.to(gpu), y.to(gpu)), gpu))

    with torch.get_device_module(gpu).device(gpu):
        return in_turns(main, count, backend=ON_A_GPU)


def enable_simulated() -> None:
    if not simgpu.is_enabled():
        simgpu.enable(count=1)


def watched(train: Callable, layers: int, hidden: int, steps: int, seed: int) -> dict:
    """What `train` does on this rank: its `loss_and_kind`; what the rank held before each batch and the
    most that it held until then, and until the end, in bytes per parameter; its all-gathers, its collectives of fewer
    bytes than a layer's shard, and what it reduce-scatters in a step, in bytes per parameter."""
    rank, count = dist.get_rank(), dist.get_world_size()
    gpu = torch.device("simgpu", rank)
    build, weights, pairs, held_out = training(layers, hidden, steps, seed)
    shares, (x, y) = share(pairs, gpu), held_out
    gc.collect()  # an earlier model, whose modules refer to each other
    batches, check = Batches(shares, gpu), (x.to(gpu), y.to(gpu))
    with record(gpu) as timeline:
        found = train(build, weights, batches, check, gpu)
    batches.note()
    loss, kind = loss_and_kind(found)
    collectives = [event for event in timeline.events if event.kind == "comm"]
    return {
        "loss": loss,
        "kind": kind,
        "held": [size / layers / hidden**2 for size in batches.held[:-1]],
        "most": [size / layers / hidden**2 for size in batches.most],
        "gathers": sum(event.name == "all_gather" for event in collectives),
        "reduced": sum(event.bytes for event in collectives if event.name == "reduce_scatter")
        / layers
        / hidden**2
        / steps,
        "small": sum(event.bytes < 4 * hidden**2 / count for event in collectives),
    }


def watched_alone(count: int, *given) -> dict:
    """`watched` in this process, as one of `count` ranks that all do the same. Only on one is the loss that of all."""
    enable_simulated()
    dist.init_process_group("simccl", store=torch_private.fake_store(), rank=0, world_size=count)
    try:
        return watched(*given)
    finally:
        dist.destroy_process_group()
