"""The planner's estimates beside shapes-only simulation, and beside published layouts. Writes docs/planner.md. By hand:

    .venv/bin/python -m tools.benchmarks.planner

Simulating takes minutes; what it found is kept in build/planner_simulated.json for the next run. Nothing is fitted.
"""

from __future__ import annotations

import dataclasses
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

from simgpu.profiles import FLASH_ATTENTION_2_ON_HOPPER, GPUS
from utils.planner import Cluster, Layout, Model, Plan, estimate_layout, llama, plan
from utils.planner.simulation import each_in_a_process

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "build" / "planner_simulated.json"
PAGE = ROOT / "docs" / "planner.md"
GIB = 2**30

SIZES = {
    "layers": 8,
    "hidden_size": 4096,
    "heads": 32,
    "kv_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "length": 4096,
}
EXPERTS = {"intermediate_size": 3584, "experts": 8, "per_token": 2}
CASES: list[dict] = [
    # FSDP
    {"shard": 1},
    {"shard": 8},
    {"shard": 8, "rows": 2},
    {"shard": 16},
    {"shard": 64, "rows": 2},
    {"shard": 512},
    {"shard": 8, "recompute": "full", "rows": 4},
    {"shard": 8, "recompute": "selective", "rows": 2},
    {"shard": 32, "length": 8192},
    {"shard": 8, "micro_batches": 3},
    {"shard": 16, "micro_batches": 3, "reshard": False},
    {"data": 2, "shard": 8},
    {"data": 8, "shard": 8, "rows": 2},
    {"data": 8, "micro_batches": 2},
    # tensor parallelism, and both
    {"tensor": 2},
    {"tensor": 4, "rows": 2},
    {"tensor": 8, "rows": 4},
    {"tensor": 8, "rows": 2, "recompute": "full"},
    {"shard": 4, "tensor": 2},
    {"shard": 2, "tensor": 4, "rows": 2},
    {"shard": 8, "tensor": 8, "rows": 2},
    {"shard": 64, "tensor": 8, "rows": 4},
    {"shard": 8, "tensor": 4, "rows": 2, "recompute": "full"},
    {"shard": 16, "tensor": 2, "rows": 2, "recompute": "selective"},
    {"shard": 8, "tensor": 8, "micro_batches": 3, "reshard": False},
    {"data": 2, "shard": 8, "tensor": 4},
    # pipelines
    {"pipeline": 2, "micro_batches": 4},
    {"pipeline": 4, "micro_batches": 8},
    {"pipeline": 4, "micro_batches": 12, "rows": 2},
    {"pipeline": 8, "micro_batches": 16},
    {"pipeline": 4, "micro_batches": 8, "recompute": "full", "rows": 2},
    {"pipeline": 2, "schedule": "interleaved", "chunks": 2, "micro_batches": 4},
    {"pipeline": 4, "schedule": "interleaved", "chunks": 2, "micro_batches": 8},
    {"pipeline": 8, "micro_batches": 8, "per_node": 4},
    # context parallelism, by PyTorch's own `context_parallel`
    {"length": 32768, "shard": 8},
    {"length": 32768, "shard": 4, "context": 2},
    {"length": 32768, "shard": 2, "context": 4},
    {"length": 32768, "context": 8},
    {"length": 32768, "shard": 2, "context": 4, "tensor": 2},
    {"length": 32768, "shard": 4, "context": 4, "per_node": 4},
    {"length": 32768, "context": 8, "recompute": "full"},
    # experts: eight a layer, each a quarter as wide
    {**EXPERTS, "shard": 8},
    {**EXPERTS, "shard": 8, "experts_over": 8},
    {**EXPERTS, "shard": 8, "experts_over": 4, "rows": 2},
    {**EXPERTS, "shard": 8, "experts_over": 2, "recompute": "full"},
    {**EXPERTS, "shard": 8, "experts_over": 8, "recompute": "selective"},
    {**EXPERTS, "shard": 16, "experts_over": 8, "micro_batches": 2},
    {**EXPERTS, "shard": 16, "experts_over": 4},
    {**EXPERTS, "shard": 16},
    {**EXPERTS, "data": 2, "shard": 4, "experts_over": 4},
    {**EXPERTS, "shard": 8, "experts_over": 8, "micro_batches": 3, "reshard": False},
    {**EXPERTS, "length": 32768, "shard": 2, "context": 4, "experts_over": 8},
    # offload, by PyTorch's own `CPUOffloadPolicy` and the copies of its `save_on_cpu`
    {"shard": 8, "offload": "weights"},
    {"shard": 8, "offload": "weights", "rows": 4, "recompute": "full"},
    {"shard": 64, "offload": "weights", "rows": 2},
    {"shard": 8, "offload": "weights", "micro_batches": 3},
    {"shard": 16, "offload": "weights", "micro_batches": 3, "reshard": False},
    {"data": 2, "shard": 8, "offload": "weights"},
    {"shard": 4, "tensor": 2, "offload": "weights", "rows": 2},
    {"shard": 8, "offload": "activations", "rows": 4, "recompute": "full"},
    {"shard": 8, "offload": "both", "rows": 4, "recompute": "full"},
    {"layers": 4, "vocab_size": 32000, "shard": 1, "offload": "both", "rows": 4, "recompute": "full"},
    {"length": 32768, "shard": 2, "context": 4, "offload": "both", "recompute": "full"},
    {**EXPERTS, "shard": 8, "experts_over": 4, "offload": "weights", "rows": 2},
]


