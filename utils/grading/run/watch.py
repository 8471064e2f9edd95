"""What a submission's processes use together, against what they may."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

import psutil

from utils.grading.run.sandbox import Resources

SOCKETS = 5  # that a kernel makes in its folder


class Watch:
    """`processes` says which there are now, and `sockets` is the one folder outside that they can write to."""

    def __init__(self, resources: Resources, processes: Callable[[], list[psutil.Process]], sockets: str):
        self.resources, self.processes, self.sockets = resources, processes, sockets

    def too_much(self) -> str:
        """What goes over its bound now, in a sentence, or nothing."""
        # What forked processes share counts once, in a figure that takes longer to get.
        most = self.resources.memory
        if self._used(_resident) > most < self._used(_proportional):
            return f"It used more than {most / 2**30:g} GiB of memory."
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
                with contextlib.suppress(psutil.Error):
                    used += of(process)
        return used


def _resident(process: psutil.Process) -> int:
    return process.memory_info().rss


def _proportional(process: psutil.Process) -> int:
    try:
        return process.memory_full_info().pss
    except psutil.AccessDenied:  # only root may look into the memory of others
        return process.memory_info().rss
