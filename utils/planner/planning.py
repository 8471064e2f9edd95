"""The search: every layout of a model on a cluster that makes sense, what each costs, as a table and drawn."""

from __future__ import annotations

import bisect
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pandas as pd
import torch
from matplotlib.patches import Patch

from utils.common.errors import Problem
from utils.observe.memory_picture import STYLE
from utils.observe.plots import INK, Picture, labelled_axes

from .cluster import Cluster
from .estimate import KINDS, Estimate, at_least, estimate_layout, timed, untimed
from .layouts import OFFLOAD, Layout, layouts, why_not
from .models import Model, of_module
from .simulating import simulate

GIB, GB = 2**30, 1e9
FEW_RUN = 4  # micro-batches of a simulated step
STYLES = STYLE | {"optimizer": STYLE["optimizer state"]}
RESERVE: dict[str, Any] = {"facecolor": "white", "linewidth": 0.5}
SHORT = "D data, S shard, T tensor, C context, E experts, P pipeline (x chunks), micro-batches x rows, recompute"


@dataclass(frozen=True)
class Plan:
    """What `plan` found: `fits` with the fastest first, `too_large` with the smallest first, and `refused` with why."""

    model: Model
    cluster: Cluster
    batch: int
    fits: tuple[Estimate, ...]
    too_large: tuple[Estimate, ...]
    refused: tuple[tuple[Layout, str], ...]
    seconds: float  # of this computer's processor, for the search

    @property
    def count(self) -> int:
        return len(self.fits) + len(self.too_large) + len(self.refused)

    def best(self, n: int = 5) -> tuple[Estimate, ...]:
        """The n fastest that fit."""
        return self.fits[:n]

    @cached_property
    def _rows(self) -> pd.DataFrame:
        rows = [_row(each) for each in (*self.fits, *self.too_large)]
        rows += [_columns(layout) | {"reason": reason} for layout, reason in self.refused]
        found = pd.DataFrame(rows)
        unused = [name for name in ("context", "experts") if set(found[name]) == {1}]
        unused += [name for name, usual in (("offload", "none"), ("kernels", "eager")) if set(found[name]) == {usual}]
        return found.drop(columns=unused)

    def table(self, n: int | None = None, *, everything: bool = False) -> pd.DataFrame:
        """The n fastest layouts that fit, or all of them; with `everything` the others too, each with its reason."""
        table = self._rows if everything else self._rows.head(len(self.fits)).drop(columns="reason", errors="ignore")
        return table if n is None else table.head(n)

    def reasons(self) -> pd.Series:
        """How many layouts failed for which reason, without their numbers."""
        words = [f"does not fit, above all {max(each.memory, key=each.memory.__getitem__)}" for each in self.too_large]
        return pd.Series([*words, *(reason for _, reason in self.refused)], dtype=object).value_counts()

    def simulated(self, n: int = 3) -> pd.DataFrame:
        """The n fastest that one process can stand for, estimated beside simulated, with the error in percent.

        Each runs shapes-only on the simulated cluster, by PyTorch's own `fully_shard` and `parallelize_module`, in a
        process that stands for all ranks; `place` is its place among `fits`. All layers are run, and of equal
        micro-batches at most `FEW_RUN`: both numbers are of a step of so many, and neither has what CPUs compute where
        weights are offloaded. It takes seconds to minutes for each.

        Problem, in one line, for what cannot be simulated: pipelines, kernels that are not eager, and models that are
        not `llama`'s.
        """
        if self.model.sizes is None:
            raise Problem("only models of llama(...) are simulated: how others are cut is not known here")
        if not self.fits:
            raise Problem("nothing fits or makes sense, so there is nothing to simulate")
        places = [number for number, each in enumerate(self.fits) if each.layout.pipeline == 1][:n]
        if not places:
            raise Problem(
                "every layout that fits has a pipeline, whose ranks do different things: one process cannot stand for "
                "all of them (docs/planner.md)"
            )
        if (kernels := self.fits[places[0]].layout.kernels) != "eager":
            raise Problem(f"a simulated step runs eager kernels: kernels={kernels!r} is an estimate alone")
        shorter = [_shortened(self.fits[place].layout) for place in places]
        rows = []
        for place, layout, ran in zip(places, shorter, simulate(self.model, self.cluster, shorter), strict=True):
            ours = self.fits[place]
            if layout != ours.layout:
                ours = estimate_layout(self.model, self.cluster, layout)
            times, sizes = (ours.seconds - ours.on_cpu, ran["seconds"]), (ours.peak / GIB, ran["bytes"] / GIB)
            rows.append(
                {"place": place + 1, "layout": str(layout)}
                | {"step, s": times[0], "simulated, s": times[1], "time off, %": 100 * (times[0] / times[1] - 1)}
                | {"GiB": sizes[0], "simulated, GiB": sizes[1], "memory off, %": 100 * (sizes[0] / sizes[1] - 1)}
            )
        return pd.DataFrame(rows)

    def draw(self, n: int = 12, title: str | None = None) -> Picture:
        """Memory by kind of the n fastest that fit, stacked, beside what a step of each takes."""
        return draw_estimates(self.best(n), self.cluster, title or f"{self.model.name}, batch {self.batch}")

    def __str__(self) -> str:
        head = f"{self.model.name} on {self.cluster}, batch {self.batch}: {self.count} layouts in {self.seconds:.1f} s"
        return f"{head}; {len(self.fits)} fit, {len(self.too_large)} are too large, {len(self.refused)} make no sense."


