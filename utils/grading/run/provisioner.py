"""Kernels that a fork server forks (fork_server.py): the grader's end, and what Jupyter's client takes it for."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from multiprocessing.util import Finalize

import psutil
from jupyter_client import KernelManager
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.provisioning import LocalProvisioner

from utils.grading.run import fork_server, sandbox
from utils.grading.run.submissions import FOLDERS

START = "from utils.grading.run.fork_server import main; main()"


class ForkServerEnded(Exception):
    """The fork server cannot be started, or is not there any more. Nothing that a submission did."""


class KernelForkServer:
    """A process that has loaded what a notebook needs and forks kernels, in the sandbox or, if asked, without one.

    `purpose` is "graded", for kernels with an observer in them, or "plain". Loading takes seconds: `wait_until_ready`
    before the first fork. Another process of the grader's can fork from it too: give it `lent()` when that is started.
    """

    def __init__(self, environment: Mapping[str, str], *, purpose: str = "graded", sandboxed: bool = True):
        self.doubted = False  # a kernel of it ended otherwise than it should, or could not be forked
        self.ready = threading.Event()
        self.folder = tempfile.mkdtemp(prefix=f"{FOLDERS}{os.getpid()}-")
        os.chmod(self.folder, 0o755)
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-c", START, str(theirs.fileno()), purpose]
        if sandboxed:
            command = sandbox.in_nesting_sandbox(command, sandbox.Resources(), environment, self.folder)
        quiet = {name: subprocess.DEVNULL for name in ("stdin", "stdout", "stderr")}
        self.process = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], env=dict(environment), cwd=self.folder, start_new_session=True, **quiet
        )
        theirs.close()
        ends = self.process, self._control, self.folder, self.ready
        self.close = Finalize(self, _end, ends, exitpriority=1)

    def wait_until_ready(self, within: float) -> None:
        """Raises ForkServerEnded where it cannot be started within so many seconds."""
        if self.ready.is_set():
            return
        self._control.settimeout(within)
        with contextlib.suppress(OSError):
            if self._control.recv(100) == fork_server.READY.encode():
                self.ready.set()
        self._control.settimeout(None)
        if not self.ready.is_set():
            self.doubted = True
            self.close()
            raise ForkServerEnded("the process that is to fork kernels did not start")

    def alive(self) -> bool:
        return not self.doubted and self.process.poll() is None

    def lent(self) -> Lent:
        """What another process can fork kernels with, once this one is ready."""
        return Lent(self._control, self.folder)

    def fork(self, request: dict, key_fd: int | None = None) -> Forked:
        """A kernel, which reads its key from `key_fd`. Raises ForkServerEnded."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        try:
            socket.send_fds(
                self._control, [json.dumps(request).encode()], [theirs.fileno(), *([] if key_fd is None else [key_fd])]
            )
        except OSError:
            self.doubted = True
            ours.close()
            raise ForkServerEnded("the process that forks kernels has ended") from None
        finally:
            theirs.close()
        return Forked(ours, self, apart=request["apart"])


class Lent(KernelForkServer):
    """A fork server that another process of the grader's has started, and ends.

    A request is one message, and the answers come by a socket of each kernel's own: several can ask at once.
    """

    def __init__(self, control: socket.socket, folder: str):
        self.doubted = False
        self.ready = threading.Event()
        self.ready.set()
        self.folder, self._control = folder, control
        self.close = control.close

    def __reduce__(self):
        return Lent, (self._control, self.folder)  # a socket can be given to a process that is being started

    def alive(self) -> bool:
        hung_up = select.poll()
        hung_up.register(self._control, 0)
        return not self.doubted and not hung_up.poll(0)


def _end(process: subprocess.Popen, control: socket.socket, folder: str, ready: threading.Event) -> None:
    control.close()  # it ends when nobody is there to ask, or, while it loads, when it has loaded
    if ready.is_set():
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
    process.kill()
    process.wait()
    shutil.rmtree(folder, ignore_errors=True)


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


