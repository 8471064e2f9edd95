"""A training step of a Llama-like model on simulated GPUs, laid out by PyTorch: what the planner is held against.

`simulating` runs it in a process of its own, and sends it sizes as `llama` takes them, a cluster, and layouts.

Shapes only. Without a pipeline one process is one rank of as many as asked for, which all do the same, with PyTorch's
own `parallelize_module` and `fully_shard` on a mesh. A pipeline is run by this course's executor on as many GPUs of
one process, each stage in bfloat16. Prints a line of JSON for each layout: seconds of the second step, bytes of the
fullest GPU.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.utils.checkpoint import checkpoint

import simgpu
from simgpu import torch_private
from utils import schedules

from .cluster import Cluster
from .experts import RoutedMlp
from .layouts import Layout
from .llama import Head, Layer, kept_in_part

GPU = "simgpu:0"
ENOUGH = 10**14  # bytes: what does not fit is measured too
ATTENTION = {
    "attention": PrepareModuleInput(input_layouts=(Shard(1), None), desired_input_layouts=(Replicate(), None)),
    **{f"attention.{name}": ColwiseParallel() for name in "qkv"},
    "attention.o": RowwiseParallel(output_layouts=Shard(1)),
}
MLP = {
    "mlp": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
    **{f"mlp.{name}": ColwiseParallel() for name in ("gate", "up")},
    "mlp.down": RowwiseParallel(output_layouts=Shard(1)),
}
NORMS = {"norm1": SequenceParallel(), "norm2": SequenceParallel()}
ENDS = {
    "words": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
    "head.norm": SequenceParallel(),
    "head.output": ColwiseParallel(input_layouts=Shard(1)),
}


class Llama(nn.Module):
    def __init__(self, sizes: dict[str, int], recompute: str, reduce=None, experts=None, offload: bool = False):
        super().__init__()
        width, self.recompute, self.offload = sizes["hidden_size"], recompute, offload
        self.words = nn.Embedding(sizes["vocab_size"], width)
        self.layers = nn.ModuleList(layer(sizes, experts) for _ in range(sizes["layers"]))
        self.head = Head(width, sizes["vocab_size"], reduce)

    def forward(self, tokens, angles):
        x = self.words(tokens)
        for each in self.layers:
            with saved_on_host() if self.offload else nullcontext():
                x = through(each, x, angles, self.recompute)
        return self.head(x, tokens)


def layer(sizes: dict[str, int], group=None) -> Layer:
    """A layer whose experts, if it has any, lie on the ranks of `group`, or all on this one."""
    width, hidden, heads = sizes["hidden_size"], sizes["intermediate_size"], sizes["heads"]
    mlp = None
    if count := sizes.get("experts"):
        ranks = 1 if group is None else group.size()
        mlp = RoutedMlp(width, hidden, count, sizes["per_token"], ranks, lambda x: _AllToAll.apply(x, group))
    return Layer(width, heads, sizes["kv_heads"], hidden, sizes["head_size"], mlp)


class _AllToAll(torch.autograd.Function):
    """Equal parts to and from each rank of a group."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        if group is None or group.size() == 1:
            return x
        got = torch.empty_like(x)
        dist.all_to_all_single(got, x.contiguous(), group=group)
        return got

    @staticmethod
    def backward(ctx, *gradients):
        return _AllToAll.forward(ctx, *gradients, ctx.group), None


def through(each: nn.Module, x, angles, recompute: str):
    if recompute == "none":
        return each(x, angles)
    more: dict[str, Any] = {"context_fn": kept_in_part} if recompute == "selective" else {}
    return checkpoint(each, x, angles, use_reentrant=False, **more)


def saved_on_host() -> saved_tensors_hooks:
    """`torch.autograd.graph.save_on_cpu(pin_memory=True)`: the same copies, into memory that simgpu can pin."""
    return saved_tensors_hooks(
        lambda tensor: (tensor.device, tensor.to("cpu", non_blocking=True)),
        lambda packed: packed[1].to(packed[0], non_blocking=True),
    )