def _shortened(layout: Layout) -> Layout:
    return replace(layout, micro_batches=min(layout.micro_batches, FEW_RUN))


def plan(
    model: Model | torch.nn.Module,
    cluster: Cluster,
    batch: int,
    row: torch.Tensor | None = None,
    *,
    only: int | None = None,
    shards_in_node: bool = False,
    **limits,
) -> Plan:
    """Every layout of a training step of `batch` rows, estimated.

    `model` is one of `llama(...)`, or any nn.Module with `row`, one row of its batch. `limits` fix or bound fields of
    layouts: `tensor=8`, `pipeline=(1, 2, 4)`, `recompute="full"`; `most_rows` is the largest micro-batch (4). Sequences
    are cut only where asked for, `context=(1, 2, 4)`. What may be offloaded is searched where nothing fits without it,
    and where asked for, `offload=("none", "weights")`. `kernels="float8"` has all of them with kernels of that kind.
    With `shards_in_node` no weights are sharded between nodes: `shard` x `tensor` is at most a node's GPUs, since the
    ranks of a `tensor` group are neighbours (docs/planner.md).
    With `only=5` the time is estimated of as many as it takes to know the 5 fastest, which is quick; the others that
    fit come after them with no time (nan).

    Problem, in one line, for what cannot be planned; ValueError, likewise, for an unknown `offload` or `kernels`.
    """
    if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
        raise Problem(f"batch={batch!r}: give a whole number of rows, 1 or more")
    if not isinstance(model, Model):
        if row is None:
            raise Problem("a plain nn.Module needs `row`: one row of its batch, for its shape and dtype")
        model = of_module(model, row)
    how = {"most_rows": limits.pop("most_rows", 4), "only": only, "shards_in_node": shards_in_node}
    how["kernels"] = limits.pop("kernels", "eager")
    offload = limits.pop("offload", None)
    _require_fields(limits)
    found = _searched(model, cluster, batch, limits, ("none",) if offload is None else _several(offload), **how)
    if not found.count:
        raise Problem(_nothing(cluster, batch, limits))
    if offload is None and not found.fits:
        found = _with_offload(found, _searched(model, cluster, batch, limits, OFFLOAD[1:], **how))
    return found


def _searched(
    model: Model,
    cluster: Cluster,
    batch: int,
    limits: dict[str, Any],
    offloads: Sequence[str],
    *,
    most_rows: int,
    only: int | None,
    shards_in_node: bool,
    kernels: str,
) -> Plan:
    """Every layout within the `limits` with each of `offloads`, estimated; none where there is none."""
    begin = time.process_time()
    contexts = _several(limits.get("context", 1))
    experts = _several(
        limits.get("experts", [each for each in range(1, model.experts + 1) if model.experts % each == 0])
    )
    found = [
        layout
        for layout in layouts(model, cluster, batch, most_rows, contexts, experts, offloads, kernels)
        if all(_allowed(getattr(layout, name), limit) for name, limit in limits.items())
        and (not shards_in_node or layout.shards == 1 or layout.shards * layout.tensor <= cluster.per_node)
    ]
    refused = [(layout, reason) for layout in found if (reason := why_not(layout, model, cluster))]
    senseless = {layout for layout, _ in refused}
    costs = [untimed(model, cluster, layout) for layout in found if layout not in senseless]
    fits = _fastest_first(model, cluster, [each for each in costs if each.reason is None], only)
    too_large = tuple(sorted((each for each in costs if each.reason), key=lambda each: each.peak))
    return Plan(model, cluster, batch, fits, too_large, tuple(refused), time.process_time() - begin)


def _with_offload(without: Plan, offloaded: Plan) -> Plan:
    """Both searches as one; nothing fits in the first."""
    too_large = sorted((*without.too_large, *offloaded.too_large), key=lambda each: each.peak)
    refused = without.refused + offloaded.refused
    seconds = without.seconds + offloaded.seconds
    return replace(offloaded, too_large=tuple(too_large), refused=refused, seconds=seconds)


def _fastest_first(model: Model, cluster: Cluster, fits: list[Estimate], only: int | None) -> tuple[Estimate, ...]:
    """Those that fit, with their times: of all, or until no other can be among the `only` fastest."""
    bounds = [(at_least(model, cluster, each.layout), each) for each in fits]
    bounds.sort(key=lambda pair: pair[0])
    found: list[Estimate] = []
    for number, (least, each) in enumerate(bounds):
        if only is not None and number >= only and least > found[only - 1].seconds:
            return tuple(found + [rest for _, rest in bounds[number:]])
        bisect.insort(found, timed(model, cluster, each), key=lambda one: one.seconds)
    return tuple(found)


