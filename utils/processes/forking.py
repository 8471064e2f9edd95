"""The client's end of a fork server (fork_server.py): start one, have it fork, see its children end."""

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
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.util import Finalize

from .fork_server import ENDED, READY, SIGNAL, STARTED

START = "from utils.processes.fork_server import main; main()"
STARTS_WITHIN = 30  # seconds that a fork may take on a busy machine
MESSAGE = 1100  # bytes, the longest that a supervisor says, and more


def can_fork() -> bool:
    """Whether a fork is safe here: on Linux, where libraries bear it, and where a process can be held by a pidfd."""
    if not sys.platform.startswith("linux") or not hasattr(os, "pidfd_open"):
        return False
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:  # an older kernel, or one that does not allow it
        return False
    return True


class ForkServerEnded(Exception):
    """The fork server cannot be started, or is not there any more. Nothing that a child did."""


class ForkServer:
    """A process that has loaded what its children need and forks them. Started here, and not waited for.

    `load` is "module:function" of what it loads, which returns its `Children`. `wrapped` makes the command that starts
    it another, as one in a sandbox. `folder`, if any, is its own, and removed with it. `options` are those of
    `subprocess.Popen`. Another process can fork from it too: give it `lent()` when that is started.
    """

    def __init__(
        self,
        load: str,
        environment: Mapping[str, str],
        *,
        wrapped: Callable[[list[str]], list[str]] = list,
        folder: str | None = None,
        **options,
    ):
        self.folder = folder
        self.doubted = False  # a child of it ended otherwise than it should, or could not be forked
        self.ready = threading.Event()
        self._starting = threading.Lock()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = wrapped([sys.executable, "-c", START, str(theirs.fileno()), load])
        options = {"stdin": subprocess.DEVNULL, "start_new_session": True, **options}
        self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=dict(environment), **options)
        theirs.close()
        self.close = Finalize(self, _end, (self.process, self._control, self.ready, folder), exitpriority=1)

    def wait_until_ready(self, within: float | None = None) -> None:
        """Raises ForkServerEnded where it cannot be started, or not within so many seconds."""
        with self._starting:
            if self.ready.is_set():
                return
            self._control.settimeout(within)
            with contextlib.suppress(OSError):
                if self._control.recv(100) == READY.encode():
                    self.ready.set()
            self._control.settimeout(None)
        if not self.ready.is_set():
            self.doubted = True
            self.close()
            raise ForkServerEnded("the process that is to fork others did not start")

    def alive(self) -> bool:
        return not self.doubted and self.process.poll() is None

    def lent(self) -> Lent:
        """What another process can fork with, once this one is ready."""
        return Lent(self._control, self.folder)

    def fork(self, request: dict, files: Sequence[int] = (), child: type[Forked] | None = None) -> Forked:
        """The children of a request, which have these files, shown as a `child`. Raises ForkServerEnded."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        try:
            self.ask(request, theirs.fileno(), files)
        except ForkServerEnded:
            ours.close()
            raise
        finally:
            theirs.close()
        return (child or Forked)(ours, self)

    def ask(self, request: dict, life: int, files: Sequence[int] = ()) -> None:
        """Have children forked, of which another process hears at the other end of `life`. Raises ForkServerEnded."""
        try:
            socket.send_fds(self._control, [json.dumps(request).encode()], [life, *files])
        except OSError:
            self.doubted = True
            raise ForkServerEnded("the process that forks others has ended") from None


class Lent(ForkServer):
    """A fork server that another process has started, and ends.

    A request is one message, and the answers come by a socket of each child's own: several can ask at once.
    """

    def __init__(self, control: socket.socket, folder: str | None):
        self.folder = folder
        self.doubted = False
        self.ready = threading.Event()
        self.ready.set()
        self._starting, self._control = threading.Lock(), control
        self.close = control.close

    def __reduce__(self):
        return Lent, (self._control, self.folder)  # a socket can be given to a process that is being started

    def alive(self) -> bool:
        hung_up = select.poll()
        hung_up.register(self._control, 0)
        return not self.doubted and not hung_up.poll(0)


def lent_at(path: str) -> Lent:
    """A fork server of this machine's that listens at a path (utils/hub/warm_service.py). Raises ForkServerEnded."""
    control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        with short_path(path) as short:
            control.connect(short)
    except OSError:
        control.close()
        raise ForkServerEnded(f"no process that forks others listens at {path}") from None
    return Lent(control, None)


@contextlib.contextmanager
def short_path(path: str) -> Iterator[str]:
    """The same file by a path that is short enough for a socket, which may have 107 bytes. Linux only."""
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{os.path.basename(path)}"
    finally:
        os.close(folder)


def _end(process: subprocess.Popen, control: socket.socket, ready: threading.Event, folder: str | None) -> None:
    control.close()  # it ends when no client is left, or, while it loads, when it has loaded
    if ready.is_set():
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
    process.kill()
    process.wait()
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


class Forked:
    """A child, as `subprocess.Popen` would show it. At the other end of `life` is its supervisor.

    Of several, it has ended when all have, and `codes` says how each did.
    """

    stdin = stdout = stderr = None

    def __init__(self, life: socket.socket, parent: ForkServer):
        self._life, self._parent = life, parent
        self.returncode: int | None = None
        self.codes: list[int] = []
        self.why = ""  # it ended, where that is none of the child's doing
        life.settimeout(STARTS_WITHIN)
        try:
            said, ancillary, _, _ = life.recvmsg(MESSAGE, socket.CMSG_SPACE(struct.calcsize("3i")))
        except OSError:
            said, ancillary = b"", []
        except BaseException:  # interrupted: the supervisor ends the child
            life.close()
            raise
        if said != STARTED.encode():
            parent.doubted = True
            life.close()
            raise ForkServerEnded(said.decode(errors="replace").removeprefix(ENDED) or "no process was forked")
        # The supervisor's number as it is called here, and not in its own namespace: Linux adds it to what it says.
        self.pid = struct.unpack("3i", ancillary[0][2])[0]

    def poll(self) -> int | None:
        """How it ended, or None: it has not."""
        if self.returncode is None and select.select([self._life], [], [], 0)[0]:
            self._hear()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end: an exit code, or a signal's number below 0. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            if timeout is not None and not select.select([self._life], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a forked process", timeout)
            self._life.settimeout(None)
            return self._hear()
        return self.returncode

    def _hear(self) -> int:
        try:
            word, *codes = self._life.recv(MESSAGE).decode().split()
        except (OSError, ValueError):
            word, codes = "", []
        if word != ENDED:
            self.why, self._parent.doubted = "the process that forks others has ended", True
        self.codes = [int(code) for code in codes if code.lstrip("-").isdigit()]
        self.returncode = code = self.codes[0] if self.codes else 1
        self._life.close()
        return code

    @property
    def lost(self) -> bool:
        """Whether it ended because its supervisor did, which is nothing that a child does."""
        return bool(self.why)

    def interrupt(self) -> None:
        """As Ctrl+C does: to it, and to what is in its group."""
        self.send_signal(signal.SIGINT)

    def send_signal(self, number: int) -> None:
        """To it, and to what is in its group."""
        if self.returncode is None:
            with contextlib.suppress(OSError):
                self._life.send(f"{SIGNAL} {number:d}".encode())

    def kill(self) -> None:
        """End it, and all that it has started."""
        if self.returncode is None:
            with contextlib.suppress(OSError):
                self._life.shutdown(socket.SHUT_WR)

    terminate = kill
