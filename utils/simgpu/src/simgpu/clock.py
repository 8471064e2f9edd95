"""When everything happens: the host's clock, and the queues and engines of each simulated GPU.

Every kernel and copy gets a start and an end when it is launched:

    start = the latest of: the host now, its stream free, its engine free, what its stream was told to wait for
    end   = start + its cost

No thread runs: the future of a stream is one number, the time it is free. With the
`virtual` clock the host's time is simulated too, so nothing sleeps and every run gives the same times. With
the `paced` clock the host's time is the wall clock, and waiting for a device sleeps until it would be done.
All times are seconds since the machine was configured.
"""

from __future__ import annotations

import contextlib
import time
import warnings
from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .priorities import Kernel


class VirtualClock:
    """The host's time moves only when the host pays for something or waits.

    Python is one thread. A backward pass has one for each GPU (PyTorch's notes, "Autograd mechanics", multithreaded
    autograd): what one launches does not keep the others waiting. `threads` has the time of each while it runs.
    """

    name = "virtual"

    def __init__(self):
        self.host = 0.0
        self.threads: dict[int, float] | None = None

    def now(self) -> float:
        return max(self.threads.values(), default=self.host) if self.threads else self.host

    def pay(self, seconds: float, gpu: int) -> float:
        """The host works for a GPU of this number for so long; returns the time afterwards."""
        if self.threads is None:
            self.host += seconds
            return self.host
        moment = self.threads[gpu] = self.threads.get(gpu, self.host) + seconds
        return moment

    def hand_over(self, moment: float, gpu: int) -> None:
        """What the thread of a GPU does from here on needs what another has launched at this moment."""
        if self.threads is not None and moment > self.threads.get(gpu, self.host):
            self.threads[gpu] = moment

    @contextlib.contextmanager
    def backward(self) -> Iterator[None]:
        """Around a backward pass, which ends when all its threads have. One inside another belongs to it."""
        if self.threads is not None:
            yield
            return
        self.threads = {}
        try:
            yield
        finally:
            self.host, self.threads = self.now(), None

    def wait_until(self, moment: float) -> None:
        if moment > self.host:
            self.host = moment
            if self.threads:
                self.threads = {gpu: max(moment, at) for gpu, at in self.threads.items()}


class PacedClock:
    """The host's time is the wall clock; waiting sleeps."""

    name = "paced"

    def __init__(self):
        self._begin = time.perf_counter()

    def now(self) -> float:
        return time.perf_counter() - self._begin

    def pay(self, seconds: float, gpu: int) -> float:
        """The host's own work takes the time that it takes: nothing is added to it."""
        return time.perf_counter() - self._begin

    def hand_over(self, moment: float, gpu: int) -> None:
        """Nothing to do: here a backward pass runs in one thread."""

    def backward(self) -> contextlib.AbstractContextManager:
        return contextlib.nullcontext()

    def wait_until(self, moment: float) -> None:
        delay = moment - self.now()
        if delay > 0:
            time.sleep(delay)


class Stopwatch:
    """On the paced clock: whether this computer computes the values as fast as the simulated GPUs claim to.

    Where it does not, a timeline shows the computer and not the GPUs, so the user is told, once.
    """

    ENOUGH = 0.5  # seconds of computing before anything is said

    def __init__(self):
        self.computed = self.claimed = 0.0
        self._said = False

    def around(self, func):
        """`func`, timed."""

        def timed(*args, **kwargs):
            begin = time.perf_counter()
            try:
                return func(*args, **kwargs)
            finally:
                self.computed += time.perf_counter() - begin

        return timed

    def claim(self, seconds: float) -> None:
        """A simulated GPU says that a kernel takes so long."""
        self.claimed += seconds
        if not self._said and self.computed > max(self.ENOUGH, self.claimed):
            self._said = True
            warnings.warn(
                f"This computer needed {self.computed:.1f} s to compute what the simulated GPUs claim to do in "
                f"{self.claimed:.1f} s, so wall time shows the computer. Use a slower GPU "
                '(simgpu.enable(gpu="Instructional", link="instructional", clock="paced")), or clock="virtual".',
                RuntimeWarning,
                stacklevel=2,
            )


CLOCKS = {"virtual": VirtualClock, "paced": PacedClock}


class Engine:
    """What does the work: one thing at a time. A GPU has one for kernels, one for copies in, one for copies out.

    `free` is when the last thing that it was given ends. With several streams on a GPU a kernel may be ready
    before another that was launched earlier and waits for something; then it takes a gap that is long enough.
    `busy` has the times taken, as [start, end] in order; what has passed is dropped.
    """

    __slots__ = ("busy", "free")

    def __init__(self):
        self.free = 0.0
        self.busy: list[list[float]] = []

    def first_gap(self, ready: float, length: float) -> float:
        """The earliest time from `ready` on at which `length` seconds are not taken."""
        if ready >= self.free:
            return ready
        for start, end in self.busy:
            if end <= ready:
                continue
            if start - ready >= length:
                break
            ready = end
        return ready

    def take(self, start: float, end: float, now: float) -> None:
        """Be busy from `start` to `end`. `now` is the host's time, before which nothing can be asked for."""
        busy = self.busy
        while busy and busy[0][1] <= now:
            busy.pop(0)
        if end > self.free:
            self.free = end
            if not busy or busy[-1][1] < start:
                busy.append([start, end])
                return
        position = bisect_left(busy, [start, end])
        if position and busy[position - 1][1] == start:
            busy[position - 1][1] = end
        else:
            busy.insert(position, [start, end])


class Queue:
    """What a stream is inside: kernels and copies on one GPU, each starting after the one before it has ended.

    As on CUDA the lower `priority` goes first: 0 is usual, -1 goes before it. `free` is when all that it was given
    ends.
    """

    __slots__ = ("_delayed", "free", "gpu", "last", "number", "priority")
    MOST_DELAYED = 4096

    def __init__(self, gpu, number: int, priority: int = 0):
        self.gpu = gpu
        self.number = number
        self.priority = priority
        self.free = 0.0
        self.last: Kernel | None = None  # the last kernel, where streams have priorities
        self._delayed: dict[float, Kernel] = {}  # by when they were to end

    def wait_until(self, moment: float) -> None:
        """Start nothing more before `moment`."""
        if moment > self.free:
            self.free = moment

    def delay(self, before: float, kernel: Kernel, now: float) -> None:
        """A kernel of this queue ends later than `before`, when it was to end until now."""
        if len(self._delayed) >= self.MOST_DELAYED:
            self._delayed = {moment: one for moment, one in self._delayed.items() if one.end > now}
        self._delayed[before] = kernel
        self.free = max(self.free, kernel.end)

    def as_it_is_now(self, moment: float) -> float:
        """When that ends which was to end at `moment`: kernels of higher priority may have gone before it since."""
        kernel = self._delayed.get(moment)
        return moment if kernel is None else kernel.end
