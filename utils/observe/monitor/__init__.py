"""How busy each GPU is, and how full its memory: sampled while a training loop runs.

    with GpuMonitor(["simgpu:0", "simgpu:1"]) as m:
        train()
    m.table()

On NVIDIA GPUs the numbers are NVML's, read by UUID. Its utilization is the share of the last sample period, 1/6 s
to 1 s, in which at least one kernel ran: one thread that never stops keeps it at 100%, so it says how long a GPU
worked and not how well. Its memory is all that is taken on the GPU, by every process. On simulated GPUs utilization
means the same, over 1/6 s, and memory is what tensors hold. What cannot be read is None, shown "n/a", and
`GpuMonitor.trouble` says why. Importing this module imports neither torch nor pynvml.
"""

from __future__ import annotations

import math
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from utils.common.files import write_whole
from utils.observe.monitor.nvml import open_nvml_source
from utils.observe.monitor.recording import Recorded, as_json, content_of
from utils.observe.monitor.samples import Sample, names_of
from utils.observe.monitor.simulated import SimulatedSource

ABOUT_EQUAL = 5  # points of utilization that two devices may differ by and still be called about equally busy
NOT_KNOWN = "n/a"


class Imbalance(NamedTuple):
    """The busiest and the least busy device, each with its mean utilization in percent, and one line about them.

    Both are None where no device has a value, and the same where only one has.
    """

    highest: tuple[str, float] | None
    lowest: tuple[str, float] | None
    text: str


