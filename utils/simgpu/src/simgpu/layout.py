"""The outside of a tensor: what PyTorch sees of it and operators ask for, without its numbers."""

from __future__ import annotations

import torch

from . import torch_private
from .hardware import machine


class Layout:
    """The outside of a tensor. Equal layouts are one object, so that a lookup hashes and compares identities."""

    __slots__ = ("conj", "dtype", "known", "lazy", "neg", "offset", "shape", "stride")

    def __init__(
        self,
        shape: torch.Size,
        stride: tuple[int, ...],
        offset: int,
        dtype: torch.dtype,
        conj: bool,
        neg: bool,
        known: bool = False,
    ):
        self.shape = shape
        self.stride = stride
        self.offset = offset
        self.dtype = dtype
        self.conj = conj
        self.neg = neg
        self.lazy = conj or neg
        # Whether the tensor has its numbers though the machine keeps only shapes. So it meets no plan for shapes.
        self.known = known

    def mark(self, tensor: torch.Tensor) -> torch.Tensor:
        """Give a tensor the bits of PyTorch's lazy conjugation and negation.

        PyTorch resolves them before an operator comes here, if it has no meaning for them: by the bits of what is
        outside. What comes here with them is meant to, by the bits of the value. So the two have to agree.
        """
        torch_private.set_lazy_bits(tensor, self.conj, self.neg)
        return tensor


_layouts: dict[tuple, Layout] = {}


def layout_of(value: torch.Tensor) -> Layout:
    known = not machine.compute and value.is_cpu
    marks = value.is_conj(), value.is_neg(), known
    parts: tuple = (value.shape, value.stride(), value.storage_offset(), value.dtype, *marks)
    layout = _layouts.get(parts)
    if layout is None:
        layout = _layouts[parts] = Layout(*parts)
    return layout
