"""Which device does what at each moment, for all events of a timeline at once.

The moments at which anything starts or ends cut the time from begin to end into pieces in which nothing changes. A set
of times is an array that says for each piece whether it is in, so that sets are combined with `&`, `|` and `~`, and a
hundred thousand events take no longer to be asked about than to be read.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from utils.intervals import Intervals

Times = np.ndarray  # of bool, one for each piece


class Occupancy:
    """When the events of each kind ran, between `begin` and `end`. `events` are those of `utils.trace`."""

    def __init__(self, events: Sequence, begin: float, end: float):
        starts = np.clip([event.start for event in events], begin, end)
        ends = np.clip([event.end for event in events], starts, end)
        self._moments = np.unique(np.concatenate((starts, ends, (begin, end))))
        self._from, self._to = (np.searchsorted(self._moments, each) for each in (starts, ends))
        self._is_kernel = np.array([event.is_kernel for event in events], dtype=bool)
        self._device, self._other, self._phase = (
            np.array([getattr(event, name) or "" for event in events], dtype=str)
            for name in ("device", "other", "phase")
        )

    def kernels(self, device: str) -> Times:
        """When a kernel ran on a device."""
        return self._during(self._is_kernel & (self._device == device))

    def kernels_of(self, device: str, phase: str) -> Times:
        """When a kernel of one phase ran on a device."""
        return self._during(self._is_kernel & (self._device == device) & (self._phase == phase))

    def copies(self, device: str) -> Times:
        """When a copy to or from a device was on its way."""
        return self._during(~self._is_kernel & self._touching(device))

    def elsewhere(self, device: str) -> Times:
        """When anything ran that a device had no part in."""
        return self._during(~self._touching(device))

    def intervals(self, times: Times) -> Intervals:
        """A set of times as a sorted list of (start, end)."""
        changes = np.flatnonzero(np.diff(np.r_[False, times, False]))
        moments = self._moments[changes].tolist()
        return list(zip(moments[::2], moments[1::2], strict=True))

    def _touching(self, device: str) -> np.ndarray:
        return (self._device == device) | (self._other == device)

    def _during(self, chosen: np.ndarray) -> Times:
        length = len(self._moments)
        begun = np.bincount(self._from[chosen], minlength=length)
        ended = np.bincount(self._to[chosen], minlength=length)
        return np.cumsum(begun - ended)[:-1] > 0
