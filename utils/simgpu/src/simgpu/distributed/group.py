"""A process group: its members, how they are linked, until when it is busy, and what it moves numbers by."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from weakref import ref

import torch

from .. import torch_private
from ..clock import Queue
from ..collectives import Fabric
from ..faults import Fault, KilledRank, are_of_ranks, at_collective, share_of
from ..flight import GroupRecord
from ..hardware import Gpu, machine
from ..origin import Origin
from ..profiles import LinkProfile
from ..waiting import Waiting, of_this_life
from . import in_threads
from .arguments import ranks_in_words

ReduceOp = torch_private.ReduceOp


class CollectiveCall(NamedTuple):
    """A collective, as a rank calls it: its name, and what the ranks have to agree on, in words; seconds and bytes.

    The flight recorder has it as `recorded`, with the shapes and dtypes of what it is given and makes.
    """

    gpu: Gpu
    name: str
    what: str
    seconds: float
    size: int
    recorded: str
    inputs: Sequence
    outputs: Sequence


class Group:
    """Who takes part, and when the group and its ways are free."""

    def __init__(self, options, backend):
        self.rank, self.ranks = options.group_rank, options.group_size
        self.members = list(options.global_ranks_in_group) or list(range(self.ranks))
        self.alone = torch_private.is_fake(options.store)
        self._refuse_faults_of_ranks()
        self._nodes = _nodes(self.members)
        self.fabric = _fabric(self._nodes)
        self.ways = _ways(self.fabric)
        self.free = 0.0  # when the group's own stream is
        self.among = f"ranks {ranks_in_words(self.members)}"
        itself = ref(backend)  # a record is kept longer than its group
        self.flight = GroupRecord(self.members, options.timeout, lambda: torch_private.name_and_description(itself()))
        if in_threads.here.meeting is not None:
            self.waiting: Waiting = in_threads.WaitingInThread(self.members, self.rank)
        elif not self.alone:
            store = torch_private.c10d.PrefixStore(of_this_life("group"), options.store)
            self.waiting = Waiting(store, self.members, self.rank)
        by_itself = self.alone or self.ranks == 1
        self.gloo: Any = (
            AllEqual(self.rank, self.ranks) if by_itself else self.waiting.connect(self.ranks, options.timeout)
        )

    def _refuse_faults_of_ranks(self) -> None:
        if self.alone and (kinds := are_of_ranks(machine.known_settings.faults)):
            raise ValueError(
                f"simgpu.enable(faults=...) has {' and '.join(kinds)}, and one process stands for all ranks here "
                "(FakeStore): they all do the same. Use ranks that are processes, or SlowAdapter alone."
            )
        killed = any(isinstance(fault, KilledRank) for fault in machine.known_settings.faults)
        if killed and in_threads.here.meeting is not None:
            raise ValueError(
                "simgpu.enable(faults=...) has a KilledRank, and ranks are threads of one process here: it would end "
                "them all. Use ranks that are processes."
            )

    def fault(self) -> Fault | None:
        """What is to happen at the collective that this rank begins now. It does not come back from being killed."""
        faults = machine.known_settings.faults
        if not faults:
            return None
        machine.collectives += 1
        found = at_collective(faults, self.members[self.rank], machine.collectives)
        if isinstance(found, KilledRank):
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    def run(self, called: CollectiveCall, queue: Queue | None = None, whence: Origin | None = None) -> float:
        """Give a collective its times, as soon as all ranks have called it; returns when it ends.

        It waits for the GPU's current stream, or for `queue`; `whence` is where it came from, if not from here.
        """
        gpu = called.gpu
        ready, launched = self.ready(gpu, self.ways, queue)
        ready = max(ready, self.free)
        entry = self.flight.enter(called.recorded, called.inputs, called.outputs, launched)
        entry.started = ready
        entry.completed = end = self.agreed(ready, called.what, gpu) + called.seconds
        self.take(gpu, self.ways, called.name, ready, end, called.size, launched, self.among, whence)
        return end

    def ready(self, gpu: Gpu, ways: tuple[str, ...], queue: Queue | None = None) -> tuple[float, float]:
        """(when this rank can begin on these ways, when its host has launched it)."""
        launched = machine.clock.pay(gpu.profile.launch, gpu.index)
        free = (getattr(gpu, way).free for way in ways)
        return max(launched, machine.told(queue or machine.queue(gpu)), *free), launched

    def agreed(self, ready: float, what: str, gpu: Gpu | None) -> float:
        """When the last rank of the group is ready. RuntimeError on all of them where they do not do the same."""
        if self.alone or self.ranks == 1:
            return ready
        with self.waiting(what):
            return self.waiting.agreed(ready, what, -1 if gpu is None else self._place(gpu))

    def _place(self, gpu: Gpu) -> int:
        """What no other rank may have: a GPU of the node; -1 where a process sees one GPU only, as it may its own."""
        count = machine.known_settings.count
        if count == 1:
            return -1
        node = self.members[self.rank] // _per_node(_world())
        return gpu.index + node * count

    def pairs_seconds(self, sent: Sequence[float], received: Sequence[float]) -> float:
        """What this rank needs for so many bytes to each rank and from each rank, its own share aside.

        With a rank behind a slow adapter it exchanges as fast as that shares its rate among all that ask.
        """
        if self.ranks == 1:
            return 0.0
        node = self._nodes[self.rank]
        others = [rank for rank in range(self.ranks) if rank != self.rank]
        near = [rank for rank in others if self._nodes[rank] == node]
        far = [rank for rank in others if rank not in near]
        inside, outside = (max(sum(each[rank] for rank in ranks) for each in (sent, received)) for ranks in (near, far))
        faults = machine.known_settings.faults
        outside /= share_of(faults, node)
        for rank in far:
            if (share := share_of(faults, self._nodes[rank])) < 1:
                asking = self.ranks - self._nodes.count(self._nodes[rank])
                outside = max(outside, asking * max(sent[rank], received[rank]) / share)
        healthy = replace(self.fabric, network=machine.known_settings.network)
        return healthy.pairs_seconds(inside, outside)

    def take(
        self,
        gpu: Gpu,
        ways,
        name: str,
        ready: float,
        end: float,
        size: int,
        launched: float,
        among: str,
        whence: Origin | None = None,
    ) -> None:
        self.free = max(self.free, end)
        for way in ways:
            engine = getattr(gpu, way)
            engine.free = max(engine.free, end)
        machine.communicate(gpu, name, ready, end, size, launched, among, whence)


class AllEqual:
    """What gloo does, where all ranks hold the numbers of this one: it is all of them, or stands for them."""

    def __init__(self, rank: int, ranks: int):
        self._rank, self._ranks = rank, ranks

    def wait(self) -> None:
        """Nothing: what a call gives is its own work, and done."""

    def allreduce(self, tensors, options) -> AllEqual:
        for tensor in tensors:
            if options.reduceOp == ReduceOp.SUM:
                tensor.mul_(self._ranks)
            elif options.reduceOp == ReduceOp.PRODUCT:
                tensor.pow_(self._ranks)
        return self

    def allgather(self, outputs, inputs) -> AllEqual:
        for parts, own in zip(outputs, inputs, strict=True):
            for part in parts:
                part.copy_(own)
        return self

    def broadcast(self, tensors, options) -> AllEqual:
        return self

    def scatter(self, outputs, inputs, options) -> AllEqual:
        if inputs:
            outputs[0].copy_(inputs[0][self._rank])
        return self

    def all_to_all_single(self, output, input, output_sizes, input_sizes) -> AllEqual:
        parts = input.split(input_sizes) if input_sizes else input.chunk(self._ranks)
        output.copy_(torch.cat([parts[self._rank]] * self._ranks))
        return self


# --- who is linked with whom --------------------------------------------------------------------------------------


def _per_node(world: int) -> int:
    """How many ranks a node has: as torchrun says, else as the machine was made."""
    nodes = machine.known_settings.nodes
    if nodes > 1:
        return max(1, world // nodes)
    local = int(os.environ.get("LOCAL_WORLD_SIZE", world))
    return local if 0 < local < world else world


def _world() -> int:
    return int(os.environ.get("WORLD_SIZE", 0)) or _ranks_known()


# Ranks of the largest group so far, and of which machine: where no environment says how many there are.
_largest_group, _its_machine = 1, 0


def _ranks_known() -> int:
    return _largest_group if _its_machine == machine.generation else 1


def _nodes(members: list[int]) -> list[int]:
    """The node of each member."""
    global _largest_group, _its_machine
    _largest_group, _its_machine = max(_ranks_known(), len(members), max(members) + 1), machine.generation
    per_node = _per_node(_world())
    return [rank // per_node for rank in members]


def _fabric(nodes: list[int]) -> Fabric:
    """How ranks on these nodes are linked."""
    settings = machine.known_settings
    return Fabric(len(nodes), len(set(nodes)), settings.link, machine.network_of(nodes), settings.gpu.capability)


def _ways(fabric: Fabric) -> tuple[str, ...]:
    """Which engines of a GPU a group keeps busy: a ring over several nodes passes through the links of each, too."""
    if fabric.nodes == 1:
        return ("link",)
    return ("network",) if fabric.ranks == fabric.nodes else ("link", "network")


def link_between_ranks(one: int, other: int) -> LinkProfile:
    per_node = _per_node(_world())
    nodes = {one // per_node, other // per_node}
    return machine.known_settings.link if len(nodes) == 1 else machine.network_of(nodes)
