"""When the kernels and collectives of a training step happen, by simgpu's rules: one GPU that stands for all.

A host that launches, an engine that computes one kernel at a time, one for the links of the node and one for the
network, and the streams of PyTorch's FSDP2: weights are cast and gathered on one of high priority, gradients are
reduced on another. It is `simgpu`'s clock without tensors, so that a step of a thousand kernels costs a
millisecond.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from simgpu import Fabric
from simgpu.profiles import GpuProfile

from .trace import Begin, Event, Trace, Wait

SHARE, WORK = 4, 2  # bytes of a weight as it is trained (float32), and as it is computed with (bfloat16)
# Multiprocessors that NCCL's kernel holds while a collective goes on: one a channel, and 32 are its most (MAXCHANNELS,
# NVIDIA/nccl 2.8 to 2.19, src/include/devcomm.h: from memory). Not fitted: docs/planner.md.
CHANNELS = 32


class Groups(NamedTuple):
    """The groups that a GPU belongs to."""

    data: Fabric
    shard: Fabric
    tensor: Fabric

    def ways(self, name: str) -> tuple[str, ...]:
        """What a group keeps busy: a ring over several nodes passes through the links of each, too."""
        group = getattr(self, name)
        if group.nodes == 1:
            return ("link",)
        return ("network",) if group.ranks == group.nodes else ("link", "network")


class Replay:
    """A GPU at work. `talked` has the bytes of its collectives, by kind of group."""

    def __init__(self, gpu: GpuProfile, groups: Groups, sharded: bool = True):
        self.gpu, self.groups, self.sharded = gpu, groups, sharded
        # A product that begins beside a collective is laid out over the multiprocessors that are left.
        self.crowded = gpu.multiprocessors / max(1, gpu.multiprocessors - CHANNELS)
        self.host = self.compute = self.copies = self.reducing = self.engine = 0.0
        self.shard_free = self.data_free = self.busy = 0.0
        self.free = {"link": 0.0, "network": 0.0}
        self.gaps: list[tuple[float, float]] = []
        self.waiting: list[tuple[float, float]] = []  # kernels of the main stream that an urgent one may go before
        self.taken = 0.0  # when the weights of the layer before were in their place
        self.input_free = 0.0  # when the gradients that are being reduced may be given away
        self.talked: dict[str, float] = {"data": 0.0, "shard": 0.0, "tensor": 0.0}
        self._known: dict[tuple[str, int], float] = {}

    # --- one thing at a time --------------------------------------------------------------------------------------

    def moving(self, size: float) -> float:
        """Seconds of a kernel that only reads and writes so many bytes."""
        return self.gpu.shortest + size / (self.gpu.bandwidth * self.gpu.streams)

    def run(self, events: Iterable[Event]) -> None:
        """Kernels on the main stream, and the collectives of tensor parallelism between them."""
        begun, slower = 0.0, 1.0
        for event in events:
            if isinstance(event, float):
                event *= slower
                self.compute = self.kernel(self.compute, event)
                self.waiting.append((self.compute - event, self.compute))
            elif isinstance(event, Begin):
                self.waiting.clear()
                begun, slower = self.talk("tensor", self.compute, *event), self.crowded
            elif isinstance(event, Wait):
                self.compute, slower = max(self.compute, begun), 1.0
            else:
                self.waiting.clear()  # the collective has been told when they end
                self.compute = self.talk("tensor", self.compute, *event)

    def kernel(self, ready: float, seconds: float) -> float:
        """Launch a kernel on a stream that is ready then; returns its end."""
        self.host += self.gpu.launch
        self.busy += seconds
        start = max(ready, self.host)
        if start < self.engine:
            return self._fit_in(start, seconds)
        if start > self.engine:
            self.gaps.append((self.engine, start))
        self.engine = start + seconds
        return self.engine

    def _fit_in(self, ready: float, seconds: float) -> float:
        """In a gap between kernels that were launched before, if one is long enough; else after all of them."""
        self.gaps = [gap for gap in self.gaps if gap[1] > self.host]
        for number, (begin, end) in enumerate(self.gaps):
            start = max(begin, ready)
            if end - start >= seconds:
                self.gaps[number : number + 1] = [
                    gap for gap in ((begin, start), (start + seconds, end)) if gap[1] > gap[0]
                ]
                return start + seconds
        self.engine = max(self.engine, ready) + seconds
        return self.engine

    def urgent(self, ready: float, seconds: float) -> float:
        """Launch a kernel that goes before those of the main stream that have not begun; returns its end."""
        start = max(ready, self.host + self.gpu.launch)
        later = bisect_left(self.waiting, (start, 0.0))
        if later == len(self.waiting):
            return self.kernel(ready, seconds)
        self.host += self.gpu.launch
        self.busy += seconds
        begin = max(start, self.waiting[later - 1][1]) if later else start
        end = before = begin + seconds
        delayed, gaps = [], [gap for gap in self.gaps if gap[1] <= begin]
        for its_start, its_end in self.waiting[later:]:
            if its_start > before:
                gaps.append((before, its_start))
            before = max(before, its_start) + its_end - its_start
            delayed.append((before - its_end + its_start, before))
        self.waiting[:] = delayed  # what went before has begun
        self.gaps, self.compute, self.engine = gaps, before, max(self.engine, before)
        return end

    def talk(self, group: str, ready: float, collective: str, size: int) -> float:
        """Launch a collective; returns its end."""
        self.host += self.gpu.launch
        key = collective + group, size
        if key not in self._known:
            self._known[key] = getattr(self.groups, group).seconds(collective, size)
        self.talked[group] += size
        ways = self.groups.ways(group)
        end = max(self.host, ready, *(self.free[way] for way in ways)) + self._known[key]
        self.free.update(dict.fromkeys(ways, end))
        return end

    # --- FSDP2 ----------------------------------------------------------------------------------------------------

    def gather(self, block: Trace, backward: bool = False) -> float:
        """Ask for a block's weights; returns when they have come. Backward it is launched on the main stream."""
        ranks = self.groups.shard.ranks
        if ranks == 1 or not self.sharded:
            return 0.0
        own, whole = block.numbers / ranks, block.numbers * WORK
        if backward:
            self.compute = self.kernel(self.compute, self.moving(own * (SHARE + WORK)))
            ready = self.compute = self.kernel(self.compute, self.moving(2 * own * WORK))
        else:
            self.copies = self.urgent(self.copies, self.moving(own * (SHARE + WORK)))
            ready = self.copies = self.urgent(self.copies, self.moving(2 * own * WORK))
        self.shard_free = self.talk("shard", max(ready, self.shard_free), "all_gather", whole)
        return self.shard_free

    def take(self, block: Trace, arrival: float) -> None:
        """Wait for the weights, and put them where they are used."""
        if not self.sharded:
            return
        self.compute = max(self.compute, arrival)
        if self.groups.shard.ranks > 1:
            self.compute = self.kernel(self.compute, self.moving(2 * block.numbers * WORK))
            self.copies = max(self.copies, self.taken)
            self.taken = self.compute
            return
        for count in block.weights:
            for _ in range(2):  # a cast, and a copy
                self.compute = self.kernel(self.compute, self.moving(2 * count * WORK))

    def reduce(self, block: Trace, accumulated: bool) -> None:
        """Send a block's gradients to those who train its weights."""
        if not self.sharded:
            return
        self.compute = max(self.compute, self.input_free)
        whole = block.numbers * SHARE
        self.compute = self.kernel(self.compute, self.moving(whole + block.numbers * (SHARE if accumulated else WORK)))
        ready = max(self.compute, self.reducing)
        if self.groups.shard.ranks > 1:
            self.reducing = self.shard_free = self.talk("shard", max(ready, self.shard_free), "reduce_scatter", whole)
        else:
            self.reducing = self.kernel(ready, self.moving(2 * whole))
        self.input_free = self.reducing
        if self.groups.data.ranks > 1:
            own = whole // self.groups.shard.ranks
            self.data_free = self.talk("data", max(self.reducing, self.data_free), "all_reduce", own)

    def add_up(self, block: Trace) -> None:
        """Add a share of gradients to those of the micro-batches before."""
        for count in block.weights:
            self.reducing = self.kernel(self.reducing, self.moving(3 * SHARE * count / self.groups.shard.ranks))

    def accumulate(self, block: Trace, first: bool) -> None:
        """Keep a micro-batch's gradients, in float32 where there are shares to be trained."""
        for count in block.weights:
            if self.sharded:
                size = 2 * SHARE * count if first else (2 * SHARE + WORK) * count
                self.compute = self.kernel(self.compute, self.moving(size))
            elif not first:
                self.compute = self.kernel(self.compute, self.moving(3 * WORK * count))

    # --- passes ---------------------------------------------------------------------------------------------------

    def forward(self, blocks: Sequence[Trace], held: bool = False) -> None:
        self.wait_for_gradients()
        self.copies = max(self.copies, self.compute)  # weights may just have been trained
        for block in blocks:
            if not held:
                self.take(block, self.gather(block))
            self.run(block.forward)

    def backward(self, blocks: Sequence[Trace], *, held: bool, first: bool, last: bool) -> None:
        """From the last block to the first; each asks for the weights of the next one before it begins.

        Where weights are `held` their gradients wait for the last micro-batch; else each is reduced at once.
        """
        arrival = None
        for number in range(len(blocks) - 1, -1, -1):
            block = blocks[number]
            if not held:
                self.take(block, self.gather(block, backward=True) if arrival is None else arrival)
                arrival = self.gather(blocks[number - 1], backward=True) if number else None
            self.run(block.backward)
            if held and not (first and last):
                self.accumulate(block, first)
            if last or not held:
                self.reduce(block, accumulated=held and not first)
                if not (held or first):
                    self.add_up(block)

    def wait_for_gradients(self) -> None:
        """What follows a backward pass waits until its gradients are reduced."""
        self.compute = max(self.compute, self.reducing, self.data_free)

    def finish(self) -> float:
        """The host waits for all: now."""
        self.wait_for_gradients()
        self.host = max(self.host, self.compute, self.copies, *self.free.values())
        return self.host
