"""What each device did, and when: recorded from simulated GPUs (their log) or from CUDA (torch.profiler).

    with record() as timeline:
        train_one_step()
    timeline.table()

A `Timeline` is plain data and needs no GPU: it can be saved, sent, loaded and studied elsewhere. Times are seconds.
"""

from __future__ import annotations

import json
import tempfile
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, fields
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import NamedTuple

from utils import intervals
from utils.devices import is_simulated, name_of, synchronize
from utils.files import write_whole
from utils.intervals import Intervals
from utils.occupancy import Occupancy, Times

VERSION = 1
PHASES = ("forward", "backward", "optimizer")
CAUSES = ("another device", "a copy", "the host")


class Event(NamedTuple):
    """One kernel or copy. `start`, `end` and `launched` (when the host gave it away) in seconds."""

    device: str
    stream: int
    name: str
    kind: str  # kernel, h2d, d2h or d2d
    phase: str  # forward, backward or optimizer
    start: float
    end: float
    launched: float | None = None
    bytes: int = 0
    flops: int = 0
    other: str | None = None  # the other end of a copy: a device, or "cpu"
    module: str = ""
    label: str = ""  # what `micro_batch` or `simgpu.label` called it

    @property
    def is_kernel(self) -> bool:
        return self.kind == "kernel"


