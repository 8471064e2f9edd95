"""When everything happens: the host's clock, and the streams and engines of each simulated GPU.

Every kernel and copy gets a start and an end when it is launched:

    start = the latest of: the host now, its stream free, its engine free, what its stream was told to wait for
    end   = start + its cost

Nothing is queued and no thread runs: the future of a stream is one number, the time it is free. With the
`virtual` clock the host's time is simulated too, so nothing sleeps and every run gives the same times. With
the `paced` clock the host's time is the wall clock, and waiting for a device sleeps until it would be done.
All times are seconds since the machine was configured.
"""

from __future__ import annotations

import time


class VirtualClock:
    """The host's time moves only when the host pays for something or waits."""

    name = "virtual"

    def __init__(self):
        self.host = 0.0

    def now(self) -> float:
        return self.host

    def pay(self, seconds: float) -> float:
        """The host works for so long; returns the time afterwards."""
        self.host += seconds
        return self.host

    def wait_until(self, moment: float) -> None:
        if moment > self.host:
            self.host = moment


class PacedClock:
    """The host's time is the wall clock; waiting sleeps."""

    name = "paced"

    def __init__(self):
        self._begin = time.perf_counter()

    def now(self) -> float:
        return time.perf_counter() - self._begin

    def pay(self, seconds: float) -> float:
        """The host's own work takes the time that it takes: nothing is added to it."""
        return time.perf_counter() - self._begin

    def wait_until(self, moment: float) -> None:
        delay = moment - self.now()
        if delay > 0:
            time.sleep(delay)


CLOCKS = {"virtual": VirtualClock, "paced": PacedClock}


class Stream:
    """A queue of kernels and copies on one GPU, each starting after the one before it: when the last one ends."""

    __slots__ = ("free", "gpu", "id")

    def __init__(self, gpu, number: int):
        self.gpu = gpu
        self.id = number
        self.free = 0.0
