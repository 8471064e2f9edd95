"""Traces of a training job with one fault, one for each rank, as torch.profiler's files have them.

No GPU has run this job. A small simulation makes the events: each rank's host launches kernels in order, its GPU runs
them in order, and a collective ends for all ranks of its group when the last one has arrived and the bytes have passed.
Durations are made up and only their order of magnitude is that of a GPU's.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

LAUNCH, DELAY = 9.0, 4.0  # microseconds that a launch takes the host, and until the kernel can start
KERNELS = {  # microseconds of a healthy GPU
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64": 410.0,
    "pytorch_flash::flash_fwd_kernel": 240.0,
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_nn_n_tilesize256x128x64": 640.0,
}
FLASH = 1  # its place in a layer
EMBEDDING = "embedding_backward_feature_kernel<BFloat16>"
OPTIMIZER = "multi_tensor_apply_kernel<FusedAdamMathFunctor>"
IN_NODE, BETWEEN = 130.0, 1150.0  # microseconds of the two kinds of all-reduce
STREAMS = {"kernel": 7, "tensor": 20, "data": 24}


class JobFault(NamedTuple):
    """At most one of them has a place in the job and a number.

    `slow_gpu`: a rank, and how many times as long its kernels take. `slow_host`: a rank, and the microseconds of a
    launch. `late_batches`: a rank, and the microseconds that its host is late in each step but the first.
    `slow_network`: a place in the nodes, and how many times as long the all-reduce of the data group there takes.
    """

    slow_gpu: tuple[int, float] | None = None
    slow_host: tuple[int, float] | None = None
    late_batches: tuple[int, float] | None = None
    slow_network: tuple[int, float] | None = None


class Hiccup(NamedTuple):
    """One kernel of one rank takes longer, once: the flash kernel of the first layer, or that of the embedding."""

    rank: int
    step: int
    microseconds: float
    in_embedding: bool = False


class _Rank:
    def __init__(self, rank: int, begin: float):
        self.rank, self.host, self.free = rank, begin, begin
        self.correlation = 1000 * (rank + 1)
        self.events: list[dict] = []

    def launch(self, microseconds: float) -> float:
        """When the next kernel can start."""
        self.correlation += 1
        self.note("cuda_runtime", "cudaLaunchKernel", self.host, LAUNCH - 2, {"correlation": self.correlation})
        self.host += microseconds
        return max(self.free, self.host - microseconds + DELAY)

    def run(self, name: str, start: float, end: float, stream: str, **more) -> None:
        self.free = end
        own = {"device": self.rank, "stream": STREAMS[stream], "correlation": self.correlation}
        self.note("kernel", name, start, end - start, own | more)

    def note(self, category: str, name: str, ts: float, dur: float, args: dict) -> None:
        event = {"ph": "X", "cat": category, "name": name, "pid": self.rank, "tid": args.get("stream", 1)}
        self.events.append(event | {"ts": round(ts, 3), "dur": round(dur, 3), "args": args})


def job_groups(nodes: int, per_node: int) -> dict[str, list[list[int]]]:
    """The ranks of each group: `tensor` in a node, `data` with the same place in each node."""
    return {
        "tensor": [list(range(node * per_node, (node + 1) * per_node)) for node in range(nodes)],
        "data": [list(range(place, nodes * per_node, per_node)) for place in range(per_node)],
    }


def traced_job(
    nodes: int,
    per_node: int,
    *,
    fault: JobFault | None = None,
    hiccup: Hiccup | None = None,
    steps: int = 3,
    layers: int = 2,
    jitter: float = 0.01,
    embedding: bool = False,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Each rank's trace. `jitter` is by how much a kernel takes longer or less, drawn from the seed.

    With `embedding`, a kernel runs between a step's last all-reduce of tensors and that of the gradients.
    """
    fault = fault or JobFault()
    chance, count = random.Random(seed), nodes * per_node
    begin = 4_458_676_640_000.0
    ranks = [_Rank(rank, begin) for rank in range(count)]
    groups = job_groups(nodes, per_node)

    def launch(rank: _Rank) -> float:
        slow = fault.slow_host and fault.slow_host[0] == rank.rank
        return rank.launch(fault.slow_host[1] if slow and fault.slow_host else LAUNCH)

    def compute(name: str, microseconds: float, late: bool = False) -> None:
        for rank in ranks:
            took = microseconds * (1 + chance.uniform(-jitter, jitter))
            if late and hiccup and hiccup.rank == rank.rank:
                took += hiccup.microseconds
            if fault.slow_gpu and fault.slow_gpu[0] == rank.rank:
                took *= fault.slow_gpu[1]
            start = launch(rank)
            rank.run(name, start, start + took, "kernel")

    def late_in(step: int, *, in_embedding: bool) -> bool:
        return hiccup is not None and (hiccup.step, hiccup.in_embedding) == (step, in_embedding)

    def all_reduce(kind: str, microseconds: float, elements: int) -> None:
        for number, members in enumerate(groups[kind]):
            arrive = {rank: launch(ranks[rank]) for rank in members}
            took = microseconds * (1 + chance.uniform(-jitter, jitter))
            if kind == "data" and fault.slow_network and fault.slow_network[0] == number:
                took *= fault.slow_network[1]
            end = max(arrive.values()) + took
            own = {
                **{"Collective name": "allreduce", "In msg nelems": elements, "Out msg nelems": elements},
                **{"Group size": len(members), "dtype": "BFloat16", "Process Group Description": kind},
                "Process Group Name": str(1 + number + (len(groups["tensor"]) if kind == "data" else 0)),
                "Process Group Ranks": str(members),
            }
            for rank, start in arrive.items():
                ranks[rank].run("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", start, end, kind, **own)

    for step in range(steps):
        since = [rank.host for rank in ranks]
        if step and fault.late_batches:
            ranks[fault.late_batches[0]].host += fault.late_batches[1]
        for layer in range(layers):
            for place, (name, microseconds) in enumerate(KERNELS.items()):
                first = (layer, place) == (0, FLASH)
                compute(name, microseconds, first and late_in(step, in_embedding=False))
                if place:
                    all_reduce("tensor", IN_NODE, 4 * 2**20)
        if embedding:
            compute(EMBEDDING, 200.0, late_in(step, in_embedding=True))
        all_reduce("data", BETWEEN, 96 * 2**20)
        compute(OPTIMIZER, 300.0)
        for rank, start in zip(ranks, since, strict=True):
            rank.host = max(rank.host, rank.free)  # the loss is read
            rank.note("user_annotation", f"ProfilerStep#{step}", start, rank.host - start, {})
    return [_trace(rank, count, chance) for rank in ranks]


def _trace(rank: _Rank, count: int, chance: random.Random) -> dict[str, Any]:
    chance.shuffle(rank.events)  # a profiler's file is not sorted either
    told = {"backend": "nccl", "rank": rank.rank, "world_size": count}
    return {"schemaVersion": 1, "distributedInfo": told, "traceEvents": rank.events}


def kernels_of(trace: dict) -> Iterator[dict]:
    return (event for event in trace["traceEvents"] if event["cat"] == "kernel")


def seconds_of_job(traces: list[dict]) -> float:
    """From the first kernel's start to the last kernel's end."""
    spans = [(event["ts"], event["ts"] + event["dur"]) for trace in traces for event in kernels_of(trace)]
    return (max(end for _, end in spans) - min(start for start, _ in spans)) / 1e6
