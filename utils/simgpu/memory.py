"""What a simulated GPU's memory holds: every storage counted once, freed when its last tensor goes."""

from __future__ import annotations

import sys

import torch

# PyTorch's caching allocator hands out memory in blocks of this many bytes.
BLOCK = 512


class Memory:
    """The accounting of one GPU. `allocated` and `peak` in bytes.

    There is no lock: Python switches between threads only where a function is called or a loop goes back, and there is
    neither between the reading and the writing of a sum.

    Each change raises Python's auditing event "simgpu.memory", with the bytes more (None where the peak begins
    anew), for who has to trust the accounts.
    """

    __slots__ = ("allocated", "capacity", "name", "peak")

    def __init__(self, name: str, capacity: int):
        self.name = name
        self.capacity = capacity
        self.allocated = 0
        self.peak = 0

    def take(self, size: int) -> None:
        """Count `size` bytes more. Raises torch.OutOfMemoryError, in PyTorch's words, where they do not fit."""
        total = self.allocated + size
        if total > self.capacity:
            raise torch.OutOfMemoryError(
                f"simgpu out of memory. Tried to allocate {in_units(size)}. GPU {self.name} has a total capacity of "
                f"{in_units(self.capacity)} of which {in_units(self.capacity - self.allocated)} is free. "
                f"{in_units(self.allocated)} is allocated by PyTorch."
            )
        self.allocated = total
        if total > self.peak:
            self.peak = total
        sys.audit("simgpu.memory", self, size)

    def reset_peak(self) -> None:
        """Begin the peak anew, at what is allocated now."""
        self.peak = self.allocated
        sys.audit("simgpu.memory", self, None)


class Storage:
    """The memory behind a tensor and its views. Freed with the last of them."""

    __slots__ = ("_memory", "size", "written")

    def __init__(self, memory: Memory, size: int):
        size = -(-size // BLOCK) * BLOCK
        self.size = 0  # nothing to give back if `take` refuses
        self._memory = memory
        self.written = None  # by which queue, and until when: kept once a GPU has several streams
        memory.take(size)
        self.size = size

    def grow(self, size: int) -> None:
        """At least `size` bytes from now on."""
        size = -(-size // BLOCK) * BLOCK
        if size > self.size:
            self._memory.take(size - self.size)
            self.size = size

    def __del__(self, audit=sys.audit):
        self._memory.allocated -= self.size
        audit("simgpu.memory", self._memory, -self.size)


def in_units(size: float) -> str:
    """Bytes as PyTorch writes them: `4.00 MiB`."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.0f} bytes" if unit == "bytes" else f"{size:.2f} {unit}"
        size /= 1024
    return ""
