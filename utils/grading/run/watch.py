"""What a submission's processes use together, against what they may."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from utils.grading.run.sandbox import Resources

SOCKETS = 5  # that a kernel makes in its folder
# Of /proc/PID/status: tables of pages, and pages of files in memory, in kB.
FIELD = re.compile(r"^(VmPTE|RssShmem):\s*(\d+) kB", re.MULTILINE)
# Of /proc/PID/maps: shared memory that is no file's, with a name of its own or without.
SHARED = re.compile(r"^(\w+)-(\w+) ..[-x]s (\w+) \S+ (\d+) +(?:/dev/zero \(deleted\)|\[anon_shmem:.*)$", re.MULTILINE)


class Watch:
    """`processes` says which there are now, and `sockets` is the one folder outside that they can write to."""

    def __init__(self, resources: Resources, processes: Callable[[], list[psutil.Process]], sockets: str):
        self.resources, self.processes, self.sockets = resources, processes, sockets
        self._queued: dict[tuple[int, str], float] = {}
        self._looked = time.monotonic()

    def queued(self) -> float:
        """Seconds since the last call, or fewer, in which threads that could run waited for a CPU.

        From /proc/PID/task/TID/schedstat (Linux, Documentation/scheduler/sched-stats.rst); 0 where that is not kept.
        """
        now = time.monotonic()
        passed, self._looked = now - self._looked, now
        before, self._queued = self._queued, {}
        with contextlib.suppress(psutil.Error):
            for process in self.processes():
                for path in Path(f"/proc/{process.pid}/task").glob("*/schedstat"):
                    with contextlib.suppress(OSError, ValueError, IndexError):
                        self._queued[process.pid, path.parent.name] = int(path.read_text().split()[1]) / 1e9
        waited = sum(seconds - before.get(thread, 0) for thread, seconds in self._queued.items())
        return min(waited, passed)  # threads that wait for one another's CPU wait at the same time

    def too_much(self) -> str:
        """What goes over its bound now, in a sentence, or nothing."""
        # What forked processes share counts once, in a figure that takes longer to get.
        most = self.resources.memory - self._shared()
        if self._used(_own) > most < self._used(_proportional):
            return f"It used more than {self.resources.memory / 2**30:g} GiB of memory."
        if len(os.listdir(self.sockets)) > SOCKETS:
            return "It wrote where only the kernel may."
        return ""

    def left_running(self) -> str:
        """Whether so many processes and threads were left running that looking has no room: a sentence, or nothing."""
        most = self.resources.processes // 2
        if self._used(psutil.Process.num_threads) > most:
            return f"It left more than {most} processes and threads running."
        return ""

    def _used(self, of: Callable[[psutil.Process], int]) -> int:
        """What `of` says of all processes, added up."""
        used = 0
        with contextlib.suppress(psutil.Error):
            for process in self.processes():
                with contextlib.suppress(psutil.Error, OSError):
                    used += of(process)
        return used

    def _shared(self) -> int:
        """Bytes of shared memory without a file: all, since a process keeps what it drops from its own tables."""
        sizes: dict[str, int] = {}
        with contextlib.suppress(psutil.Error):
            for process in self.processes():
                with contextlib.suppress(psutil.Error, OSError):
                    for start, end, offset, inode in SHARED.findall(Path(f"/proc/{process.pid}/maps").read_text()):
                        size = int(end, 16) - int(start, 16) + int(offset, 16)
                        sizes[inode] = max(size, sizes.get(inode, 0))
        return sum(sizes.values())


def _own(process: psutil.Process) -> int:
    """Bytes of a process without the shared memory in it, and of the tables that it needs for its pages."""
    kept = _kept(process)
    return process.memory_info().rss - kept.get("RssShmem", 0) + kept.get("VmPTE", 0)


def _proportional(process: psutil.Process) -> int:
    try:
        return process.memory_full_info().pss + _kept(process).get("VmPTE", 0)
    except psutil.AccessDenied:  # only root may look into the memory of others
        return _own(process)


def _kept(process: psutil.Process) -> dict[str, int]:
    status = Path(f"/proc/{process.pid}/status").read_text(errors="replace")
    return {name: 1024 * int(size) for name, size in FIELD.findall(status)}
