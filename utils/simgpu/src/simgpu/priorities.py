"""The order of kernels on a GPU whose streams have priorities: of those that can begin the most urgent goes next.

As on CUDA nothing that runs is interrupted; unlike there a kernel has the whole GPU, where CUDA lets blocks of the
urgent one in as those of another end. ("CUDA C++ Programming Guide", stream priorities.)

Python runs ahead of the GPU: a kernel of high priority may be launched after others that it goes before. So the times
of a kernel are final only once something else has been told when it ends, or the host's time is there.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from operator import attrgetter
from typing import Any

from .clock import Engine, Queue

_start, _end = attrgetter("start"), attrgetter("end")


class Kernel:
    """A kernel that was launched at `launched`. Times in seconds; `about` is what else the log says of it."""

    __slots__ = ("about", "end", "final", "launched", "queue", "seconds", "start")

    def __init__(self, queue: Queue, seconds: float, launched: float, about: tuple = ()):
        self.queue, self.seconds, self.launched, self.about = queue, seconds, launched, about
        self.start = self.end = launched
        self.final = False


class PriorityEngine(Engine):
    """Runs one kernel at a time. When one ends, that of the highest priority goes next, of those that can begin.

    A start that was said can become later, never earlier. `final` are kernels that keep their times, `waiting` those
    that may still be delayed, both by their start; what has passed is dropped.
    """

    __slots__ = ("final", "waiting")

    def __init__(self, before: Engine):
        super().__init__()
        self.free = before.free
        # What was launched before there were priorities, as if it were one kernel. Its queue is never asked for.
        none: Any = None
        self.final = [Kernel(none, before.free, 0.0)] if before.free else []
        self.waiting: list[Kernel] = []
        for kernel in self.final:
            kernel.end, kernel.final = before.free, True

    def place(self, kernel: Kernel, ready: float) -> None:
        """Give a kernel its times, from `ready` on, and later ones to those that it goes before."""
        self.settle(kernel.launched)
        del self.final[: bisect_right(self.final, kernel.launched, key=_end)]
        kernel.start = ready
        if ready >= self.free:
            kernel.end = self.free = ready + kernel.seconds
            self.waiting.append(kernel)
        else:
            self._arrange(kernel)

    def settle(self, moment: float) -> None:
        """Kernels that end by `moment` keep their times."""
        known = bisect_right(self.waiting, moment, key=_end)
        for kernel in self.waiting[:known]:
            kernel.final = True
            insort(self.final, kernel, key=_start)
        del self.waiting[:known]

    def _arrange(self, new: Kernel) -> None:
        lines: dict[Queue, list[Kernel]] = {}
        for kernel in [*self.waiting, new]:
            lines.setdefault(kernel.queue, []).append(kernel)
        order, ends, moment = [], dict.fromkeys(lines, 0.0), 0.0
        for line in lines.values():
            line.reverse()
        while lines:
            starts = {
                queue: self._gap(max(line[-1].start, ends[queue], moment), line[-1].seconds)
                for queue, line in lines.items()
            }
            queue = min(starts, key=lambda q: (starts[q], q.priority, lines[q][-1].launched))
            kernel, before = lines[queue].pop(), lines[queue]
            if not before:
                del lines[queue]
            until = kernel.end
            kernel.start, kernel.end = starts[queue], starts[queue] + kernel.seconds
            if kernel is not new and kernel.end > until:
                queue.delay(until, kernel, new.launched)
            ends[queue] = moment = kernel.end
            order.append(kernel)
        self.waiting = order
        self.free = max(order[-1].end, self.final[-1].end if self.final else 0.0)

    def _gap(self, ready: float, seconds: float) -> float:
        """The earliest time from `ready` on at which nothing that is final runs for so long."""
        for kernel in self.final[bisect_right(self.final, ready, key=_end) :]:
            if kernel.start - ready >= seconds:
                break
            ready = kernel.end
        return ready
