"""AdamW's step on a GPU's share of the weights, from shapes: it runs once on "meta", all weights at once."""

from __future__ import annotations

from functools import lru_cache

import torch

from simgpu.profiles import GpuProfile

from .cluster import timing
from .trace import KernelRecorder

STATES = 2  # tensors of AdamW, as large as what they train


# Numbers for which it runs: as many as one kernel takes, and two. Beyond that time is linear in them.
ENOUGH = 320 * 2**16, 640 * 2**16


@lru_cache(maxsize=64)
def _steps(gpu: GpuProfile, dtype: torch.dtype) -> tuple[tuple[tuple[float, ...], int], ...]:
    return tuple(_step(gpu, numbers, dtype) for numbers in ENOUGH)


def _step(gpu: GpuProfile, numbers: int, dtype: torch.dtype) -> tuple[tuple[float, ...], int]:
    weight = torch.nn.Parameter(torch.empty(numbers, dtype=dtype, device="meta"))
    optimizer = torch.optim.AdamW([weight], lr=1e-3, foreach=True)
    for _ in range(2):  # the first step makes its state
        weight.grad = torch.empty_like(weight)
        with KernelRecorder(gpu) as watch:
            optimizer.step()
    return tuple(watch.events), watch.peak


def adamw(gpu: GpuProfile, numbers: int, dtype: torch.dtype = torch.float32) -> tuple[tuple[float, ...], float]:
    """(its kernels' seconds, the bytes that it needs meanwhile)."""
    (one, held), (two, held_too) = _steps(timing(gpu), dtype)
    times = numbers / ENOUGH[0] - 1
    return tuple(a + (b - a) * times for a, b in zip(one, two, strict=True)), held + (held_too - held) * times