class Forked:
    """A kernel's process, as `subprocess.Popen` would show it. At the other end of `life` is its supervisor."""

    stdin = stdout = stderr = None

    def __init__(self, life: socket.socket, parent: KernelForkServer, *, apart: bool):
        self._life, self._parent, self._apart = life, parent, apart
        self.returncode: int | None = None
        self.why = ""  # it ended, where that is the grader's own doing
        life.settimeout(30)
        try:
            said, ancillary, _, _ = life.recvmsg(1100, socket.CMSG_SPACE(struct.calcsize("3i")))
        except OSError:
            said, ancillary = b"", []
        if said != fork_server.STARTED.encode():
            parent.doubted = True
            life.close()
            reason = said.decode(errors="replace").removeprefix(fork_server.ENDED)
            raise ForkServerEnded(reason or "no kernel was forked")
        # The supervisor's number as it is called here, and not in its own namespace: Linux adds it to what it says.
        self.pid = struct.unpack("3i", ancillary[0][2])[0]
        self._supervisor = psutil.Process(self.pid)

    def processes(self) -> list[psutil.Process]:
        """The kernel's process and all that it has started. Raises psutil.Error where they are gone."""
        below = _below(self._supervisor)
        # The first process of its namespace is not the submission's.
        return [each for each in below if each.ppid() != self.pid] if self._apart else below

    def poll(self) -> int | None:
        """How it ended, or None: it has not."""
        if self.returncode is None and select.select([self._life], [], [], 0)[0]:
            self._hear()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            if not select.select([self._life], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("kernel", timeout)
            self._hear()
        return self.returncode

    def _hear(self) -> None:
        try:
            said = self._life.recv(1100).decode()
        except OSError:
            said = ""
        word, _, code = said.partition(" ")
        if word != fork_server.ENDED:
            self.why, self._parent.doubted = "the process that forks kernels has ended", True
        self.returncode = int(code) if word == fork_server.ENDED and code.lstrip("-").isdigit() else 1
        self._life.close()

    @property
    def lost(self) -> bool:
        """Whether it ended because its supervisor or the fork server did, which is nothing that a submission does."""
        return bool(self.why)

    def kill(self) -> None:
        """End it, and all that it has started."""
        if self.returncode is None:
            with contextlib.suppress(OSError):
                self._life.shutdown(socket.SHUT_WR)

    terminate = kill

    def send_signal(self, number: int) -> None:
        """An interrupt reaches the kernel; anything else ends it."""
        if number != signal.SIGINT:
            return self.kill()
        with contextlib.suppress(psutil.Error, IndexError):
            self.processes()[0].send_signal(number)
        return None


class ForkedKernelManager(KernelManager):
    """Jupyter's manager of a kernel that `fork_server` forks; `request` and `key_fd` are those of its `fork`.

    What the request leaves open, the environment and the folder, is what the kernel is started with.
    """

    def __init__(self, fork_server: KernelForkServer, request: dict, key_fd: int | None = None, **options):
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
        self.process = manager.fork_server.fork(request, manager.key_fd)
        self.pid = self.process.pid
        return self.connection_info


_fork_servers: dict[tuple, KernelForkServer] = {}
_lock = threading.Lock()


def begin_fork_server(
    environment: Mapping[str, str], *, purpose: str = "graded", sandboxed: bool = True
) -> KernelForkServer:
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
) -> KernelForkServer:
    """The same, when it has loaded what is needed. Raises ForkServerEnded where it cannot be started."""
    found = begin_fork_server(environment, purpose=purpose, sandboxed=sandboxed)
    with _lock:
        found.wait_until_ready(within)
    return found


def borrowed(*, purpose: str = "graded", sandboxed: bool = True) -> bool:
    return isinstance(_fork_servers.get((purpose, sandboxed)), Lent)


def borrow(lent: Lent, *, purpose: str = "graded", sandboxed: bool = True) -> None:
    """Fork from this one as long as it lasts, and not from one of this process's own."""
    _fork_servers[purpose, sandboxed] = lent
