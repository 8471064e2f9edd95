"""A fork server: it has loaded PyTorch and simgpu, and forks ranks for the notebook that started it.

It is started by the notebook's process, as a program and not as a fork: a notebook has threads, and a fork copies one
of them, and the locks that the others hold. This one has one thread, which is looked at before each fork. Where a fork
is not safe all the same (macOS, where libraries refuse it), it loads nothing, and each rank is a program of its own.

    (count)        forks so many ranks, with two open files each (their words, and their output); answers with their ids
    (end, ids)     ends these, and answers with how each has ended
    nothing more   the notebook's process is gone: all ranks end, and the fork server with them
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import NamedTuple

FORKS = sys.platform == "linux"
READY = "ready"
LOADED = ("torch.distributed.fsdp", "torch.distributed.pipelining", "torch.nn.parallel", "utils.ranks.one_rank")
START = "from utils.ranks.fork_server import {0}; {0}(*map(int, {1!r}))"
SET_SIGNAL_OF_PARENTS_DEATH = 1


class Place(NamedTuple):
    """What a new rank finds: its number, and two open files."""

    rank: int
    words: int
    output: int


def main(control: int, forks: int) -> None:
    """The life of the fork server, and of each rank that it forks: they leave `_serve` with a place."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the notebook decides what an interrupt means
    words = Connection(control)
    if forks:
        _load()
    words.send(READY)
    place = _serve(words, _fork if forks else _spawn)
    if place is not None:
        be_rank(*place)
    os._exit(0)  # at once: it has nothing to put away


def _load() -> None:
    """What ranks share with this process, and with each other, as long as none of them changes it."""
    for name in LOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def be_rank(rank: int, words: int, output: int) -> None:
    from utils.ranks import one_rank

    one_rank.be(rank, Connection(words), output)


def _serve(words: Connection, start: Callable[[Place], int]) -> Place | None:
    """Do what is asked until nobody asks. In a rank that was forked meanwhile: its place."""
    living: set[int] = set()
    while True:
        try:
            asked = words.recv()
        except (EOFError, OSError):
            _end(living)
            return None
        if isinstance(asked, int):
            begun = _begin(words, asked, start)
            if isinstance(begun, Place):
                return begun
            living.update(begun)
            words.send(begun)
        else:
            words.send(_end(asked))
            living.difference_update(asked)


def _begin(words: Connection, count: int, start: Callable[[Place], int]) -> list[int] | Place:
    """The ids of so many new ranks, or in a new rank its place."""
    control = socket.socket(fileno=os.dup(words.fileno()))
    files = []
    while len(files) < 2 * count:
        files += socket.recv_fds(control, 1, 2)[1]
    control.close()
    ids = []
    for rank in range(count):
        place = Place(rank, *files[2 * rank : 2 * rank + 2])
        process = start(place)
        if process == 0:
            words.close()
            _close(set(files) - set(place))
            return place
        ids.append(process)
    _close(files)
    return ids


def _fork(_: Place) -> int:
    """A rank that is a copy of this process. 0 in the copy."""
    assert len(os.listdir("/proc/self/task")) == 1, "a process with threads cannot be copied"
    parent = os.getpid()
    process = os.fork()
    if process == 0:
        end_with(parent)
        os.setsid()  # a group with whom it starts
    return process


def _spawn(place: Place) -> int:
    """A rank that is a program of its own."""
    command = [sys.executable, "-c", START.format("be_spawned", (os.getpid(), *place))]
    return subprocess.Popen(command, pass_fds=place[1:], start_new_session=True).pid


def be_spawned(parent: int, *place: int) -> None:
    end_with(parent)
    be_rank(*place)


def end_with(parent: int) -> None:
    """This process is killed when its parent ends, whatever ends it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_SIGNAL_OF_PARENTS_DEATH, signal.SIGKILL, 0, 0, 0)
    else:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()
    if os.getppid() != parent:  # it has ended already
        os._exit(1)


def _end_after(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)


def _end(ids) -> list[int]:
    """Kill these ranks and whom they have started. How each has ended: an exit code, or a signal's number below 0."""
    for process in ids:
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(process, signal.SIGKILL)
    return [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in ids]


def _close(files) -> None:
    for file in files:
        os.close(file)
