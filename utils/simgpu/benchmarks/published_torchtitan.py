"""A step of Llama 3.1 8B with FSDP2, planned on simulated GPUs, beside what torchtitan published. Run it by hand:

    .venv/bin/python -m utils.simgpu.benchmarks.published_torchtitan [GPUs]

Published (pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md, end of 2024): H100 limited to 500 W, whose
memory moves 2.4 TB/s, eight in a host, 400 Gb/s a GPU between hosts; batch 2 a GPU, sequences of 8192, bfloat16,
selective activation checkpointing, eager: 5,762 tokens a second a GPU and 82.4 GiB on 8, 5,605 and 67.0 GiB on 128.
This process is one rank of as many as asked for, which all do the same; with shapes only. Nothing is fitted to it. The
limit of power is not modelled: our H100 has the speed of 700 W.
"""

from __future__ import annotations

import dataclasses
import resource
import sys
import time
from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.functional import cross_entropy, scaled_dot_product_attention, silu
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import simgpu
from simgpu.profiles import GPUS

WIDTH, LAYERS, HEADS, PAIRS, INNER, WORDS = 4096, 32, 32, 8, 14336, 128256
BATCH, LENGTH = 2, 8192
PUBLISHED = {8: (5762, 82.4), 128: (5605, 67.0)}  # tokens a second a GPU, GiB
PAPERS_H100 = dataclasses.replace(GPUS["H100"], name="H100, 2.4 TB/s", bandwidth=2.4e12)


def turned(x, angles):
    """Rotary positions, as Llama's own code has them: pairs of numbers as complex ones, in float32."""
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * angles).flatten(3).type_as(x)


class RMSNorm(nn.RMSNorm):
    """As the PyTorch of 2024 computed it, operator by operator; today's is one kernel."""

    def forward(self, x):
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).type_as(x) * self.weight


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        own = WIDTH // HEADS
        self.q, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(WIDTH, PAIRS * own, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
        self.down = nn.Linear(INNER, WIDTH, bias=False)
        self.norm1, self.norm2 = RMSNorm(WIDTH), RMSNorm(WIDTH)

    def forward(self, x, angles):
        y = self.norm1(x)
        q, k, v = (layer(y).unflatten(-1, (-1, WIDTH // HEADS)) for layer in (self.q, self.k, self.v))
        q, k = turned(q, angles), turned(k, angles)
        k, v = (each.repeat_interleave(HEADS // PAIRS, dim=2) for each in (k, v))
        q, k, v = (each.transpose(1, 2) for each in (q, k, v))
        x = x + self.o(scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        y = self.norm2(x)
        return x + self.down(silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = RMSNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens, angles):
        x = self.words(tokens)
        for layer in self.layers:
            x = checkpoint(layer, x, angles, use_reentrant=False, context_fn=kept_in_part)
        return self.head(self.norm(x))


def kept_in_part():
    """torchtitan's selective checkpointing by operator: attention is kept, and every second product."""
    products = {"forward": 0, "recompute": 0}

    def policy(context, func, *args, **kwargs):
        name = str(func)
        if "aten.mm." in name or "aten.linear" in name:
            mode = "recompute" if context.is_recompute else "forward"
            products[mode] += 1
            keep = products[mode] % 2 == 1
        else:
            keep = "attention" in name
        return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def planned(ranks: int) -> None:
    simgpu.enable(count=1, gpu=PAPERS_H100, link="nvlink4", nodes=max(1, ranks // 8), network="400G", compute=False)
    dist.init_process_group("simccl", store=FakeStore(), rank=0, world_size=ranks)
    mesh = init_device_mesh("simgpu", (ranks,))
    with torch.device("meta"):
        model = Llama()
    count = sum(parameter.numel() for parameter in model.parameters())
    shard = partial(fully_shard, mesh=mesh, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))
    for layer in model.layers:
        shard(layer)
    shard(model)
    model.to_empty(device="simgpu:0")
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    tokens = torch.zeros(BATCH, LENGTH, dtype=torch.int64, device="simgpu:0")
    angles = torch.empty(1, LENGTH, 1, WIDTH // HEADS // 2, dtype=torch.complex64, device="simgpu:0")
    for step in range(3):
        wall, begin = time.perf_counter(), simgpu.now()
        torch.simgpu.reset_peak_memory_stats()
        loss = cross_entropy(model(tokens, angles).flatten(0, 1).float(), tokens.flatten())
        loss.backward()
        del loss
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad()
        torch.simgpu.synchronize()
        seconds, wall = simgpu.now() - begin, time.perf_counter() - wall
        peak = torch.simgpu.max_memory_allocated() / 2**30
        print(
            f"step {step}: {seconds * 1e3:.0f} ms simulated, peak {peak:.1f} GiB a GPU; {wall:.2f} s of this computer"
        )
    speed = BATCH * LENGTH / seconds
    peak = torch.simgpu.max_memory_allocated() / 2**30
    beside = ""
    if ranks in PUBLISHED:
        theirs, memory = PUBLISHED[ranks]
        beside = f"; published {theirs} ({speed / theirs - 1:+.0%}) and {memory} GiB ({peak / memory - 1:+.0%})"
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{ranks} GPUs, {count / 1e9:.2f} billion parameters: {speed:.0f} tokens a second a GPU{beside}")
    print(f"{simgpu.describe()}; {used:.1f} GiB of this computer's memory")
    dist.destroy_process_group()


if __name__ == "__main__":
    planned(int(sys.argv[1]) if len(sys.argv) > 1 else 8)
