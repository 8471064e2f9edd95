"""Whole training steps, collectives, the planner's order and what fits, beside what others published. By hand:

    .venv/bin/python -m tools.benchmarks.at_scale [steps collectives order fits]

The rows are those of utils/simgpu/benchmarks/data/training. Steps of the sweep and of MosaicML are cut in two halves by
a checksum of their layout: constants were fitted on half A, half B was only compared. Pipelines of the sweep that
stalled, and its runs on 64 nodes, were slowed down by software (`stalled`): medians are with and without them.
"""

from __future__ import annotations

import csv
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from statistics import mean, median
from zlib import crc32

from simgpu import Fabric
from simgpu.profiles import FLASH_ATTENTION_2_ON_HOPPER, GPUS, LINKS, NETWORKS
from utils.planner import Cluster, Layout, Model, estimate_layout, mpt, nanotron

from .planner import TITANS, titan

ROWS = Path(__file__).parents[2] / "utils" / "simgpu" / "benchmarks" / "data" / "training"

# The sweep and MosaicML had FlashAttention-2.
H100 = replace(GPUS["H100"], attention=FLASH_ATTENTION_2_ON_HOPPER).in_training()
# Nanotron's norms, rotary positions and divided products are started by Python code of its own. Chosen for the
# least time of a layer, 4.1 to 4.4 ms with 4 or 8 GPUs to a tensor group; 65 would fit half A as a whole better.
SWEPT_H100 = replace(H100, launch=60e-6)

# The sweep's models (nanotron, scripts/scaling_benchmarks.py); 256 rows of 4,096 tokens a step.
SWEPT = {
    "1B": dict(layers=16, hidden_size=2048, heads=32, intermediate_size=8192),
    "3B": dict(layers=28, hidden_size=3072, heads=32, intermediate_size=8192),
    "8B": dict(layers=32, hidden_size=4096, heads=32, intermediate_size=14336),
    "80B": dict(layers=80, hidden_size=8192, heads=64, intermediate_size=28672),
}
TOKENS = 256 * 4096


