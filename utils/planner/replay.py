"""When the kernels and collectives of a training step happen, by simgpu's rules: one GPU that stands for all.

A host that launches, an engine that computes one kernel at a time, a network engine, and the streams of PyTorch's
FSDP2: weights are gathered and cast on one, gradients are reduced on another. It is `utils.simgpu`'s clock without
tensors, so that a step of a thousand kernels costs a millisecond.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from utils.simgpu import Fabric
from utils.simgpu.profiles import GpuProfile

from .trace import Event, Trace

SHARE, WORK = 4, 2  # bytes of a weight as it is trained (float32), and as it is computed with (bfloat16)


class Groups(NamedTuple):
    """The groups that a GPU belongs to."""

    data: Fabric
    shard: Fabric
    tensor: Fabric


class Replay:
    """A GPU at work. `talked` has the bytes of its collectives, by kind of group."""

    def __init__(self, gpu: GpuProfile, groups: Groups, sharded: bool = True):
        self.gpu, self.groups, self.sharded = gpu, groups, sharded
        self.host = self.compute = self.copies = self.reducing = self.network = self.engine = 0.0
        self.data_free = self.busy = 0.0
        self.gaps: list[tuple[float, float]] = []
        self.input_free = 0.0  # when the gradients that are being reduced may be given away
        self.talked: dict[str, float] = {"data": 0.0, "shard": 0.0, "tensor": 0.0}
        self._known: dict[tuple[str, int], float] = {}

    # --- one thing at a time --------------------------------------------------------------------------------------

    def moving(self, size: float) -> float:
        """Seconds of a kernel that only reads and writes so many bytes."""
        return self.gpu.shortest + size / (self.gpu.bandwidth * self.gpu.streams)

    def run(self, events: Iterable[Event]) -> None:
        """Kernels on the main stream, and the collectives of tensor parallelism between them."""
        for event in events:
            if isinstance(event, float):
                self.compute = self.kernel(self.compute, event)
            else:
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

    def talk(self, group: str, ready: float, collective: str, size: int) -> float:
        """Launch a collective; returns its end."""
        self.host += self.gpu.launch
        key = collective + group, size
        if key not in self._known:
            self._known[key] = getattr(self.groups, group).seconds(collective, size)
        self.talked[group] += size
        self.network = max(self.host, ready, self.network) + self._known[key]
        return self.network

    # --- FSDP2 ----------------------------------------------------------------------------------------------------

    def gather(self, block: Trace, backward: bool = False) -> float:
        """Ask for a block's weights; returns when they have come. Backward it is launched on the main stream."""
        ranks = self.groups.shard.ranks
        if ranks == 1 or not self.sharded:
            return 0.0
        own, whole = block.numbers / ranks, block.numbers * WORK
        ready = self.compute if backward else self.copies
        ready = self.kernel(ready, self.moving(own * (SHARE + WORK)))
        ready = self.kernel(ready, self.moving(2 * own * WORK))
        if backward:
            self.compute = ready
        else:
            self.copies = ready
        return self.talk("shard", ready, "all_gather", whole)

    def take(self, block: Trace, arrival: float) -> None:
        """Wait for the weights, and put them where they are used."""
        if not self.sharded:
            return
        self.compute = max(self.compute, arrival)
        if self.groups.shard.ranks > 1:
            self.compute = self.kernel(self.compute, self.moving(2 * block.numbers * WORK))
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
            self.reducing = self.talk("shard", ready, "reduce_scatter", whole)
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
        self.host = max(self.host, self.compute, self.copies, self.network)
        return self.host
