"""What a simulated GPU's memory holds: every storage counted once, freed when its last tensor goes."""

from __future__ import annotations

import sys
from typing import Protocol

import torch

# PyTorch's caching allocator allots memory in blocks of so many bytes, and takes it from the GPU in multiples of
# the second (c10/cuda/CUDACachingAllocator.cpp: kMinBlockSize, kRoundLarge).
BLOCK = 512
SEGMENT = 2 * 2**20
# Where the first address is: about there CUDA on Linux has its own.
FIRST_ADDRESS = 0x7F00_0000_0000
CALLED = "simgpu"  # in errors; in code for CUDA it is CUDA, which programs look for


class Watcher(Protocol):
    """What is told of the memory of a GPU while somebody records it: each storage that comes and goes, each refusal."""

    def taken(self, storage: Storage) -> None: ...

    def given(self, storage: Storage) -> None: ...

    def refused(self, size: int) -> None: ...


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
        "history",
        "limit",
        "name",
    )

    def __init__(self, name: str, capacity: int):
        self.name = name
        self.capacity = self.limit = capacity
        self.history: Watcher | None = None
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
        if self.history is not None:
            self.history.refused(size)
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

    __slots__ = ("__weakref__", "_address", "memory", "size", "written")
    _address: int  # once somebody has asked

    def __init__(self, memory: Memory, size: int):
        size = -(-size // BLOCK) * BLOCK  # `_whole`, without its call
        self.size = 0  # nothing to give back if `take` refuses
        self.memory = memory
        self.written: tuple | None = None  # by which queue, and until when: kept once a GPU has several streams
        memory.take(size)
        self.size = size
        if memory.history is not None:
            memory.history.taken(self)

    @property
    def address(self) -> int:
        """Where it begins: no other memory of this process lies, lay or will lie there. Another one when resized."""
        if not hasattr(self, "_address"):
            self._address = _new_address(self.size)
        return self._address

    def grow(self, size: int) -> None:
        """At least `size` bytes from now on."""
        size = _whole(size, BLOCK)
        if size > self.size:
            self._hold(size)

    def resize(self, size: int) -> None:
        """Hold `size` bytes, more or fewer than now."""
        size = _whole(size, BLOCK)
        if size != self.size:
            self._hold(size)

    def _hold(self, size: int) -> None:
        memory = self.memory
        if size > self.size:
            memory.take(size - self.size)
        else:
            memory.give(self.size - size)
        if memory.history is not None:
            memory.history.given(self)
        self.size = size
        self._address = _new_address(size)
        if memory.history is not None:
            memory.history.taken(self)

    def __del__(self, audit=sys.audit):
        memory = self.memory
        memory.allocated -= self.size
        audit("simgpu.memory", memory, -self.size)
        if memory.history is not None:
            memory.history.given(self)


_next_address = FIRST_ADDRESS


def _new_address(size: int) -> int:
    global _next_address
    address = _next_address
    _next_address = address + size
    return address


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
