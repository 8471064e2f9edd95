"""Samples of simulated GPUs, from the log of the simulated machine."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable
from itertools import accumulate, islice

from utils.monitor.samples import Sample, Trouble, counted, number_of

SAMPLE_PERIOD = 1 / 6  # seconds over which a simulated GPU's utilisation is taken: the shortest period of NVML
MOST_ROUNDS = 20_000  # of one run on the virtual clock, which may last for days; the samples then lie further apart

DEVICE, KIND, START, END = 0, 3, 4, 5  # where simgpu.Record has what is needed here


def _clock() -> str | None:
    """Which clock the simulated GPUs have, None where there are none."""
    from utils.simgpu.hardware import machine

    return machine.settings.clock if machine.settings else None


class SimulatedSource:
    """Utilisation and memory of simulated GPUs. Times in seconds of the machine's clock.

    `torch.simgpu.utilization` searches the log for each answer, all 200,000 records of it where a GPU is idle
    (30 ms), and fails where another thread adds a record meanwhile. So here each record is read once.
    """

    def __init__(self, devices: list[str]):
        if _clock() is None:
            raise RuntimeError(
                f"GpuMonitor: there is no {devices[0]} yet: devices(2) or simgpu.enable(count=2) switches them on"
            )
        from utils.simgpu.hardware import machine

        self._machine = machine
        self._devices = devices
        self.trouble = Trouble()
        self._describe()

    def _describe(self) -> None:
        gpus = [self._machine.gpu(device) for device in self._devices]
        self._gpus = self._machine.gpus
        self.virtual = _clock() == "virtual"
        self.label = f"simulated: {counted([gpu.profile.name for gpu in gpus])}, {_clock()} clock"

    def begin(self) -> None:
        """The run starts now. Kernels that were given to a GPU before and still run belong to it."""
        self.trouble = Trouble()
        self._describe()
        self._began = self._machine.clock.now()
        self._newest = None  # record that was read
        self._spans = {number_of(device): [] for device in self._devices}  # [start, end] of what kernels ran
        self._known_from = dict.fromkeys(self._spans, 0.0)
        if self._machine.log:
            # A full log is gone through, which takes 10 ms, only where something still runs.
            running = any(gpu.free > self._began for gpu in self._gpus)
            records = list(self._machine.log) if running else [self._machine.log[-1]]
            self._newest = records[-1]
            self._add(record for record in records if record[END] > self._began)

    def end(self) -> None:
        """Nothing to close."""

    def read(self, device: str) -> tuple[float | None, int | None, int | None]:
        """Utilisation in percent, memory used and total in bytes, now; None for what cannot be read."""
        return self._attempt("utilisation", device, self._utilisation), *self._memory(device)

    def past(self, hz: float) -> list[Sample]:
        """Samples at every 1/hz s from the start until now, and one now, for which alone memory is known."""
        for device in self._devices:
            self._attempt("utilisation", device, lambda number: self._read_log())
        if self._machine.gpus is not self._gpus:
            return []
        lasted = self._machine.clock.now() - self._began
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
            return func(number_of(device))
        except Exception as error:
            self.trouble.add(call, device, error)
            return None

    def _utilisation(self, number: int) -> float | None:
        self._read_log()
        now = self._machine.clock.now()
        begin = max(now - SAMPLE_PERIOD, self._began)
        self._forget_until(begin)
        if now <= begin or begin < self._known_from[number]:
            return None
        busy = sum(max(0.0, min(end, now) - max(start, begin)) for start, end in self._spans[number])
        return min(100.0, 100 * busy / (now - begin))

    def _shares(self, device: str, times: list[float]) -> list[float | None]:
        """Utilisation in percent at many times since the start, by sums over what ran before each."""
        if self._machine.log is None:
            return [None] * len(times)
        spans = sorted(self._spans[number_of(device)])
        starts = [start for start, _ in spans]
        sums = [0.0, *accumulate(end - start for start, end in spans)]

        def busy_until(moment: float) -> float:
            k = bisect_right(starts, moment)
            return sums[k] - max(0.0, spans[k - 1][1] - moment) if k else 0.0

        shares = []
        for at in times:
            begin, end = self._began + max(0.0, at - SAMPLE_PERIOD), self._began + at
            known = end > begin >= self._known_from[number_of(device)]
            share = 100 * (busy_until(end) - busy_until(begin)) / (end - begin) if known else None
            shares.append(share if share is None else min(100.0, max(0.0, share)))
        return shares

    def _read_log(self) -> None:
        """Add the kernels that were logged since the last time. RuntimeError where the log cannot tell."""
        log = self._machine.log
        if self._machine.gpus is not self._gpus:
            raise RuntimeError("the simulated GPUs were enabled anew while the monitor ran: start it after that")
        if log is None:
            raise RuntimeError("the log is off, and utilisation is read from it: simgpu.keep_log() turns it on")
        most, found = 256, None
        while True:
            # One call into C, during which no other thread can add a record.
            records = list(islice(reversed(log), most))
            found = next((k for k, record in enumerate(records) if record is self._newest), None)
            if found is not None or len(records) < most:
                break
            most *= 8
        new = records[:found]
        if not new:
            return
        dropped = found is None and len(new) == log.maxlen
        self._newest = new[0]
        self._add(reversed(new))
        if dropped:
            # Nobody knows what ran on a GPU before its first record that was kept.
            for number in self._spans:
                starts = (record[START] for record in new if record[DEVICE] == number and record[KIND] == "kernel")
                self._known_from[number] = min(starts, default=self._machine.clock.now())
            error = RuntimeError(f"the log kept the newest {log.maxlen} records only: simgpu.keep_log(n) keeps more")
            self.trouble.add("utilisation", "simgpu", error)

    def _add(self, records: Iterable[tuple]) -> None:
        for record in records:
            if record[KIND] == "kernel" and record[DEVICE] in self._spans:
                spans, start, end = self._spans[record[DEVICE]], record[START], record[END]
                if spans and spans[-1][1] == start:  # back to back: one span, so that few are kept of a busy GPU
                    spans[-1][1] = end
                else:
                    spans.append([start, end])

    def _forget_until(self, moment: float) -> None:
        for number, spans in self._spans.items():
            if spans and spans[0][1] <= moment:
                self._spans[number] = [span for span in spans if span[1] > moment]
