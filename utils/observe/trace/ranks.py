"""The timelines of all ranks of torch.distributed as one, in rank 0's process.

They are brought there as CPU bytes by gloo, so that no simulated or real GPU has work of it. The virtual clocks of
simulated GPUs begin together, so their lanes have one clock; real ones have that of their machine.
"""

from __future__ import annotations

from typing import Any

from utils.observe.trace.event import Event
from utils.observe.trace.timeline import Timeline

_beside = None  # (the default group, a group of gloo with the same ranks)


def require_process_group() -> None:
    """RuntimeError where there is no process group."""
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        raise RuntimeError(
            "record(all_ranks=True) joins the timelines of ranks, and this process is none: call "
            "torch.distributed.init_process_group() first, or record() for this process alone."
        )


def gather(timeline: Timeline) -> None:
    """Give rank 0's `timeline` a lane for each rank. Every rank calls it; the others' timelines stay theirs."""
    import torch.distributed as dist

    rank, ranks = dist.get_rank(), dist.get_world_size()
    parts: list[Any] | None = [None] * ranks if rank == 0 else None
    dist.gather_object(_as_lanes(timeline, rank), parts, group=_gloo())
    if parts is not None:
        _join(timeline, parts)


def _gloo() -> Any:
    """A group of all ranks that takes CPU tensors: the default group, or one made beside it, once."""
    global _beside
    import torch.distributed as dist

    backends = dist.get_backend_config()
    if "cpu:" in backends:
        return dist.group.WORLD
    if _beside is None or _beside[0] is not dist.group.WORLD:
        _beside = dist.group.WORLD, dist.new_group(backend=f"cpu:gloo,{backends}")
    return _beside[1]


def _as_lanes(timeline: Timeline, rank: int) -> tuple:
    """What is joined of one rank's timeline: its devices have the rank's name."""
    own = {device for event in timeline.events for device in (event.device, event.other)}
    used = [device for device in timeline.devices if device in own]
    names: dict[str | None, str] = {
        device: f"rank {rank}" if len(used) == 1 else f"rank {rank}, {device}" for device in used
    }
    events = [
        tuple(event._replace(device=names.get(event.device, event.device), other=names.get(event.other, event.other)))
        for event in timeline.events
    ]
    times = timeline.begin, timeline.end, timeline.origin
    return list(names.values()), events, times, timeline.source, timeline.notes


def _join(timeline: Timeline, parts: list[tuple]) -> None:
    devices, events, times, sources, notes = zip(*parts, strict=True)
    shifts = [(origin - timeline.origin) / 1e6 for _, _, origin in times]
    timeline.devices = tuple(device for each in devices for device in each)
    all_of_them = (_shifted(Event(*event), by) for each, by in zip(events, shifts, strict=True) for event in each)
    timeline.events = tuple(sorted(all_of_them, key=lambda event: event.start))
    timeline.begin = min(begin + by for (begin, _, _), by in zip(times, shifts, strict=True))
    timeline.end = max(end + by for (_, end, _), by in zip(times, shifts, strict=True))
    timeline.source = "; ".join(dict.fromkeys(sources)) + f"; {len(parts)} ranks"
    timeline.notes = list(dict.fromkeys(note for each in notes for note in each))


def _shifted(event: Event, by: float) -> Event:
    launched = None if event.launched is None else event.launched + by
    return event._replace(start=event.start + by, end=event.end + by, launched=launched) if by else event
