"""What the sources of samples share: names of devices, and a list of what failed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple


class Sample(NamedTuple):
    """One look at one device. `time` in seconds since the start, `utilization` in percent, memory in bytes."""

    time: float
    device: str
    utilization: float | None
    used: int | None
    total: int | None


def names_of(devices: Iterable) -> list[str]:
    """The names of devices, each once, all of one kind. Raises ValueError that says what can be named."""
    if isinstance(devices, str) or hasattr(devices, "type"):  # one device, where a list of one is meant
        devices = [devices]
    if not isinstance(devices, Iterable):
        raise ValueError(f"GpuMonitor({devices!r}): give it a list of devices, such as ['simgpu:0', 'simgpu:1']")
    names = list(dict.fromkeys(map(str, devices)))
    kinds = {device_type(name) for name in names}
    if None in kinds:
        wrong = next(name for name in names if device_type(name) is None)
        raise ValueError(f"GpuMonitor: {wrong!r} is not a GPU with a number: name devices as 'cuda:0' or 'simgpu:0'")
    if len(kinds) != 1:
        what = f"{', '.join(names)} mixes real and simulated GPUs" if names else "no devices"
        raise ValueError(f"GpuMonitor: {what}: name one or more of one kind, such as ['simgpu:0', 'simgpu:1']")
    return names


def device_type(name: str) -> str | None:
    match = re.fullmatch(r"(cuda|simgpu):(0|[1-9][0-9]{0,3})", name)
    return match and match[1]


def device_index(name: str) -> int:
    return int(name.partition(":")[2])


def counted(names: list[str]) -> str:
    """`2 x V100, H100` for the names of devices."""
    return ", ".join(f"{n} x {name}" if (n := names.count(name)) > 1 else name for name in dict.fromkeys(names))


class Trouble:
    """What failed, in `lines`: each call on each device once for each kind of failure."""

    def __init__(self, lines: Iterable[str] = ()):
        self.lines = list(lines)
        self._seen = set()

    def add(self, call: str, device: str, error: Exception) -> None:
        key = (call, device, type(error), getattr(error, "value", None))
        if key not in self._seen:
            self._seen.add(key)
            where = f"{device}: " if device else ""
            self.lines.append(f"{where}{call}: {' '.join(str(error).split()) or type(error).__name__}")
