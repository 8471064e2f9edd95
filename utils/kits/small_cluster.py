"""The capstone's cluster, four small GPUs in two nodes, the model that has to fit on it, and what bounds its step.

All of it is simulated. GPT-2 medium has shapes, time and memory there and no values.
"""

from __future__ import annotations

import gc
from dataclasses import replace
from functools import cache

import torch
from torch import nn

import simgpu
from utils.models.gpt import GPT
from utils.observe.trace import Timeline, record

GPUS, NODES = 4, 2
MEMORY = 5 * 2**30  # bytes of each GPU
ROWS, LENGTH = 64, 256  # of a batch: samples, and tokens in each
MOST_BUBBLE = 0.25  # of the evenly spread work: what the bound grants a pipeline at most
_SAMPLE = 16  # samples that are enough to measure the time of one


def small_cluster(compute: bool = False, nodes: int = NODES) -> list[torch.device]:
    """Its devices, two for each node, on a new machine: tensors of an older one are gone.

    With `compute` they have values.
    """
    count = GPUS // NODES * nodes
    simgpu.enable(count=1, gpu="T4", memory=2**40, compute=False)  # the same arguments twice would change nothing
    simgpu.enable(count=count, nodes=nodes, gpu="T4", link="pcie3", network="100G", memory=MEMORY, compute=compute)
    return [torch.device("simgpu", number) for number in range(count)]


def gpt2_medium() -> GPT:
    """A GPT of the size of GPT-2 medium on the CPU, its weights without values: 354 million, 1.4 GB in float32.

    `small_cluster` first: it is made on a simulated GPU.
    """
    gc.collect()  # an earlier one may still hang in a cycle, and two of them are much
    with torch.device("simgpu:0"):  # which makes no values, and so is quick
        model = GPT(50_257, 1024, 16, 24)
    model.to_empty(device="cpu")
    model.head.weight = model.embed.weight
    return model


def mean_loss(output: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The mean loss over all tokens: `output` (samples, length, vocabulary) and `targets` (samples, length)."""
    return nn.functional.cross_entropy(output.flatten(0, 1), targets.flatten())


def bound(undivided: float, loss_calls: list[str]) -> float:
    """The seconds of a step that one of the cluster is compared with.

    `undivided` are the busy seconds of the whole step on one GPU: they are spread evenly. A pipeline fills and drains:
    with P stages and M micro-batches that is (P - 1) / M of the work more, MOST_BUBBLE at most. `loss_calls` has the
    device of each call of the loss. Where these are D devices there are D replicas of the model, P is GPUS / D, and M
    is the number of calls for each replica.
    """
    replicas = len(set(loss_calls))
    stages, micro_batches = GPUS // replicas, len(loss_calls) / replicas
    return undivided / GPUS * (1 + min((stages - 1) / micro_batches, MOST_BUBBLE))


def undivided_work(rows: int = ROWS) -> tuple[float, int]:
    """Busy seconds and operations of a step, Adam's too, on one such GPU that has all the memory it wants.

    Measured on a simulated machine of its own, when it is asked for first: tensors of another one are gone then.
    """
    update, busy, flops, _ = _sample()
    share = rows / _SAMPLE
    return update + share * busy, round(share * flops)


def forward_seconds(rows: int) -> float:
    """Busy seconds of a forward pass with so many samples on one such GPU, measured with more: each takes less then."""
    return rows / _SAMPLE * _sample()[3]


@cache
def _sample() -> tuple[float, float, int, float]:
    """Busy seconds of Adam's step; of some samples the busy seconds, operations and forward seconds."""
    simgpu.enable(count=1, gpu="T4", memory=2**40, compute=False)
    model = gpt2_medium().to("simgpu:0")
    tokens = torch.zeros(_SAMPLE, LENGTH, dtype=torch.long, device="simgpu:0")
    optimizer = torch.optim.Adam(model.parameters())
    mean_loss(model(tokens), tokens).backward()
    optimizer.step()
    with record("simgpu:0") as once:
        optimizer.step()
    model.zero_grad()
    with record("simgpu:0") as forward:
        loss = mean_loss(model(tokens), tokens)
    with record("simgpu:0") as backward:
        loss.backward()
    seconds = [each.busy("simgpu:0") for each in (once, forward, backward)]
    flops = sum(event.flops for each in (forward, backward) for event in each.events)
    return seconds[0], seconds[1] + seconds[2], flops, seconds[1]


def outline(timeline: Timeline) -> Timeline:
    """The same with one event where many follow each other on a stream, all of a kind, phase and micro-batch."""
    found, last = [], {}
    for event in sorted(timeline.events, key=lambda event: event.start):
        key = event.device, event.stream
        place = last.get(key)
        before = found[place] if place is not None else None
        near = before is not None and event.start - before.end < timeline.span / 1000
        if near and (before.kind, before.phase, before.label) == (event.kind, event.phase, event.label):
            found[place] = before._replace(
                end=event.end, bytes=before.bytes + event.bytes, flops=before.flops + event.flops
            )
        else:
            last[key] = len(found)
            found.append(event)
    return replace(timeline, events=tuple(found))


def operations(timeline: Timeline) -> list[int]:
    """The floating-point operations of each device."""
    return [sum(event.flops for event in timeline.events if event.device == device) for device in timeline.devices]


def kernels(timeline: Timeline) -> list[str]:
    """The names of the kernels that ran."""
    return [event.name for event in timeline.events if event.is_kernel]


def updated_bytes(timeline: Timeline) -> int:
    """What optimizers read and write in their steps."""
    return sum(event.bytes for event in timeline.events if event.phase == "optimizer" and event.kind == "kernel")


def host_bytes(timeline: Timeline) -> int:
    """What passed between the CPU and the devices."""
    return sum(event.bytes for event in timeline.events if event.kind in ("h2d", "d2h"))
