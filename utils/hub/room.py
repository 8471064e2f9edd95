"""A student's home, and the command that starts their server in it, apart from all others (bubblewrap)."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import sys
from contextlib import suppress
from pathlib import Path

from utils.common.errors import Problem
from utils.common.files import python_path, write_whole
from utils.grading.run import sandbox
from utils.grading.run.places import find_places
from utils.hub.class_folder import ClassFolder
from utils.hub.priority import later

GIVEN = ("notebooks", "labs", "docs")  # what a home has copies of
FIRST_USER = sandbox.FIRST_USER + sandbox.USERS  # where the hub is root's: numbers that no grader uses
USERS = 1000  # numbers of a class, of which another on this machine, at another port, has none
FIRST_PORT, PORTS, STEP = 10_000, 22_000, 501  # a class has up to so many neighbouring ones
WEEK = 7 * 24 * 3600  # seconds
# A script and torchrun are forked from the class's warm process; whatever else Python is asked for is its own.
PYTHON_COMMAND = """\
#!/bin/sh
case "$1 $2" in
  "-u "*.py | *.py" "* | "-m torch.distributed.run")
    exec {python} -S -c 'import sys; sys.path.insert(0, sys.argv.pop(1)); import utils.hub.start_program as its
its.main()' {course} "$@" ;;
esac
exec {python} "$@"
"""


def make_home(of: ClassFolder, student: str) -> Path:
    """The student's home, made where there is none, with copies of the lessons and labs. What is there stays."""
    home = of.homes / student
    if home.exists():
        return home
    beside = of.homes / f".{student}.part"
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(mode=0o700)
    for name in GIVEN:
        shutil.copytree(of.course / name, beside / name)
    if os.geteuid() == 0:
        number = _next_user(of)
        for folder, folders, files in os.walk(beside):
            for path in (folder, *(os.path.join(folder, each) for each in (*folders, *files))):
                os.chown(path, number, number, follow_symlinks=False)
    beside.rename(home)
    return home


def users(of: ClassFolder) -> dict[int, str]:
    """The student of each user's number. One of them, where the hub is not root's: all are its user."""
    return {home.stat().st_uid: home.name for home in of.homes.iterdir() if not home.name.startswith(".")}


def _next_user(of: ClassFolder) -> int:
    return max([FIRST_USER + of.port * USERS, *users(of)]) + 1


def free_port(of: ClassFolder, student: str) -> int:
    """A port for a student's server, below those that Linux gives to a program which asks for any.

    The hub's own choice is one that is free now. A second later it may be a kernel's.
    """
    known = [*of.students, *of.instructors]
    own = known.index(student) if student in known else len(known)
    for number in range(PORTS // STEP):
        port = FIRST_PORT + (STEP * (of.port + number) + own) % PORTS
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):
                tried.bind(("127.0.0.1", port))
                return port
    raise Problem("no port is free for a server")


def environment(of: ClassFolder) -> dict[str, str]:
    """What a student's server and its kernels are told."""
    return {
        "PYTHONPATH": python_path(course=of.course),
        # The class shares the cores. More threads would also be there before a fork, which copies one.
        **{f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")},
        "JUPYTER_RUNTIME_DIR": "/tmp/jupyter",  # a path for sockets is short
    }


def write_python(of: ClassFolder) -> Path:
    """The command that kernels have as their Python, beside the socket of the warm process (start_program.py)."""
    path = of.warm_socket.with_name("python")
    quoted = {"python": shlex.quote(sys.executable), "course": shlex.quote(str(of.course))}
    write_whole(path, PYTHON_COMMAND.format(**quoted))
    path.chmod(0o755)
    return path


def resources(of: ClassFolder) -> sandbox.Resources:
    """What each of a student's processes may use."""
    return sandbox.Resources(
        memory=int(of.memory_gib * 2**30), cpu=WEEK, processes=600, file=200 * sandbox.MIB, folder=500 * sandbox.MIB
    )


def server_command(of: ClassFolder, student: str) -> list[str]:
    """The command of a student's server, to which the hub adds its options."""
    home = make_home(of, student)
    prefixes = [sys.base_prefix, sys.prefix, Path(os.path.realpath(sys.executable)).parents[1]]
    readable = [str(path) for path in (of.course, of.warm_socket.parent) if path.exists()]
    number = home.stat().st_uid if os.geteuid() == 0 else None
    at = find_places(prefixes, [], of.course)
    command = [sys.executable, "-m", "utils.hub.start_server"]
    return later(sandbox.in_own_room(command, resources(of), home, number, readable=readable, at=at))
