"""Faults of a cluster, to be found: an argument of `simgpu.enable`, and so of `ranks` and `%%ranks`.

    from simgpu import faults

    simgpu.enable(count=8, nodes=2, faults=(faults.SlowGpu(rank=3, factor=1.6), faults.SlowAdapter(node=1, share=0.25)))

Three change times, and values never: `SlowGpu`, `SlowAdapter`, `Jitter`. Three change what one rank calls:
`SkippedCollective`, `OtherCollective`, `KilledRank`. All are the same in every run; where there is chance it comes from
a seed.

A rank is a rank of torch.distributed: of what torchrun, or `ranks`, has started. Where there are none, rank 3 is
`simgpu:3`. One process that stands for all ranks (`FakeStore`) has slow adapters only, because its ranks all do the
same; making a group there with another fault raises ValueError.

On a real cluster nothing compares what ranks are about to do. After a collective that one rank skips or replaces, NCCL
either pairs calls that do not belong together, or waits. PyTorch's watchdog ends a wait after the group's time-out, 10
minutes for NCCL (`torch.distributed.init_process_group`, `timeout`), and so the process. Simulated GPUs compare before
they move numbers: calls that differ raise `Mismatch` on all ranks of the group at once, a rank that will not come
raises `RanksMissing` on those that wait, within seconds. Calls that look alike are paired here, as by NCCL.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from .profiles import LinkProfile


def _whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _number(value: object) -> float:
    """A finite number; NaN, which no comparison holds for, for anything else."""
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if known else math.nan  # pyright: ignore[reportArgumentType]


def _require(fault: object, name: str, so: bool, what: str) -> None:
    if not so:
        raise ValueError(f"{type(fault).__name__}({name}={getattr(fault, name)!r}): {name} must be {what}")


@dataclass(frozen=True)
class SlowGpu:
    """Kernels of this rank's GPU take `factor` times as long: a GPU that is throttled. Copies do not."""

    rank: int
    factor: float

    def __post_init__(self):
        _require(self, "rank", _whole(self.rank, 0), "a whole number from 0 on")
        _require(self, "factor", _number(self.factor) >= 1, "a number from 1 on")


@dataclass(frozen=True)
class SlowAdapter:
    """The network adapters of this node run at this share of their rate: 0.25 is a quarter.

    A ring that passes through the node is as slow as it. An all-to-all and messages are slow in the pairs that have an
    end in it: ranks that exchange with one of its GPUs share what that GPU's adapter can do. Links within nodes are as
    they were.
    """

    node: int
    share: float

    def __post_init__(self):
        _require(self, "node", _whole(self.node, 0), "a whole number from 0 on")
        _require(self, "share", 0 < _number(self.share) <= 1, "a number above 0, at most 1")


@dataclass(frozen=True)
class Jitter:
    """Each kernel of each rank takes longer, by up to this share: 0.1 is 10%. Drawn by rank from the seed."""

    deviation: float
    seed: int

    def __post_init__(self):
        _require(self, "deviation", _number(self.deviation) >= 0, "a number from 0 on")
        _require(self, "seed", _whole(self.seed, 0), "a whole number from 0 on")


@dataclass(frozen=True)
class _AtCollective:
    """What happens at a rank's `number`-th collective: of all its groups, sends and receives not counted, from 1 on."""

    rank: int
    number: int

    def __post_init__(self):
        _require(self, "rank", _whole(self.rank, 0), "a whole number from 0 on")
        _require(self, "number", _whole(self.number, 1), "a whole number from 1 on")


class SkippedCollective(_AtCollective):
    """The rank does not take part in its `number`-th collective; what that would have filled stays as it was.

    Its next call then meets the one that the others are still in. Where the two look alike they are paired, here as by
    NCCL, all later ones are one off, and the others wait for the last. Where they do not, NCCL waits until its
    watchdog's time-out or mixes them up, and simulated GPUs raise `Mismatch` on all ranks of the group.
    """