@dataclass
class Timeline:
    """The kernels and copies of some devices from `begin` to `end`, and what they say about busy and idle time.

    A device is *busy* while a kernel runs on it, and *idle* otherwise, copies included. Every idle moment has a
    cause: a *copy* to or from the device is on its way; or else *another device* is at work; or else nobody is, and
    all wait for *the host*. `source` says what it was measured on or simulated as.
    """

    devices: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()
    begin: float = 0.0
    end: float = 0.0
    source: str = ""
    notes: list[str] = field(default_factory=list)

    # --- busy and idle ----------------------------------------------------------------------------------------

    @property
    def span(self) -> float:
        """Seconds from begin to end."""
        return self.end - self.begin

    def busy_times(self, device) -> Intervals:
        """When a kernel ran on a device, as (start, end)."""
        at = self._occupancy()
        return at.intervals(at.kernels(self._name(device)))

    def idle_times(self, device) -> Intervals:
        """When no kernel ran on a device, as (start, end)."""
        at = self._occupancy()
        return at.intervals(~at.kernels(self._name(device)))

    def copy_times(self, device) -> Intervals:
        """When a copy to or from a device was on its way, as (start, end)."""
        at = self._occupancy()
        return at.intervals(at.copies(self._name(device)))

    def busy(self, device) -> float:
        """Seconds in which a kernel ran on a device."""
        return intervals.length(self.busy_times(device))

    def idle(self, device) -> float:
        """Seconds in which no kernel ran on a device."""
        return intervals.length(self.idle_times(device))

    def utilisation(self) -> dict[str, float]:
        """For each device the busy share of the span, 0 to 1."""
        return {device: self.busy(device) / self.span if self.span else 0.0 for device in self.devices}

    def bubble_fraction(self) -> float:
        """The idle share of all devices together, 0 to 1: (p x span - busy) / (p x span) for p devices.

        This is the bubble over the total. Over the ideal time it would be idle / busy.
        """
        shares = self.utilisation().values()
        return 1 - sum(shares) / len(shares) if shares else 0.0

    def waits(self, device) -> dict[str, float]:
        """Idle seconds of a device by cause: another device, a copy, the host. Their sum is `idle(device)`."""
        at, name = self._occupancy(), self._name(device)
        idle, copying, others_at_work = ~at.kernels(name), at.copies(name), at.elsewhere(name)
        causes = idle & ~copying & others_at_work, idle & copying, idle & ~copying & ~others_at_work
        return dict(zip(CAUSES, map(self._seconds, causes), strict=True))

    # --- work ---------------------------------------------------------------------------------------------------

    def phases(self, device) -> dict[str, float]:
        """Seconds of a device's kernels in forward, backward and optimizer, and of its copies."""
        at, name = self._occupancy(), self._name(device)
        times = {phase: at.kernels_of(name, phase) for phase in PHASES} | {"copies": at.copies(name)}
        return {part: self._seconds(each) for part, each in times.items()}

    def moved(self) -> dict[tuple[str, str], int]:
        """Bytes copied from one place to another, by (from, to); the host is "cpu"."""
        sums: dict[tuple[str, str], int] = defaultdict(int)
        for event in self.events:
            if not event.is_kernel:
                way = (event.other, event.device) if event.kind == "h2d" else (event.device, event.other)
                sums[way] += event.bytes
        return dict(sums)

    def table(self):
        """A pandas table, one row a device. Times in milliseconds, copies in MB."""
        import pandas

        rows, moved = {}, self.moved()
        for device in self.devices:
            busy, waits = self.busy(device), self.waits(device)
            row = {"busy ms": busy * 1e3, "idle ms": self.idle(device) * 1e3}
            row["utilisation %"] = 100 * busy / self.span if self.span else 0.0
            row |= {f"waits for {cause} ms": seconds * 1e3 for cause, seconds in waits.items()}
            row |= {f"{phase} ms": seconds * 1e3 for phase, seconds in self.phases(device).items()}
            row["MB in"] = sum(size for (_, to), size in moved.items() if to == device) / 1e6
            row["MB out"] = sum(size for (start, _), size in moved.items() if start == device) / 1e6
            rows[device] = row
        table = pandas.DataFrame.from_dict(rows, orient="index")
        table.index.name = self.source
        return table.round(3)

    def kernels(self):
        """A pandas table of every event, oldest first. Times in milliseconds from the begin."""
        import pandas

        table = pandas.DataFrame(self.events, columns=Event._fields)
        for column in ("start", "end", "launched"):
            table[column] = (table[column] - self.begin) * 1e3
        table["ms"] = table["end"] - table["start"]
        return table

    # --- files --------------------------------------------------------------------------------------------------

    def save(self, path) -> None:
        """Write the timeline as JSON, for `Timeline.load` here or elsewhere."""
        data = {each.name: getattr(self, each.name) for each in fields(self)}
        write_whole(path, json.dumps(data | {"version": VERSION}))

    @classmethod
    def load(cls, path) -> Timeline:
        """Read a saved timeline. ValueError, one line, if the file is no such thing."""
        try:
            data = json.loads(Path(path).read_text())
            version = data.pop("version")
            if version == VERSION:
                events = tuple(Event(*event) for event in data.pop("events"))
                return cls(**data | {"events": events, "devices": tuple(data["devices"])})
        except (ValueError, TypeError, KeyError, AttributeError):
            raise ValueError(f"{path}: no timeline. Timeline.save(path) writes one.") from None
        raise ValueError(
            f"{path}: a timeline of version {version}, and this course reads version {VERSION}. Record anew."
        )

    def to_chrome(self, path) -> None:
        """Write the trace format of Chrome, which https://ui.perfetto.dev opens."""
        out = []
        for number, device in enumerate(self.devices):
            out.append({"ph": "M", "pid": number, "name": "process_name", "args": {"name": device}})
            for event in self.events:
                if event.device == device:
                    out.append(
                        {
                            "ph": "X",
                            "pid": number,
                            "tid": f"stream {event.stream}" + ("" if event.is_kernel else ", copies"),
                            "name": event.name if event.is_kernel else f"{event.kind} {event.other}",
                            "cat": event.phase,
                            "ts": (event.start - self.begin) * 1e6,
                            "dur": (event.end - event.start) * 1e6,
                            "args": {"bytes": event.bytes, "flops": event.flops, "module": event.module}
                            | ({"label": event.label} if event.label else {}),
                        }
                    )
        write_whole(path, json.dumps({"traceEvents": out, "otherData": {"source": self.source}}))

    # --- inside -------------------------------------------------------------------------------------------------

    def _name(self, device) -> str:
        name = str(device)
        if name not in self.devices:
            raise ValueError(f"This timeline has no {name}. It has: {', '.join(self.devices) or 'no devices'}")
        return name

    def _occupancy(self) -> Occupancy:
        """Worked out anew only where what it is made from has changed."""
        source = tuple(self.events), self.begin, self.end
        kept = vars(self).get("_kept")  # no field: it is no part of what a timeline is
        if kept is None or kept[0] != source:
            kept = self._kept = source, Occupancy(*source)
        return kept[1]

    def _seconds(self, times: Times) -> float:
        return intervals.length(self._occupancy().intervals(times))


# --- recording --------------------------------------------------------------------------------------------------


