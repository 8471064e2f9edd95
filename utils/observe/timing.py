"""How long something takes on devices that work asynchronously: warmed up, synchronised, repeated.

print(measure(train_one_step))
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

import simgpu
from utils.observe.devices import is_simulated, name_of, synchronize


@dataclass(frozen=True)
class Measurement:
    """Some runs of one piece of work, each in seconds, with what they were measured on and how."""

    seconds: tuple[float, ...]
    source: str  # "measured on ..." or "simulated: ..."
    how: str  # which clock
    warm_up: int  # runs before, not counted

    @property
    def median(self) -> float:
        """Seconds: half of the runs took less. One slow run does not move it."""
        return statistics.median(self.seconds)

    @property
    def mean(self) -> float:
        """Seconds, on average."""
        return statistics.fmean(self.seconds)

    @property
    def spread(self) -> float:
        """Standard deviation in seconds; 0 for a single run."""
        return statistics.stdev(self.seconds) if len(self.seconds) > 1 else 0.0

    def __str__(self) -> str:
        runs = f"{len(self.seconds)} run{'s' if len(self.seconds) > 1 else ''} after {self.warm_up} to warm up"
        return (
            f"median {_text(self.median)}, mean {_text(self.mean)} ± {_text(self.spread)} "
            f"({runs}; {self.how}; {self.source})"
        )


def measure(work: Callable[[], object], *devices, repeats: int = 10, warm_up: int = 2) -> Measurement:
    """Time `work()`, with every device done before the clock starts and before it stops.

    Without devices: all simulated GPUs, or all real ones, or the CPU. The time is taken from the virtual clock where
    the devices are simulated on it (exact, the same in every run on every machine), from events on the device for one
    real GPU, and from the wall clock otherwise. Raises ValueError for fewer than one repeat, and what `work` raises.
    """
    if repeats < 1 or warm_up < 0:
        raise ValueError(
            f"measure(repeats={repeats}, warm_up={warm_up}): at least 1 repeat, and no fewer than 0 to warm up"
        )
    names = list(dict.fromkeys(map(str, devices))) or _devices_here()
    for _ in range(warm_up):
        work()
    run, how = _stopwatch(names)
    seconds = []
    for _ in range(repeats):
        for name in names:
            synchronize(name)
        seconds.append(run(work))
    return Measurement(tuple(seconds), _source(names), how, warm_up)


def between_events(device: torch.device | str, work: Callable[[], object]) -> Callable[[], float]:
    """Call `work()` between two events in the current stream of `device`, and wait for nothing.

    What is returned waits for the second event, and returns the milliseconds between the two.
    """
    gpu = torch.get_device_module(torch.device(device))
    stream = gpu.current_stream(device)
    start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
    stream.record_event(start)
    work()
    stream.record_event(end)

    def milliseconds() -> float:
        end.synchronize()
        return start.elapsed_time(end)

    return milliseconds


def _devices_here() -> list[str]:
    if simgpu.is_enabled():
        return [f"simgpu:{index}" for index in range(torch.get_device_module("simgpu").device_count())]
    return [f"cuda:{index}" for index in range(torch.cuda.device_count())] or ["cpu"]


def _source(names: list[str]) -> str:
    if any(map(is_simulated, names)):
        return f"simulated: {simgpu.describe()}"
    return "measured on " + ", ".join(dict.fromkeys(map(name_of, names)))


def _stopwatch(names: list[str]) -> tuple[Callable[[Callable], float], str]:
    """What times one run in seconds, and its name."""

    def by(clock: Callable[[], float]):
        def run(work) -> float:
            begin = clock()
            work()
            for name in names:
                synchronize(name)
            return clock() - begin

        return run

    def by_events(work) -> float:
        with torch.cuda.device(names[0]):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            work()
            end.record()
            end.synchronize()
        return start.elapsed_time(end) / 1e3

    if all(map(is_simulated, names)) and simgpu.settings().clock == "virtual":
        run = by(simgpu.now)
        return lambda work: round(run(work), 12), "virtual clock, exact"  # below a picosecond is the sum's rounding
    if len(names) == 1 and names[0].startswith("cuda"):
        return by_events, "events on the device"
    return by(time.perf_counter), "wall clock, devices synchronised"


def _text(seconds: float) -> str:
    """Seconds in the unit that reads best: `1.20 ms`."""
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds >= 1 / factor:
            return f"{seconds * factor:.4g} {unit}"
    return f"{seconds * 1e6:.3g} µs"
