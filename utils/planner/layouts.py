"""Ways to lay a training step out over GPUs, and which of them make sense."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from .cluster import Cluster
from .models import Model, Split

MOST_STAGES = 32  # that are searched
RECOMPUTE = ("none", "selective", "full")
OFFLOAD = ("none", "weights", "activations", "both")
UNKNOWN, FLOAT8 = (0, 0), (8, 9)  # compute capability of a profile that states none, and the least for float8
# What kernels of these kinds take of an eager kernel's seconds in bfloat16: tokens a second and GPU of Llama 3.1 8B on
# eight H100 (torchtitan, benchmarks/llama3_h100_202412_torchtitan.md, its table 1).
KERNELS = {"eager": 1.0, "compiled": 5762 / 6667, "float8": 5762 / 8532}


@dataclass(frozen=True)
class Layout:
    """How many GPUs share what, and how the batch goes through.

    `data` groups hold the same weights, each group's weights are cut over `shard` x `context` GPUs (FSDP2), each row's
    sequence over `context` GPUs, each block's work over `tensor` GPUs (with sequence parallelism), and the blocks over
    `pipeline` ranks with `chunks` stages each. Of each group's GPUs `experts` share each layer's experts, whose weights
    are cut over the others. A GPU has `micro_batches` of `rows` rows a step. With `reshard` weights are gathered again
    for every pass and each micro-batch's gradients reduced, else both once a step.
    With `offload="weights"` the host's memory has each GPU's share of weights, gradients and optimizer state, and its
    CPU trains them (FSDP2's `CPUOffloadPolicy`); with "activations" the inputs of blocks that are recomputed wait there
    for the backward pass (`save_on_cpu`); with "both", both.
    `kernels` are "eager", or all of them faster by a gain that was measured for one model and is taken for every other
    (`KERNELS`): "compiled" by `torch.compile`, or "float8", compiled with products in float8. Memory and the
    number of launches stay as they are.
    `zero1` is ZeRO-1 as nanotron has it, with `reshard=False`: a GPU keeps all weights in bfloat16 and trains the share
    of them that is its own, gradients are all-reduced, and what was trained is gathered after the optimizer's step,
    beside nothing. `plan` does not search it.
    `fsdp=False` is for one rank of everything but the pipeline: weights in bfloat16 as they are, nothing wrapped.
    """

    data: int = 1
    shard: int = 1
    tensor: int = 1
    pipeline: int = 1
    schedule: str = "1F1B"
    chunks: int = 1
    rows: int = 1
    micro_batches: int = 1
    recompute: str = "none"
    reshard: bool = True
    fsdp: bool = True
    cut: str = "layers"  # stages of as many layers each, or by "time": so that the slowest takes as little as it can
    context: int = 1
    experts: int = 1
    offload: str = "none"
    kernels: str = "eager"
    zero1: bool = False

    def __post_init__(self):
        if self.zero1 and (self.reshard or not self.fsdp or self.experts > 1 or self.offload != "none"):
            raise ValueError("zero1=True: give reshard=False, and neither fsdp=False, experts nor offload")
        for name, known in (("offload", OFFLOAD), ("kernels", tuple(KERNELS))):
            if getattr(self, name) not in known:
                raise ValueError(f"{name}={getattr(self, name)!r}: give one of {', '.join(known)}")

    @property
    def offloads_weights(self) -> bool:
        return self.offload in ("weights", "both")

    @property
    def offloads_activations(self) -> bool:
        return self.offload in ("activations", "both")

    @property
    def gpus(self) -> int:
        return self.data * self.shards * self.tensor * self.pipeline

    @property
    def shards(self) -> int:
        """How many GPUs a weight is cut over."""
        return self.shard * self.context

    @property
    def split(self) -> Split:
        return Split(self.tensor, self.context, self.experts)

    @property
    def batch(self) -> int:
        return self.data * self.shard * self.rows * self.micro_batches

    @property
    def stages(self) -> int:
        return self.pipeline * self.chunks

    def __str__(self) -> str:
        shared = {"data": self.data, "shard": self.shard, "context": self.context, "tensor": self.tensor}
        parts = [f"{name} {count}" for name, count in shared.items() if name != "context" or count > 1]
        schedule = f" {self.schedule}" + (f" x{self.chunks}" if self.chunks > 1 else "") if self.pipeline > 1 else ""
        parts += [f"pipeline {self.pipeline}{schedule}"]
        experts = f", experts over {self.experts}" if self.experts > 1 else ""
        kept = "" if self.reshard or self.shards == 1 else ", ZeRO-1" if self.zero1 else ", weights stay gathered"
        rows = f"{self.micro_batches} x {self.rows} rows"
        offload = f", {self.offload} offloaded" if self.offload != "none" else ""
        kernels = f", {self.kernels} kernels" if self.kernels != "eager" else ""
        return " x ".join(parts) + f"{experts}, {rows}, recompute {self.recompute}{kept}{offload}{kernels}"

    @property
    def groups(self) -> int:
        """How many groups a GPU belongs to, beside itself."""
        return sum(ranks > 1 for ranks in (self.data, self.shards, self.tensor, self.pipeline, *self.split[1:]))


def layouts(
    model: Model,
    cluster: Cluster,
    batch: int,
    most_rows: int = 4,
    contexts: Sequence[int] = (1,),
    experts: Sequence[int] = (1,),
    offloads: Sequence[str] = ("none",),
    kernels: str = "eager",
) -> Iterator[Layout]:
    """All layouts that use every GPU and divide the batch; of micro-batches, 1, 2, 4, ... `most_rows` rows.

    Tensor parallelism stays in a node, and pipelines have no more than `MOST_STAGES` stages: others are not searched.
    A sequence is cut over so many GPUs as `contexts` says, and a model's experts over so many as `experts` does. What
    is offloaded is each of `offloads` (`OFFLOAD`). All have the same `kernels` (`KERNELS`).
    """
    for tensor in (each for each in _divisors(cluster.gpus) if each <= cluster.per_node):
        for pipeline in _divisors(cluster.gpus // tensor):
            for context in contexts:
                copies, left = divmod(cluster.gpus // tensor // pipeline, context)
                if not left and batch % copies == 0:
                    for data, shard in ((copies // each, each) for each in _divisors(copies)):
                        for among in experts if model.experts else (1,):
                            if shard * context % among == 0:
                                layout = Layout(
                                    data, shard, tensor, pipeline, context=context, experts=among, kernels=kernels
                                )
                                for offload in offloads if pipeline == 1 else ("none",) if "none" in offloads else ():
                                    yield from _with_rows(replace(layout, offload=offload), batch, most_rows)


def _with_rows(layout: Layout, batch: int, most_rows: int) -> Iterator[Layout]:
    each = batch // (layout.data * layout.shard)
    for rows in (2**power for power in range(most_rows.bit_length())):
        if rows <= most_rows and each % rows == 0:
            yield from _variants(replace(layout, rows=rows, micro_batches=each // rows))


def _variants(layout: Layout) -> Iterator[Layout]:
    ways = [("1F1B", 1)] if layout.pipeline == 1 else [("1F1B", 1), ("interleaved", 2), ("interleaved", 4)]
    # As torchtitan has it: within a pipeline weights stay gathered for the whole step.
    reshards = (False,) if layout.pipeline > 1 else (True,) if layout.micro_batches == 1 else (True, False)
    for recompute in ("full",) if layout.offloads_activations else RECOMPUTE:
        for schedule, chunks in ways:
            if layout.pipeline * chunks > MOST_STAGES:
                continue
            for reshard in reshards if layout.shards > 1 else reshards[-1:]:
                yield replace(layout, schedule=schedule, chunks=chunks, recompute=recompute, reshard=reshard)


def _divisors(number: int) -> list[int]:
    return [each for each in range(1, number + 1) if number % each == 0]


def why_not(layout: Layout, model: Model, cluster: Cluster) -> str | None:
    """Why a layout makes no sense, in one line; None where it does."""
    if layout.tensor > cluster.per_node:
        return f"tensor parallelism of {layout.tensor} leaves the node of {cluster.per_node} GPUs"
    if reason := model.why_not(layout.split):
        return reason
    if layout.shards % layout.experts:
        return f"expert parallelism of {layout.experts} does not divide {layout.shards} GPUs that share the weights"
    if layout.stages > model.layers:
        return f"{layout.stages} stages are more than the {model.layers} layers"
    if layout.chunks > 1 and layout.micro_batches % layout.pipeline:
        return f"interleaved, {layout.micro_batches} micro-batches are no multiple of {layout.pipeline} ranks"
    if layout.pipeline > 1 and layout.micro_batches < layout.pipeline:
        return f"{layout.micro_batches} micro-batches do not fill a pipeline of {layout.pipeline}"
    if layout.kernels == "float8" and UNKNOWN < cluster.gpu.capability < FLOAT8:
        return f"{cluster.gpu.name} has no tensor cores for float8"
    return _why_not_offloaded(layout)


def _why_not_offloaded(layout: Layout) -> str | None:
    if layout.offload != "none" and layout.pipeline > 1:
        return "offload beside a pipeline is not estimated"
    if layout.offloads_weights and not layout.fsdp:
        return "weights are offloaded by FSDP2: without it they stay on the GPU"
    if layout.offloads_activations and layout.recompute != "full":
        return f"activations are offloaded where blocks are recomputed in full, not with recompute {layout.recompute}"
    return None
