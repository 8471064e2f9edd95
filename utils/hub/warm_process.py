"""The process that a class's servers, kernels and ranks are forked from, and how they get into their student's room.

It has PyTorch and the course loaded, once for the whole class, and runs no line of a student's:

    warm process      is asked by the service (warm_service.py), and forks
      supervisor      enters the namespaces of the room that asked, and becomes the student
        children      a server, a notebook's kernel, its ranks, or a program

Students share what was there before the fork: the addresses of libraries, and the seed of Python's hashes.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from contextlib import suppress

from utils.common.settings import PYTHON
from utils.grading.run import forked_kernels, isolation
from utils.hub.priority import serve_later
from utils.processes.fork_server import Children, forget_random_numbers
from utils.processes.program import be_program
from utils.ranks import one_rank

# What a server loads before it is JupyterHub's: that part looks at its environment when it is loaded.
SERVERS = (
    "jupyter_server.serverapp",
    "jupyterlab.labapp",
    "notebook.app",
    "jupyter_lsp",
    "jupyter_server_terminals.app",
)
TORCHRUN = "torch.distributed.launcher.api"


def load_for_class() -> Children:
    """Load what servers, kernels and ranks need."""
    isolation.keep_memory_private()
    for name in (*SERVERS, TORCHRUN):
        with suppress(ImportError):  # an extension that is not installed
            importlib.import_module(name)
    forked_kernels.load_for_plain_kernels()
    one_rank.load_for_ranks()
    return Children(_become, _enter_room)


def _enter_room(request: dict, files: list[int]) -> None:
    """In the supervisor. Nothing is opened between the two: the files of a room are its student's."""
    process = files.pop(0)
    serve_later()
    isolation.join_namespaces(process)
    isolation.drop_privileges(request["user"], request["limits"])
    os.close(process)


def _become(request: dict, files: list[int], number: int) -> None:
    """Be a server, a kernel, a rank or a program: `asked` is the student's word, who could do the same."""
    asked = request["asked"]
    os.setsid()
    isolation.keep_memory_private(False)  # as that of any process of the student
    if "environment" not in asked:
        return one_rank.be_forked(files, number)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    forked_kernels.open_own_files()
    forget_random_numbers()
    if "server" in asked:
        return _be_server(files, asked["server"])
    if "program" in asked:
        _take_files(files, (0, 1, 2))
        return be_program(asked["program"])
    isolation.close_files()
    sys.executable = os.environ.get(PYTHON, sys.executable)
    return forked_kernels.begin_plain([], asked["arguments"])


def _take_files(files: list[int], numbers: tuple[int, ...]) -> None:
    for file, number in zip(files, numbers, strict=True):
        os.dup2(file, number)
    isolation.close_files()


def _be_server(files: list[int], arguments: list[str]) -> None:
    _take_files(files, (1, 2))
    sys.argv = ["jupyterhub-singleuser", *arguments, *_jupyterlabs_folders()]
    from jupyterhub.singleuser import main

    with suppress(SystemExit):
        main()


def _jupyterlabs_folders() -> list[str]:
    """Options with the student's own folders: JupyterLab took its defaults from the home of whoever loaded it."""
    from jupyterlab import commands

    folders = {"user_settings_dir": commands.get_user_settings_dir(), "workspaces_dir": commands.get_workspaces_dir()}
    return [f"--LabApp.{name}={folder}" for name, folder in folders.items()]
