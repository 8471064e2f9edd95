"""What a fork server loads for kernels, and what its children do: a kernel for each submission, or for each notebook.

The fork server runs no line of any student's, and has never seen a hidden test. A graded kernel is a copy of it, in
namespaces of its own (isolation.py):

    supervisor        in new namespaces
      init            process 1 of the new PID namespace: reaps orphans
        kernel        another user, no privileges, no open file but its key; then a stranger's
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable

from utils.grading.run import isolation
from utils.processes.fork_server import Children, forget_random_numbers

Begin = Callable[[list[int], list[str]], None]  # a kernel, of its files and its arguments


def load_graded() -> Children:
    """Sealed kernels, each with one file: its key."""
    from utils.grading.run import student_process

    begin = student_process.prepare()
    return _kernels(lambda files, arguments: student_process.become_kernel(begin, files[0], arguments))


def load_plain() -> Children:
    """Kernels for lessons: not observed, and without a key."""
    load_for_plain_kernels()
    return _kernels(begin_plain)


def load_for_plain_kernels() -> None:
    from utils.grading.run import student_process

    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"  # as a kernel sets it before any import
    student_process.load_for_kernels()


def begin_plain(_: list[int], arguments: list[str]) -> None:
    """Be a Jupyter kernel until it ends."""
    sys.argv = ["kernel", *arguments]
    from ipykernel import kernelapp

    kernelapp.launch_new_instance()


def _kernels(begin: Begin) -> Children:
    isolation.keep_memory_private()

    def become(request: dict, files: list[int], _: int) -> None:
        (_init if request["apart"] else _kernel)(request, files, begin)

    def set_apart(request: dict, _: list[int]) -> None:
        if request["apart"]:
            isolation.unshare_namespaces()

    return Children(become, set_apart)


def _init(request: dict, files: list[int], begin: Begin) -> None:
    """Be process 1 of the new PID namespace: fork the kernel, reap orphans, end when the kernel ends."""
    isolation.setup_mounts(**request["rooms"])
    kernel = os.fork()
    if kernel == 0:
        try:
            _kernel(request, files, begin)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    for file in files:
        os.close(file)
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == kernel:
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _kernel(request: dict, files: list[int], begin: Begin) -> None:
    """Become the student's process."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    open_own_files()
    if request["apart"]:
        isolation.close_files(files)
        isolation.drop_privileges(request["user"], request["limits"])
    forget_random_numbers()
    begin(files, request["arguments"])


def open_own_files() -> None:
    """Open 0 to 2 for this process. An inherited one is one open file in all forks: a flag set here shows there."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nowhere, number)
    os.close(nowhere)
