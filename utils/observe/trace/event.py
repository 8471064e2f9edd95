"""What one device did once: a kernel, a copy, or its part in communication."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from simgpu import Record

PHASES = ("forward", "backward", "optimizer")


class Event(NamedTuple):
    """One kernel, copy or communication. `start`, `end` and `launched` (when the host launched it) in seconds.

    A collective or message starts on a device when that is ready, and so includes its waiting for other ranks, as
    NCCL's kernels do.
    """

    device: str
    stream: int
    name: str
    kind: str  # kernel, comm, h2d, d2h or d2d
    phase: str  # forward, backward or optimizer
    start: float
    end: float
    launched: float | None = None
    bytes: int = 0
    flops: int = 0
    other: str | None = None  # the other end of a copy or message: a device, "cpu", a rank
    module: str = ""
    label: str = ""  # what `micro_batch` or `simgpu.label` called it

    @classmethod
    def of_record(cls, record: Record) -> Event:
        """A record of simgpu's log: the same fields, with names of devices where that has numbers of GPUs."""
        fields = record._asdict()
        for end in ("device", "other"):
            if isinstance(fields[end], int):
                fields[end] = f"simgpu:{fields[end]}"
        return cls(**fields)

    @property
    def is_kernel(self) -> bool:
        return self.kind == "kernel"

    @property
    def is_copy(self) -> bool:
        return self.kind not in ("kernel", "comm")