# --- beside simulation ----------------------------------------------------------------------------------------------


def asked(case: dict) -> tuple[Model, Cluster, Layout]:
    """A case, with what is usual."""
    sizes = {name: case.get(name, usual) for name, usual in (SIZES | {"experts": 0, "per_token": 2}).items()}
    fields = {name: value for name, value in case.items() if name not in (*sizes, "per_node", "experts_over")}
    fields["experts"] = case.get("experts_over", 1)
    piped = fields.get("pipeline", 1) > 1
    layout = Layout(**({"reshard": not piped, "fsdp": not piped} | fields))
    return llama(**sizes), Cluster(gpus=layout.gpus, per_node=case.get("per_node", 8)), layout


def simulated() -> list[dict[str, float]]:
    """Of each case: from the file where they are kept, or measured again."""
    kept = {json.dumps(case): found for case, found in json.loads(KEPT.read_text())} if KEPT.exists() else {}
    missing = [case for case in CASES if json.dumps(case) not in kept]
    for case in missing:
        model, cluster, layout = asked(case)
        [kept[json.dumps(case)]] = each_in_a_process(dict(model.sizes), cluster, [layout])
        KEPT.parent.mkdir(exist_ok=True)
        KEPT.write_text(json.dumps([[json.loads(key), value] for key, value in kept.items()], indent=1))
    return [kept[json.dumps(case)] for case in CASES]


class Pair(NamedTuple):
    what: str
    times: tuple[float, float]  # estimated and simulated
    bytes: tuple[float, float]

    @property
    def errors(self) -> tuple[float, float]:
        return self.times[0] / self.times[1] - 1, self.bytes[0] / self.bytes[1] - 1


def pairs() -> list[Pair]:
    found = []
    for case, ran in zip(CASES, simulated(), strict=True):
        ours = estimate_layout(*asked(case))
        words = ", ".join(f"{name} {value}" for name, value in case.items() if name not in EXPERTS)
        words = f"{case['experts']} experts, {words}" if "experts" in case else words
        # What CPUs compute for offloaded weights is assumed, and not simulated: it is in neither.
        found.append(Pair(words, (ours.seconds - ours.on_cpu, ran["seconds"]), (ours.peak, ran["bytes"])))
    return found


def beside_simulation() -> Iterator[str]:
    found = pairs()
    times, memory = (median(abs(pair.errors[which]) for pair in found) for which in (0, 1))
    worst = max(found, key=lambda pair: abs(pair.errors[0]))
    yield (
        f"{len(found)} layouts: median error of time {times:.1%} (the bar was 5%), of memory {memory:.1%} (3%); "
        f"the farthest time is {worst.errors[0]:+.1%} ({worst.what}).\n"
    )
    yield "| layout | estimated, ms | simulated, ms | | estimated, GiB | simulated, GiB | |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for pair in found:
        ours, theirs = (f"{each * 1e3:.1f}" for each in pair.times)
        held, held_there = (f"{each / GIB:.2f}" for each in pair.bytes)
        time_off, memory_off = (f"{each:+.1%}" for each in pair.errors)
        yield f"| {pair.what} | {ours} | {theirs} | {time_off} | {held} | {held_there} | {memory_off} |"