class OtherCollective(_AtCollective):
    """The rank calls another collective at its `number`-th: a broadcast from rank 0 of the group, or for that an
    all-reduce.

    NCCL compares nothing: it waits until its watchdog's time-out, or mixes them up. Simulated GPUs raise `Mismatch` on
    all ranks of the group, which says who called what.
    """


class KilledRank(_AtCollective):
    """The process of the rank gets SIGKILL as it enters its `number`-th collective.

    On a real cluster the other ranks' kernels wait, until the watchdog's time-out or until torchrun, which sees that a
    worker has died, ends them. On simulated GPUs the others raise `RanksMissing`, and `ranks` says who was killed.
    """


Fault = SlowGpu | SlowAdapter | Jitter | SkippedCollective | OtherCollective | KilledRank


# --- what was asked for --------------------------------------------------------------------------------------------


def faults_from(given: Iterable[Fault], count: int, nodes: int) -> tuple[Fault, ...]:
    """The faults that a user has asked for, on this machine. ValueError for what is none, or is about no rank of it."""
    if isinstance(given, Fault) or not isinstance(given, Iterable):
        raise ValueError(f"simgpu.enable(faults={given!r}): faults must be a tuple of them, as in faults=(fault,)")
    found = tuple(given)
    ranks = int(os.environ.get("WORLD_SIZE", 0)) or count
    there = nodes if nodes > 1 else max(1, ranks // int(os.environ.get("LOCAL_WORLD_SIZE", ranks)))
    for fault in found:
        if not isinstance(fault, Fault):
            raise ValueError(f"simgpu.enable(faults=...): {fault!r} is no fault. There are: {', '.join(_NAMES)}")
        kind, limit = ("node", there) if isinstance(fault, SlowAdapter) else ("rank", ranks)
        number = getattr(fault, kind, 0)
        if number >= limit:
            are = f"{kind}s are 0 to {limit - 1}" if limit > 1 else f"there is only {kind} 0"
            raise ValueError(f"{type(fault).__name__}({kind}={number}): there is no such {kind}, {are}")
    return found


_NAMES = [kind.__name__ for kind in (SlowGpu, SlowAdapter, Jitter, SkippedCollective, OtherCollective, KilledRank)]


def are_of_ranks(faults: Iterable[Fault]) -> list[str]:
    """The names of those that tell ranks apart."""
    return sorted({type(fault).__name__ for fault in faults if not isinstance(fault, SlowAdapter)})


# --- what they do --------------------------------------------------------------------------------------------------


def longer(faults: Iterable[Fault], rank: int) -> Callable[[float], float] | None:
    """What becomes of the seconds of a kernel on this rank, kernel after kernel; None where they stay."""
    factor = float(math.prod(fault.factor for fault in faults if isinstance(fault, SlowGpu) and fault.rank == rank))
    draws = [
        (fault.deviation, random.Random(f"{fault.seed}, {rank}").random)  # of a text's bytes, not of Python's hash
        for fault in faults
        if isinstance(fault, Jitter)
    ]
    if not draws:
        return None if factor == 1 else factor.__mul__

    def jittered(seconds: float) -> float:
        seconds *= factor
        for deviation, draw in draws:
            seconds *= 1 + deviation * draw()
        return seconds

    return jittered


def share_of(faults: Iterable[Fault], node: int) -> float:
    """The share of their rate at which the adapters of a node run."""
    return math.prod(fault.share for fault in faults if isinstance(fault, SlowAdapter) and fault.node == node)


def at_share(network: LinkProfile, share: float) -> LinkProfile:
    """A network whose bytes pass at this share of its rate; latencies stay."""
    if share == 1:
        return network
    return replace(network, bandwidth=network.bandwidth * share, collective=network.collective * share)


def at_collective(faults: Iterable[Fault], rank: int, number: int) -> Fault | None:
    """What happens to a rank at its collective of this number."""
    return next(
        (
            fault
            for fault in faults
            if isinstance(fault, _AtCollective) and fault.rank == rank and fault.number == number
        ),
        None,
    )
