"""Gradients of activations, kept whole: they are one kernel on CUDA.

For a device that it knows no kernel of, PyTorch takes that of SiLU apart into seven operators and that of Mish into ten
(`math_silu_backward` in aten/src/ATen/native/Activation.cpp), before anything reaches the device.
"""

from __future__ import annotations

from functools import cache

import torch

aten = torch.ops.aten

WHOLE = {aten.silu_backward.default, aten.mish_backward.default}
_ATEN = torch.library.Library("aten", "IMPL")


@cache
def register_activations() -> None:
    """Let the operators of `WHOLE` reach simulated GPUs as they are called."""
    for func in WHOLE:
        _ATEN.impl(func, torch.library.fallthrough_kernel, "AutogradPrivateUse1")
