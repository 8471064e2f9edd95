"""A submission running in a process of its own: a Jupyter kernel in a sandbox, that the grader talks to in plain data.

The grader sends text and reads text. It never shares an interpreter with the student's code, and believes no reply
that the observer inside (observer.py) has not signed.
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
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from hmac import compare_digest

import psutil
import zmq
from jupyter_client import KernelManager

from utils.environment import DEVICES, GRADING
from utils.facts import StudentError, wire
from utils.facts.student import probe_source
from utils.grading.run import sandbox
from utils.grading.run.submissions import FOLDERS

# A terminal's colours and titles, and what else is no text.
TIDY = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f]")
ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
TICK = 0.2  # seconds between two looks at a kernel that is busy
SOCKETS = 5  # that a kernel makes in its folder
START = "from utils.grading.run.student_process import main; main()"


@dataclass(frozen=True)
class Limits:
    """Seconds that things may take, and what else a submission may use."""

    start: float = 120
    cell: float = 60
    call: float = 20
    submission: float = 900
    resources: sandbox.Resources = field(default_factory=sandbox.Resources)
    sandboxed: bool = True


class KernelDied(StudentError):
    """The submission's process ended: a crash, or it used more than it may."""


class KernelSlow(StudentError):
    """The submission did not answer in time."""


class KernelDidNotStart(Exception):
    """The grader could not start a kernel at all: nothing to do with the submission."""


class GradingKernel(KernelManager):
    """A kernel that is started with our own command, whatever kernels are installed."""

    def format_kernel_cmd(self, extra_arguments=None):
        # Called when the connection file has just been written.
        os.chmod(self.connection_file, 0o644)
        return self.command