@contextmanager
def record(*devices) -> Iterator[Timeline]:
    """Record what devices do inside; the timeline is complete when the block ends, also by an error.

    Without arguments: all simulated GPUs, or where there are none all real ones. Raises RuntimeError where there is
    nothing to record, ValueError for devices of two kinds.
    """
    from utils import simgpu

    names = tuple(dict.fromkeys(map(str, devices))) or _all_devices()
    kinds = {"simulated" if is_simulated(name) else name.partition(":")[0] for name in names}
    if kinds not in ({"simulated"}, {"cuda"}):
        raise ValueError(f"record({', '.join(names)}): record simulated GPUs, or real ones, not both or others")
    timeline = Timeline(devices=names)
    for name in names:
        synchronize(name)
    if kinds == {"simulated"}:
        with simgpu.recording():
            timeline.begin = timeline.end = simgpu.now()
            timeline.source = f"simulated: {simgpu.describe()}"
            try:
                yield timeline
            finally:
                for name in names:
                    synchronize(name)
                timeline.end = simgpu.now()
                _fill_from_log(timeline)
    else:
        with _profiled(timeline) as profiler:
            yield timeline
        _fill_from_profile(timeline, _chrome_trace(profiler))


@contextmanager
def micro_batch(number: int) -> Iterator[None]:
    """Mark what is launched inside as the work of one micro-batch, with its backward pass where that is known."""
    import torch

    from utils import simgpu

    marked = simgpu.label(str(number)) if simgpu.is_enabled() else nullcontext()
    with marked, torch.profiler.record_function(f"{MICRO_BATCH}{number}"):
        yield


@contextmanager
def numbered(*parts) -> Iterator[None]:
    """Mark each call of a part as the work of a micro-batch: its first call inside is of number 0, and so on."""
    with ExitStack() as hooks:
        for part in parts:
            for hook in _numbering(part):
                hooks.callback(hook.remove)
        yield


def _numbering(part):
    """The hooks that open a mark before each call of a part and close it behind."""
    numbers, marks = count(), []

    def before(*_) -> None:
        marks.append(micro_batch(next(numbers)))
        marks[-1].__enter__()

    def after(*_) -> None:
        marks.pop().__exit__(None, None, None)

    return part.register_forward_pre_hook(before), part.register_forward_hook(after, always_call=True)


MICRO_BATCH = "micro-batch "
WINDOW = "utils.trace window"


def _all_devices() -> tuple[str, ...]:
    import torch

    from utils import simgpu

    kind = "simgpu" if simgpu.is_enabled() else "cuda"
    count = torch.get_device_module(kind).device_count()
    if not count:
        raise RuntimeError("There is no device to record: devices(2) gives you two, simulated if need be.")
    return tuple(f"{kind}:{index}" for index in range(count))


def _fill_from_log(timeline: Timeline) -> None:
    from utils import simgpu

    def name(number) -> str | None:
        return f"simgpu:{number}" if isinstance(number, int) else number

    log = simgpu.log(since=timeline.begin)
    timeline.events = tuple(
        Event(
            name(r.device), r.stream, r.name, r.kind, r.phase, r.start, r.end, r.launched, r.bytes, r.flops,
            name(r.other), r.module, r.label,
        )
        for r in log
        # What other processes are sent is not this process's to draw.
        if r.kind != "comm" and (name(r.device) in timeline.devices or name(r.other) in timeline.devices)
    )  # fmt: skip
    if len(log) >= simgpu.LOG_LENGTH:
        timeline.notes.append(f"only the newest {len(log)} kernels and copies were kept: record less at a time")


# --- CUDA -------------------------------------------------------------------------------------------------------


@contextmanager
def _profiled(timeline: Timeline):
    import torch

    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    timeline.source = "measured on " + ", ".join(dict.fromkeys(name_of(name) for name in timeline.devices))
    with torch.profiler.profile(activities=activities) as profiler, torch.profiler.record_function(WINDOW):
        try:
            yield profiler
        finally:
            for name in timeline.devices:
                synchronize(name)


def _chrome_trace(profiler) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        return json.loads(path.read_text())


