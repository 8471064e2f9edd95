"""What a simulated GPU's memory holds: every storage counted once, freed when its last tensor goes."""

from __future__ import annotations

import sys

import torch

# PyTorch's caching allocator allots memory in blocks of so many bytes, and takes it from the GPU in multiples of
# the second (c10/cuda/CUDACachingAllocator.cpp: kMinBlockSize, kRoundLarge).
BLOCK = 512
SEGMENT = 2 * 2**20
CALLED = "simgpu"  # in errors; in code for CUDA it is CUDA, which programs look for


class Memory:
    """The accounting of one GPU, in bytes: what is `allocated`, its `peak`, and what is `reserved`.

    PyTorch keeps what was freed for later tensors, so what is reserved only grows until the cache is emptied: here
    to the most that was allocated. On a real GPU it is more, for what was freed lies in pieces.

    There is no lock: Python switches between threads only where a function is called or a loop goes back, and there is
    neither between the reading and the writing of a sum.

    Each change raises Python's auditing event "simgpu.memory", with the bytes more (None where the peak is
    reset), for code that has to trust the accounts.
    """

    __slots__ = (
        "_earlier_peak",
        "_earlier_reserved",
        "_earlier_reserved_peak",
        "_high",
        "allocated",
        "capacity",
        "limit",
        "name",
    )

    def __init__(self, name: str, capacity: int):
        self.name = name
        self.capacity = self.limit = capacity
        self.allocated = 0
        self._high = 0  # the most allocated since the peak began or the cache was emptied, and these before that
        self._earlier_peak = self._earlier_reserved = self._earlier_reserved_peak = 0

    @property
    def peak(self) -> int:
        """The most that was allocated since `reset_peak`."""
        return max(self._earlier_peak, self._high)

    @peak.setter
    def peak(self, size: int) -> None:
        self._earlier_reserved = self.reserved
        self._earlier_peak, self._high = size, self.allocated

    @property
    def reserved(self) -> int:
        """What was taken from the GPU and not given back."""
        return max(self._earlier_reserved, min(_whole(self._high, SEGMENT), self.capacity))

    @property
    def reserved_peak(self) -> int:
        """The most that was reserved since `reset_peak`."""
        return max(self._earlier_reserved_peak, self.reserved)

    def take(self, size: int) -> None:
        """Count `size` bytes more. Raises torch.OutOfMemoryError, in PyTorch's words, where they do not fit."""
        total = self.allocated + size
        if total > self.limit:
            raise self._too_little(size)
        self.allocated = total
        if total > self._high:
            self._high = total
        sys.audit("simgpu.memory", self, size)

    @property
    def free(self) -> int:
        """What can still be taken."""
        return self.limit - self.allocated

    def require(self, size: int) -> None:
        """Raise torch.OutOfMemoryError where so many bytes would not fit: before the CPU computes their values."""
        if size > self.free:
            raise self._too_little(size)

    def _too_little(self, size: int) -> torch.OutOfMemoryError:
        allowed = f", {in_units(self.limit)} allowed" if self.limit != self.capacity else ""
        return torch.OutOfMemoryError(
            f"{CALLED} out of memory. Tried to allocate {in_units(size)}. GPU {self.name} has a total capacity of "
            f"{in_units(self.capacity)}{allowed} of which {in_units(self.free)} is free. "
            f"{in_units(self.allocated)} is allocated by PyTorch."
        )

    def give(self, size: int) -> None:
        """Count `size` bytes fewer."""
        self.allocated -= size
        sys.audit("simgpu.memory", self, -size)

    def reset_peak(self) -> None:
        """Reset the peak to what is allocated now."""
        self.peak = self.allocated
        self._earlier_reserved_peak = 0
        sys.audit("simgpu.memory", self, None)

    def empty_cache(self) -> None:
        """Give back to the GPU what no tensor holds."""
        self._earlier_peak, self._earlier_reserved_peak = self.peak, self.reserved_peak
        self._earlier_reserved, self._high = 0, self.allocated


class Storage:
    """The memory behind a tensor and its views. Freed with the last of them."""

    __slots__ = ("__weakref__", "_memory", "size", "written")

    def __init__(self, memory: Memory, size: int):
        size = -(-size // BLOCK) * BLOCK  # `_whole`, without its call
        self.size = 0  # nothing to give back if `take` refuses
        self._memory = memory
        self.written: tuple | None = None  # by which queue, and until when: kept once a GPU has several streams
        memory.take(size)
        self.size = size

    def grow(self, size: int) -> None:
        """At least `size` bytes from now on."""
        size = _whole(size, BLOCK)
        if size > self.size:
            self._memory.take(size - self.size)
            self.size = size

    def resize(self, size: int) -> None:
        """Hold `size` bytes, more or fewer than now."""
        size = _whole(size, BLOCK)
        if size > self.size:
            self.grow(size)
        elif size < self.size:
            self._memory.give(self.size - size)
            self.size = size

    def __del__(self, audit=sys.audit):
        self._memory.allocated -= self.size
        audit("simgpu.memory", self._memory, -self.size)


def _whole(size: int, unit: int) -> int:
    """`size` rounded up to a multiple of `unit`."""
    return -(-size // unit) * unit


def in_units(size: float) -> str:
    """Bytes as PyTorch writes them: `4.00 MiB`."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.0f} bytes" if unit == "bytes" else f"{size:.2f} {unit}"
        size /= 1024
    return ""