def rows(name: str) -> list[dict[str, str]]:
    with (ROWS / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


@dataclass
class Step:
    """A published step beside its estimate: tokens a second a GPU, and whether the planner says that it fits."""

    row: dict[str, str]
    where: str  # the table's row that it belongs to
    half: str
    published: float  # 0 where it did not run
    predicted: float
    fits: bool

    @property
    def off(self) -> float:
        return self.predicted / self.published - 1


def half(*what: str) -> str:
    return "AB"[crc32(" ".join(what).encode()) % 2]


# --- what was predicted ---------------------------------------------------------------------------------------------


@lru_cache
def swept(name: str) -> Model:
    return nanotron(**SWEPT[name], vocab_size=131072, length=4096, name=name)


def swept_layout(row: dict[str, str]) -> Layout:
    """Stages are cut by time. ZeRO-1 over one copy is none."""
    zero1 = row["zero"] == "1" and row["dp"] != "1"
    data, shard = (1, int(row["dp"])) if zero1 else (int(row["dp"]), 1)
    counts = dict(tensor=int(row["tp"]), pipeline=int(row["pp"]), rows=int(row["mbs"]))
    return Layout(data, shard, **counts, micro_batches=int(row["grad_accum"]), reshard=False, cut="time", zero1=zero1)


def seconds_a_micro_batch(row: dict[str, str]) -> float:
    step = TOKENS / int(row["nodes"]) / 8 / float(row["tokens_s_gpu"])
    return step / (int(row["grad_accum"]) + int(row["pp"]) - 1)


def stalled(step: Step) -> bool:
    """A pipeline with half a second a micro-batch more than its products take at the peak, or a run on 64 nodes."""
    row = step.row
    if row["nodes"] == "64":
        return True
    sizes = SWEPT[row["model"]]
    width, inner = sizes["hidden_size"], sizes["intermediate_size"]
    weights = sizes["layers"] * (4 * width**2 + 3 * width * inner) + width * 131072
    work = 6 * weights * int(row["mbs"]) * 4096 / int(row["tp"]) / int(row["pp"])
    return int(row["pp"]) > 1 and seconds_a_micro_batch(row) - work / 989e12 > 0.5


@lru_cache
def sweep() -> list[Step]:
    found = []
    for row in rows("nanotron"):
        layout = swept_layout(row)
        if layout.stages > swept(row["model"]).layers:
            continue
        ours = estimate_layout(swept(row["model"]), Cluster(SWEPT_H100, layout.gpus, 8, "nvlink4", "EFA"), layout)
        which = half(*(row[name] for name in ("model", "nodes", "dp", "tp", "pp", "zero", "mbs")))
        piped = "pipelines" if layout.pipeline > 1 else "no pipeline"
        published = float(row["tokens_s_gpu"] or 0)
        found.append(Step(row, piped, which, published, ours.tokens_per_second, ours.reason is None))
    return found


@lru_cache
def mosaic() -> list[Step]:
    found = []
    for row in rows("mosaic"):
        if row["sharding"] != "FULL_SHARD" or row["precision"] == "amp_fp8":
            continue
        gpus, length = int(row["gpus"]), int(row["length"])
        a100 = row["gpu"].startswith("a100")
        gpu = {"a100_40gb": "A100", "a100_80gb": "A100-80GB-SXM", "h100_80gb": H100}[row["gpu"]]
        links = ("nvlink3", "200G") if a100 else ("nvlink4", "400G")
        model = mpt_of(int(row["layers"]), int(row["hidden_size"]), int(row["heads"]), length)
        layout = Layout(
            shard=gpus, rows=int(row["mbs"]), micro_batches=int(row["grad_accum"]), recompute=row["recompute"]
        )
        ours = estimate_layout(model, Cluster(gpu, gpus, 8, *links), layout)
        where = f"{'A100' if a100 else 'H100'}, {'up to 2,048' if length <= 2048 else 'more'} tokens, "
        where += "8 to 64 GPUs" if gpus <= 64 else "128 to 512 GPUs"
        which = half(row["model"], str(length), str(gpus), row["gpu"])
        found.append(Step(row, where, which, float(row["tokens_s_gpu"]), ours.tokens_per_second, ours.reason is None))
    return found


@lru_cache
def mpt_of(layers: int, hidden_size: int, heads: int, length: int) -> Model:
    return mpt(layers, hidden_size, heads, length=length)


@lru_cache
def torchtitan() -> list[Step]:
    found = []
    for row in rows("torchtitan"):
        if row["how"] == "eager":
            layout = Layout(shard=int(row["gpus"]), rows=2, recompute="selective")
            ours = estimate_layout(titan("8B"), Cluster(TITANS, layout.gpus), layout)
            where = f"torchtitan 8B, {layout.gpus} H100, eager"
            found.append(Step(row, where, "", float(row["tokens_s_gpu"]), ours.tokens_per_second, ours.reason is None))
    return found


# --- tables ---------------------------------------------------------------------------------------------------------


def line(name: str, steps: list[Step]) -> str:
    """A table's row: how many, the median of predicted over published, and the median error, of each half too."""
    if not steps:
        return f"| {name} | 0 | | | | |"
    ratio = median(step.predicted / step.published for step in steps)
    errors = [
        median(abs(step.off) for step in part) if (part := [s for s in steps if s.half in which]) else None
        for which in ("AB", "A", "B")
    ]
    shown = " | ".join("" if error is None else f"{error:.1%}" for error in errors)
    return f"| {name} | {len(steps)} | {ratio:.2f} | {shown} |"


def steps() -> Iterator[str]:
    yield "| whole steps | rows | predicted over published | median error | half A | half B |"
    yield "| --- | --- | --- | --- | --- | --- |"
    ran = [step for step in sweep() if step.published]
    for where in ("no pipeline", "pipelines"):
        every = [step for step in ran if step.where == where]
        yield line(f"nanotron, {where}, not stalled", [step for step in every if not stalled(step)])
        yield line(f"nanotron, {where}, all", every)
    for tensor in ("1", "2", "4", "8", "16", "32"):
        every = [s for s in ran if s.row["tp"] == tensor and s.where == "no pipeline" and not stalled(s)]
        yield line(f"nanotron, no pipeline, tensor {tensor}", every)
    for where in sorted({step.where for step in mosaic()}):
        yield line(f"MPT, {where}", [step for step in mosaic() if step.where == where])
    for step in torchtitan():
        yield f"| {step.where} | 1 | {step.predicted / step.published:.2f} | {abs(step.off):.1%} | | |"


def network_of(row: dict[str, str]) -> str:
    return "EFA" if "EFA" in row["network"] and "EFA" in NETWORKS else "400G"


def collectives() -> Iterator[str]:
    yield "| collective | nodes | bytes | published GB/s of bus bandwidth | predicted | |"
    yield "| --- | --- | --- | --- | --- | --- |"
    errors = defaultdict(list)
    for row in rows("collectives"):
        nodes, ranks, size = int(row["nodes"]), int(row["gpus"]), int(float(row["bytes"]))
        fabric = Fabric(ranks, nodes, LINKS["nvlink4"], NETWORKS[network_of(row)])
        moved = (2 if row["collective"] == "all_reduce" else 1) * (ranks - 1) / ranks * size
        found = moved / fabric.seconds(row["collective"], size) / 1e9
        published = float(row["busbw_gb_s"])
        errors["one node" if nodes == 1 else "between nodes"].append(abs(found / published - 1))
        if nodes > 1 or size in (2**20, 2**25, 2**30):
            yield (
                f"| {row['collective']} | {nodes} | {size:,} | {published:g} | {found:.0f} | "
                f"{found / published - 1:+.0%} |"
            )
    for where, found in errors.items():
        yield f"\n{where}: {len(found)} rows, median error {median(found):.0%}."


def spearman(one: list[float], two: list[float]) -> float:
    def ranks(values):
        order = sorted(range(len(values)), key=values.__getitem__)
        found = [0.0] * len(values)
        for rank, index in enumerate(order):
            found[index] = rank
        return found

    a, b = ranks(one), ranks(two)
    middle = mean(a)
    top = sum((x - middle) * (y - middle) for x, y in zip(a, b, strict=True))
    return top / sum((x - middle) ** 2 for x in a)


def order() -> Iterator[str]:
    """Of each model on so many nodes: what choosing by predicted speed loses against the fastest that was measured."""
    yield "| cells of the sweep | cells | Spearman | first choice slower by | best of five slower by |"
    yield "| --- | --- | --- | --- | --- |"
    ran = [step for step in sweep() if step.published and not stalled(step)]
    for what, chosen in (
        ("all that did not stall", ran),
        ("no pipeline", [step for step in ran if step.where == "no pipeline"]),
    ):
        for nodes in (("1",), ("2",), ("8",), ("16",), ("32",), ("1", "2", "8", "16", "32")):
            cells = defaultdict(list)
            for step in chosen:
                if step.row["nodes"] in nodes:
                    cells[step.row["model"], step.row["nodes"]].append(step)
            cells = [cell for cell in cells.values() if len(cell) >= 5]
            if not cells:
                continue
            found = []
            for cell in cells:
                best = max(step.published for step in cell)
                by_ours = sorted(cell, key=lambda step: -step.predicted)
                first, five = by_ours[0].published, max(step.published for step in by_ours[:5])
                rho = spearman([step.published for step in cell], [step.predicted for step in cell])
                found.append((rho, best / first - 1, best / five - 1))
            rho, first, five = (median(each[which] for each in found) for which in range(3))
            name = "1 to 32" if len(nodes) > 1 else nodes[0]
            yield f"| {what}, {name} nodes | {len(cells)} | {rho:.2f} | {first:.0%} | {five:.0%} |"


def fits() -> Iterator[str]:
    """What ran and what crashed or ran out of memory, beside what the planner says."""
    yield "| | said to fit | said not to fit |"
    yield "| --- | --- | --- |"
    for what, chosen in (
        ("ran", [step for step in sweep() if step.published]),
        ("crashed or ran out of memory", [step for step in sweep() if not step.published]),
        ("MPT that ran", mosaic()),
    ):
        yield f"| {what} | {sum(step.fits for step in chosen)} | {sum(not step.fits for step in chosen)} |"


TABLES = {each.__name__: each for each in (steps, collectives, order, fits)}

if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    for name in sys.argv[1:] or TABLES:
        print("\n".join(TABLES[name]()), "\n", flush=True)
