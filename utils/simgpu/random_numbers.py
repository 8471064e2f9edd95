"""Random numbers: each simulated GPU draws from a generator of its own, as on CUDA.

The numbers come from PyTorch's CPU operators, and not all of those take a generator. So a GPU's generator is one of the
CPU's kind, and stands in the place of the CPU's own while an operator draws.

Its state is told as CUDA tells it: a seed and an offset, eight bytes each, because DTensor moves the offset to let each
rank draw numbers of its own. The CPU's kind has no offset. So a state that was asked for is remembered, and setting it
again goes on where it was; any other pair begins a sequence that seed and offset decide.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

import torch

A_DRAW = 4  # how far the offset goes with each operator: CUDA's is always a multiple of it
ODD = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio: spreads seeds that are close together
REMEMBERED = 1000  # states, of 5 KB each


class Generator:
    """The generator of one GPU. It begins with what `torch.manual_seed` said before there was one, as on CUDA."""

    def __init__(self):
        self._asked_for: OrderedDict[tuple[int, int], torch.Tensor] = OrderedDict()
        self._cpu = torch.Generator()
        self.manual_seed(torch.initial_seed())

    def manual_seed(self, seed: int) -> None:
        self._cpu.manual_seed(seed)
        self._seed, self._offset = self._cpu.initial_seed(), 0

    def seed(self) -> int:
        self.manual_seed(torch.Generator().seed())
        return self._seed

    def initial_seed(self) -> int:
        return self._seed

    def get_state(self) -> torch.Tensor:
        """Seed and offset, as 16 bytes."""
        self._asked_for[self._seed, self._offset] = self._cpu.get_state()
        if len(self._asked_for) > REMEMBERED:
            self._asked_for.popitem(last=False)
        return torch.tensor([self._seed, self._offset], dtype=torch.uint64).view(torch.uint8)

    def set_state(self, state: torch.Tensor) -> None:
        if state.dtype is not torch.uint8 or state.numel() != 16:
            raise RuntimeError(
                "RNG state of a simulated GPU is a torch.uint8 tensor of 16 bytes, as get_rng_state gives"
            )
        self._seed, self._offset = state.cpu().contiguous().view(torch.uint64).tolist()
        known = self._asked_for.get((self._seed, self._offset))
        if known is not None:
            self._cpu.set_state(known)
        else:
            self._cpu.manual_seed((self._seed + ODD * self._offset) % 2**64)

    @contextmanager
    def in_place_of_the_cpus(self) -> Iterator[None]:
        """Inside, the CPU's operators draw from this generator. Afterwards the CPU's own is as it was."""
        cpu = torch.default_generator
        before, own = cpu.get_state(), self._cpu.get_state()
        cpu.set_state(own)
        try:
            yield
        finally:
            drawn = cpu.get_state()
            cpu.set_state(before)
            if not torch.equal(drawn, own):
                self._cpu.set_state(drawn)
                self._offset += A_DRAW


def draws(func) -> bool:
    """Whether an operator draws random numbers."""
    return torch.Tag.nondeterministic_seeded in func.tags or str(func) == "simgpu.attention.default"  # has dropout
