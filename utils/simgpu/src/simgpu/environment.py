"""Simulated GPUs for a program that never heard of them, asked for by the environment.

SIMGPU=4 python train.py                                    as simgpu.enable(count=4)
SIMGPU="8,gpu=H100,link=nvlink4,compute=False" ...          the other arguments of enable, by name
SIMGPU=4 SIMGPU_AS_CUDA=1 torchrun --nproc-per-node 4 ...   for a program that was written for cuda and nccl
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from . import enable
from .cuda_code import as_cuda

NUMBERS = ("count", "nodes", "memory")
WORDS = tuple(name for name in inspect.signature(enable).parameters if name not in (*NUMBERS, "compute", "faults"))
BOOLS = {"true": True, "1": True, "false": False, "0": False}
HOW = 'write SIMGPU=4, or SIMGPU="4,gpu=H100,link=nvlink4,compute=False"'

_until_the_end = ExitStack()


def enable_as_asked(environment: Mapping[str, str]) -> None:
    """`enable` with what SIMGPU says, and `as_cuda` until the process ends where SIMGPU_AS_CUDA is set.

    Ends the program, with one line that says how to write it, for a SIMGPU that cannot be read: PyTorch would bury
    any other error under its own.
    """
    try:
        enable(**arguments_in(environment["SIMGPU"]))
    except ValueError as error:
        raise SystemExit(f"simgpu: {error}") from None
    if BOOLS.get(environment.get("SIMGPU_AS_CUDA", "0").lower(), True):
        _until_the_end.enter_context(as_cuda())


def arguments_in(text: str) -> dict[str, Any]:
    """The arguments of `enable` in a text such as "4,gpu=H100". Raises ValueError for a text that is none."""
    found: dict[str, Any] = {}
    for number, part in enumerate(filter(None, (part.strip() for part in text.split(",")))):
        name, is_named, value = (piece.strip() for piece in part.partition("="))
        if not is_named and number == 0:
            name, value = "count", name
        found[name] = _read(text, name, value)
    return found


def _read(text: str, name: str, value: str):
    try:
        if name in NUMBERS:
            return int(float(value)) if name == "memory" else int(value)
        if name == "compute":
            return BOOLS[value.lower()]
        if name in WORDS and value:
            return value
    except (ValueError, KeyError, OverflowError):
        pass
    raise ValueError(f"SIMGPU={text!r} cannot be read at {name!r}: {HOW}")
