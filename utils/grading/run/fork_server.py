"""A fork server: it has loaded what every notebook needs, and forks a kernel for each submission.

Loading takes ten times as long as what most notebooks do. This process does it once, runs no line of any student's, and
has never seen a hidden test. Each kernel is a copy of it, in namespaces of its own (isolation.py):

    fork server       reads requests from the grader, and forks
      supervisor      ends the kernel when the grader says so, or is gone; says how it ended
        init          process 1 of the new PID namespace: reaps orphans
          kernel      another user, no privileges, no open file but its key; then a stranger's

A fork copies one thread, and every lock: with more than one thread, or otherwise not as it was, the fork server ends,
and the grader starts another.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress

from utils.grading.run import isolation

LARGEST_REQUEST = 65_536  # bytes
READY, STARTED, ENDED = "ready", "started", "ended"


def main() -> None:
    """python -c ... CONTROL_FD graded|plain"""
    control, purpose = socket.socket(fileno=int(sys.argv[1])), sys.argv[2]
    prepare = prepare_graded if purpose == "graded" else prepare_plain
    become_kernel = prepare()
    isolation.keep_memory_private()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for a supervisor
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the grader decides what an interrupt means
    gc.collect()
    gc.freeze()
    as_it_was = _state()
    if as_it_was[0] > 1:  # nothing that it forks could be trusted to run: the grader goes on without it
        return
    control.send(READY.encode())
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, LARGEST_REQUEST, 2)
        if not data:  # the grader is gone
            return
        life, key_fd = socket.socket(fileno=descriptors[0]), (descriptors[1:] or [None])[0]
        if _state()[0] == 1 and os.fork() == 0:
            _in_the_child(control, life, key_fd, data, become_kernel)
        life.close()
        _close(key_fd)
        if _state() != as_it_was:  # the grader starts another, and grades again what this one was at
            return


def prepare_graded() -> Callable[[int, list[str]], None]:
    """What a sealed kernel needs."""
    from utils.grading.run import student_process

    begin = student_process.prepare()
    return lambda key_fd, arguments: student_process.become_kernel(begin, key_fd, arguments)


def prepare_plain() -> Callable[[int, list[str]], None]:
    """What a lesson's kernel needs. Nobody observes it, and it has no key."""
    from utils.grading.run.student_process import EARLY, KERNELS

    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"  # as a kernel sets it before any import
    for name in (*EARLY, *KERNELS):
        importlib.import_module(name)

    def become_kernel(_: None, arguments: list[str]) -> None:
        sys.argv = ["kernel", *arguments]
        from ipykernel import kernelapp

        kernelapp.launch_new_instance()

    return become_kernel


def _state() -> tuple[int, int, int]:
    """What must not change from fork to fork: threads, modules, and open files."""
    return isolation.threads(), len(sys.modules), len(os.listdir("/proc/self/fd"))


def _in_the_child(control: socket.socket, life: socket.socket, key_fd: int | None, data: bytes, become_kernel) -> None:
    """Be a supervisor. Never returns."""
    try:
        control.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _supervise(life, key_fd, json.loads(data), become_kernel)
    except BaseException as error:
        _say(life, f"{ENDED} {type(error).__name__}: {error}")
    finally:
        os._exit(1)


def _supervise(life: socket.socket, key_fd: int | None, request: dict, become_kernel) -> None:
    """Fork the kernel, and end it when the other end of `life` says so or closes. Says how it ended."""
    apart = request["apart"]
    if apart:
        isolation.unshare_namespaces()
    supervisor = os.pidfd_open(os.getpid())
    child = os.fork()
    if child == 0:
        try:
            isolation.die_with_parent(supervisor)
            (_init if apart else _kernel)(life, key_fd, request, become_kernel)
        except BaseException as error:
            _say(life, f"{ENDED} {type(error).__name__}: {error}")
        finally:
            os._exit(1)
    _close(key_fd)
    os.close(supervisor)
    _say(life, STARTED)
    select.select([life, os.pidfd_open(child)], [], [])
    if not apart:  # all that it has started, as far as it can be known
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)  # the first process of a namespace: Linux ends all that is in it
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    _say(life, f"{ENDED} {code}")
    os._exit(0)


def _init(life: socket.socket, key_fd: int | None, request: dict, become_kernel) -> None:
    """Be process 1 of the new PID namespace: fork the kernel, reap orphans, end when the kernel ends."""
    isolation.setup_mounts(**request["rooms"])
    kernel = os.fork()
    if kernel == 0:
        try:
            _kernel(life, key_fd, request, become_kernel)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    life.close()
    _close(key_fd)
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == kernel:
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _kernel(life: socket.socket, key_fd: int | None, request: dict, become_kernel) -> None:
    """Become the student's process."""
    life.close()
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    _own_files()
    if request["apart"]:
        isolation.drop_privileges(request["user"], request["limits"], keep=() if key_fd is None else (key_fd,))
    _forget_numbers()
    become_kernel(key_fd, request["arguments"])


def _own_files() -> None:
    """Open 0 to 2 anew. What is inherited is one open file in all forks: flags that one sets the next could read."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nowhere, number)
    os.close(nowhere)


def _forget_numbers() -> None:
    """Two kernels draw different random numbers, as two processes do. (Python's own `random` sees to itself.)"""
    import numpy
    import torch

    numpy.random.seed()
    torch.seed()  # the simulated GPUs', too


def _close(descriptor: int | None) -> None:
    if descriptor is not None:
        os.close(descriptor)


def _say(life: socket.socket, text: str) -> None:
    with suppress(OSError):  # nobody listens any more
        life.send(text.encode()[:1000])
