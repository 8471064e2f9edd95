"""The sandbox around a submission's process: bubblewrap, and limits on what it may use. Linux only.

Inside there is no network, no process of outside, and no file but the environment and `utils`, both read-only, and
three small folders in memory that are gone afterwards. What is not there cannot be read: hidden tests, other
submissions, the instructor's home.
"""

from __future__ import annotations

import functools
import glob
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from utils.common.files import python_path
from utils.grading.run.places import EMPTY, HOME, SYSTEM, Places, places

# `utils` and `simgpu` are those of this copy of the course, whichever copy the environment was set up from. Backends
# of PyTorch that load themselves may lie outside.
PYTHON = {"PYTHONPATH": python_path(), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
# What names of hosts and certificates are looked up in.
OF_THE_NETWORK = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/ssl", "/etc/ca-certificates")
MIB = 2**20
# Root is exempt from the limit on processes, so there the submission runs as one of these users, which own nothing.
FIRST_USER, USERS = 1_000_000, 1_000_000
# Whether a submission's user finds and may read what its kernel imports. Not imported: that takes seconds.
READABLE = """
import os, sys
from importlib.util import find_spec

for name in ("torch", "ipykernel", "simgpu", "utils"):
    if (found := find_spec(name)) is None:
        sys.exit(f"there is no module {name}")
    for folder, folders, files in os.walk(os.path.dirname(found.origin)):
        for path in (os.path.join(folder, one) for one in (*folders, *files)):
            if not os.access(path, os.R_OK):
                sys.exit(f"{path} cannot be read")
"""


@dataclass(frozen=True)
class Resources:
    """What one submission may use."""

    memory: int = 4 * 2**30  # bytes of data for each process, and in use by all of them together
    cpu: int = 900  # seconds of each process
    processes: int = 200  # threads count too
    file: int = 20 * MIB  # bytes of one file
    folder: int = 200 * MIB  # bytes of its folder, and of /tmp

    def limits(self) -> dict[str, int]:
        """The limits of each process, by their names in setrlimit(2)."""
        return {
            **{"DATA": self.memory, "CPU": self.cpu, "NPROC": self.processes, "FSIZE": self.file},
            **{"CORE": 0, "NOFILE": 1024},
        }


class NoSandbox(Exception):
    """This machine cannot hold a submission in a sandbox. The message says what to install."""


def require_sandbox() -> None:
    """Raise NoSandbox, one line, unless a sandbox works here: one is tried."""
    if not sys.platform.startswith("linux"):
        raise NoSandbox(f"there is no sandbox on {sys.platform}: grade on Linux (a virtual machine or WSL 2 will do)")
    for program, package in (("bwrap", "bubblewrap"), ("prlimit", "util-linux"), ("setpriv", "util-linux")):
        if shutil.which(program) is None:
            raise NoSandbox(f"the program {program} is missing: install it (sudo apt-get install {package})")
    if reason := places().conflict():
        raise NoSandbox(f"{reason}: set up the course with another Python")
    if reason := _trial(("true",)):
        raise NoSandbox(
            f"bubblewrap cannot make one here ({reason}). Allow user namespaces: in a container, or by "
            "`sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0` on Ubuntu"
        )
    if reason := _trial((sys.executable, "-c", READABLE)):
        raise NoSandbox(
            f"Python does not start in it ({reason}). Everybody has to be able to read {_listed(places().needed)}: "
            "`chmod -R a+rX` makes it so. Else set the course up again, with `make clean lab`"
        )


def _listed(paths: Sequence[str]) -> str:
    return ", ".join(paths)


@functools.cache
def _trial(command: tuple[str, ...]) -> str:
    """Why a command does not run in the sandbox, or nothing."""
    done = subprocess.run(in_sandbox(command, Resources(), PYTHON), capture_output=True, text=True)
    return (done.stderr.strip().splitlines() or ["it failed"])[-1] if done.returncode else ""


def in_sandbox(
    command: Sequence[str],
    resources: Resources,
    environment: Mapping[str, str],
    *,
    readable: Sequence[str] = (),
    writable: Sequence[str] = (),
) -> list[str]:
    """`command` as a command that runs it in the sandbox, in an empty folder, with nothing but `environment`.

    `readable` and `writable` are what else it sees, under the same paths.
    """
    box = [*_box(resources, readable, writable, places()), "--unshare-net", *_only(environment)]
    return [*_limited(resources), "bwrap", "--die-with-parent", *box, "--", *_as_user(user()), *command]


def in_own_room(
    command: Sequence[str], resources: Resources, home: Path, number: int | None, *, readable: Sequence[str], at: Places
) -> list[str]:
    """`command` as one that runs in the folder `home`, sees little else, and neither sees nor reaches other processes.

    It has the network, its caller's environment and the machine's GPUs, and outlives its caller. `at` are the places of
    its Python and its course, `number` the user that it runs as where the caller is root. For utils/hub.
    """
    network = [path for path in OF_THE_NETWORK if os.path.exists(path)]
    box = _box(resources, [*network, *readable], [str(home)], at)
    gpus = [word for device in sorted(glob.glob("/dev/nvidia*")) for word in ("--dev-bind", device, device)]
    box = [*box, *gpus, "--chdir", str(home)]
    # The shell is what the caller signals and what the room ends with. It is no room of its own: bubblewrap's own first
    # process passes no signal on.
    keeper = ["sh", "-c", 'bwrap --die-with-parent "$@"; exit $?', "room"]
    return [*_limited(resources), *keeper, *box, "--", *_as_user(number), *command]


def in_nesting_sandbox(
    command: Sequence[str], resources: Resources, environment: Mapping[str, str], writable: str
) -> list[str]:
    """`command` as one that runs it in the sandbox and may make sandboxes in it: the fork server (utils/processes).

    It keeps the privileges that this takes. No stranger's code runs in it, and it ends when its grader does.
    """
    box = [*_box(resources, (), (writable,), places()), "--unshare-net", *_only(environment)]
    return ["bwrap", *box, "--", *command]


def _limited(resources: Resources) -> list[str]:
    return ["prlimit", *(f"--{name.lower()}={value}" for name, value in resources.limits().items()), "--"]


def _only(environment: Mapping[str, str]) -> list[str]:
    """No variable of outside, and these."""
    return ["--clearenv", *(word for name, value in environment.items() for word in ("--setenv", name, value))]


def _box(resources: Resources, readable: Sequence[str], writable: Sequence[str], at: Places) -> list[str]:
    """What bubblewrap is told of the inside."""
    box = ["--unshare-pid", "--unshare-ipc", "--unshare-uts"]
    box += ["--unshare-cgroup-try", "--hostname", "sandbox", *_user_namespace()]
    box += ["--perms", "0755", "--dir", "/etc"]  # bubblewrap itself would make it for its own user only
    for path in SYSTEM:
        if os.path.islink(path):
            box += ["--symlink", os.readlink(path), path]
        elif os.path.exists(path):
            box += ["--ro-bind", path, path]
    box += ["--proc", "/proc", "--dev", "/dev"]
    for folder in EMPTY:
        box += ["--perms", "1777", "--size", str(resources.folder), "--tmpfs", folder]
    for folder in (*at.covered, *at.ways):
        box += ["--perms", "0755", "--size", str(MIB), "--tmpfs", folder]
    inside = [*at.needed, *readable, *writable]
    for folder in sorted({str(parent) for path in inside for parent in Path(path).parents} - {"/", *EMPTY}):
        box += ["--perms", "0755", "--dir", folder]
    for path in (*at.needed, *readable):
        box += ["--ro-bind", path, path]
    for path in writable:
        box += ["--bind", path, path]
    # Last: what is not one of these folders cannot be written to.
    closed = [word for folder in (*at.covered, *at.ways, "/dev", "/") for word in ("--remount-ro", folder)]
    return [*box, *closed, "--chdir", HOME]


@functools.cache
def no_forks() -> str:
    """Why a process in the sandbox cannot make sandboxes of its own here, or nothing. One is tried."""
    if not hasattr(os, "pidfd_open"):
        return "it needs Linux 5.3"
    code = "import sys; from utils.grading.run import isolation; isolation.trial(sys.argv[1:])"
    with tempfile.TemporaryDirectory() as folder:
        command = in_nesting_sandbox([sys.executable, "-c", code, *places().needed], Resources(), PYTHON, folder)
        done = subprocess.run(command, capture_output=True, text=True)
    return (done.stderr.strip().splitlines() or ["it failed"])[-1] if done.returncode else ""


def user() -> int | None:
    """The number of the user that a sandbox made now will run as, where it is another one than the grader."""
    return FIRST_USER + os.getpid() % USERS if os.geteuid() == 0 else None


def _user_namespace() -> list[str]:
    return [] if os.geteuid() == 0 else ["--unshare-user", "--uid", "1000", "--gid", "1000"]


def _as_user(number: int | None) -> list[str]:
    if number is None:
        return []
    return [
        "setpriv",
        f"--reuid={number}",
        f"--regid={number}",
        "--clear-groups",
        "--no-new-privs",
        "--bounding-set=-all",
    ]
