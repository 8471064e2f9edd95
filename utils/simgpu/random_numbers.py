"""Random numbers: each simulated GPU draws from a generator of its own, as on CUDA.

The numbers come from PyTorch's CPU operators, and not all of those take a generator. So a GPU's generator is one of the
CPU's kind, and stands in the place of the CPU's own while an operator draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


def new_generator() -> torch.Generator:
    """For a new GPU: it begins with what `torch.manual_seed` said before there was one, as on CUDA."""
    return torch.Generator().manual_seed(torch.initial_seed())


def draws(func) -> bool:
    """Whether an operator draws random numbers."""
    return torch.Tag.nondeterministic_seeded in func.tags or str(func) == "simgpu.attention.default"  # has dropout


@contextmanager
def drawn_from(generator: torch.Generator) -> Iterator[None]:
    """Inside, the CPU's operators draw from `generator`. Afterwards the CPU's own is as it was."""
    cpu = torch.default_generator
    before = cpu.get_state()
    cpu.set_state(generator.get_state())
    try:
        yield
    finally:
        generator.set_state(cpu.get_state())
        cpu.set_state(before)
