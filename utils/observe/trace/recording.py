"""Recording a timeline: from the log of simulated GPUs, or with torch.profiler from CUDA.

PyTorch is loaded by the first recording: who only draws timelines, as the grader does, has no need of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from itertools import count

from utils.observe.trace import profile, ranks
from utils.observe.trace.event import Event
from utils.observe.trace.timeline import Timeline


@contextmanager
def record(*devices, all_ranks: bool = False) -> Iterator[Timeline]:
    """Record what devices do inside; the timeline is complete when the block ends, also by an error.

    Without arguments: all simulated GPUs, or where there are none all real ones. With `all_ranks` every rank of
    torch.distributed has to record the same block; when it ends, rank 0's timeline has a lane for each rank, and the
    others have their own. Raises RuntimeError where there is nothing to record, or no process group for `all_ranks`,
    ValueError for devices of two kinds.
    """
    from utils.observe.devices import is_simulated, synchronize

    names = tuple(dict.fromkeys(map(str, devices))) or _all_devices()
    kinds = {"simulated" if is_simulated(name) else name.partition(":")[0] for name in names}
    if kinds not in ({"simulated"}, {"cuda"}):
        raise ValueError(f"record({', '.join(names)}): record simulated GPUs, or real ones, not both or others")
    if all_ranks:
        ranks.require_process_group()
    timeline = Timeline(devices=names)
    for name in names:
        synchronize(name)
    with _from_log(timeline) if kinds == {"simulated"} else _profiled(timeline):
        yield timeline
    if all_ranks:
        ranks.gather(timeline)


@contextmanager
def micro_batch(number: int) -> Iterator[None]:
    """Mark what is launched inside as the work of one micro-batch, with its backward pass where that is known."""
    import torch

    import simgpu

    marked = simgpu.label(str(number)) if simgpu.is_enabled() else nullcontext()
    with marked, torch.profiler.record_function(f"{profile.MICRO_BATCH}{number}"):
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


def _all_devices() -> tuple[str, ...]:
    import torch

    import simgpu

    kind = "simgpu" if simgpu.is_enabled() else "cuda"
    count = torch.get_device_module(kind).device_count()
    if not count:
        raise RuntimeError("There is no device to record: devices(2) gives you two, simulated if need be.")
    return tuple(f"{kind}:{index}" for index in range(count))


# --- simulated GPUs ---------------------------------------------------------------------------------------------


@contextmanager
def _from_log(timeline: Timeline) -> Iterator[None]:
    import simgpu
    from utils.observe.devices import synchronize

    with simgpu.recording():
        timeline.begin = timeline.end = simgpu.now()
        timeline.source = f"simulated: {simgpu.describe()}"
        try:
            yield
        finally:
            for name in timeline.devices:
                synchronize(name)
            timeline.end = simgpu.now()
            _fill(timeline)


def _fill(timeline: Timeline) -> None:
    import simgpu

    log = simgpu.log(since=timeline.begin)
    timeline.events = tuple(
        event for event in map(Event.of_record, log) if {event.device, event.other}.intersection(timeline.devices)
    )
    if len(log) >= simgpu.LOG_LENGTH:
        timeline.notes.append(f"only the newest {len(log)} kernels and copies were kept: record less at a time")


# --- CUDA -------------------------------------------------------------------------------------------------------


@contextmanager
def _profiled(timeline: Timeline) -> Iterator[None]:
    import torch

    from utils.observe.devices import name_of, synchronize

    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    timeline.source = "measured on " + ", ".join(dict.fromkeys(name_of(name) for name in timeline.devices))
    with torch.profiler.profile(activities=activities) as profiler, torch.profiler.record_function(profile.WINDOW):
        try:
            yield
        finally:
            for name in timeline.devices:
                synchronize(name)
    profile.fill_timeline(timeline, profile.exported(profiler))