# --- beside what was published --------------------------------------------------------------------------------------

# torchtitan's of 2024: the board's power is limited, and attention is FlashAttention-2.
TITANS = dataclasses.replace(
    GPUS["H100"],
    name="H100, 96 GB, 2.4 TB/s, 500 W",
    bandwidth=2.4e12,
    memory=96e9,
    attention=FLASH_ATTENTION_2_ON_HOPPER,
).in_training(watts=500)
LLAMAS = {
    "8B": dict(layers=32, hidden_size=4096, heads=32, kv_heads=8, intermediate_size=14336),
    "70B": dict(layers=80, hidden_size=8192, heads=64, kv_heads=8, intermediate_size=28672),
    "405B": dict(layers=126, hidden_size=16384, heads=128, kv_heads=8, intermediate_size=53248),
}
_405B = dict(shard=8, tensor=8, pipeline=8, micro_batches=8, rows=4, recompute="full", reshard=False, kernels="float8")
_8B = dict(rows=2, recompute="selective")
# what, model, layout, tokens a second a GPU, GiB
TORCHTITAN = (
    ("FSDP", "8B", Layout(shard=8, **_8B), 5762, 82.4),
    ("FSDP", "8B", Layout(shard=8, **_8B, kernels="compiled"), 6667, 77.0),
    ("FSDP", "8B", Layout(shard=8, **_8B, kernels="float8"), 8532, 76.8),
    ("FSDP", "8B", Layout(shard=128, **_8B), 5605, 67.0),
    ("FSDP", "8B", Layout(shard=128, **_8B, kernels="compiled"), 6514, 62.0),
    ("FSDP", "8B", Layout(shard=128, **_8B, kernels="float8"), 8380, 61.8),
    ("2D", "70B", Layout(shard=32, tensor=8, rows=16, recompute="full", kernels="float8"), 829, 71.9),
    ("3D, 1F1B", "405B", Layout(**_405B), 100, 82.5),
    ("3D, interleaved", "405B", Layout(**_405B, schedule="interleaved", chunks=2), 128, 72.7),
)


def titan(size: str) -> Model:
    return llama(**LLAMAS[size], vocab_size=128256, length=8192, name=f"Llama 3.1 {size}")


def beside_torchtitan() -> Iterator[str]:
    yield "| Llama 3.1 | how | layout | published tokens/s/GPU, GiB | predicted | |"
    yield "| --- | --- | --- | --- | --- | --- |"
    speeds = {}
    for how, size, layout, speed, memory in TORCHTITAN:
        ours = estimate_layout(titan(size), Cluster(TITANS, layout.gpus), layout)
        speeds[how] = ours.tokens_per_second, speed
        fits = "" if ours.reason is None else ", does not fit"
        gib = ours.peak / GIB
        yield (
            f"| {size} | {how} | {layout} | {speed:,}, {memory} | {ours.tokens_per_second:,.0f}, {gib:.1f}{fits} | "
            f"{ours.tokens_per_second / speed - 1:+.0%}, {gib / memory - 1:+.0%} |"
        )
    (one, theirs), (two, theirs_too) = (speeds[how] for how in list(speeds)[-2:])
    ratio, published = two / one, theirs_too / theirs
    yield f"\nInterleaved over 1F1B: published {published:.2f}, predicted {ratio:.2f} ({ratio / published - 1:+.0%})."


# Of the same page: FSDP, context parallelism, torch.compile, float8. Layout, tokens a row, tokens a second a GPU, GiB.
LONG = (
    (Layout(shard=8, recompute="full"), 32768, 3890, 83.9),
    (Layout(shard=4, context=2, recompute="full"), 65536, 2540, 84.2),
    (Layout(shard=2, context=4, recompute="full"), 131072, 1071, 84.0),
    (Layout(context=8, recompute="full"), 262144, 548, 84.5),
)


