"""The capstone's cluster, eight GPUs in two nodes, the models that train on it, and what they are compared with.

All of it is simulated: each rank is a thread with a GPU of its own (`simgpu.threads`). The large model has
shapes, time and memory there and no values.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.distributed.tensor import DTensor, distribute_tensor

import simgpu
from simgpu.threads import on_gpus
from utils.models.decoder import Decoder, Sizes
from utils.observe.trace import Event, Timeline

RANKS, NODES = 8, 2
GPU, LINK, NETWORK = "A100", "nvlink3", "25G"
MEMORY = 20_000_000_000  # bytes of each GPU that are free
PEAK = 312e12  # FLOP/s of a GPU in bfloat16 (NVIDIA A100 datasheet)
LARGE = Sizes(vocabulary=32_000, hidden=4096, intermediate=14_336, heads=32, kv_heads=8, blocks=8)
LENGTH, SEQUENCES = 8192, 16  # of a batch for the large model: tokens in each sequence
SMALL = Sizes(vocabulary=48, hidden=32, intermediate=64, heads=4, kv_heads=2, blocks=4)
SMALL_LENGTH = 8
LEARNING_RATE = 1e-2
SETTINGS = ("decoupled_weight_decay", "weight_decay", "betas", "eps", "amsgrad")  # of AdamW

Batch = Sequence[torch.Tensor]  # tokens and targets


class Run(NamedTuple):
    """What ranks have done: results of a function by rank, each GPU's peak bytes, the timeline of the last step, and
    what the optimizers of all ranks update (`updates_of`)."""

    results: list
    peaks: list[int]
    timeline: Timeline
    updates: list[dict[str, Any]]


def mean_loss(output: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The mean loss over all tokens: `output` (sequences, tokens, vocabulary) and `targets` (sequences, tokens)."""
    return nn.functional.cross_entropy(output.flatten(0, 1).float(), targets.flatten())


def cluster(compute: bool, ranks: int = RANKS) -> None:
    """A new machine of so many GPUs in two nodes: tensors of an older one are gone. With `compute` they have values."""
    simgpu.enable(count=1, gpu="T4", compute=False)  # the same arguments twice would change nothing
    machine: dict[str, Any] = {"gpu": GPU, "link": LINK, "network": NETWORK, "memory": MEMORY}
    simgpu.enable(count=ranks, nodes=NODES, compute=compute, **machine)


def weights_of(sizes: Sizes, seed: int = 0) -> dict[str, torch.Tensor]:
    """A decoder's first weights by name, whole, on the CPU."""
    with torch.device("meta"):
        model = Decoder(sizes)
    found = {}
    for name, p in model.named_parameters():
        random = torch.Generator().manual_seed(zlib.crc32(f"{seed} {name}".encode()))
        found[name] = (
            torch.randn(p.shape, generator=random) / p.shape[-1] ** 0.5 if p.dim() > 1 else torch.ones(p.shape)
        )
    return found


def weight_shapes(sizes: Sizes) -> dict[str, torch.Tensor]:
    """The same where weights have shapes only: tensors of one number in memory."""
    with torch.device("meta"):
        model = Decoder(sizes)
    return {name: torch.zeros(()).expand(p.shape) for name, p in model.named_parameters()}


