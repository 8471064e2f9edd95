"""Reductions: how numbers of all ranks become one, as far as NCCL does it."""

from __future__ import annotations

from typing import NamedTuple

import torch

from .. import torch_private
from .arguments import NAME, dtype_name, numbers_of

c10d = torch_private.c10d
ReduceOp = torch_private.ReduceOp

REDUCTIONS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "PREMUL_SUM")  # as NCCL


class Reduction(NamedTuple):
    """How numbers of all ranks become one: by what is done among them, after each rank has taken its own times
    `factor`, where there is one."""

    name: str
    of_gloo: str  # what gloo can do of it
    factor: float | torch.Tensor | None = None

    def __str__(self) -> str:
        return self.name if type(self.factor) is not float else f"{self.name} by {self.factor:.4g}"


def reduction_of(opts, tensors) -> Reduction:
    """What a call asks for, SUM where nothing: ValueError or TypeError for what NCCL does not do with such tensors."""
    op = ReduceOp.SUM if opts is None else opts.reduceOp
    name = next((name for name in dir(ReduceOp) if name.isupper() and op == getattr(ReduceOp, name)), "?")
    if name not in REDUCTIONS:
        raise ValueError(f"{NAME} cannot reduce with {name}, and neither can NCCL. It can: {', '.join(REDUCTIONS)}.")
    dtype = tensors[0].dtype
    fractions = dtype.is_floating_point or dtype.is_complex
    if (name == "AVG" and dtype == torch.bool) or (name == "PREMUL_SUM" and not fractions):
        raise TypeError(f"{NAME} cannot reduce {dtype_name(tensors[0])} with {name}, and neither can NCCL.")
    if name == "PREMUL_SUM":
        return Reduction(name, "SUM", numbers_of(op.factor) if isinstance(op.factor, torch.Tensor) else op.factor)
    if dtype == torch.bool:  # a sum of truths is whether there is one, a product whether all are
        return Reduction(name, {"SUM": "MAX", "PRODUCT": "MIN"}.get(name, name))
    return Reduction(name, "SUM" if name == "AVG" else name)


def reduce_values(gloo, ranks: int, value: torch.Tensor, op: Reduction) -> None:
    """Make a tensor what it and those of all other ranks become."""
    numbers = torch.view_as_real(value) if value.is_complex() else value
    if op.factor is not None:
        numbers.mul_(op.factor)
    if numbers.dtype == torch.bool:
        numbers = numbers.view(torch.uint8)
    gloo.allreduce([numbers], gloo_options("Allreduce", reduceOp=getattr(ReduceOp, op.of_gloo))).wait()
    if op.name == "AVG":
        numbers.div_(ranks, rounding_mode=None if numbers.is_floating_point() else "trunc")


def gloo_options(kind: str, **values):
    options = getattr(c10d, f"{kind}Options")()
    for name, value in values.items():
        setattr(options, name, value)
    return options