def beside_long() -> Iterator[str]:
    yield "| tokens a row | layout | published tokens/s/GPU, GiB | predicted | | with eager kernels |"
    yield "| --- | --- | --- | --- | --- | --- |"
    first = None
    for layout, length, speed, memory in LONG:
        model, cluster = llama(**LLAMAS["8B"], vocab_size=128256, length=length), Cluster(TITANS, layout.gpus)
        eager = estimate_layout(model, cluster, layout)
        ours = estimate_layout(model, cluster, dataclasses.replace(layout, kernels="float8"))
        first = first or (ours.tokens_per_second, speed)
        slower = (ours.tokens_per_second / first[0], speed / first[1])
        gib = ours.peak / GIB
        fits = "" if ours.reason is None else ", does not fit"
        yield (
            f"| {length:,} | {layout} | {speed:,} ({slower[1]:.0%}), {memory} | {ours.tokens_per_second:,.0f} "
            f"({slower[0]:.0%}), {gib:.1f}{fits} | {ours.tokens_per_second / speed - 1:+.0%}, {gib / memory - 1:+.0%} "
            f"| {eager.tokens_per_second:,.0f}, {eager.tokens_per_second / speed - 1:+.0%} |"
        )


MIXTRAL = dict(layers=32, hidden_size=4096, heads=32, kv_heads=8, intermediate_size=14336, vocab_size=32000)
QWEN = dict(layers=48, hidden_size=2048, heads=32, kv_heads=4, intermediate_size=768, vocab_size=151936, head_size=128)
_OF_FOUR = dict(pipeline=4, schedule="interleaved", chunks=8, micro_batches=16, reshard=False)
# whose, model, experts, of which a token takes, layout, teraFLOP/s a GPU
EXPERT_RUNS = (
    ("Megatron Core, Mixtral 8x7B", MIXTRAL, 8, 2, Layout(shard=16, experts=8, **_OF_FOUR), 468),
    ("NeMo AutoModel, Qwen3 30B", QWEN, 128, 8, Layout(shard=8, experts=8, rows=4, micro_batches=16), 277),
)


def flops_a_token(model: Model, length: int) -> float:
    """Products of a forward and a backward pass, 6 a weight that a token meets, and half of all pairs of tokens."""
    sizes = dict(model.sizes or ())
    width, size = sizes["hidden_size"], sizes["head_size"]
    attention = 2 * (sizes["heads"] + sizes["kv_heads"]) * size * width
    each = attention + 3 * width * sizes["intermediate_size"] * sizes["per_token"] + width * sizes["experts"]
    pairs = 2 * sizes["heads"] * size * length / 2 * 2
    return 3 * (sizes["layers"] * (2 * each + pairs) + 2 * width * sizes["vocab_size"])


def beside_experts() -> Iterator[str]:
    yield "| run | GPUs | layout | published TFLOP/s/GPU | predicted | | GiB |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for whose, sizes, experts, per_token, layout, published in EXPERT_RUNS:
        model = llama(**sizes, length=4096, experts=experts, per_token=per_token)
        ours = estimate_layout(model, Cluster("H100", layout.gpus), layout)
        found = ours.tokens_per_second * flops_a_token(model, 4096) / 1e12
        fits = "" if ours.reason is None else ": does not fit"
        yield (
            f"| {whose} | {layout.gpus} | {layout} | {published} | {found:.0f} | {found / published - 1:+.0%} | "
            f"{ours.peak / GIB:.1f}{fits} |"
        )


# torchtune, pull request 993: seconds of a step, in bfloat16. Rows of Alpaca have no length there: this one is assumed.
OFFLOADED = (Layout(shard=8, rows=2, recompute="full", offload="weights"), 256, 13.57)


def beside_offload() -> Iterator[str]:
    layout, length, published = OFFLOADED
    model = llama(**LLAMAS["70B"], vocab_size=128256, length=length)
    ours = estimate_layout(model, Cluster("A100-80GB-SXM", 8, 8, "nvlink3"), layout)
    yield "| layout | published, s | predicted, in float32 | of that the CPU | half of it | | GiB |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    offs = (f"{share * ours.seconds / published - 1:+.0%}" for share in (1, 0.5))
    yield (
        f"| {layout} | {published} | {ours.seconds:.1f} | {ours.on_cpu:.1f} | {ours.seconds / 2:.1f} | "
        f"{', '.join(offs)} | {ours.peak / GIB:.1f} |"
    )


