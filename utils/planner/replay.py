"""When the kernels and collectives of a training step happen, by simgpu's rules: one GPU that stands for all.

A host that launches, an engine that computes one kernel at a time, one for the links of the node and one for the
network, and the streams of PyTorch's FSDP2: weights are cast and gathered on one of high priority, gradients are
reduced on another. It is `simgpu`'s clock without tensors, so that a step of a thousand kernels costs a
millisecond.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from simgpu import Fabric
from simgpu.profiles import LINKS, NETWORKS, GpuProfile, LinkProfile

from .trace import Begin, Boundary, Carry, Collective, Event, Trace, Unit, Wait

SHARE, WORK = 4, 2  # bytes of a weight as it is trained (float32), and as it is computed with (bfloat16)
# Multiprocessors that NCCL's kernel holds while a collective goes on: one a channel, and 32 are its most (MAXCHANNELS,
# NVIDIA/nccl 2.17.1, src/include/devcomm.h). Not fitted: docs/planner.md.
CHANNELS = 32
# Seconds of the host for a copy of a tensor without autograd: an operator's on an H200's host (docs/times.md).
COPY = 8e-6


ALONE = Fabric(1, 1, LINKS["nvlink4"], NETWORKS["400G"])


class Groups(NamedTuple):
    """The groups that a GPU belongs to: `expert_shard` has those that hold the same experts' weights between them."""

    data: Fabric = ALONE
    shard: Fabric = ALONE
    tensor: Fabric = ALONE
    context: Fabric = ALONE
    experts: Fabric = ALONE
    expert_shard: Fabric = ALONE

    def seconds(self, event: Collective | Begin) -> float:
        """What a block's collective takes. One that only sends to the next rank waits for the slowest pair."""
        group = getattr(self, event.group)
        if event.name != "send":
            return group.seconds(event.name, event.size)
        return group.pairs_seconds(*((event.size, 0) if group.nodes == 1 else (0, event.size)))

    def ways(self, name: str) -> tuple[str, ...]:
        """What a group keeps busy: a ring over several nodes passes through the links of each, too."""
        group = getattr(self, name)
        if group.nodes == 1:
            return ("link",)
        return ("network",) if group.ranks == group.nodes else ("link", "network")


class Step(NamedTuple):
    """Part of a block's pass: the unit that it needs from here on, what it does, whose gradients are done then."""

    needed: Unit | None
    events: tuple[Event, ...]
    done: Unit | None


@lru_cache(maxsize=4096)
def _between_boundaries(events: tuple[Event, ...]) -> tuple[tuple[Event, ...], ...]:
    places = [number for number, event in enumerate(events) if isinstance(event, Boundary)]
    ends = [0, *places, len(events)]
    return tuple(events[begin:end] for begin, end in pairwise(ends))


def forward_steps(block: Trace) -> list[Step]:
    if len(block.units) == 1:
        return [Step(block.units[0], block.forward, None)]
    return [Step(unit, each, None) for unit, each in zip(block.units, _between_boundaries(block.forward), strict=True)]


def backward_steps(block: Trace) -> list[Step]:
    """Experts' weights are needed from the first boundary on, that of a recomputation if there is one, to the last."""
    if len(block.units) == 1:
        return [Step(block.units[0], block.backward, block.units[0])]
    own, apart = block.units
    before, *between, after = _between_boundaries(block.backward)
    middle = tuple(event for part in between for event in part)
    return [Step(own, before, None), Step(apart, middle, apart), Step(None, after, own)]