def _fill_from_profile(timeline: Timeline, trace: dict) -> None:
    """Kernels and copies from a trace of torch.profiler, whose times are in microseconds.

    A kernel belongs to the host's call that launched it (they share a correlation number), and so to the backward
    pass, the optimizer or the micro-batch that the call stands in.
    """
    events = [event for event in trace["traceEvents"] if event.get("ph") == "X"]
    windows = [event for event in events if event["name"] == WINDOW and event.get("cat") == "user_annotation"]
    if not windows:
        raise RuntimeError("torch.profiler gave no trace of this block")
    timeline.begin, timeline.end = windows[0]["ts"] / 1e6, (windows[0]["ts"] + windows[0]["dur"]) / 1e6
    calls = {
        event["args"]["correlation"]: event
        for event in events
        if event.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in event.get("args", {})
    }
    backward = _Ranges(e for e in events if e["name"].startswith("autograd::engine::evaluate_function"))
    optimizer = _Ranges(e for e in events if e["name"].startswith("Optimizer.step#"))
    marks = _Ranges(e for e in events if e["name"].startswith(MICRO_BATCH) and e.get("cat") == "user_annotation")
    found = []
    for event in events:
        if event.get("cat") not in ("kernel", "gpu_memcpy", "gpu_memset"):
            continue
        args = event["args"]
        call = calls.get(args.get("correlation"))
        phase = "backward" if backward.around(call) else "optimizer" if optimizer.around(call) else "forward"
        mark = marks.around(call)
        kind, device, other = _copy_ends(event, args)
        launched = (call["ts"] + call.get("dur", 0)) / 1e6 if call else None
        start, end = event["ts"] / 1e6, (event["ts"] + event["dur"]) / 1e6
        label = mark["name"].removeprefix(MICRO_BATCH) if mark else ""
        found.append(
            Event(
                device, args.get("stream", 0), event["name"], kind, phase, start, end, launched,
                int(args.get("bytes", 0)), 0, other, "", label,
            )
        )  # fmt: skip
    wanted = (e for e in found if e.device in timeline.devices or e.other in timeline.devices)
    timeline.events = tuple(sorted(wanted, key=lambda e: e.start))


class _Ranges:
    """Ranges of a profile, to be asked which of them a call stands in. Of several it is the first that was given."""

    def __init__(self, ranges: Iterable[dict]):
        threads: dict[object, list[dict]] = defaultdict(list)
        for each in ranges:
            threads[each["tid"]].append(each)
        self._threads = {thread: _changes(of_thread) for thread, of_thread in threads.items()}

    def around(self, call: dict | None) -> dict | None:
        """The range of its own thread that a call stands in, or None."""
        if call is None or call["tid"] not in self._threads:
            return None
        moments, current = self._threads[call["tid"]]
        return current[bisect_right(moments, (call["ts"], STARTS))]


STARTS, ENDS = 0, 1  # at one moment, what starts there comes first: a range has both its ends


def _changes(ranges: list[dict]) -> tuple[list[tuple], list[dict | None]]:
    """When a range of one thread starts or ends; and the first range that is open before all that, and after each."""
    starts = [(each["ts"], STARTS, number) for number, each in enumerate(ranges)]
    ends = [(each["ts"] + each.get("dur", 0), ENDS, number) for number, each in enumerate(ranges)]
    moments, current, still_open, ended = [], [None], [], set()
    for moment, kind, number in sorted(starts + ends):
        if kind == STARTS:
            heappush(still_open, number)
        else:
            ended.add(number)
        while still_open and still_open[0] in ended:
            heappop(still_open)
        moments.append((moment, kind))
        current.append(ranges[still_open[0]] if still_open else None)
    return moments, current


def _copy_ends(event: dict, args: dict) -> tuple[str, str, str | None]:
    """(kind, device, other end) of an event of the GPU. The profiler names copies `Memcpy HtoD (...)`."""
    device = f"cuda:{args.get('device', 0)}"
    name = event["name"]
    if event["cat"] != "gpu_memcpy" or "DtoD" in name:
        return "kernel", device, None  # a copy inside one GPU is that GPU's work
    if "HtoD" in name:
        return "h2d", device, "cpu"
    if "DtoH" in name:
        return "d2h", device, "cpu"
    source, target = args.get("fromDevice", args.get("src_device")), args.get("toDevice", args.get("dst_device"))
    if source is None or target is None:
        return "d2d", device, None
    return "d2d", f"cuda:{source}", f"cuda:{target}"