def copy_weights(model: nn.Module, weights: dict[str, torch.Tensor]) -> None:
    """Copy whole weights into a model's parameters of the same names, into each rank's shard of a DTensor."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            whole = weights[name.replace("_checkpoint_wrapped_module.", "")]
            own = p.to_local() if isinstance(p, DTensor) else p
            if not simgpu.settings().compute:
                continue
            if isinstance(p, DTensor):
                whole = distribute_tensor(
                    whole.to(own.device), p.device_mesh, p.placements, src_data_rank=None
                ).to_local()
            own.copy_(whole)


def batches_of(sizes: Sizes, sequences: int, length: int, steps: int, seed: int = 0) -> list[Batch]:
    """Tokens and targets of each step, (sequences, length) on the CPU."""
    random = torch.Generator().manual_seed(1000 + seed)
    draw = (torch.randint(sizes.vocabulary, (2, sequences, length), generator=random) for _ in range(steps))
    return [(tokens, targets) for tokens, targets in draw]


def train(
    make: Callable[..., tuple],
    sizes: Sizes,
    batches: Sequence[Batch],
    before: Callable | None = None,
    after: Callable | None = None,
    *,
    ranks: int = RANKS,
    compute: bool = True,
) -> Run:
    """Let each rank take a step with each batch, by the first function that `make(model, gpu, weights, mean_loss)`
    returns.

    A rank's result is (its losses, what `after(made)` returns after the last step). `before(made)` comes before the
    first. Only the last step is in the timeline.
    """
    cluster(compute, ranks)
    weights = weights_of(sizes) if compute else weight_shapes(sizes)
    places = [f"simgpu:{rank}" for rank in range(ranks)]
    gpus = torch.get_device_module("simgpu")
    begun, ended = [], []
    # Kept, so that no new optimizer has the id of one that is gone.
    earlier = simgpu.stepped_optimizers()
    stepped: dict[int, tuple[torch.optim.Optimizer, list]] = {}

    def main(rank: int) -> tuple[list, Any]:
        with torch.device("meta"):
            model = Decoder(sizes)
        made = make(model, torch.device("simgpu", rank), weights, mean_loss)
        if before is not None:
            before(made)
        losses = []
        for number, (tokens, targets) in enumerate(batches, 1):
            if number == len(batches):
                torch.distributed.barrier()
                gpus.reset_peak_memory_stats(rank)
                begun.append(simgpu.now())
            losses.append(made[0](tokens, targets))
        gpus.synchronize(rank)
        ended.append(simgpu.now())
        for one in simgpu.stepped_optimizers():
            if not any(one is old for old in earlier):
                stepped[id(one)] = one, updates_of(one)
        return losses, None if after is None else after(made)

    with simgpu.recording():
        results = on_gpus(main, ranks)
        # Ranks take turns, so that the log is in the order of launches for each of them, and not for all.
        begin = min(begun, default=simgpu.now())
        events = tuple(Event.of_record(one) for one in simgpu.log() if one.launched is None or one.launched > begin)
    peaks = [gpus.max_memory_allocated(place) for place in places]
    times = (min(begun), max([*ended, *(event.end for event in events)])) if begun else (0.0, 0.0)
    timeline = Timeline(tuple(places), events, *times, source=f"simulated: {simgpu.describe()}")
    return Run(results, peaks, timeline, [group for _, groups in stepped.values() for group in groups])


def updates_of(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """What an optimizer updates, and how, for each of its groups of parameters.

    "kind" is the optimizer's class, "weights" how many numbers this rank has of the group's parameters with a state,
    "dtypes" those of its parameters and of their state, and "settings" maps the names of AdamW's settings to text.
    """
    held = vars(optimizer)
    states = {p: held["state"].get(p, {}) for group in held["param_groups"] for p in group["params"]}
    found = []
    for group in held["param_groups"]:
        own = [p.to_local() if isinstance(p, DTensor) else p for p in group["params"] if states[p]]
        kept = [each for p in group["params"] for each in states[p].values()]
        # A count of steps has no dimension, and any dtype will do for it.
        moments = [each for each in kept if isinstance(each, torch.Tensor) and each.dim()]
        found.append(
            {
                "kind": type(optimizer).__name__,
                "weights": sum(p.numel() for p in own),
                "dtypes": sorted({str(each.dtype) for each in (*own, *moments)}),
                "settings": {name: str(group[name]) for name in SETTINGS if name in group},
            }
        )
    return found


def undivided(sizes: Sizes, batches: list[Batch]) -> tuple[list[float], dict[str, torch.Tensor]]:
    """Losses of each step, and gradients of the last, of one model on the CPU in float32."""
    model = Decoder(sizes)
    model.load_state_dict(weights_of(sizes))
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    losses = []
    for tokens, targets in batches:
        optimizer.zero_grad()
        loss = mean_loss(model(tokens), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def needed_flops(sizes: Sizes = LARGE, sequences: int = SEQUENCES, length: int = LENGTH) -> int:
    """Floating-point operations that a step needs: 6 for each weight of a product and token, and causal attention.

    As in PaLM (arXiv 2204.02311, appendix B), with half of the scores, which is what a causal mask needs.
    """
    with torch.device("meta"):
        model = Decoder(sizes)
    products = sum(m.weight.numel() for m in model.modules() if isinstance(m, nn.Linear))
    return sequences * length * (6 * products + 6 * sizes.blocks * sizes.hidden * length)


def mfu(timeline: Timeline) -> float:
    """The share of all GPUs' peak that a step's needed operations reach. Recomputation needs none."""
    return needed_flops() / (timeline.span * PEAK * len(timeline.devices))


def outline(timeline: Timeline) -> Timeline:
    """The same with one event where many follow each other on a stream, all of a kind, phase and micro-batch.

    Collectives and messages are told apart by their names and groups: they overlap.
    """
    found: list[Event] = []
    last: dict[tuple, int] = {}
    for event in sorted(timeline.events, key=lambda event: event.start):
        passing = (event.name, event.other) if event.kind == "comm" else None
        key = event.device, event.stream, passing
        place = last.get(key)
        before = None if place is None else found[place]
        if (
            place is not None
            and before is not None
            and event.start - before.end < timeline.span / 1000
            and (before.kind, before.phase, before.label) == (event.kind, event.phase, event.label)
        ):
            found[place] = before._replace(
                end=max(before.end, event.end),
                bytes=before.bytes + event.bytes,
                flops=before.flops + event.flops,
            )
        else:
            last[key] = len(found)
            found.append(event)
    return replace(timeline, events=tuple(found))


def exchanged(timeline: Timeline) -> list[dict[str, int]]:
    """By rank, the bytes that passed in collectives and messages of each group of ranks ("ranks 0 to 3")."""
    found: dict[str, dict[str, int]] = {device: {} for device in timeline.devices}
    for event in timeline.events:
        if event.kind == "comm" and event.bytes:
            own = found[event.device]
            own[str(event.other)] = own.get(str(event.other), 0) + event.bytes
    return list(found.values())


def file_bytes(folder: str) -> int:
    """What the files in a folder hold."""
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())


def host_bytes(timeline: Timeline) -> int:
    """What passed between the CPU and the GPUs."""
    return sum(event.bytes for event in timeline.events if event.kind in ("h2d", "d2h"))


def seconds_of_kernels(timeline: Timeline) -> list[float]:
    """What all kernels of each GPU take, one after the other."""
    found = dict.fromkeys(timeline.devices, 0.0)
    for event in timeline.events:
        if event.kind == "kernel":
            found[event.device] += event.end - event.start
    return list(found.values())