# billions of weights, heads, width, layers, tensor, pipeline, GPUs, batch, teraFLOP/s a GPU; micro-batch, chunks
MEGATRON = (
    (1.7, 24, 2304, 24, 1, 1, 32, 512, 137, 16, 1),
    (3.6, 32, 3072, 30, 2, 1, 64, 512, 138, 16, 1),
    (7.5, 32, 4096, 36, 4, 1, 128, 512, 142, 16, 1),
    (18.4, 48, 6144, 40, 8, 1, 256, 1024, 135, 8, 1),
    (39.1, 64, 8192, 48, 8, 2, 512, 1536, 138, 4, 1),
    (76.1, 80, 10240, 60, 8, 4, 1024, 1792, 140, 2, 3),
    (145.6, 96, 12288, 80, 8, 8, 1536, 2304, 148, 2, 2),
    (310.1, 128, 16384, 96, 8, 16, 1920, 2160, 155, 1, 2),
    (529.6, 128, 20480, 105, 8, 35, 2520, 2520, 163, 1, 3),
    (1008.0, 160, 25600, 128, 8, 64, 3072, 3072, 163, 1, 1),
)
TOKENS, WORDS = 2048, 51200


def megatron(
    heads: int, width: int, layers: int, billions: float = 0, words: int = WORDS, length: int = TOKENS
) -> Model:
    """A GPT as a Llama-like model of as many weights: three products of 8/3 of the width for two of 4 times of it."""
    hidden = round(8 * width / 3 / 64) * 64
    name = f"GPT {billions}B" if billions else ""
    return llama(layers, width, heads, None, hidden, words, length, name)


def teraflops(heads: int, width: int, layers: int, batch: int, seconds: float, gpus: int) -> float:
    """As the paper counts them (equation 3): with recomputation, products only."""
    forward = layers * (24 * batch * TOKENS * width**2 + 4 * batch * TOKENS**2 * width)
    return (4 * forward + 6 * batch * TOKENS * width * WORDS) / seconds / gpus / 1e12


def selene(gpus: int) -> Cluster:
    return Cluster("A100-80GB-SXM", gpus, 8, "nvlink3", "200G")


