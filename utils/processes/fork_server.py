"""A fork server: a process that has loaded what its children need, and forks them when it is asked to.

    python -c "from utils.processes.fork_server import main; main()" CONTROL_FD MODULE:FUNCTION

FUNCTION loads, and returns the `Children`. forking.py is the client's end. Loading takes seconds, a fork milliseconds:

    fork server       reads requests from its client, and forks
      supervisor      ends the children when the client says so, or is gone; says how they ended
        children      do what the request asks for: one, or as many as its "count" says

A request is one message: JSON, with a socket for the supervisor's words and the files that the children are to have.

A fork copies one thread, and every lock: with more than one thread, or otherwise not as it was, the fork server ends,
and its client starts another.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import random
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

LARGEST_REQUEST = 65_536  # bytes
MOST_FILES = 200  # of a request: Linux takes 253 in a message
MESSAGE = 1000  # bytes that a supervisor, and its client, say at most
READY, STARTED, ENDED, SIGNAL = "ready", "started", "ended", "signal"
SET_SIGNAL_OF_PARENTS_DEATH = 1


class Children(NamedTuple):
    """What a fork server's children are."""

    become: Callable[[dict, list[int], int], None]  # called in a child: the request, its files, which child it is
    set_apart: Callable[[dict, list[int]], None] = lambda *_: None  # in their supervisor, just before they are forked


def main() -> None:
    """The life of a fork server, and of all that it forks."""
    try:
        _fork_as_asked()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)  # libraries would tidy up for a second


def _fork_as_asked() -> None:
    control, (module, function) = socket.socket(fileno=int(sys.argv[1])), sys.argv[2].split(":")
    sys.argv[1:] = []
    gc.disable()  # nothing that is loaded here goes again, and to look for what does takes a sixth of the time
    children = getattr(importlib.import_module(module), function)()
    gc.enable()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # supervisors are not waited for
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the client decides what an interrupt means
    gc.collect()
    gc.freeze()
    as_it_was = _state()
    if as_it_was[0] > 1:  # nothing that it forks could be trusted to run: the client goes on without it
        return
    with suppress(OSError):  # the client is gone
        control.send(READY.encode())
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, LARGEST_REQUEST, 1 + MOST_FILES)
        if not data:  # the client is gone
            return
        life, files = socket.socket(fileno=descriptors[0]), descriptors[1:]
        if _state()[0] == 1 and os.fork() == 0:
            _in_the_supervisor(control, life, data, files, children)
        life.close()
        _close(files)
        if _state() != as_it_was:  # the client starts another
            return


def threads() -> int:
    """How many threads this process has: a fork copies one of them, and the locks that the others hold."""
    return len(os.listdir("/proc/self/task"))


def die_with_parent(parent: int) -> None:
    """This process is killed when its parent ends, whatever ends it. Becoming another user undoes it.

    `parent` is a pidfd of the parent, and is closed: where it has ended already, Linux has nothing left to tell.
    """
    ctypes.CDLL(None).prctl(SET_SIGNAL_OF_PARENTS_DEATH, signal.SIGKILL, 0, 0, 0)
    gone, _, _ = select.select([parent], [], [], 0)
    os.close(parent)
    if gone:
        os._exit(1)


def forget_random_numbers() -> None:
    """Two children draw different random numbers, as two programs do; copies of one process would draw the same."""
    random.seed()
    if torch := sys.modules.get("torch"):
        torch.seed()  # the simulated GPUs', too
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()


def _state() -> tuple[int, int, int]:
    """What must not change from fork to fork: threads, modules, and open files."""
    return threads(), len(sys.modules), len(os.listdir("/proc/self/fd"))


def _in_the_supervisor(
    control: socket.socket, life: socket.socket, data: bytes, files: list[int], children: Children
) -> None:
    """Be a supervisor. Never returns."""
    try:
        control.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _supervise(life, json.loads(data), files, children)
    except BaseException as error:
        _say(life, f"{ENDED} {type(error).__name__}: {error}")
    finally:
        os._exit(1)


def _supervise(life: socket.socket, request: dict, files: list[int], children: Children) -> None:
    """Fork the children, and end them when the other end of `life` closes. Says how they ended.

    "signal 2" by `life` sends that signal to the children and what is in their groups.
    """
    children.set_apart(request, files)
    supervisor = os.pidfd_open(os.getpid())
    forked = [_fork(life, supervisor, request, files, children, number) for number in range(request.get("count", 1))]
    _close([*files, supervisor])
    _say(life, STARTED)
    left = {os.pidfd_open(child) for child in forked}
    while left:
        ended, _, _ = select.select([life, *left], [], [])
        left.difference_update(ended)
        if life in ended:
            word, _, number = life.recv(MESSAGE).decode(errors="replace").partition(" ")
            if word != SIGNAL or not number.isdigit():
                break
            for child in forked:
                _signal(child, int(number))
    # The children, and all that they have started, as far as it can be known. Where one is the first process of a
    # namespace, Linux ends all that is in it.
    for child in forked:
        for kill in (os.killpg, os.kill):
            with suppress(ProcessLookupError):
                kill(child, signal.SIGKILL)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in forked]
    _say(life, " ".join([ENDED, *map(str, codes)]))
    os._exit(0)


def _fork(
    life: socket.socket, supervisor: int, request: dict, files: list[int], children: Children, number: int
) -> int:
    """The id of a new child."""
    child = os.fork()
    if child == 0:
        try:
            life.close()
            die_with_parent(supervisor)
            children.become(request, files, number)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    return child


def _signal(child: int, number: int) -> None:
    """Send the child, and all that is in its group, a signal."""
    with suppress(OSError):  # it has made no group yet, or has ended, or there is no such signal
        os.killpg(child, number)


def _close(files: list[int]) -> None:
    for file in files:
        os.close(file)


def _say(life: socket.socket, text: str) -> None:
    with suppress(OSError):  # the client is gone
        life.send(text.encode()[:MESSAGE])
