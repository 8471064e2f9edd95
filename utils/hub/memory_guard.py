"""The service of a class that holds each student to a sum of memory: beyond it, their largest process is ended.

Linux's own limit of a sum is a control group, which not every machine lets a program make. Reading /proc works on all.
It needs a user for each student, so the hub has to be root's.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import psutil

from utils.hub import class_folder, room
from utils.hub.priority import serve_first

LOOKS_EACH = 2.0  # seconds


def students_processes(users: Mapping[int, str]) -> dict[str, list[psutil.Process]]:
    """By student, their processes. `users` has the student of each user's number."""
    found: dict[str, list[psutil.Process]] = defaultdict(list)
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if student := users.get(process.uids().real):
                found[student].append(process)
    return dict(found)


def pss_of(process: psutil.Process) -> int:
    """Bytes of a process, with its share of what it has in common with others: Linux's Pss."""
    try:
        rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    except OSError:  # it has ended
        return 0
    return sum(int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:"))


def too_much(processes: list[psutil.Process], most: float) -> list[tuple[psutil.Process, int]]:
    """The largest processes, with their bytes, without which the others are within `most` bytes."""
    if sum(_at_most(process) for process in processes) <= most:
        return []
    sizes = sorted(((pss_of(process), process.pid, process) for process in processes), key=lambda one: one[:2])
    left, to_end = sum(size for size, _, _ in sizes), []
    while left > most:
        size, _, process = sizes.pop()
        to_end.append((process, size))
        left -= size
    return to_end


def _at_most(process: psutil.Process) -> int:
    """Quick to read, and too much: what is shared counts in full."""
    try:
        return process.memory_info().rss
    except psutil.Error:
        return 0


def guard(of: class_folder.ClassFolder) -> None:
    """Until the process ends."""
    most = of.student_gib * 2**30
    while True:
        users = {number: name for number, name in room.users(of).items() if number > room.FIRST_USER}
        for student, processes in students_processes(users).items():
            for process, size in too_much(processes, most):
                with contextlib.suppress(psutil.Error):
                    process.send_signal(signal.SIGKILL)
                    told = f"more than {of.student_gib:g} GiB, so a process with {size / 2**30:.1f} was ended"
                    print(f"{student}: {told}", flush=True)
        time.sleep(LOOKS_EACH)


if __name__ == "__main__":
    serve_first()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl+C ends it, and without a traceback
    guard(class_folder.read_class(Path(sys.argv[1])))
