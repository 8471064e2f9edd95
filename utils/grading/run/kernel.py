"""A kernel for a submission: one process, in a sandbox, that runs cells in bounded time. Text goes in, and comes back.

The grader never shares an interpreter with the student's code.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field

import psutil
import zmq
from jupyter_client import KernelManager

from utils.common.settings import DEVICES, GRADING
from utils.exercises.facts import StudentError, wire
from utils.grading.run import sandbox
from utils.grading.run.places import EMPTY, HOME, places
from utils.grading.run.provisioner import (
    ForkedKernelManager,
    begin_fork_server,
    borrowed,
    kernel_fork_server,
)
from utils.grading.run.submissions import FOLDERS
from utils.grading.run.watch import Watch
from utils.processes.forking import ForkServer, ForkServerEnded

# A terminal's colours and titles, and what else is no text.
TIDY = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f]")
ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
TICK = 0.2  # seconds between two looks at a kernel that is busy
ENDS = 60  # seconds that a killed kernel has to end: on a busy machine a fork bomb takes more than a few
BUSY = 6  # times a limit that a kernel may take at most, where it has to wait for a CPU
START = "from utils.grading.run.student_process import main; main()"
# The history of what was typed is not kept, and pictures are drawn as in a notebook. Tracebacks are not read here, and
# that of a function without end, with its thousand frames, would take IPython half a minute.
OPTIONS = ("--HistoryManager.enabled=False", "--matplotlib=inline", "--InteractiveShell.xmode=Minimal")


@dataclass(frozen=True)
class Limits:
    """Seconds that things may take, and what else a submission may use.

    Those in which a cell or a call has to wait for a CPU, because the machine is busy, don't count (up to `BUSY`).
    """

    start: float = 120
    cell: float = 60
    call: float = 20
    submission: float = 900
    resources: sandbox.Resources = field(default_factory=sandbox.Resources)
    sandboxed: bool = True
    warm: bool = True  # kernels are forked where that is possible, and otherwise each is a new process


class KernelDied(StudentError):
    """The submission's process ended: a crash, or it used more than it may."""


class KernelSlow(StudentError):
    """The submission did not answer in time."""


class KernelDidNotStart(Exception):
    """The grader could not start a kernel at all: nothing to do with the submission."""


class FreshKernelManager(KernelManager):
    """Jupyter's manager of a kernel that is started with our own command, whatever kernels are installed."""

    def __init__(self, command: list[str], **options):
        super().__init__(**options)
        self.command = command

    def format_kernel_cmd(self, extra_arguments=None) -> list[str]:
        # Called when the connection file has just been written. Who the kernel runs as has to read it.
        os.chmod(self.connection_file, 0o644)
        return self.command


