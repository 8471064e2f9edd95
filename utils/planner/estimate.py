"""What a layout costs: seconds of a step, memory of the fullest GPU by what it is for, bytes on each kind of link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import nan
from typing import NamedTuple

import torch

from simgpu import PAIR
from simgpu.profiles import GpuProfile, LinkProfile
from utils.schedules import Costs, Memory, Schedule, interleaved_1f1b, one_f_one_b
from utils.schedules.clock import clock

from .cluster import Cluster, timing
from .layouts import KERNELS, Layout
from .models import BlockSpec, Model, Split
from .optimizer import STATES, adamw
from .replay import SHARE, WORK, Groups, Replay
from .trace import Begin, Boundary, Carry, Trace, Unit, Wait

KINDS = ("weights", "gradients", "optimizer", "activations", "temporary")
CONTEXT = 2e9  # bytes of a GPU that are CUDA's and its kernels': 1 to 2 GB (The Ultra-Scale Playbook)
BUFFERS = 0.7e9  # and NCCL's, for each group: 544 MB for two A100, 688 MB for more (NVIDIA/nccl, issue 964)
ALIKE = 6  # of so many equal layers in a row, the others cost what the last of these has cost more
FEW = 3  # micro-batches, likewise; and of pipelines, rounds of as many as there are ranks


@dataclass(frozen=True)
class Estimate:
    """`memory` in bytes by kind, `moved` in bytes a GPU by kind of link, `bubble` as a share of the step.

    `reserve` is what no tensor can have: the CUDA context's, its kernels' and NCCL's. Where something is offloaded,
    `host` has the bytes of a GPU's share in the host's memory by kind, `moved` those to and from the "host", and
    `on_cpu` the seconds of the step in which CPUs compute and the GPU waits: those are assumed (`cluster.HostProfile`).
    """

    layout: Layout
    seconds: float
    tokens_per_second: float  # a GPU
    memory: dict[str, float]
    moved: dict[str, float]
    bubble: float
    waiting: float  # the share of the step in which a GPU computes nothing, bubbles with it
    reason: str | None = None  # why it does not fit
    host: dict[str, float] = field(default_factory=dict)
    on_cpu: float = 0.0

    @property
    def peak(self) -> float:
        return sum(self.memory.values())

    @property
    def reserve(self) -> float:
        return CONTEXT + BUFFERS * self.layout.groups


def estimate_layout(model: Model, cluster: Cluster, layout: Layout) -> Estimate:
    """What a layout that makes sense (`layouts.why_not`) costs on a cluster, and whether it fits."""
    return timed(model, cluster, untimed(model, cluster, layout))


def untimed(model: Model, cluster: Cluster, layout: Layout) -> Estimate:
    """A layout's memory, and whether it fits; nan for what is of time."""
    stages = _stages(model, cluster, layout)
    memory = max(_memories(layout, stages, cluster), key=_total)
    found = Estimate(layout, nan, nan, memory, {}, nan, nan, host=_on_host(layout, stages))
    if found.peak + found.reserve <= cluster.gpu.memory:
        return replace(found, reason=_too_large_for_host(found, cluster))
    most = max(memory, key=memory.__getitem__)
    gib = {"needs": found.peak, "most": memory[most], "reserve": found.reserve, "has": cluster.gpu.memory}
    gib = {name: f"{size / 2**30:.1f}" for name, size in gib.items()}
    reason = (
        f"needs {gib['needs']} GiB, {gib['most']} of them {most}, and {gib['reserve']} for CUDA and NCCL, "
        f"and a {cluster.gpu.name} has {gib['has']}"
    )
    return replace(found, reason=reason)


def _too_large_for_host(found: Estimate, cluster: Cluster) -> str | None:
    needs = _total(found.host) * min(cluster.gpus, cluster.per_node)
    if needs <= cluster.host.memory:
        return None
    return f"needs {needs / 2**30:.1f} GiB of a node's own memory, and it has {cluster.host.memory / 2**30:.1f}"


def timed(model: Model, cluster: Cluster, found: Estimate) -> Estimate:
    """The same estimate with its time."""
    layout = found.layout
    stages = _stages(model, cluster, layout)
    step = _alone(layout, stages, cluster) if layout.pipeline == 1 else _piped(layout, stages, cluster)
    on_cpu = _on_cpu(layout, found, cluster)
    seconds = step.seconds + on_cpu
    tokens = layout.batch * model.tokens / cluster.gpus / seconds
    waiting = max(0.0, 1 - step.busy / seconds)  # lines that were continued meet to a percent or so
    new = {"tokens_per_second": tokens, "moved": step.moved, "bubble": step.bubble, "waiting": waiting}
    return replace(found, seconds=seconds, on_cpu=on_cpu, **new)