def beside_megatron() -> Iterator[str]:
    yield "| GPT | GPUs, batch | data x tensor x pipeline | published TFLOP/s/GPU | predicted | | GiB |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    errors = []
    for billions, heads, width, layers, tensor, pipeline, gpus, batch, published, rows, chunks in MEGATRON:
        data = gpus // tensor // pipeline
        schedule = "interleaved" if chunks > 1 else "1F1B"
        layout = Layout(data, 1, tensor, pipeline, schedule, chunks, rows, batch // data // rows, "full", reshard=False)
        ours = estimate_layout(megatron(heads, width, layers), selene(gpus), layout)
        found = teraflops(heads, width, layers, batch, ours.seconds, gpus)
        errors.append(found / published - 1)
        chunked = f" x{chunks}" if chunks > 1 else ""
        fits = "" if ours.reason is None else ": does not fit"
        yield (
            f"| {billions}B | {gpus}, {batch} | {data} x {tensor} x {pipeline}{chunked} | {published} | {found:.0f} | "
            f"{errors[-1]:+.0%} | {ours.peak / GIB:.1f}{fits} |"
        )
    yield f"\nMedian error {median(map(abs, errors)):.0%}, from {min(errors):+.0%} to {max(errors):+.0%}."


# Of the same paper's table 2: 174.6 billion weights by ZeRO-3 (DeepSpeed), batch 1536: GPUs, micro-batch, teraFLOP/s
ZERO3 = ((384, 4, 144), (768, 2, 88), (1536, 1, 44))


def beside_zero3() -> Iterator[str]:
    yield "| GPUs | micro-batch | published TFLOP/s/GPU | predicted | | GPUs without work |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for gpus, rows, published in ZERO3:
        layout = Layout(shard=gpus, rows=rows, recompute="full")
        ours = estimate_layout(megatron(96, 12288, 96), selene(gpus), layout)
        found = teraflops(96, 12288, 96, 1536, ours.seconds, gpus)
        off = found / published - 1
        yield f"| {gpus} | {rows} | {published} | {found:.0f} | {off:+.0%} | {ours.waiting:.0%} |"


# model, tokens, GPUs, micro-batch, micro-batches, recomputation, tokens a second a GPU
MPT = {"70b": (64, 8192, 80), "30b": (56, 7168, 48), "13b": (40, 5120, 40), "7b": (32, 4096, 32)}
MOSAIC = (
    ("70b", 2048, 64, 8, 4, True, 1039),
    ("70b", 2048, 32, 2, 16, True, 882),
    ("30b", 2048, 32, 14, 3, True, 2308),
    ("30b", 2048, 16, 10, 3, True, 2263),
    ("30b", 2048, 8, 3, 21, True, 2002),
    ("30b", 4096, 8, 1, 21, True, 1802),
    ("13b", 2048, 64, 2, 1, False, 4800),
    ("13b", 2048, 32, 2, 1, False, 4811),
    ("13b", 2048, 8, 2, 1, False, 4792),
    ("13b", 4096, 8, 10, 3, True, 4717),
    ("7b", 2048, 8, 6, 1, False, 10643),
    ("7b", 4096, 8, 16, 2, True, 8611),
    ("7b", 8192, 8, 8, 2, True, 6935),
)


def beside_mosaic() -> Iterator[str]:
    yield "| MPT | tokens a row | GPUs | micro-batches | recompute | published tokens/s/GPU | predicted | | GiB |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    errors = []
    for name, length, gpus, rows, count, full, published in MOSAIC:
        recompute = "full" if full else "none"
        layout = Layout(shard=gpus, rows=rows, micro_batches=count, recompute=recompute)
        ours = estimate_layout(megatron(*MPT[name], words=50368, length=length), Cluster("H100", gpus), layout)
        errors.append(ours.tokens_per_second / published - 1)
        fits = "" if ours.reason is None else ": does not fit"
        yield (
            f"| {name} | {length} | {gpus} | {count} x {rows} | {recompute} | {published:,} | "
            f"{ours.tokens_per_second:,.0f} | {errors[-1]:+.0%} | {ours.peak / GIB:.1f}{fits} |"
        )
    yield f"\nMedian error {median(map(abs, errors)):.0%}, {min(errors):+.0%} to {max(errors):+.0%}."


def searched() -> Iterator[tuple[Plan, Layout, str]]:
    """The planner's own choice, beside the layout that was used."""
    gpt = megatron(64, 8192, 48, 39.1)
    used = Layout(32, 1, 8, 2, rows=4, micro_batches=12, recompute="full", reshard=False)
    yield plan(gpt, selene(512), 1536, pipeline=(1, 2, 4), recompute=("none", "full")), used, "Megatron-LM"
    used = TORCHTITAN[6][2]
    limits = {"pipeline": (1, 2, 4), "recompute": ("selective", "full"), "kernels": used.kernels}
    yield plan(titan("70B"), Cluster(TITANS, 256), 512, **limits), used, "torchtitan"


def beside_search() -> Iterator[str]:
    for found, used, whose in searched():
        yield (
            f"**{found.model.name}**, {found.cluster}, batch {found.batch}: {found.count:,} layouts in "
            f"{found.seconds:.0f} s of one core, the tracing of blocks with it; {len(found.fits)} fit.\n"
        )
        theirs = estimate_layout(found.model, found.cluster, used)
        for who, each in ((whose, theirs), ("The planner", found.best(1)[0])):
            yield (
                f"* {who}: {each.layout}: predicted {each.seconds:.2f} s, {each.peak / GIB:.1f} GiB, "
                f"GPUs without work {each.waiting:.0%} of the time."
            )
        yield ""


# --- the page -------------------------------------------------------------------------------------------------------

TEXT = Path(__file__).with_suffix(".md")


def page() -> str:
    parts = {
        "SIMULATION": beside_simulation,
        "TORCHTITAN": beside_torchtitan,
        "LONG": beside_long,
        "EXPERTS": beside_experts,
        "OFFLOAD": beside_offload,
        "MEGATRON": beside_megatron,
        "ZERO3": beside_zero3,
        "MOSAIC": beside_mosaic,
        "SEARCH": beside_search,
    }
    text = TEXT.read_text()
    for name, lines in parts.items():
        begin = time.perf_counter()
        text = text.replace(f"<{name}>", "\n".join(lines()))
        print(f"{name.lower()}: {time.perf_counter() - begin:.0f} s", flush=True)
    return text


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    PAGE.write_text(page())
    print(PAGE.read_text())
