"""Which device does what at each moment, for all events of a timeline at once.

The moments at which anything starts or ends cut the time from begin to end into pieces in which nothing changes. A set
of times is an array that says for each piece whether it is in, so that sets are combined with `&`, `|` and `~`, and
hundreds of thousands of events take no longer to be asked about than to be read.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from utils.observe.intervals import Intervals
from utils.observe.trace.event import Event

Times = np.ndarray  # of bool, one for each piece
NOWHERE = -1


class Occupancy:
    """When the events of each kind ran, between `begin` and `end`. `events` are those of `utils.observe.trace`."""

    def __init__(self, events: Sequence[Event], begin: float, end: float):
        columns = dict.fromkeys(Event._fields, ()) | dict(zip(Event._fields, zip(*events, strict=True), strict=False))
        starts = np.clip(np.array(columns["start"], dtype=float), begin, end)
        ends = np.clip(np.array(columns["end"], dtype=float), starts, end)
        self._moments = np.unique(np.concatenate((starts, ends, (begin, end))))
        self._from, self._to = (np.searchsorted(self._moments, each) for each in (starts, ends))
        self._kernels: dict[str, Times] = {}  # asked for more often than all else
        self._numbers: dict[str | None, int] = {}  # text is compared once, here, and numbers afterwards
        self._device, self._other, self._phase, kind = (
            self._numbered(columns[name]) for name in ("device", "other", "phase", "kind")
        )
        self._is_kernel, self._is_comm = kind == self._number("kernel"), kind == self._number("comm")

    def kernels(self, device: str) -> Times:
        """When a kernel ran on a device."""
        if device not in self._kernels:
            self._kernels[device] = self._during(self._is_kernel & self._on(device))
        return self._kernels[device]

    def kernels_of(self, device: str, phase: str) -> Times:
        """When a kernel of one phase ran on a device."""
        return self._during(self._is_kernel & self._on(device) & (self._phase == self._number(phase)))

    def copies(self, device: str) -> Times:
        """When a copy to or from a device was on its way."""
        return self._during(~self._is_kernel & ~self._is_comm & self._touching(device))

    def communication(self, device: str) -> Times:
        """When a device took part in a collective, or in a message from one rank to another."""
        return self._during(self._is_comm & self._on(device))

    def elsewhere(self, device: str) -> Times:
        """When anything ran that a device had no part in."""
        return self._during(~self._touching(device))

    def has_communication(self) -> bool:
        return bool(self._is_comm.any())

    def intervals(self, times: Times) -> Intervals:
        """A set of times as a sorted list of (start, end)."""
        moments = self._ends(times).tolist()
        return list(zip(moments[::2], moments[1::2], strict=True))

    def seconds(self, times: Times) -> float:
        """How long a set of times is."""
        moments = self._ends(times)
        return sum((moments[1::2] - moments[::2]).tolist())  # in their order, to the last digit

    def _ends(self, times: Times) -> np.ndarray:
        """Where the intervals of a set start and end, in turns."""
        return self._moments[np.flatnonzero(np.diff(times, prepend=False, append=False))]

    def _numbered(self, names: Sequence[str | None]) -> np.ndarray:
        for name in set(names):
            self._numbers.setdefault(name, len(self._numbers))
        return np.array(list(map(self._numbers.__getitem__, names)), dtype=int)

    def _number(self, name: str) -> int:
        return self._numbers.get(name, NOWHERE)

    def _on(self, device: str) -> np.ndarray:
        return self._device == self._number(device)

    def _touching(self, device: str) -> np.ndarray:
        return self._on(device) | (self._other == self._number(device))

    def _during(self, chosen: np.ndarray) -> Times:
        length = len(self._moments)
        begun = np.bincount(self._from[chosen], minlength=length)
        ended = np.bincount(self._to[chosen], minlength=length)
        return np.cumsum(begun - ended)[:-1] > 0