def at_least(model: Model, cluster: Cluster, layout: Layout) -> float:
    """Seconds that a step takes at least, without a replay or a schedule being played.

    A rank computes all its micro-batches and waits for the collectives between a block's kernels. Of a pipeline the
    stages before it come before its first forward pass, and after its last backward pass.
    """
    groups = _groups(layout, cluster)
    each = [_in_a_row(blocks, groups, cluster.gpu.launch) for blocks in _stages(model, cluster, layout)]
    ranks = layout.pipeline
    return max(layout.micro_batches * sum(each[rank::ranks]) + sum(each[:rank]) for rank in range(ranks))


@lru_cache(maxsize=4096)
def _in_a_row(blocks: Blocks, groups: Groups, launch: float) -> float:
    """Seconds of a micro-batch's kernels and collectives one after the other, or of a host that launches them."""
    known = {}
    for block in blocks:
        if id(block) not in known:
            events = [one for one in (*block.forward, *block.backward) if not isinstance(one, (Wait, Boundary))]
            # What goes on beside kernels may take no time.
            in_a_row = [one for one in events if not isinstance(one, (Begin, Carry))]
            seconds = sum(one if isinstance(one, float) else groups.seconds(one) for one in in_a_row)
            known[id(block)] = seconds, launch * len(events)
    return max(sum(known[id(block)][which] for block in blocks) for which in (0, 1))


def _on_cpu(layout: Layout, found: Estimate, cluster: Cluster) -> float:
    """Seconds in which a node's CPUs train the shares of its GPUs, and add up the gradients of micro-batches.

    Both are bound by memory bandwidth: of seven tensors that AdamW reads or writes an addition has three.
    """
    if not layout.offloads_weights:
        return 0.0
    share = found.host["weights"] / SHARE * min(cluster.gpus, cluster.per_node)
    additions = (layout.micro_batches - 1) * layout.reshard
    return cluster.host.adam * share * (1 + additions * 3 / 7)


def _total(memory: dict[str, float]) -> float:
    return sum(memory.values())


class Blocks(tuple):
    """Traces, which are told apart by which they are: each is made once, and they are long."""

    def __hash__(self) -> int:
        return hash(tuple(map(id, self)))

    def __eq__(self, other) -> bool:
        return len(self) == len(other) and all(one is two for one, two in zip(self, other, strict=True))


class StepTime(NamedTuple):
    seconds: float
    busy: float
    bubble: float
    moved: dict[str, float]


# --- what each stage has ------------------------------------------------------------------------------------------