class KernelProcess:
    """One process with a kernel in it. `key` is what the observer there signs with.

    Raises KernelDidNotStart, KernelSlow, or, where the process that it is forked from is gone, ForkServerEnded.
    """

    def __init__(self, limits: Limits, *, forked: bool = True):
        self.limits, self.key = limits, secrets.token_bytes(32)
        server = fork_server_for(limits) if forked else None
        self._folder = tempfile.mkdtemp(prefix=f"{FOLDERS}{os.getpid()}-", dir=server and server.folder)
        try:
            self._launch(server)
            self._connect()
        except KernelDied:
            self.stop()
            raise KernelDidNotStart("the kernel died before the notebook began") from None
        except (RuntimeError, OSError, psutil.Error) as error:
            self.stop()
            raise KernelDidNotStart(f"the kernel did not start: {error}") from None
        except BaseException:
            self.stop()
            raise

    def execute(self, code: str, deadline: float, too_late: str, expressions: dict | None = None) -> dict:
        """Run code and return the kernel's reply. Raises StudentError, KernelDied, KernelSlow or ForkServerEnded.

        `deadline` is a time of time.monotonic(), and `too_late` what is said after it.
        """
        sent = self._client.execute(
            code, store_history=False, allow_stdin=False, stop_on_error=False, user_expressions=expressions or {}
        )
        reply = self._wait_for(sent, deadline, too_late)
        if reply.get("ename") == "MemoryError":
            # What took the memory stays alive, in the notebook's names or in the traceback: the next cell has none.
            raise KernelDied("It ran out of memory.")
        if self.limits.sandboxed and (words := self._watch.left_running()):
            raise KernelDied(words)
        if reply.get("status") != "ok":
            text = f"{sanitized(reply.get('ename', reply.get('status')))}: {sanitized(reply.get('evalue', ''))}"
            raise StudentError(text.rstrip(": "))
        return reply

    def stop(self) -> None:
        """End the process, with all that it has started, and remove its folder."""
        with contextlib.suppress(Exception):
            self._client.shell_channel.stop()
            self._client.context.destroy(linger=0)
        with contextlib.suppress(Exception):
            self._manager.shutdown_kernel(now=True)
        # That waits for five seconds. What is left counts for the next kernel's limit of processes: it is one user's.
        with contextlib.suppress(Exception):
            self._process.wait(ENDS)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _launch(self, server: ForkServer | None) -> None:
        sandboxed, user = self.limits.sandboxed, sandbox.user() if self.limits.sandboxed else None
        sockets = os.path.join(self._folder, "s")
        os.chmod(self._folder, 0o755)
        os.mkdir(sockets)
        home = HOME if sandboxed else os.path.join(self._folder, "work")
        if not sandboxed:
            os.mkdir(home)
        elif user is not None:
            os.chown(sockets, user, user)
        connection = os.path.join(self._folder, "connection.json")
        reached = {"transport": "ipc", "ip": os.path.join(sockets, "k"), "connection_file": connection}
        environment, arguments = _environment(home), ["-f", connection, *OPTIONS]
        key_in, key_out = os.pipe()
        if server is not None:
            rooms = {
                "empty": dict.fromkeys(EMPTY, self.limits.resources.folder),
                # The folder of the fork server too, wherever it lies: where the grader is not root, it is this user's.
                "covered": [server.folder],
                **{"readable": [connection], "writable": [sockets], "kept": places().needed, "ways": places().ways},
            }
            request = {
                **{"apart": sandboxed, "user": user, "limits": self.limits.resources.limits()},
                **{"rooms": rooms, "folder": home, "arguments": arguments},
            }
            self._manager = manager = ForkedKernelManager(server, request, key_in, **reached)
        else:
            command = [sys.executable, "-c", START, str(key_in), *arguments]
            if sandboxed:
                seen = {"readable": [connection], "writable": [sockets]}
                command = sandbox.in_sandbox(command, self.limits.resources, environment, **seen)
            self._manager = manager = FreshKernelManager(command, **reached)
        quiet = {name: subprocess.DEVNULL for name in ("stdin", "stdout", "stderr")}
        try:
            os.write(key_out, self.key)
            os.close(key_out)
            manager.start_kernel(cwd=self._folder if sandboxed else home, env=environment, pass_fds=[key_in], **quiet)
        finally:
            os.close(key_in)
        self._process = manager.provisioner.process
        processes = self._process.processes if server else _with_children(psutil.Process(manager.provisioner.pid))
        self._watch = Watch(self.limits.resources, processes, sockets)
        self._owned = sockets if user is not None else ""

    def _connect(self) -> None:
        """Connect to the channel that answers come on, and wait for the first."""
        self._client = client = self._manager.blocking_client()
        # What the notebook prints and shows is not read; what comes back is bounded.
        client.context = zmq.Context()
        client.context.setsockopt(zmq.MAXMSGSIZE, wire.LARGEST_MESSAGE * 2)
        client.context.setsockopt(zmq.RCVHWM, 8)
        client.start_channels(iopub=False, stdin=False, hb=False, control=False)
        deadline = time.monotonic() + self.limits.start
        self._wait_for(client.kernel_info(), deadline, f"No kernel within {self.limits.start:g} seconds.")
        if self._owned:
            os.chmod(self._owned, 0o755)
            os.chown(self._owned, 0, 0)  # nothing more can be put there

    def _wait_for(self, sent: str, deadline: float, too_late: str) -> dict:
        """The reply to the message `sent`; whatever else comes is dropped. Watches what the kernel uses meanwhile."""
        last = deadline + (BUSY - 1) * max(deadline - time.monotonic(), 0)
        self._watch.queued()
        while True:
            # What is no message is dropped too: a notebook can write on its own channel.
            with contextlib.suppress(Exception):
                message = self._client.get_shell_msg(timeout=TICK)
                if message["parent_header"].get("msg_id") == sent and isinstance(message["content"], dict):
                    return message["content"]
            self._look_after()
            deadline = min(deadline + self._watch.queued(), last)
            if time.monotonic() > deadline:
                raise KernelSlow(too_late)

    def _look_after(self) -> None:
        """Raise KernelDied where the kernel has died, or uses more than it may."""
        if self._process.poll() is not None:
            if getattr(self._process, "lost", False):
                raise ForkServerEnded(self._process.why)
            raise KernelDied("The kernel died.")
        if self.limits.sandboxed and (words := self._watch.too_much()):
            raise KernelDied(words)


def sanitized(text, longest: int = 500) -> str:
    """Text from a stranger: bounded, without control characters, and the same in every run."""
    text = str(text)[: 4 * longest] if isinstance(text, str | int | float) else ""
    text = TIDY.sub("", text.encode(errors="replace").decode())
    return ADDRESS.sub("0x...", text)[:longest]


def _environment(home: str) -> dict[str, str]:
    return {
        **sandbox.PYTHON,
        "PATH": "/usr/bin:/bin",
        "HOME": home,
        "USER": "student",
        "LANG": "C.UTF-8",
        "IPYTHONDIR": os.path.join(home, ".ipython"),
        "MPLCONFIGDIR": os.path.join(home, ".matplotlib"),
        # One thread each: several run at once, and a fork copies no thread.
        **{f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")},
        "CUDA_VISIBLE_DEVICES": "",
        # Asked otherwise, PyTorch says in a forked kernel that forks cannot use CUDA, and not that there is none.
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
        # glibc keeps freed memory that lies between other things, and its own rule comes to keep large tensors too.
        # From so many bytes on each gets memory of its own, so that what is freed counts for the limit no longer.
        "MALLOC_MMAP_THRESHOLD_": str(4 * sandbox.MIB),
        DEVICES: "simulated",
        GRADING: "1",
    }


def forks(limits: Limits) -> bool:
    """Whether kernels are forked here: not where the system makes no sandbox in a sandbox."""
    if not limits.warm or not sys.platform.startswith("linux"):
        return False
    return not limits.sandboxed or borrowed() or not sandbox.no_forks()


def start_fork_server(limits: Limits) -> None:
    """Begin what takes seconds, beside other work: the process that kernels are forked from."""
    if forks(limits):
        begin_fork_server(_fork_server_environment(limits), sandboxed=limits.sandboxed)


def fork_server_for(limits: Limits) -> ForkServer | None:
    """The process that kernels are forked from, or None where each is a new process."""
    if not forks(limits):
        return None
    return kernel_fork_server(_fork_server_environment(limits), sandboxed=limits.sandboxed, within=limits.start)


def _fork_server_environment(limits: Limits) -> dict[str, str]:
    return _environment(HOME if limits.sandboxed else tempfile.gettempdir())


def _with_children(process: psutil.Process):
    return lambda: [process, *process.children(recursive=True)]