class Replay:
    """A GPU at work. `talked` has the bytes of its collectives, by kind of group, `carried` those to and from the host.

    `host_link` is to the host's memory, and with `away` that is where FSDP2 has its shares (`CPUOffloadPolicy`).
    """

    def __init__(
        self,
        gpu: GpuProfile,
        groups: Groups,
        sharded: bool = True,
        host_link: LinkProfile = LINKS["pcie5"],
        away: bool = False,
        zero1: bool = False,
    ):
        self.gpu, self.groups, self.sharded, self.host_link, self.away = gpu, groups, sharded, host_link, away
        self.zero1 = zero1
        self.in_free = self.out_free = self.carried = 0.0
        # A product that begins beside a collective is laid out over the multiprocessors that are left.
        self.crowded = gpu.multiprocessors / max(1, gpu.multiprocessors - CHANNELS)
        self.host = self.compute = self.copies = self.reducing = self.engine = 0.0
        self.shard_free = self.data_free = self.busy = 0.0
        self.free = {"link": 0.0, "network": 0.0}
        self.gaps: list[tuple[float, float]] = []
        self.waiting: list[tuple[float, float]] = []  # kernels of the main stream that an urgent one may go before
        self.taken = 0.0  # when the weights of the layer before were in their place
        self.input_free = 0.0  # when the gradients that are being reduced may be given away
        self.talked: dict[str, float] = dict.fromkeys(Groups._fields, 0.0)
        self._known: dict[Collective, float] = {}

    # --- one thing at a time --------------------------------------------------------------------------------------

    def moving(self, size: float) -> float:
        """Seconds of a kernel that only reads and writes so many bytes."""
        return self.gpu.shortest + size / (self.gpu.bandwidth * self.gpu.streams)

    def run(self, events: Iterable[Event]) -> None:
        """Kernels on the main stream, and the collectives of a block between them."""
        begun, slower = {}, 1.0
        for event in events:
            if isinstance(event, float):
                event *= slower
                self.compute = self.kernel(self.compute, event)
                self.waiting.append((self.compute - event, self.compute))
            elif isinstance(event, Begin):
                self.waiting.clear()
                begun[event.name] = self.talk(self.compute, Collective(*event))
                slower = self.crowded if event.group == "tensor" else 1.0
            elif isinstance(event, Wait):
                self.compute, slower = max(self.compute, begun[event.name]), 1.0
            elif isinstance(event, Collective):
                self.waiting.clear()  # the collective has been told when they end
                self.compute = self.talk(self.compute, event)
            elif isinstance(event, Carry):
                self.compute = self.carry(self.compute, event)

    def carry(self, ready: float, event: Carry, pageable: bool = False) -> float:
        """Launch a copy to or from the host's memory, pinned unless `pageable`; returns its end."""
        self.host += self.gpu.launch
        self.carried += event.size
        start = max(ready, self.host, self.out_free if event.out else self.in_free)
        end = start + self.host_link.seconds(round(event.size), pageable=pageable)
        if event.out:
            self.out_free = end
        else:
            self.in_free = end
        return end

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

    def talk(self, ready: float, event: Collective) -> float:
        """Launch a collective; returns its end."""
        self.host += self.gpu.launch
        if event not in self._known:
            self._known[event] = self.groups.seconds(event)
        self.talked[event.group] += event.size
        ways = self.groups.ways(event.group)
        end = max(self.host, ready, *(self.free[way] for way in ways)) + self._known[event]
        self.free.update(dict.fromkeys(ways, end))
        return end

    # --- FSDP2 ----------------------------------------------------------------------------------------------------

    def ranks(self, unit: Unit) -> int:
        return getattr(self.groups, unit.group).ranks

    def gather(self, unit: Unit, backward: bool = False) -> float:
        """Ask for a unit's weights; returns when they have come. Backward it is launched on the main stream.

        Where shares are away each is copied from the host and cast, on a stream of its own in both passes. A kernel
        that a copy waits for keeps its time on simgpu, so those of a block fit in between or come after.
        """
        ranks = self.ranks(unit)
        if ranks == 1 or not self.sharded or self.zero1:
            return 0.0
        own, whole = unit.numbers / ranks, unit.numbers * WORK
        if self.away:
            self.copies = max(self.copies, self.taken) if backward else self.copies
            for count in unit.weights:
                self.copies = self.carry(self.copies, Carry(SHARE * count / ranks, out=False))
                self.copies = self.urgent(self.copies, self.moving(2 * WORK * count / ranks))
            ready = self.copies = self.urgent(self.copies, self.moving(2 * own * WORK))
        elif backward:
            self.compute = self.kernel(self.compute, self.moving(own * (SHARE + WORK)))
            ready = self.compute = self.kernel(self.compute, self.moving(2 * own * WORK))
        else:
            self.copies = self.urgent(self.copies, self.moving(own * (SHARE + WORK)))
            ready = self.copies = self.urgent(self.copies, self.moving(2 * own * WORK))
        self.shard_free = self.talk(max(ready, self.shard_free), Collective("all_gather", whole, unit.group))
        return self.shard_free

    def take(self, unit: Unit, arrival: float) -> None:
        """Wait for the weights, and put them where they are used."""
        if not self.sharded or self.zero1:
            return
        self.compute = max(self.compute, arrival)
        if self.ranks(unit) > 1:
            self.compute = self.kernel(self.compute, self.moving(2 * unit.numbers * WORK))
            self.copies = max(self.copies, self.taken)
            self.taken = self.compute
            return
        for count in unit.weights:
            if self.away:
                self.compute = self.carry(self.compute, Carry(SHARE * count, out=False))
            for _ in range(2):  # a cast, and a copy
                self.compute = self.kernel(self.compute, self.moving(2 * count * WORK))

    def reduce(self, unit: Unit, accumulated: bool, added: bool = False) -> None:
        """Send a unit's gradients to those who train its weights; `added` says that the host has some already."""
        if not self.sharded:
            return
        self.compute = max(self.compute, self.input_free)
        whole, ranks = unit.numbers * SHARE, self.ranks(unit)
        self.compute = self.kernel(self.compute, self.moving(whole + unit.numbers * (SHARE if accumulated else WORK)))
        ready = max(self.compute, self.reducing)
        if self.zero1:
            self.talked[unit.group] += whole  # once more than `talk` counts
            self.reducing = self.shard_free = self.talk(
                max(ready, self.shard_free), Collective("all_reduce", whole, unit.group)
            )
            return
        if ranks > 1:
            reduced = self.talk(max(ready, self.shard_free), Collective("reduce_scatter", whole, unit.group))
            self.reducing = self.shard_free = reduced
        else:
            self.reducing = self.kernel(ready, self.moving(2 * whole))
        self.input_free = self.reducing
        if self.groups.data.ranks > 1:
            own = whole // ranks
            self.data_free = self.talk(max(self.reducing, self.data_free), Collective("all_reduce", own, "data"))
        if not self.away:
            return
        if self.groups.data.ranks > 1:
            self.data_free = self.send_home(self.data_free, unit, added)
        else:
            self.reducing = self.send_home(self.reducing, unit, added)

    def send_home(self, ready: float, unit: Unit, added: bool) -> float:
        """Copy a share of gradients to the host, which waits for what is `added` to others, in pageable memory."""
        for count in unit.weights:
            ready = self.carry(ready, Carry(SHARE * count / self.ranks(unit), out=True), pageable=added)
            if added:
                self.host = ready
        return ready

    def add_up(self, unit: Unit) -> None:
        """Add a share of gradients to those of the micro-batches before."""
        for count in unit.weights:
            self.reducing = self.kernel(self.reducing, self.moving(3 * SHARE * count / self.ranks(unit)))

    def accumulate(self, unit: Unit, first: bool) -> None:
        """Keep a micro-batch's gradients, in float32 where there are shares to be trained."""
        for count in unit.weights:
            if self.sharded:
                size = 2 * SHARE * count if first else (2 * SHARE + WORK) * count
                self.compute = self.kernel(self.compute, self.moving(size))
            elif not first:
                self.compute = self.kernel(self.compute, self.moving(3 * WORK * count))

    def gather_trained(self, blocks: Iterable[Trace]) -> None:
        """After the optimizer's step of ZeRO-1: gather all weights, and put each rank's part of each into its place.

        As nanotron does at 2411b02 (`_all_gather_params` in optim/zero.py, `all_gather_coalesced`): what is
        there is copied into a list of flat tensors, which is gathered and copied back.
        """
        weights = [count for block in blocks for unit in block.units for count in unit.weights]
        whole = sum(weights) * WORK
        self.compute = self.kernel(self.compute, self.moving(2 * whole))
        self.compute = self.talk(self.compute, Collective("all_gather", whole, "shard"))
        self.compute = self.kernel(self.compute, self.moving(2 * 2 * whole))
        self.host = max(self.host, self.compute - self.moving(2 * whole)) + COPY * self.groups.shard.ranks * len(
            weights
        )
        self.compute = max(self.compute, self.host)

    # --- passes ---------------------------------------------------------------------------------------------------

    def forward(self, blocks: Sequence[Trace], held: bool = False) -> None:
        self.wait_for_gradients()
        self.copies = max(self.copies, self.compute)  # weights may just have been trained
        for unit, events, _ in (step for block in blocks for step in forward_steps(block)):
            if unit is not None and not held:
                self.take(unit, self.gather(unit))
            self.run(events)

    def backward(self, blocks: Sequence[Trace], *, held: bool, first: bool, last: bool) -> None:
        """From the last block to the first; each unit asks for the weights of the next one before it begins.

        Where weights are `held` their gradients wait for the last micro-batch; else each is reduced at once.
        """
        steps = [step for block in reversed(blocks) for step in backward_steps(block)]
        wanted = [step.needed for step in steps if step.needed]
        arrival = None
        for needed, events, done in steps:
            if needed is not None and not held:
                self.take(needed, self.gather(needed, backward=True) if arrival is None else arrival)
                wanted.pop(0)
                arrival = self.gather(wanted[0], backward=True) if wanted else None
            self.run(events)
            if done and held and not (first and last):
                self.accumulate(done, first)
            if done and (last or not held):
                added = not (held or first)
                self.reduce(done, accumulated=held and not first, added=added)
                if added and not self.away:
                    self.add_up(done)
        if self.away:  # the optimizer's step on the host would read what is still copied
            self.host = max(self.host, self.reducing, self.data_free)

    def wait_for_gradients(self) -> None:
        """What follows a backward pass waits until its gradients are reduced."""
        self.compute = max(self.compute, self.reducing, self.data_free)

    def finish(self) -> float:
        """The host waits for all: now."""
        self.wait_for_gradients()
        self.host = max(self.host, self.compute, self.copies, *self.free.values())
        return self.host
