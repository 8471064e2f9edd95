"""Samples of simulated GPUs, from the log of the simulated machine."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import TYPE_CHECKING

from utils.observe.monitor.samples import Sample, Trouble, counted, device_index

if TYPE_CHECKING:
    from simgpu import Record

SAMPLE_PERIOD = 1 / 6  # seconds over which a simulated GPU's utilization is taken: the shortest period of NVML
MOST_ROUNDS = 20_000  # of one run on the virtual clock, which may last for days; the samples then lie further apart


def _clock() -> str | None:
    """Which clock the simulated GPUs have, None where there are none."""
    import simgpu

    return simgpu.settings().clock if simgpu.is_enabled() else None


class SimulatedSource:
    """Utilization and memory of simulated GPUs. Times in seconds of the machine's clock.

    `torch.simgpu.utilization` searches the log for each answer, all 200,000 records of it where a GPU is idle
    (30 ms), and fails where another thread adds a record meanwhile. So here each record is read once.
    """

    def __init__(self, devices: list[str]):
        if _clock() is None:
            raise RuntimeError(
                f"GpuMonitor: there is no {devices[0]} yet: devices(2) or simgpu.enable(count=2) switches them on"
            )
        import simgpu

        self._simgpu = simgpu
        self._devices = devices
        self.trouble = Trouble()
        self._describe()

    def _describe(self) -> None:
        import torch

        for device in self._devices:
            torch.get_device_module("simgpu").get_device_properties(device)  # raises for one that there is not
        names = [self._simgpu.settings().gpu.name] * len(self._devices)
        self._generation = self._simgpu.generation()
        self.virtual = _clock() == "virtual"
        self.label = f"simulated: {counted(names)}, {_clock()} clock"

    def begin(self) -> None:
        """The run starts now. Kernels that were given to a GPU before and still run belong to it."""
        self.trouble = Trouble()
        self._describe()
        self._began = self._simgpu.now()
        self._records = self._simgpu.Reader()
        self._spans = {device_index(device): [] for device in self._devices}  # [start, end] of what kernels ran
        self._known_from = dict.fromkeys(self._spans, 0.0)

    def end(self) -> None:
        """Nothing to close."""

    def read(self, device: str) -> tuple[float | None, int | None, int | None]:
        """Utilization in percent, memory used and total in bytes, now; None for what cannot be read."""
        return self._attempt("utilization", device, self._utilization), *self._memory(device)

    def past(self, hz: float) -> list[Sample]:
        """Samples at every 1/hz s from the start until now, and one now, for which alone memory is known."""
        for device in self._devices:
            self._attempt("utilization", device, lambda number: self._read_log())
        if self._simgpu.generation() != self._generation:
            return []
        lasted = self._simgpu.now() - self._began
        step = max(1 / hz, lasted / MOST_ROUNDS)
        times = [k * step for k in range(1, math.ceil(lasted / step))]
        shares = {device: self._shares(device, [*times, lasted]) for device in self._devices}
        samples = [Sample(at, d, shares[d][k], None, None) for k, at in enumerate(times) for d in self._devices]
        return samples + [Sample(lasted, d, shares[d][-1], *self._memory(d)) for d in self._devices]

    def _memory(self, device: str) -> tuple[int | None, int | None]:
        import torch

        module = torch.get_device_module("simgpu")
        used = self._attempt("memory_allocated", device, module.memory_allocated)
        properties = self._attempt("get_device_properties", device, module.get_device_properties)
        return used, properties and properties.total_memory

    def _attempt(self, call: str, device: str, func: Callable):
        try:
            return func(device_index(device))
        except Exception as error:
            self.trouble.add(call, device, error)
            return None

    def _utilization(self, number: int) -> float | None:
        self._read_log()
        now = self._simgpu.now()
        begin = max(now - SAMPLE_PERIOD, self._began)
        self._forget_until(begin)
        if now <= begin or begin < self._known_from[number]:
            return None
        busy = sum(max(0.0, min(end, now) - max(start, begin)) for start, end in self._spans[number])
        return min(100.0, 100 * busy / (now - begin))

    def _shares(self, device: str, times: list[float]) -> list[float | None]:
        """Utilization in percent at many times since the start, by sums over what ran before each."""
        if not self._simgpu.log_length():
            return [None] * len(times)
        spans = sorted(self._spans[device_index(device)])
        starts = [start for start, _ in spans]
        sums = [0.0, *accumulate(end - start for start, end in spans)]

        def busy_until(moment: float) -> float:
            k = bisect_right(starts, moment)
            return sums[k] - max(0.0, spans[k - 1][1] - moment) if k else 0.0

        shares = []
        for at in times:
            begin, end = self._began + max(0.0, at - SAMPLE_PERIOD), self._began + at
            known = end > begin >= self._known_from[device_index(device)]
            share = 100 * (busy_until(end) - busy_until(begin)) / (end - begin) if known else None
            shares.append(share if share is None else min(100.0, max(0.0, share)))
        return shares

    def _read_log(self) -> None:
        """Add the kernels that were logged since the last time. RuntimeError where the log cannot tell."""
        new = self._records.new()
        self._add(new)
        if self._records.missed:
            # It is not known what ran on a GPU before its first record that was kept.
            for number in self._spans:
                starts = (record.start for record in new if record.device == number and record.kind == "kernel")
                self._known_from[number] = min(starts, default=self._simgpu.now())
            most = self._simgpu.log_length()
            error = RuntimeError(f"the log kept the newest {most} records only: simgpu.keep_log(n) keeps more")
            self.trouble.add("utilization", "simgpu", error)

    def _add(self, records: Iterable[Record]) -> None:
        for record in records:
            if record.kind == "kernel" and record.device in self._spans:
                spans, start, end = self._spans[record.device], record.start, record.end
                if spans and spans[-1][1] == start:  # back to back: one span, so that few are kept of a busy GPU
                    spans[-1][1] = end
                else:
                    spans.append([start, end])

    def _forget_until(self, moment: float) -> None:
        for number, spans in self._spans.items():
            if spans and spans[0][1] <= moment:
                self._spans[number] = [span for span in spans if span[1] > moment]