def _require_fields(limits) -> None:
    known = [name for name in Layout.__dataclass_fields__ if name != "fsdp"]
    if wrong := [name for name in limits if name not in known]:
        raise Problem(f"a layout has no {wrong[0]!r}. It has: {', '.join(known)}, and plan() most_rows")


def _several(limit) -> Sequence:
    return tuple(limit) if isinstance(limit, (tuple, list, set, range)) else (limit,)


def _allowed(value, limit) -> bool:
    return value in _several(limit)


def _nothing(cluster: Cluster, batch: int, limits) -> str:
    asked = ", ".join(f"{name}={limit!r}" for name, limit in limits.items())
    return f"no layout uses {cluster.gpus} GPUs and divides a batch of {batch}" + (f" with {asked}" if asked else "")


def _columns(layout: Layout) -> dict[str, object]:
    return {
        "data": layout.data,
        "shard": layout.shard,
        "context": layout.context,
        "experts": layout.experts,
        "tensor": layout.tensor,
        "pipeline": layout.pipeline,
        "schedule": (layout.schedule + (f" x{layout.chunks}" if layout.chunks > 1 else ""))
        if layout.pipeline > 1
        else "",
        "micro-batches": layout.micro_batches,
        "rows": layout.rows,
        "recompute": layout.recompute,
        "offload": layout.offload,
        "kernels": layout.kernels,
        "gathered": "each pass" if layout.reshard and layout.shards > 1 else "each step" if layout.shards > 1 else "",
    }


def _row(found: Estimate) -> dict[str, object]:
    return (
        _columns(found.layout)
        | {"step, s": found.seconds, "tokens/s/GPU": found.tokens_per_second, "GiB": found.peak / GIB}
        | {kind: found.memory[kind] / GIB for kind in KINDS}
        | {f"{kind}, GB": size / GB for kind, size in found.moved.items()}
        | ({"host, GiB": sum(found.host.values()) / GIB, "on the CPU, s": found.on_cpu} if found.host else {})
        | {"bubble": found.bubble, "GPU idle": found.waiting}
        | ({"reason": found.reason} if found.reason else {})
    )


def draw_estimates(found: Sequence[Estimate], cluster: Cluster, title: str | None = None) -> Picture:
    """Estimates as bars: what each GPU's memory is for, and behind the line of what it has, what a step takes."""
    figure, axes = labelled_axes(1.8 + 0.42 * max(len(found), 1), f"estimated from shapes: {cluster}", title)
    for place, each in enumerate(found):
        left = 0.0
        for kind in KINDS:
            axes.barh(place, each.memory[kind] / GIB, left=left, height=0.66, edgecolor="white", **STYLES[kind])
            left += each.memory[kind] / GIB
        axes.barh(place, each.reserve / GIB, left=left, height=0.66, edgecolor=INK, **RESERVE)
        left += each.reserve / GIB
        words = f"{each.seconds:.3g} s, {each.tokens_per_second:.0f} tokens/s/GPU"
        right = max(left, cluster.gpu.memory / GIB) * 1.01
        axes.text(right, place, words, va="center", fontsize=8, color=INK)
    there_is = axes.axvline(cluster.gpu.memory / GIB, color=INK, linewidth=1, linestyle=":", label="GPU memory")
    axes.set_yticks(range(len(found)), [_short(each.layout) for each in found], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, max([cluster.gpu.memory, *(each.peak + each.reserve for each in found)]) / GIB * 1.4)
    axes.set_xlabel(f"GiB of the fullest GPU\n{SHORT}", fontsize=9, color=INK)
    patches = [Patch(label=kind, edgecolor="white", **STYLES[kind]) for kind in KINDS]
    patches += [Patch(label="CUDA, NCCL", edgecolor=INK, **RESERVE), there_is]
    small = {"fontsize": 8.5, "columnspacing": 1, "frameon": False}
    figure.legend(handles=patches, loc="outside upper right", ncols=len(patches), **small)
    told = [f"{each.layout}: {each.seconds:.3g} s, {each.peak / GIB:.1f} GiB" for each in found]
    summary = f"The fastest is {told[0]} (estimated)." if told else "No layout fits."
    return Picture(figure, f"Memory of layouts by kind. {'; '.join(told)}. {cluster}.", summary)


def _short(layout: Layout) -> str:
    pipeline = (
        f" P{layout.pipeline}" + (f"x{layout.chunks}" if layout.chunks > 1 else "") if layout.pipeline > 1 else ""
    )
    more = "".join(f" {letter}{n}" for letter, n in (("C", layout.context), ("E", layout.experts)) if n > 1)
    gathered = "" if layout.reshard or layout.shards == 1 or layout.pipeline > 1 else " held"
    return (
        f"D{layout.data} S{layout.shard} T{layout.tensor}{more}{pipeline} {layout.micro_batches}x{layout.rows} "
        f"{layout.recompute}{gathered}"
        + (f" {layout.offload} off" if layout.offload != "none" else "")
        + (f" {layout.kernels}" if layout.kernels != "eager" else "")
    )