class GpuMonitor:
    """Samples `devices` (torch.device or names such as "cuda:0", "simgpu:1") `hz` times a second in a thread.

    On simulated GPUs with the virtual clock the wall clock means nothing: no thread runs, and `stop` reads the
    samples from the log of the machine, in seconds of its clock. `trouble` has one line for each thing that failed.

    Raises ValueError for devices or an hz that make no sense, RuntimeError where NVML is missing, where simulated
    GPUs are not switched on, or for a device that does not exist.
    """

    def __init__(self, devices: Iterable, hz: float = 8):
        if isinstance(hz, bool) or not isinstance(hz, (int, float)) or not 1 <= hz <= 20:
            raise ValueError(f"GpuMonitor(hz={hz!r}): hz is the number of samples a second, from 1 to 20")
        self.devices = names_of(devices)
        self.hz = hz
        self._open = open_nvml_source if self.devices[0].startswith("cuda") else SimulatedSource
        self._prepare(self._open(self.devices))

    def _prepare(self, source) -> None:
        self._source = source
        self._samples: list[Sample] = []
        self._latest: dict[str, Sample] = {}
        self._callbacks: list[Callable[[GpuMonitor], object]] = []
        self._lock = threading.Lock()
        self._wanted_to_stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._running = False

    # --- running ------------------------------------------------------------------------------------------------

    def start(self) -> GpuMonitor:
        """Begin a new recording; an earlier one of this monitor is forgotten. RuntimeError if it is running."""
        if self._running:
            raise RuntimeError("GpuMonitor.start(): it is running already; call stop() first")
        if self._open is None:
            raise RuntimeError("GpuMonitor.start(): this is a recording; GpuMonitor(devices) takes new samples")
        self._wait_for_thread()
        self._source.begin()
        with self._lock:
            self._samples, self._latest = [], {}
        self._running = True
        self._began = time.perf_counter()
        if not self._source.virtual:
            self._wanted_to_stop = threading.Event()
            args = (self._wanted_to_stop,)
            self._thread = threading.Thread(target=self._sample_until, args=args, name="gpu-monitor", daemon=True)
            self._thread.start()
        return self

    def stop(self) -> None:
        """Take a last sample and end the thread. Called again, or without a start, it does nothing."""
        self._wanted_to_stop.set()
        self._wait_for_thread()
        if self._running and self._source.virtual:
            self._attempt("reading the log", self._read_past)
            self._call_back()
        self._running = False

    def _wait_for_thread(self) -> None:
        # A function given to on_sample may stop the monitor: then it runs in the thread that is to end.
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
            self._thread = None

    def __enter__(self) -> GpuMonitor:
        return self.start()

    def __exit__(self, *exception) -> None:
        self.stop()

    def on_sample(self, callback: Callable[[GpuMonitor], object]) -> None:
        """Call `callback(monitor)` after each round of samples, in the sampler's thread.

        What it raises goes to `trouble` and stops nothing. On the virtual clock it is called once, by `stop`.
        """
        self._callbacks.append(callback)

    def _sample_until(self, wanted_to_stop: threading.Event) -> None:
        step = 1 / self.hz
        due = step
        # Each wait is for a multiple of the step since the start, so that what a round costs does not add up.
        # Rounds that were missed are left out, not made up for.
        while not wanted_to_stop.wait(max(0.0, due - self._elapsed())):
            self._round()
            due = (math.floor(self._elapsed() / step) + 1) * step
        self._round()
        self._source.end()

    def _elapsed(self) -> float:
        return time.perf_counter() - self._began

    def _round(self) -> None:
        now = self._elapsed()
        self._attempt("sampling", lambda: self._keep(Sample(now, d, *self._source.read(d)) for d in self.devices))
        self._call_back()

    def _read_past(self) -> None:
        self._keep(self._source.past(self.hz))

    def _keep(self, samples: Iterable[Sample]) -> None:
        samples = list(samples)
        with self._lock:
            self._samples += samples
            self._latest |= {sample.device: sample for sample in samples}

    def _call_back(self) -> None:
        for callback in self._callbacks:
            self._attempt("the function given to on_sample", lambda callback=callback: callback(self))

    def _attempt(self, what: str, call: Callable) -> None:
        try:
            call()
        except Exception as error:
            self._source.trouble.add(what, "", error)

    # --- what was seen ------------------------------------------------------------------------------------------

    @property
    def samples(self) -> list[Sample]:
        """All samples so far, oldest first."""
        with self._lock:
            return list(self._samples)

    @property
    def trouble(self) -> list[str]:
        """Which call failed, on which device, and why: each once."""
        return list(self._source.trouble.lines)

    @property
    def source(self) -> str:
        """Where the numbers come from, for tables and pictures."""
        return self._source.label

    def latest(self) -> dict[str, Sample]:
        """The newest sample of each device, also while the monitor runs."""
        with self._lock:
            return dict(self._latest)

    def table(self):
        """A pandas DataFrame, one row a device. What is unknown is "n/a", never 0.

        Highest memory is the highest of the samples. Where only the last of several samples knows the memory, as
        on the virtual clock, it says so.
        """
        import pandas

        rows = []
        for samples in self._by_device().values():
            shares = [sample.utilization for sample in samples if sample.utilization is not None]
            used = [sample.used for sample in samples if sample.used is not None]
            totals = [sample.total for sample in samples if sample.total is not None]
            only_last = len(samples) > len(used) == 1 and samples[-1].used is not None
            rows.append(
                {
                    "mean utilization %": round(statistics.fmean(shares), 1) if shares else NOT_KNOWN,
                    "highest utilization %": round(max(shares), 1) if shares else NOT_KNOWN,
                    "highest memory": _in_units(max(used, default=None)) + (" (last sample)" if only_last else ""),
                    "total memory": _in_units(max(totals, default=None)),
                    "samples": len(samples),
                }
            )
        # Columns of objects: pandas would otherwise have to choose between numbers and "n/a".
        return pandas.DataFrame(rows, index=pandas.Index(self.devices, name="device"), dtype=object)

    def imbalance(self) -> Imbalance:
        """The busiest and the least busy device by mean utilization. A device without values is left out."""
        means = {
            name: statistics.fmean(shares)
            for name, samples in self._by_device().items()
            if (shares := [sample.utilization for sample in samples if sample.utilization is not None])
        }
        if not means:
            return Imbalance(None, None, "No device has a value of utilization, so there is nothing to compare.")
        high = max(means, key=means.__getitem__)
        low = min((name for name in means if name != high), key=means.__getitem__, default=high)
        busy = f"{high} was busy {means[high]:.0f}% of the time"
        if low == high:
            text = f"{busy}, and no other device has a value: comparing needs two."
        elif means[high] - means[low] < ABOUT_EQUAL:
            text = f"{busy}, {low} {means[low]:.0f}%: about the same."
        else:
            times = f"{means[high] / means[low]:.1f} times as long as {low}" if means[low] else f"and {low} never did"
            text = (
                f"{busy}, {low} {means[low]:.0f}%: {high} worked {times}. "
                f"Layers moved from {high} to {low} would share the work more evenly."
            )
        return Imbalance((high, means[high]), (low, means[low]), text)

    def _by_device(self) -> dict[str, list[Sample]]:
        samples = {name: [] for name in self.devices}
        for sample in self.samples:
            samples[sample.device].append(sample)
        return samples

    # --- recordings ---------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike) -> None:
        """Write the samples to a file that `replay` reads. It is there whole or not at all; OSError if not."""
        label = getattr(self._source, "recorded", self.source)
        write_whole(path, as_json(label, self.hz, self.devices, self.trouble, self.samples))

    @classmethod
    def replay(cls, path: str | os.PathLike) -> GpuMonitor:
        """A monitor with the samples of a file that `save` wrote. ValueError, in one line, for any other file."""
        content = content_of(path)
        monitor = cls.__new__(cls)
        monitor.devices, monitor.hz, monitor._open = content["devices"], content["hz"], None
        monitor._prepare(Recorded(content["label"], content["trouble"]))
        monitor._keep(Sample(*values) for values in content["samples"])
        return monitor


def _in_units(size: float | None) -> str:
    """Bytes as text, `1.60 GiB`, or "n/a"."""
    if size is None:
        return NOT_KNOWN
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} bytes" if unit == "bytes" else f"{size:.2f} {unit}"
        size /= 1024
    return f"{size:.2f} GiB"