def batch_of(rows: int, sizes: dict[str, int]):
    size, length = sizes["head_size"], sizes["length"]
    tokens = torch.zeros(rows, length, dtype=torch.int64, device=GPU)
    return tokens, torch.empty(1, length, 1, size // 2, dtype=torch.complex64, device=GPU)


def second_step(step) -> dict[str, float]:
    """Of two steps the second: the first makes the optimizer's state."""
    gpus = torch.get_device_module("simgpu")

    def measured() -> dict[str, float]:
        gpus.synchronize()
        count = gpus.device_count()
        for number in range(count):
            gpus.reset_peak_memory_stats(number)
        begin = simgpu.now()
        step()
        for number in range(count):
            gpus.synchronize(number)
        peak = max(gpus.max_memory_allocated(number) for number in range(count))
        return {"seconds": simgpu.now() - begin, "bytes": peak}

    measured()
    return measured()


def enable_cluster(cluster: Cluster, ranks: int, **others) -> None:
    """Simulate the first `ranks` GPUs of a cluster, shapes only, each with more memory than any layout takes."""
    settings = cluster.settings(ranks, compute=False, memory=ENOUGH, **others)
    simgpu.enable(**vars(settings))


def on_ranks(sizes: dict[str, int], cluster: Cluster, layout: Layout) -> dict[str, float]:
    """A layout without a pipeline, by one rank that stands for all."""
    enable_cluster(cluster, layout.gpus, count=1)
    simgpu.keep_log(0)
    rank = layout.gpus - 1 if layout.context > 1 else 0  # the last one has most blocks of attention to merge
    dist.init_process_group("simccl", store=torch_private.fake_store(), rank=rank, world_size=layout.gpus)
    model: Any = laid_out(sizes, layout)  # with what fully_shard gives it
    optimizers = [torch.optim.AdamW(each, lr=1e-4) for each in of_one_mesh(model)]
    tokens, angles = batch_of(layout.rows, sizes)

    def step():
        for number in range(layout.micro_batches):
            if not layout.reshard:
                last = number == layout.micro_batches - 1
                model.set_is_last_backward(last)
                model.set_requires_gradient_sync(last)
                model.set_reshard_after_backward(last)
            model(tokens, angles).backward()
        for optimizer in optimizers:
            if not layout.offloads_weights:  # else the CPU would compute it, which takes none of the simulated time
                optimizer.step()
            optimizer.zero_grad()

    if layout.context == 1:
        return second_step(step)
    counts = (layout.gpus // layout.tensor // layout.context, layout.context, layout.tensor)
    mesh = init_device_mesh("simgpu", counts, mesh_dim_names=("others", "context", "tensor"))
    with context_parallel(mesh["context"], buffers=[tokens, angles], buffer_seq_dims=[1, 1]):
        return second_step(step)


def of_one_mesh(model: nn.Module) -> list[list[nn.Parameter]]:
    """The parameters by the mesh that they are sharded over: an optimizer takes those of one."""
    found: dict[Any, list[nn.Parameter]] = {}
    for parameter in model.parameters():
        found.setdefault(getattr(parameter, "device_mesh", None), []).append(parameter)
    return list(found.values())


def laid_out(sizes: dict[str, int], layout: Layout) -> Llama:
    names = ("data", "expert_shard", "experts", "tensor")
    counts = (layout.data, layout.shards // layout.experts, layout.experts, layout.tensor)
    mesh = init_device_mesh("simgpu", counts, mesh_dim_names=names)
    mesh["expert_shard", "experts"]._flatten("shard")
    group = mesh["tensor"].get_group()
    operations = {"max": dist.ReduceOp.MAX, "sum": dist.ReduceOp.SUM}

    def reduce(tensor, operation):
        dist.all_reduce(tensor, operations[operation], group=group)
        return tensor

    with torch.device("meta"):
        experts = mesh["experts"].get_group()
        adding = reduce if layout.tensor > 1 else None
        model = Llama(sizes, layout.recompute, adding, experts, layout.offloads_activations)
    if layout.tensor > 1:
        parallelize_module(model, mesh["tensor"], ENDS)
        for each in model.layers:
            parallelize_module(each, mesh["tensor"], ATTENTION | MLP | NORMS)

    def over(name: str):
        return mesh["data", name] if layout.data > 1 else mesh[name]

    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
    more = {"offload_policy": CPUOffloadPolicy()} if layout.offloads_weights else {}
    shard = partial(fully_shard, mesh=over("shard"), mp_policy=policy, reshard_after_forward=layout.reshard, **more)
    # As torchtitan does: where a GPU has fewer experts than there are shards, each is cut in its width.
    rows = Shard(sizes.get("experts", 0) // layout.experts % (layout.shards // layout.experts) > 0)
    layers: Any = model.layers
    for each in layers if sizes.get("experts") else ():
        shard(each.mlp.experts, mesh=over("expert_shard"), shard_placement_fn=lambda _: rows)
    for part in (model.words, *model.layers, model.head, model):
        shard(part)
    return model.to_empty(device="cpu" if layout.offloads_weights else GPU)


def in_stages(sizes: dict[str, int], cluster: Cluster, layout: Layout) -> dict[str, float]:
    """A pipeline without anything else, by this course's executor."""
    ranks, chunks, count = layout.pipeline, layout.chunks, layout.micro_batches
    # One host launches for all GPUs here, and each has its own in a cluster: so this one is as fast as all together.
    enable_cluster(cluster, ranks, gpu=dataclasses.replace(cluster.gpu, launch=cluster.gpu.launch / ranks))
    simgpu.keep_log(0)
    devices = [f"simgpu:{rank}" for rank in range(ranks)]
    with torch.device("meta"):
        model = Llama(sizes, layout.recompute).to(torch.bfloat16)
    tokens, angles = batch_of(layout.rows * count, sizes)
    stages, begin = [], 0
    counts = [len(part) for part in torch.arange(sizes["layers"]).tensor_split(ranks * chunks)]
    for stage, own in enumerate(counts):
        device = devices[stage % ranks]
        parts = [each.to_empty(device=device) for each in model.layers[begin : begin + own]]
        words = model.words.to_empty(device=device) if stage == 0 else None
        stages.append(Stage(words, parts, angles.to(device), layout.recompute))
        begin += own
    model.head.to_empty(device=devices[-1])
    made = (
        schedules.one_f_one_b(ranks, count)
        if layout.schedule == "1F1B"
        else schedules.interleaved_1f1b(ranks, count, chunks)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    targets = tokens.to(devices[-1])

    def step():
        schedules.run(made, stages, tokens, targets, model.head, devices)
        optimizer.step()
        optimizer.zero_grad()

    return second_step(step)


class Stage:
    def __init__(self, words, layers, angles, recompute: str):
        self.words, self.layers, self.angles, self.recompute = words, layers, angles, recompute

    def __call__(self, x):
        x = x if self.words is None else self.words(x)
        for each in self.layers:
            x = through(each, x, self.angles, self.recompute)
        return x


def simulate_layout(sizes: dict[str, int], cluster: Cluster, layout: Layout) -> dict[str, float]:
    """Seconds and bytes of one layout. What a CPU computes for an offloaded one is not in the seconds."""
    run = on_ranks if layout.pipeline == 1 else in_stages
    with simgpu.copying_shapes():
        return run(sizes, cluster, layout)


def each_in_a_process(sizes: dict[str, int], cluster: Cluster, layouts: Sequence[Layout]) -> Iterator[dict[str, float]]:
    """`simulate_layout` of each, one after the other, in a process of its own: that has one process group."""
    for layout in layouts:
        reading, writing = os.pipe()
        if (child := os.fork()) == 0:
            os.close(reading)
            with os.fdopen(writing, "w") as file:
                json.dump(simulate_layout(sizes, cluster, layout), file)
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as file:
            text = file.read()
        os.waitpid(child, 0)
        if not text:
            raise RuntimeError(f"the simulation of {layout} failed: what it wrote is above")
        yield json.loads(text)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    for found in each_in_a_process(*pickle.load(sys.stdin.buffer)):
        print(json.dumps(found), flush=True)
