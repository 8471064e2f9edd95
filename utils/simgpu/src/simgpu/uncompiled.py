"""What torch.compile is given runs as it stands: the code that it would make is for real hardware."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import cache, wraps

import torch

from .hardware import DEVICE_TYPE

RUNS_AS_IT_STANDS = (
    f"torch.compile makes code for real hardware, which {DEVICE_TYPE} is not: what is compiled runs uncompiled, with "
    'the values, times and memory of eager code. torch.compiler.set_stance("default") brings compiling back, for '
    "tensors on the CPU."
)


def register_uncompiled() -> None:
    """Let torch.compile compile nothing, and say so at its first call.

    PyTorch's own switch for that, `torch.compiler.set_stance`, loads its compiler. So it is set when a program has
    loaded that, before or by calling torch.compile.
    """
    if "torch._dynamo" in sys.modules:
        torch.compiler.set_stance("force_eager")
    torch.compile = _says_so(torch.compile)


def _says_so(compiles: Callable) -> Callable:
    @wraps(compiles)
    def compile(*args, **kwargs):
        _say_once()
        return compiles(*args, **kwargs)

    return compile


@cache
def _say_once() -> None:
    warnings.warn(RUNS_AS_IT_STANDS, stacklevel=3)
    torch.compiler.set_stance("force_eager")
