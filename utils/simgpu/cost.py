"""How long a kernel takes: a roofline.

    seconds = the longest of
        FLOPs / (peak for the dtype x efficiency x share of the chip that is filled)
        bytes read and written / memory bandwidth
        the shortest time that any kernel takes

FLOPs come from PyTorch's own registry (torch.utils.flop_counter); an operator that it does not list costs its
bytes. The model is Williams, Waterman and Patterson's roofline (Communications of the ACM 52(4), 2009). The
share of the chip that is filled is counted in output tiles: a matrix product or convolution is computed in
tiles of 32 x 32 outputs (the smallest that libraries commonly choose), one for each multiprocessor at a time, so
ten tiles on eighty multiprocessors leave seventy idle. Of 32 and 64, 32 is the one that predicts the published
ResNet50 experiment (tests/benchmarks/published_resnet50.py); nothing else was chosen with it in view.
"""

from __future__ import annotations

from functools import cache

import torch

from .profiles import GpuProfile

TILE = 32 * 32
aten = torch.ops.aten

# Operators that look up or write a few rows of a large tensor: the argument that is not read whole.
TOUCHES_ROWS = {
    aten.embedding: 0,
    aten.index: 0,
    aten.index_select: 1,
    aten.gather: 0,
    aten.index_put_: 0,
    aten.index_put: 0,
    aten.embedding_dense_backward: 0,
}


def size_of(tensor) -> int:
    """Bytes of a tensor's elements."""
    return tensor.numel() * tensor.element_size()


def tensors_in(values):
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value)


def work_of(packet, args, kwargs, out) -> tuple[int, int, int, torch.dtype]:
    """(FLOPs, bytes, elements of output, dtype) of one call of an operator (a packet, such as `aten.mm`).

    The tensors among its arguments and results need only have the right shapes.
    """
    results = list(tensors_in(out if isinstance(out, (list, tuple)) else [out]))
    operands = list(tensors_in([*args, *kwargs.values()]))
    skipped = args[TOUCHES_ROWS[packet]] if packet in TOUCHES_ROWS and args else None
    moved = sum(size_of(t) for t in operands if t is not skipped)
    moved += sum(size_of(t) for t in results if not any(t is operand for operand in operands))
    # What is written in place is read and written.
    moved += sum(size_of(t) for t in results if any(t is operand for operand in operands))
    formula = _flop_formulas().get(packet)
    flops = int(formula(*args, **kwargs, out_val=out)) if formula else 0
    dtype = next((t.dtype for t in results or operands if t.is_floating_point()), torch.float32)
    return flops, moved, sum(t.numel() for t in results), dtype


@cache
def _flop_formulas() -> dict:
    from torch.utils.flop_counter import flop_registry  # slow to import, and not needed before the first kernel

    return flop_registry


def seconds_for(gpu: GpuProfile, flops: int, moved: int, outputs: int, dtype: torch.dtype) -> float:
    """What a kernel of so much work takes on a GPU."""
    seconds = max(moved / gpu.bandwidth, gpu.shortest)
    if flops:
        filled = min(1.0, max(outputs / TILE, 1.0) / gpu.multiprocessors)
        seconds = max(seconds, flops / (gpu.peak(dtype) * gpu.efficiency * filled))
    return seconds