class KernelStudent:
    """A student's notebook, run cell by cell in its own kernel. Use it in a `with`.

    After a crash or a time-out the kernel is started again and the notebook replayed without the cell that
    caused it, so that each costs only the exercise it belongs to.
    """

    def __init__(self, cells: list[str], limits: Limits | None = None):
        self.cells = cells
        self.limits = limits or Limits()
        self.devices = ["simgpu:0", "simgpu:1"]
        self.errors: dict[int, str] = {}  # cell number from 1 -> what it raised
        self.worst = "ok"  # ok, error, timeout, crash
        self.flags: list[str] = []  # what a person should look at
        self._skipped: set[int] = set()
        self._manager: GradingKernel | None = None
        self._folder = ""
        self._deadline = time.monotonic() + self.limits.submission

    def __enter__(self) -> KernelStudent:
        try:
            self._start()
        except KernelSlow as failure:
            self._note_worst(failure)  # each probe will say so
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *exception) -> None:
        self._stop()

    def run(self, probe: Callable, *args):
        """See `facts.Student.run`. Raises StudentError, also for a crash or no answer in time."""
        if self._manager is None:
            self._start()
        self._asked += 1
        wish = f"{self._asked}-{wire.encode([probe_source(probe), probe.__name__, list(args)])}"
        request = f"{wish}.{self._sign(wish.encode(), b'ask')}"
        call = f"(lambda box: (__import__('sys').audit('course.look', {request!r}, globals(), box), box)[1][0])([])"
        try:
            reply = self._execute("", self.limits.call, {"answer": call})
        except (KernelDied, KernelSlow) as failure:
            self._note_worst(failure)
            self._stop()  # started again, and the notebook replayed, when the next probe needs it
            raise
        return self._read(reply)

    def _read(self, reply: dict):
        """What the observer found. Raises StudentError for what it did not sign, or could not find."""
        try:
            answer = reply["user_expressions"]["answer"]
            if answer["status"] != "ok":
                raise StudentError(f"It raised {_tidy(answer['ename'])}: {_tidy(answer['evalue'])}")
            told, _, signature = answer["data"]["text/plain"].strip("'").rpartition(".")
            if not compare_digest(signature, self._sign(told.encode("ascii"), b"answer")):
                raise ValueError
            number, *lists, found = told.split(";")
            before, during, flags = ([_text(word) for word in one.split(",") if word] for one in lists)
            if number != str(self._asked):
                raise ValueError
        except (LookupError, TypeError, ValueError, AttributeError):
            self._flag("a reply was not the observer's: something in the notebook forges or breaks replies")
            raise StudentError("The answer that came back cannot be read.") from None
        for text in flags:
            self._flag(text)
        for name in before:
            self._flag(f"it replaced {name}, which was put back before looking")
        if during:
            self._flag(f"while its functions ran it replaced {', '.join(during)}")
            raise StudentError(f"While it ran it replaced {during[0]}: then nobody can tell what it did.")
        try:
            kind, _, message = found.partition(" ")
            value = wire.decode(message)
        except ValueError:
            raise StudentError("The answer that came back cannot be read.") from None
        if kind != "answer":
            raise StudentError(_tidy(value, 4000))
        return value

    def _sign(self, message: bytes, purpose: bytes) -> str:
        return blake2b(message, key=self._key, person=purpose).hexdigest()

    def _flag(self, text: str) -> None:
        text = _tidy(text, 200)
        if text not in self.flags and len(self.flags) < 20:
            self.flags.append(text)

    def _start(self) -> None:
        """Start a kernel and run the notebook in it, leaving out cells that crashed or hung before."""
        while True:
            self._stop()
            self._launch()
            for number, source in enumerate(self.cells, 1):
                if number in self._skipped:
                    continue
                try:
                    self._execute(source, self.limits.cell)
                except (KernelDied, KernelSlow) as failure:
                    self._note_worst(failure)
                    self.errors[number] = str(failure)
                    self._skipped.add(number)
                    break
                except StudentError as failure:
                    self.worst = "error" if self.worst == "ok" else self.worst
                    self.errors[number] = str(failure)
            else:
                return

    def _launch(self) -> None:
        if time.monotonic() > self._deadline:
            raise KernelSlow(f"The submission has used its {self.limits.submission:g} seconds.")
        self._folder = tempfile.mkdtemp(prefix=f"{FOLDERS}{os.getpid()}-")
        sockets = os.path.join(self._folder, "s")
        os.mkdir(sockets)
        home = sandbox.HOME if self.limits.sandboxed else os.path.join(self._folder, "work")
        if not self.limits.sandboxed:
            os.mkdir(home)
        elif sandbox.user() is not None:
            os.chown(sockets, sandbox.user(), sandbox.user())
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": home,
            "USER": "student",
            "LANG": "C.UTF-8",
            "IPYTHONDIR": os.path.join(home, ".ipython"),
            "MPLCONFIGDIR": os.path.join(home, ".matplotlib"),
            "OMP_NUM_THREADS": "1",
            "CUDA_VISIBLE_DEVICES": "",
            DEVICES: "simulated",
            GRADING: "1",
        }
        self._asked, self._key = 0, secrets.token_bytes(32)
        key_in, key_out = os.pipe()
        self._manager = manager = GradingKernel(transport="ipc", ip=os.path.join(sockets, "k"))
        manager.connection_file = os.path.join(self._folder, "connection.json")
        manager.command = [sys.executable, "-c", START, str(key_in), "-f", manager.connection_file]
        manager.command += ["--HistoryManager.enabled=False", "--matplotlib=inline"]
        if self.limits.sandboxed:
            seen = {"readable": [manager.connection_file], "writable": [sockets]}
            manager.command = sandbox.wrap(manager.command, self.limits.resources, environment, **seen)
        quiet = {name: subprocess.DEVNULL for name in ("stdin", "stdout", "stderr")}
        try:
            os.write(key_out, self._key)
            os.close(key_out)
            manager.start_kernel(cwd=self._folder, env=environment, pass_fds=[key_in], **quiet)
            self._process = psutil.Process(manager.provisioner.pid)
            self._connect()
        except (RuntimeError, OSError, psutil.Error) as error:
            self._stop()
            raise KernelDidNotStart(f"the kernel did not start: {error}") from None
        except KernelDied:
            self._stop()
            raise KernelDidNotStart("the kernel died before the notebook began") from None
        finally:
            os.close(key_in)
        os.chmod(sockets, 0o755)
        if self.limits.sandboxed and sandbox.user() is not None:
            os.chown(sockets, 0, 0)  # nothing more can be put there

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

    def _stop(self) -> None:
        if self._manager is None:
            return
        with contextlib.suppress(Exception):
            self._client.shell_channel.stop()
            self._client.context.destroy(linger=0)
        with contextlib.suppress(Exception):
            self._manager.shutdown_kernel(now=True)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._manager = None

    def _execute(self, code: str, seconds: float, expressions: dict | None = None) -> dict:
        """Run code and return the kernel's reply. Raises StudentError, KernelDied or KernelSlow."""
        sent = self._client.execute(
            code, store_history=False, allow_stdin=False, stop_on_error=False, user_expressions=expressions or {}
        )
        deadline = min(time.monotonic() + seconds, self._deadline)
        reply = self._wait_for(sent, deadline, f"No answer within {seconds:g} seconds.")
        if reply.get("ename") == "MemoryError":
            # What it hoarded stays alive, by its names or by the traceback: nothing after it would have room.
            raise KernelDied("It ran out of memory.")
        if self.limits.sandboxed:
            self._watch_what_is_left()
        if reply.get("status") != "ok":
            text = f"{_tidy(reply.get('ename', reply.get('status')))}: {_tidy(reply.get('evalue', ''))}"
            raise StudentError(text.rstrip(": "))
        return reply

    def _wait_for(self, sent: str, deadline: float, too_late: str) -> dict:
        """The reply to the message `sent`; whatever else comes is dropped. Watches what the kernel uses meanwhile."""
        while True:
            # What is no message is dropped too: a notebook can write on its own channel.
            with contextlib.suppress(Exception):
                message = self._client.get_shell_msg(timeout=TICK)
                if message["parent_header"].get("msg_id") == sent and isinstance(message["content"], dict):
                    return message["content"]
            self._watch()
            if time.monotonic() > deadline:
                raise KernelSlow(too_late)

    def _watch(self) -> None:
        """Raise KernelDied where the kernel has died, or uses more than it may."""
        if not self._manager.is_alive():
            raise KernelDied("The kernel died.")
        if not self.limits.sandboxed:
            return
        # What forked processes share counts once, in a figure that takes longer to get.
        most = self.limits.resources.memory
        if self._used(_resident) > most < self._used(_proportional):
            raise KernelDied(f"It used more than {most / 2**30:g} GiB of memory.")
        if len(os.listdir(os.path.join(self._folder, "s"))) > SOCKETS:
            raise KernelDied("It wrote where only the kernel may.")

    def _watch_what_is_left(self) -> None:
        """Raise KernelDied where so many processes and threads were left running that looking has no room."""
        most = self.limits.resources.processes // 2
        if self._used(psutil.Process.num_threads) > most:
            raise KernelDied(f"It left more than {most} processes and threads running.")

    def _used(self, of: Callable[[psutil.Process], int]) -> int:
        """What `of` says of the kernel and all that it has started, added up."""
        used = 0
        with contextlib.suppress(psutil.Error):
            for process in [self._process, *self._process.children(recursive=True)]:
                with contextlib.suppress(psutil.Error):
                    used += of(process)
        return used

    def _note_worst(self, failure: StudentError) -> None:
        kind = "crash" if isinstance(failure, KernelDied) else "timeout"
        if self.worst != "crash":
            self.worst = kind


def _resident(process: psutil.Process) -> int:
    return process.memory_info().rss


def _proportional(process: psutil.Process) -> int:
    try:
        return process.memory_full_info().pss
    except psutil.AccessDenied:  # only root may look into the memory of others
        return process.memory_info().rss


def _text(word: str) -> str:
    return bytes.fromhex(word).decode(errors="replace")


def _tidy(text, longest: int = 500) -> str:
    """Text from a stranger: bounded, without control characters, and the same in every run."""
    text = str(text)[: 4 * longest] if isinstance(text, str | int | float) else ""
    text = TIDY.sub("", text.encode(errors="replace").decode())
    return ADDRESS.sub("0x...", text)[:longest]
