"""A timeline: the kernels, copies and communication of some devices, and what they say about busy and idle time."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from utils.common.files import write_whole
from utils.observe.intervals import Intervals
from utils.observe.trace.event import PHASES, Event
from utils.observe.trace.occupancy import Occupancy

VERSION = 1
CAUSES = ("another device", "a copy", "the host")
COMMUNICATION = "communication"  # a fourth cause, where ranks communicate


class Meeting(NamedTuple):
    """A collective or message as all of its devices saw it. Times in seconds."""

    name: str
    bytes: int
    start: float  # when the last of them was ready
    end: float
    last: str  # which that was
    waited: dict[str, float]  # for it, by device
    label: str  # of its work


@dataclass
class Timeline:
    """The kernels and copies of some devices from `begin` to `end`, and what they say about busy and idle time.

    A device is *busy* while a kernel runs on it, and *idle* otherwise, copies and communication included. Every idle
    moment has a cause: a *copy* to or from the device is on its way; or else it takes part in *communication* between
    ranks; or else *another device* is at work; or else none is, and all wait for *the host*. `source` says what it
    was measured on or simulated as.
    """

    devices: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()
    begin: float = 0.0
    end: float = 0.0
    source: str = ""
    notes: list[str] = field(default_factory=list)
    origin: float = 0.0  # where on the profiler's clock, in microseconds, time 0 is

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
        at = self._occupancy()
        return at.seconds(at.kernels(self._name(device)))

    def idle(self, device) -> float:
        """Seconds in which no kernel ran on a device."""
        at = self._occupancy()
        return at.seconds(~at.kernels(self._name(device)))

    def utilization(self) -> dict[str, float]:
        """For each device the busy share of the span, 0 to 1."""
        return {device: self.busy(device) / self.span if self.span else 0.0 for device in self.devices}

    def bubble_fraction(self) -> float:
        """The idle share of all devices together, 0 to 1: (p x span - busy) / (p x span) for p devices.

        This is the bubble over the total. Over the ideal time it would be idle / busy.
        """
        shares = self.utilization().values()
        return 1 - sum(shares) / len(shares) if shares else 0.0

    def waits(self, device) -> dict[str, float]:
        """Idle seconds of a device by cause: another device, a copy, the host; and where any device communicates,
        communication. Their sum is `idle(device)`."""
        at, name = self._occupancy(), self._name(device)
        idle, copying, talking = ~at.kernels(name), at.copies(name), at.communication(name)
        rest = idle & ~copying & ~talking
        others_at_work = at.elsewhere(name)
        causes = rest & others_at_work, idle & copying, rest & ~others_at_work
        waits = dict(zip(CAUSES, map(at.seconds, causes), strict=True))
        return waits | ({COMMUNICATION: at.seconds(idle & talking & ~copying)} if at.has_communication() else {})

    # --- communication ------------------------------------------------------------------------------------------

    def meetings(self) -> list[Meeting]:
        """Collectives and messages between ranks, oldest first: whose ends meet at one moment is one of them.

        That is so on simulated GPUs, recorded with `record(all_ranks=True)`. Real clocks differ by microseconds, so
        that there each rank's part stands alone.
        """
        together: dict[tuple, list[Event]] = defaultdict(list)
        for event in self.events:
            if event.kind == "comm":
                together[event.other, event.end, event.bytes].append(event)
        return sorted(map(_meeting, together.values()), key=lambda meeting: meeting.start)

    def waited_for(self):
        """A pandas table of milliseconds in which the device of a row waited, in communication, for that of a column,
        which came last."""
        import pandas

        table = pandas.DataFrame(0.0, index=list(self.devices), columns=list(self.devices))
        for meeting in self.meetings():
            for device, seconds in meeting.waited.items():
                if device != meeting.last and device in table.index and meeting.last in table.columns:
                    table.loc[device, meeting.last] += seconds * 1e3
        table.index.name = "ms in which a row waits for a column"
        return table.round(3)

    # --- work ---------------------------------------------------------------------------------------------------

    def phases(self, device) -> dict[str, float]:
        """Seconds of a device's kernels in forward, backward and optimizer, and of its copies."""
        at, name = self._occupancy(), self._name(device)
        times = {phase: at.kernels_of(name, phase) for phase in PHASES} | {"copies": at.copies(name)}
        return {part: at.seconds(each) for part, each in times.items()}

    def moved(self) -> dict[tuple[str, str], int]:
        """Bytes copied from one place to another, by (from, to); the host is "cpu"."""
        sums: dict[tuple[str, str], int] = defaultdict(int)
        for event in self.events:
            if event.is_copy:
                way: Any = (event.other, event.device) if event.kind == "h2d" else (event.device, event.other)
                sums[way] += event.bytes
        return dict(sums)

    def table(self):
        """A pandas table, one row a device. Times in milliseconds, copies in MB."""
        import pandas

        rows, moved = {}, self.moved()
        for device in self.devices:
            busy, waits = self.busy(device), self.waits(device)
            row = {"busy ms": busy * 1e3, "idle ms": self.idle(device) * 1e3}
            row["utilization %"] = 100 * busy / self.span if self.span else 0.0
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

    @classmethod
    def open(cls, path, step: int | None = None) -> Timeline:
        """A timeline of a trace that torch.profiler wrote (`export_chrome_trace`), as .json or .json.gz.

        Of the whole file, or of the step of that number where `profiler.step()` marked steps. NCCL's kernels are
        communication, and no work. ValueError, one line, for a file that is no such trace or has no GPU in it.
        """
        from utils.observe.trace import profile

        return profile.read_profile(path, step)

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
            f"{path}: a timeline of version {version}, and this course reads version {VERSION}. Record it again."
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
                            "tid": _thread(event),
                            "name": f"{event.kind} {event.other}" if event.is_copy else event.name,
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
        """Worked out again only where what it is made from has changed."""
        source = tuple(self.events), self.begin, self.end
        kept = vars(self).get("_kept")  # no field: it is no part of what a timeline is
        if kept is None or kept[0] != source:
            kept = self._kept = source, Occupancy(*source)
        return kept[1]


def _meeting(events: list[Event]) -> Meeting:
    last = max(events, key=lambda event: event.start)
    waited = {event.device: last.start - event.start for event in events}
    name = " and ".join(sorted({event.name for event in events}))
    return Meeting(name, last.bytes, last.start, last.end, last.device, waited, last.label)


def _thread(event: Event) -> str:
    """The row of an event in a Chrome trace, within its device."""
    if event.kind == "comm":
        return COMMUNICATION
    return f"stream {event.stream}" + (", copies" if event.is_copy else "")
