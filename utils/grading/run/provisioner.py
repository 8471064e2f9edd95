"""Kernels that a fork server forks (forked_kernels.py): the grader's end, and what Jupyter's client takes it for."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Mapping

import psutil
from jupyter_client import KernelManager
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.provisioning import LocalProvisioner

from utils.grading.run import sandbox
from utils.grading.run.submissions import FOLDERS
from utils.processes.forking import Forked, ForkServer, Lent


class KernelForkServer(ForkServer):
    """A process that has loaded what a notebook needs and forks kernels, in the sandbox or, if asked, without one.

    `purpose` is "graded", for kernels with an observer in them, or "plain" (forked_kernels.py).
    """

    def __init__(self, environment: Mapping[str, str], *, purpose: str = "graded", sandboxed: bool = True):
        folder = tempfile.mkdtemp(prefix=f"{FOLDERS}{os.getpid()}-")
        os.chmod(folder, 0o755)

        def in_sandbox(command: list[str]) -> list[str]:
            return sandbox.in_nesting_sandbox(command, sandbox.Resources(), environment, folder)

        load, wrapped = f"utils.grading.run.forked_kernels:load_{purpose}", in_sandbox if sandboxed else list
        quiet = {name: subprocess.DEVNULL for name in ("stdout", "stderr")}
        super().__init__(load, environment, wrapped=wrapped, folder=folder, cwd=folder, **quiet)


def _below(process: psutil.Process) -> list[psutil.Process]:
    """All that a process has started, and they. psutil would read of every process there is who has started it."""
    if not os.path.exists(f"/proc/{process.pid}/task/{process.pid}/children"):
        return process.children(recursive=True)
    found = [process.pid]
    for number in found:
        folder = f"/proc/{number}/task"
        with contextlib.suppress(OSError):
            for thread in os.listdir(folder):
                with contextlib.suppress(OSError), open(f"{folder}/{thread}/children") as file:
                    found += map(int, file.read().split())
    processes = []
    for number in found[1:]:
        with contextlib.suppress(psutil.Error):
            processes.append(psutil.Process(number))
    return processes


class ForkedKernel(Forked):
    """A kernel's process. `apart`: its supervisor has namespaces of its own, with a first process beside the kernel."""

    apart = False

    def __init__(self, life: socket.socket, parent: ForkServer):
        super().__init__(life, parent)
        self._supervisor = psutil.Process(self.pid)

    def processes(self) -> list[psutil.Process]:
        """The kernel's process and all that it has started. Raises psutil.Error where they are gone."""
        below = _below(self._supervisor)
        # The first process of its namespace is not the submission's.
        return [each for each in below if each.ppid() != self.pid] if self.apart else below

    def send_signal(self, number: int) -> None:
        """An interrupt reaches the kernel; anything else ends it."""
        if number != signal.SIGINT:
            return self.kill()
        with contextlib.suppress(psutil.Error, IndexError):
            self.processes()[0].send_signal(number)
        return None


class ForkedKernelApart(ForkedKernel):
    apart = True


class ForkedKernelManager(KernelManager):
    """Jupyter's manager of a kernel that `fork_server` forks; `request` and `key_fd` are those of its `fork`.

    What the request leaves open, the environment and the folder, is what the kernel is started with.
    """

    def __init__(self, fork_server: ForkServer, request: dict, key_fd: int | None = None, **options):
        super().__init__(**options)
        self.fork_server, self.request, self.key_fd = fork_server, request, key_fd
        self.provisioner = ForkedKernelProvisioner(kernel_id="", kernel_spec=self.kernel_spec, parent=self)

    @property
    def kernel_spec(self) -> KernelSpec:
        return KernelSpec()

    def format_kernel_cmd(self, extra_arguments=None) -> list[str]:
        # Called when the connection file has just been written. Who the kernel runs as has to read it.
        os.chmod(self.connection_file, 0o644)
        return []


class ForkedKernelProvisioner(LocalProvisioner):
    """Where Jupyter's manager gets a kernel's process from: here, from the manager's fork server."""

    async def launch_kernel(self, cmd: list[str], **options):
        manager = self.parent
        request = {"environment": options["env"], "folder": options["cwd"], **manager.request}
        files = [] if manager.key_fd is None else [manager.key_fd]
        self.process = manager.fork_server.fork(request, files, ForkedKernelApart if request["apart"] else ForkedKernel)
        self.pid = self.process.pid
        return self.connection_info


_fork_servers: dict[tuple, ForkServer] = {}
_lock = threading.Lock()


def begin_fork_server(environment: Mapping[str, str], *, purpose: str = "graded", sandboxed: bool = True) -> ForkServer:
    """This process's own fork server of a kind, begun when it is first asked for, and again where it has ended."""
    kind = (purpose, sandboxed)
    with _lock:
        known = _fork_servers.get(kind)
        if known is None or not known.alive():
            if known is not None:
                known.close()
            _fork_servers[kind] = KernelForkServer(environment, purpose=purpose, sandboxed=sandboxed)
        return _fork_servers[kind]


def kernel_fork_server(
    environment: Mapping[str, str], *, purpose: str = "graded", sandboxed: bool = True, within: float = 120
) -> ForkServer:
    """The same, when it has loaded what is needed. Raises ForkServerEnded where it cannot be started."""
    found = begin_fork_server(environment, purpose=purpose, sandboxed=sandboxed)
    found.wait_until_ready(within)
    return found


def borrowed(*, purpose: str = "graded", sandboxed: bool = True) -> bool:
    return isinstance(_fork_servers.get((purpose, sandboxed)), Lent)


def borrow(lent: Lent, *, purpose: str = "graded", sandboxed: bool = True) -> None:
    """Fork from this one as long as it lasts, and not from one of this process's own."""
    _fork_servers[purpose, sandboxed] = lent
