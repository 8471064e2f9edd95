"""Bytes that a rank of lesson 12 receives, and several measurements in one run of ranks."""

import gc
from collections.abc import Callable

import torch.distributed as dist

from utils.observe.trace import Timeline


def received(timeline: Timeline) -> list[float]:
    """The bytes that a rank receives in all-gathers and in reduce-scatters; an all-reduce counts as both.

    A rank already has its own shard. The timeline is of one rank, and its collectives are of all ranks.
    """
    others = 1 - 1 / dist.get_world_size()
    sizes = [(e.name, e.bytes) for e in timeline.events if e.kind == "comm"]
    kinds = "all_gather", "reduce_scatter"
    return [others * sum(size for name, size in sizes if name in (kind, "all_reduce")) for kind in kinds]


def in_turn(function: Callable, *ways: tuple) -> list:
    """What `function(*way)` returns, way by way. The garbage collector frees each way's model before the next begins:
    the modules of a sharded model refer to each other."""
    found = []
    for way in ways:
        found.append(function(*way))
        gc.collect()
    return found
