"""Timelines out of what torch.profiler writes: the trace format of Chrome, with times in microseconds.

A kernel belongs to the host's call that launched it (they share a correlation number), and so to the backward pass, the
optimizer or the micro-batch that the call stands in. PyTorch before 1.11 had other names for categories, and none for
the nodes of a backward pass but their own.
"""

from __future__ import annotations

import gzip
import json
import re
import tempfile
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from heapq import heappop, heappush
from pathlib import Path

from utils.observe.trace.event import Event
from utils.observe.trace.timeline import Timeline

MICRO_BATCH = "micro-batch "
WINDOW = "utils.observe.trace window"
STEP = "ProfilerStep#"
OLD_CATEGORIES = {
    "Kernel": "kernel",
    "Memcpy": "gpu_memcpy",
    "Memset": "gpu_memset",
    "Runtime": "cuda_runtime",
    "Operator": "cpu_op",
}
ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
BACKWARD = re.compile(r"autograd::engine::evaluate_function|.*Backward\d*$|torch::autograd::AccumulateGrad$")


def exported(profiler) -> dict:
    """The trace of a torch.profiler.profile that has ended."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        return json.loads(path.read_text())


def read_profile(path, step: int | None = None) -> Timeline:
    """What `Timeline.open` gives."""
    trace = _loaded(Path(path))
    events = _durations(trace)
    on_gpu = [event for event in events if event["cat"] in ON_GPU]
    if not on_gpu:
        raise ValueError(f"{path}: a trace without a GPU's kernels. Profile with ProfilerActivity.CUDA.")
    devices = sorted({event["args"].get("device", 0) for event in on_gpu})
    names = {each.get("id"): each.get("name") for each in trace.get("deviceProperties", [])}
    gpus = dict.fromkeys(names.get(device, "a GPU that the trace does not name") for device in devices)
    timeline = Timeline(tuple(f"cuda:{device}" for device in devices))
    timeline.source = f"measured on {', '.join(gpus)} by {Path(path).name}"
    _fill(timeline, events, *_limits(events, step, path))
    return timeline


def fill_timeline(timeline: Timeline, trace: dict) -> None:
    """Fill a timeline with what its devices did in the window that `record` marked."""
    events = _durations(trace)
    windows = [event for event in events if event["name"] == WINDOW and event["cat"] == "user_annotation"]
    if not windows:
        raise RuntimeError("torch.profiler gave no trace of this block")
    _fill(timeline, events, windows[0]["ts"], _end(windows[0]))


def _loaded(path: Path) -> dict:
    """The content of a trace file. ValueError, one line, if it is none; OSError where it cannot be read."""
    raw = path.read_bytes()
    try:
        text = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
        trace = json.loads(text)
        trace = {"traceEvents": trace} if isinstance(trace, list) else trace
        trace["traceEvents"][:0]
        return trace
    except (ValueError, EOFError, OSError, KeyError, TypeError):
        raise ValueError(
            f"{path}: no trace of torch.profiler. profiler.export_chrome_trace(path) writes one."
        ) from None


def _durations(trace: dict) -> list[dict]:
    """The events that have a length, with the categories of today."""
    found = [event for event in trace["traceEvents"] if event.get("ph") == "X" and "ts" in event]
    return [
        event | {"cat": OLD_CATEGORIES.get(event.get("cat", ""), event.get("cat", "")), "dur": event.get("dur", 0)}
        for event in found
    ]


def _limits(events: list[dict], step: int | None, path) -> tuple[float, float]:
    """From when to when: all of the trace, or the step of a number."""
    if step is None:
        return min(event["ts"] for event in events), max(map(_end, events))
    steps = {event["name"]: event for event in events if event["name"].startswith(STEP)}
    if f"{STEP}{step}" not in steps:
        numbers = ", ".join(name.removeprefix(STEP) for name in steps) or "none"
        raise ValueError(f"{path}: there is no step {step}. Steps that it has: {numbers}.")
    chosen = steps[f"{STEP}{step}"]
    return chosen["ts"], _end(chosen)


def _end(event: dict) -> float:
    return event["ts"] + event["dur"]


def _fill(timeline: Timeline, events: list[dict], begin: float, end: float) -> None:
    # From here on time begins at 0: of seconds since 1970 a float has no more than quarters of a microsecond.
    timeline.begin, timeline.end, timeline.origin = 0.0, (end - begin) / 1e6, begin
    calls = _Calls(events)
    found = (_event(work, calls, begin) for work in events if work["cat"] in ON_GPU)
    ours = (e for e in found if e.device in timeline.devices or e.other in timeline.devices)
    inside = (e for e in ours if e.start < timeline.end and e.end > timeline.begin)
    timeline.events = tuple(sorted(inside, key=lambda e: e.start))


class _Calls:
    """What the host did, to be asked about what it launched."""

    def __init__(self, events: list[dict]):
        self._by_number = {
            event["args"]["correlation"]: event
            for event in events
            if event["cat"] in ("cuda_runtime", "cuda_driver") and "correlation" in event.get("args", {})
        }
        nodes = [event for event in events if BACKWARD.match(event["name"])]
        self._backward = _Ranges(nodes)
        # Autograd has a thread for each GPU. All that is launched there is of the backward pass, also between nodes,
        # as DDP does with its buckets; the program's own thread can run nodes, too.
        own = min((e for e in events if e["cat"] in ("cpu_op", "user_annotation")), key=lambda e: e["ts"], default={})
        self._autograds = {node["tid"] for node in nodes} - {own.get("tid")}
        self._optimizer = _Ranges(e for e in events if e["name"].startswith("Optimizer.step#"))
        marked = (e for e in events if e["name"].startswith(MICRO_BATCH) and e["cat"] == "user_annotation")
        self._marks = _Ranges(marked)

    def that_launched(self, work: dict) -> dict | None:
        return self._by_number.get(work["args"].get("correlation"))

    def phase(self, call: dict | None) -> str:
        if (call and call["tid"] in self._autograds) or self._backward.around(call):
            return "backward"
        return "optimizer" if self._optimizer.around(call) else "forward"

    def label(self, call: dict | None) -> str:
        mark = self._marks.around(call)
        return mark["name"].removeprefix(MICRO_BATCH) if mark else ""


def _event(work: dict, calls: _Calls, begin: float) -> Event:
    args, call = work["args"], calls.that_launched(work)
    kind, device, other = _ends_of(work)
    start, end = (work["ts"] - begin) / 1e6, (_end(work) - begin) / 1e6
    launched = (_end(call) - begin) / 1e6 if call else None
    stream, size = args.get("stream", 0), int(args.get("bytes", 0))
    phase, label = calls.phase(call), calls.label(call)
    return Event(device, stream, work["name"], kind, phase, start, end, launched, size, 0, other, "", label)


def _ends_of(work: dict) -> tuple[str, str, str | None]:
    """(kind, device, other end) of an event of the GPU. The profiler names copies `Memcpy HtoD (...)`."""
    args, name = work["args"], work["name"]
    device = f"cuda:{args.get('device', 0)}"
    if name.startswith("nccl"):
        return "comm", device, None
    if work["cat"] != "gpu_memcpy" or "DtoD" in name:
        return "kernel", device, None  # a copy inside one GPU is that GPU's work
    if "HtoD" in name:
        return "h2d", device, "cpu"
    if "DtoH" in name:
        return "d2h", device, "cpu"
    source, target = args.get("fromDevice", args.get("src_device")), args.get("toDevice", args.get("dst_device"))
    if source is None or target is None:
        return "d2d", device, None
    return "d2d", f"cuda:{source}", f"cuda:{target}"


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
    moments: list[tuple] = []
    current: list[dict | None] = [None]
    still_open, ended = [], set()
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