def cut(model: Model, stages: int) -> list[tuple[BlockSpec, ...]]:
    """The blocks of each stage: layers as evenly as it goes; words are with the first and the head with the last.

    A layer more where there is one left over goes to stages in the middle, which have neither words nor head.
    """
    if stages == 1:
        return [model.blocks]
    first, last = (1, 1) if model.ends else (0, 0)
    layers = model.blocks[first : len(model.blocks) - last]
    counts = [len(layers) // stages] * stages
    for stage in sorted(range(stages), key=lambda stage: abs(stage - (stages - 1) / 2))[: len(layers) % stages]:
        counts[stage] += 1
    parts, begin = [], first
    for stage, count in enumerate(counts):
        end = begin + count
        parts.append(model.blocks[0 if stage == 0 else begin : len(model.blocks) if stage == stages - 1 else end])
        begin = end
    return parts


def cut_by_time(model: Model, stages: int, seconds: dict[BlockSpec, float]) -> list[tuple[BlockSpec, ...]]:
    """The blocks of each stage, at least one, so that the slowest takes as few `seconds` as it can.

    The model has as many blocks as there are stages, or more.
    """

    def parts(most: float) -> list[tuple[BlockSpec, ...]]:
        found: list[list[BlockSpec]] = [[]]
        held = 0.0
        for number, block in enumerate(model.blocks):
            left = stages - len(found)  # stages that have not begun
            if found[-1] and left and (held + seconds[block] > most or len(model.blocks) - number <= left):
                found, held = [*found, []], 0.0
            found[-1].append(block)
            held += seconds[block]
        return [tuple(part) for part in found]

    low, high = max(seconds.values()), sum(seconds[block] for block in model.blocks)
    for _ in range(30):
        middle = (low + high) / 2
        slowest = max(sum(seconds[block] for block in part) for part in parts(middle))
        low, high = (low, middle) if slowest <= middle else (middle, high)
    return parts(high)


def _stages(model: Model, cluster: Cluster, layout: Layout) -> list[Blocks]:
    gpu = timing(cluster.gpu)
    ends = (model.blocks[0], model.blocks[-1]) if model.ends else ()

    def traced(block: BlockSpec) -> Trace:
        if block in ends:
            return _traced(block, gpu, layout.rows, layout.split, "none", False, layout.kernels)
        how = (layout.recompute, layout.offloads_activations, layout.kernels)
        return _traced(block, gpu, layout.rows, layout.split, *how)

    known = {block: traced(block) for block in set(model.blocks)}
    if layout.cut == "time" and layout.stages > 1:
        groups = _groups(layout, cluster)
        seconds = {block: _in_a_row(Blocks((one,)), groups, gpu.launch) for block, one in known.items()}
        parts = cut_by_time(model, layout.stages, seconds)
    else:
        parts = cut(model, layout.stages)
    return [Blocks(known[block] for block in part) for part in parts]


@lru_cache(maxsize=4096)
def _traced(
    block: BlockSpec, gpu: GpuProfile, rows: int, split: Split, recompute: str, offload: bool, kernels: str
) -> Trace:
    if kernels != "eager":
        return _traced(block, gpu, rows, split, recompute, offload, "eager").sooner(KERNELS[kernels])
    if recompute != "full":
        return block.traced(gpu, rows, split, recompute == "selective")
    plain = block.traced(gpu, rows, split, False)
    sizes = [each.numel() * each.element_size() for each in block.inputs(rows, split)]
    given = sizes[0]
    # Backward it runs once more, with its input and the gradient of its output there.
    again = max(plain.backward_peak + given * (plain.kept < plain.forward_peak), plain.forward_peak + plain.output)
    found = plain._replace(backward=plain.forward + plain.backward, kept=given, backward_peak=again)
    if not offload:
        return found
    there, back = (tuple(Carry(size, out) for size in sizes) for out in (True, False))
    return found._replace(forward=there + found.forward, backward=back + found.backward, kept=0)


def _groups(layout: Layout, cluster: Cluster) -> Groups:
    """A GPU's neighbours share its products, the next ones its sequence, then its weights; experts are cut first."""
    tensor, context, experts = layout.split
    return Groups(
        data=cluster.group(layout.data, layout.shards * tensor),
        shard=cluster.group(layout.shards, tensor),
        tensor=cluster.group(tensor, 1),
        context=cluster.group(context, tensor),
        experts=cluster.group(experts, tensor),
        expert_shard=cluster.group(layout.shards // experts, tensor * experts),
    )


def _sharers(layout: Layout, unit: Unit) -> int:
    return layout.shards // (layout.experts if unit.group == "expert_shard" else 1)


def _share(layout: Layout, blocks: Sequence[Trace]) -> int:
    """Weights that a GPU trains."""
    return sum(-(-unit.numbers // _sharers(layout, unit)) for block in blocks for unit in block.units)


def _dtype(layout: Layout) -> torch.dtype:
    return torch.float32 if layout.fsdp else torch.bfloat16


def _on_host(layout: Layout, stages: Sequence[Blocks]) -> dict[str, float]:
    """Bytes of a GPU's share that the host's memory has, by kind; none where nothing is offloaded."""
    found, blocks = {}, [block for blocks in stages for block in blocks]
    if layout.offloads_weights:
        share = _share(layout, blocks) * SHARE
        found |= {"weights": share, "gradients": share, "optimizer": STATES * share}
    if layout.offloads_activations:
        carried = [event.size for block in blocks for event in block.forward if isinstance(event, Carry)]
        found["activations"] = sum(carried)
    return found


# --- time ---------------------------------------------------------------------------------------------------------


def _alone(layout: Layout, stages, cluster: Cluster) -> StepTime:
    """A step without a pipeline: all micro-batches one after the other."""
    few, more = _shorter(stages[0], ALIKE), _shorter(stages[0], ALIKE + 2)
    step = _whole_step(layout, few[0], cluster)
    if not few[1]:
        return step
    other = _whole_step(layout, more[0], cluster)
    return _further(step, other, few[1] / 2)


def _shorter(blocks: Sequence[Trace], alike: int) -> tuple[Blocks, int]:
    """The blocks with no more than so many equal ones in a row, and how many were left out."""
    kept, run = [], 0
    for number, block in enumerate(blocks):
        run = run + 1 if number and block is blocks[number - 1] else 1
        if run <= alike:
            kept.append(block)
    return Blocks(kept), len(blocks) - len(kept)


def _further(step: StepTime, other: StepTime, times: float) -> StepTime:
    """The line through two steps, continued."""
    seconds, busy, bubble = (a + (b - a) * times for a, b in zip(step[:3], other[:3], strict=True))
    moved = {kind: size + (other.moved[kind] - size) * times for kind, size in step.moved.items()}
    return StepTime(seconds, busy, bubble, moved)


def _whole_step(layout: Layout, blocks: Sequence[Trace], cluster: Cluster) -> StepTime:
    if layout.micro_batches > FEW + 1:
        first, second = (_micro_batches(layout, blocks, cluster, count) for count in (FEW, FEW + 1))
        return _further(first, second, layout.micro_batches - FEW)
    return _micro_batches(layout, blocks, cluster, layout.micro_batches)


def _micro_batches(layout: Layout, blocks: Sequence[Trace], cluster: Cluster, count: int) -> StepTime:
    host_link, away = cluster.host.link, layout.offloads_weights
    replay = Replay(cluster.gpu, _groups(layout, cluster), layout.fsdp, host_link, away, layout.zero1)
    for number in range(count):
        held = not layout.reshard
        replay.forward(blocks, held=held and number > 0)
        replay.backward(blocks, held=held or not layout.fsdp, first=number == 0, last=number == count - 1)
    replay.finish()
    if not away:
        _train(replay, layout, blocks, cluster)
    moved = _links(layout, cluster, replay.talked) | ({"host": replay.carried} if layout.offload != "none" else {})
    return StepTime(replay.finish(), replay.busy, 0.0, moved)


def _train(replay: Replay, layout: Layout, blocks: Sequence[Trace], cluster: Cluster) -> None:
    """The optimizer's step on a GPU's share of the weights."""
    replay.run(adamw(cluster.gpu, _share(layout, blocks), _dtype(layout))[0])
    if layout.zero1 and layout.shards > 1:
        replay.gather_trained(blocks)


def _links(layout: Layout, cluster: Cluster, talked: dict[str, float], sent: float = 0.0) -> dict[str, float]:
    """Bytes that a GPU passes on: in a ring (n - 1) / n of the whole, twice for an all-reduce.

    A ring over several nodes leaves each of them once: of n ranks' bytes so many nodes' cross the network.
    """
    groups, moved = _groups(layout, cluster), {"link": 0.0, "network": 0.0}
    for name, size in talked.items():
        group = getattr(groups, name)
        passed = size * (group.ranks - 1) / group.ranks * (2 if name == "data" else 1)
        between = group.nodes / group.ranks if group.nodes > 1 else 0.0
        if name == "experts" and group.nodes > 1:  # an all-to-all: of each GPU's bytes those for other nodes
            between = (group.ranks - group.ranks // group.nodes) / (group.ranks - 1)
        moved["network"] += passed * between
        moved["link"] += passed * (1 - between)
    way = cluster.way(layout.data * layout.shards * layout.tensor)
    moved["network" if way is cluster.network else "link"] += sent
    return moved


class _Stage(NamedTuple):
    """Seconds of a stage's passes for one micro-batch, and what comes once a step."""

    forward: float
    backward: float
    before: float
    after: float
    busy: float
    once: float  # busy, with the once
    talked: dict[str, float]
    talked_once: dict[str, float]


def _timed_stage(layout: Layout, blocks: Sequence[Trace], cluster: Cluster) -> _Stage:
    """A stage that has all that it waits for."""
    groups, gpu = _groups(layout, cluster), timing(cluster.gpu_of_a_stage(layout.pipeline, layout.tensor))
    few, left_out = _shorter(blocks, ALIKE)
    stage = _replayed(few, groups, gpu, layout.fsdp, layout.zero1)
    if not left_out:
        return stage
    other = _replayed(_shorter(blocks, ALIKE + 2)[0], groups, gpu, layout.fsdp, layout.zero1)
    return _Stage(*(_line(one, two, left_out / 2) for one, two in zip(stage, other, strict=True)))


def _line(one, two, times: float):
    if isinstance(one, dict):
        return {kind: _line(size, two[kind], times) for kind, size in one.items()}
    return one + (two - one) * times


@lru_cache(maxsize=4096)
def _replayed(blocks: Blocks, groups: Groups, gpu: GpuProfile, fsdp: bool, zero1: bool) -> _Stage:
    """Three micro-batches: the second counts, the first and the last have more to do."""
    replay = Replay(gpu, groups, fsdp, zero1=zero1)
    marks = [0.0]
    busy, talked, steady, each = 0.0, {}, 0.0, {}
    for number in range(3):
        replay.forward(blocks, held=number > 0 or not fsdp)
        marks.append(replay.finish())
        replay.backward(blocks, held=True, first=number == 0, last=number == 2)
        marks.append(replay.finish())
        if number == 0:
            busy, talked = replay.busy, dict(replay.talked)
        if number == 1:
            steady = replay.busy - busy
            each = {kind: size - talked[kind] for kind, size in replay.talked.items()}
    forward, backward = marks[3] - marks[2], marks[4] - marks[3]
    once = {kind: size - 3 * each[kind] for kind, size in replay.talked.items()}
    before, after = marks[1] - forward, marks[6] - marks[5] - backward
    return _Stage(forward, backward, before, after, steady, replay.busy - 3 * steady, each, once)


def _piped(layout: Layout, stages, cluster: Cluster) -> StepTime:
    known = {blocks: _timed_stage(layout, blocks, cluster) for blocks in set(stages)}
    timed = [known[blocks] for blocks in stages]
    ranks, count = layout.pipeline, layout.micro_batches
    link = _Way(cluster.way(cluster.gpus // ranks))
    costs = Costs(
        tuple(stage.forward for stage in timed),
        tuple(stage.backward for stage in timed),
        output=tuple(blocks[-1].output for blocks in stages),
    )
    span, bubble = _played(layout.schedule, ranks, layout.chunks, count, costs, link)
    own = [[stage for number, stage in enumerate(timed) if number % ranks == rank] for rank in range(ranks)]
    trained = (
        [b for number, blocks in enumerate(stages) if number % ranks == rank for b in blocks] for rank in range(ranks)
    )
    optimizer = Replay(cluster.gpu, _groups(layout, cluster))
    _train(optimizer, layout, max(trained, key=lambda blocks: _share(layout, blocks)), cluster)
    once = max(sum(stage.before for stage in each) for each in own)
    once += max(sum(stage.after for stage in each) for each in own) + optimizer.finish()
    busy = max(sum(count * stage.busy + stage.once for stage in each) for each in own) + optimizer.busy
    most = max(own, key=lambda each: sum(sum(stage.talked.values()) for stage in each))
    talked = {
        kind: sum(count * stage.talked[kind] + stage.talked_once[kind] for stage in most) for kind in most[0].talked
    }
    sent = 2 * count * layout.chunks * max(blocks[-1].output for blocks in stages)
    seconds = span + once
    return StepTime(seconds, busy, bubble * span / seconds, _links(layout, cluster, talked, sent))


class _Way(NamedTuple):
    """A link as `play` wants it: what a send and its receive take."""

    link: LinkProfile

    @property
    def latency(self) -> float:
        return PAIR + self.link.latency

    @property
    def bandwidth(self) -> float:
        return self.link.bandwidth


@lru_cache(maxsize=4096)
def _schedule(name: str, ranks: int, chunks: int, count: int):
    return one_f_one_b(ranks, count) if name == "1F1B" else interleaved_1f1b(ranks, count, chunks)


@lru_cache(maxsize=4096)
def _played(name: str, ranks: int, chunks: int, count: int, costs: Costs, link) -> tuple[float, float]:
    """(span, idle share of all ranks). With many micro-batches it is a line: two points of it are played."""
    each, rest = sum(costs.forward) + sum(costs.backward), count % ranks
    if count < 3 * ranks:
        span = _span(_schedule(name, ranks, chunks, count), costs, link)
    else:
        one, two = (_span(_schedule(name, ranks, chunks, k * ranks + rest), costs, link) for k in (1, 2))
        span = one + (two - one) * ((count - rest) / ranks - 1)
    return span, 1 - count * each / ranks / span


def _span(schedule: Schedule, costs: Costs, link) -> float:
    """What `utils.schedules.play` says, which also draws it: the clock alone is all that is needed here."""
    return max(step.end for step in clock(schedule, costs, link) if step.taker is None)


# --- memory -------------------------------------------------------------------------------------------------------


def _memories(layout: Layout, stages: Sequence[Blocks], cluster: Cluster) -> list[dict[str, float]]:
    """What each rank of the pipeline holds when it is fullest; of equal ones, once."""
    ranks = layout.pipeline
    few = min(layout.micro_batches, 2 * ranks)
    flying = _in_flight(layout.schedule, ranks, layout.chunks, few) if ranks > 1 else (0.0,)
    different = {(tuple(stages[rank::ranks]), flying[rank]) for rank in range(ranks)}
    return [_memory(layout, parts, in_flight, cluster) for parts, in_flight in different]


def _memory(layout: Layout, parts: Sequence[Blocks], in_flight: float, cluster: Cluster) -> dict[str, float]:
    """Bytes of a rank when it is fullest, by what they are for: in its passes, or in the optimizer's step."""
    share, size = _share(layout, [block for part in parts for block in part]), _dtype(layout).itemsize
    if layout.offloads_weights:
        return {"weights": 0.0, "optimizer": 0.0} | _in_passes(layout, parts, in_flight)
    always = {"weights": share * size, "gradients": 0.0, "optimizer": STATES * share * size}
    passes = _in_passes(layout, parts, in_flight)
    step = {"gradients": share * size, "activations": 0.0, "temporary": adamw(cluster.gpu, share, _dtype(layout))[1]}
    return max((always | passes, always | step), key=_total)


@lru_cache(maxsize=4096)
def _in_flight(name: str, ranks: int, chunks: int, count: int) -> tuple[float, ...]:
    """Stages of micro-batches whose activations each rank holds at most."""
    return Memory(1.0).peak(_schedule(name, ranks, chunks, count))


def _in_passes(layout: Layout, parts: Sequence[Sequence[Trace]], in_flight: float) -> dict[str, float]:
    """What is there beside weights that are trained and the optimizer's state, at the worst moment of the passes."""
    blocks = [block for part in parts for block in part]
    several = layout.micro_batches > 1
    waits = several and not (layout.fsdp and layout.reshard)
    kept = sum(block.kept for block in blocks)
    before = max((in_flight - len(parts)) / len(parts) * kept, 0.0) if in_flight else 0.0
    worst: dict[str, float] = {}
    for last in (False, True) if waits else (True,):
        found = _worst_block(layout, blocks, before, waits, last)
        if several and not waits and not layout.offloads_weights:  # the shares of the micro-batches before
            found["gradients"] = _share(layout, blocks) * SHARE
        worst = max(worst, found, key=_total)
    return worst


def _worst_block(layout: Layout, blocks, before: float, several: bool, last: bool) -> dict[str, float]:
    """In the passes of each block, for the last micro-batch or another."""
    whole = [block.numbers * WORK if layout.fsdp else 0 for block in blocks]
    comes_and_goes = layout.fsdp and layout.reshard
    held = 0 if comes_and_goes else sum(whole)
    summed = SHARE if layout.fsdp else WORK
    kept = before + sum(block.kept for block in blocks)
    waiting = sum(block.numbers for block in blocks) * summed if several else 0.0
    worst: dict[str, float] = {}
    reduced = 0.0  # gradients that have been reduced, or that plain weights have by now
    for number in range(len(blocks) - 1, -1, -1):
        block = blocks[number]
        kept -= block.kept
        own = whole[number] if comes_and_goes else 0
        asked_for = blocks[number - 1].units[0].numbers * WORK if comes_and_goes and layout.shards > 1 and number else 0
        after = blocks[number + 1 : number + 2] if layout.fsdp and last else ()
        being_reduced = sum(each.units[0].numbers * SHARE for each in after)
        largest = max(unit.numbers for unit in block.units) * WORK if own and layout.shards > 1 else 0
        gradients = reduced + (waiting if layout.fsdp or several else 0.0)
        moments = [
            (kept, block.forward_peak + held + own + largest),
            (kept + block.kept, block.backward_peak - block.kept + held + own + asked_for + being_reduced),
        ]
        if layout.fsdp and last:
            for unit in block.units:
                buffers = (
                    unit.numbers * (SHARE + (0 if several else WORK)) + unit.numbers / _sharers(layout, unit) * SHARE
                )
                moments.append((kept, buffers + held + asked_for))
        for activations, temporary in moments:
            found = {"gradients": gradients, "activations": activations, "temporary": temporary}
            worst = max(worst, found, key=_total)
        if layout.fsdp and last:
            waiting -= block.numbers * summed if several else 0
            reduced += 0 if layout.offloads_weights else _share(layout, [block]) * SHARE
        elif not layout.fsdp and not several:
            reduced += block.numbers * WORK
    return worst
