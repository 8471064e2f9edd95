"""A submission running in a process of its own: a Jupyter kernel that the grader talks to in plain data.

The grader sends text and reads text. It never shares an interpreter with the student's code.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

from jupyter_client import KernelManager

from utils import devices
from utils.check import GRADING
from utils.grading import plain
from utils.grading.facts import StudentError, probe_source

TIDY = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Limits:
    """Seconds that things may take."""

    start: float = 60
    cell: float = 60
    call: float = 20


class KernelDied(StudentError):
    """The submission's process ended: a crash, or out of memory."""


class KernelSlow(StudentError):
    """The submission did not answer in time."""


class KernelDidNotStart(Exception):
    """The grader could not start a kernel at all: nothing to do with the submission."""


def kernel_command(connection_file: str) -> list[str]:
    """The command that starts a student's kernel. A sandbox goes around it here, and nowhere else."""
    options = ["--HistoryManager.enabled=False", "--matplotlib=inline"]
    return [sys.executable, "-m", "ipykernel_launcher", "-f", connection_file, *options]


class GradingKernel(KernelManager):
    """A kernel that is started with `kernel_command`, whatever kernels are installed."""

    def format_kernel_cmd(self, extra_arguments=None):
        return kernel_command(self.connection_file)


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
        self._skipped: set[int] = set()
        self._manager: GradingKernel | None = None
        self._folder = ""

    def __enter__(self) -> KernelStudent:
        self._start()
        return self

    def __exit__(self, *exception) -> None:
        self._stop()

    def run(self, probe: Callable, *args):
        """See `facts.Student.run`. Raises StudentError, also for a crash or no answer in time."""
        source, message = probe_source(probe), plain.encode(list(args))
        call = (
            "__import__('utils.grading.facts', fromlist=['facts']).answer_message"
            f"({source!r}, {probe.__name__!r}, globals(), {message!r})"
        )
        try:
            reply = self._execute("", self.limits.call, {"answer": call})
        except (KernelDied, KernelSlow) as failure:
            self._note_worst(failure)
            self._start()
            raise
        answer = reply.get("user_expressions", {}).get("answer", {})
        if answer.get("status") != "ok":
            raise StudentError(f"It raised {answer.get('ename')}: {answer.get('evalue')}")
        try:
            value = plain.decode(str(answer["data"]["text/plain"]).strip("'"))
            if "error" in value:
                raise StudentError(str(value["error"]))
            return value["answer"]
        except (ValueError, KeyError, TypeError):
            raise StudentError("The answer that came back cannot be read.") from None

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
        self._folder = tempfile.mkdtemp(prefix="grading-")
        work = os.path.join(self._folder, "work")
        os.mkdir(work)
        self._manager = GradingKernel(transport="ipc", ip=os.path.join(self._folder, "kernel"))
        self._manager.connection_file = os.path.join(self._folder, "connection.json")
        environment = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": work,
            "LANG": "C.UTF-8",
            "IPYTHONDIR": os.path.join(work, ".ipython"),
            "MPLCONFIGDIR": os.path.join(work, ".matplotlib"),
            "OMP_NUM_THREADS": "1",
            devices.VARIABLE: "simulated",
            GRADING: "1",
        }
        try:
            self._manager.start_kernel(cwd=work, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self._client = self._manager.blocking_client()
            self._client.start_channels()
            self._client.wait_for_ready(timeout=self.limits.start)
        except (RuntimeError, OSError) as error:
            self._stop()
            raise KernelDidNotStart(f"the kernel did not start: {error}") from None

    def _stop(self) -> None:
        if self._manager is None:
            return
        with contextlib.suppress(Exception):
            self._client.stop_channels()
        with contextlib.suppress(Exception):
            self._manager.shutdown_kernel(now=True)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._manager = None

    def _execute(self, code: str, seconds: float, expressions: dict | None = None) -> dict:
        """Run code and return the kernel's reply. Raises StudentError, KernelDied or KernelSlow."""
        sent = self._client.execute(
            code, store_history=False, allow_stdin=False, stop_on_error=False, user_expressions=expressions or {}
        )
        deadline = time.monotonic() + seconds
        while True:
            try:
                message = self._client.get_shell_msg(timeout=0.2)
            except queue.Empty:
                if not self._manager.is_alive():
                    raise KernelDied("The kernel died.") from None
                if time.monotonic() > deadline:
                    raise KernelSlow(f"No answer within {seconds:g} seconds.") from None
                continue
            if message["parent_header"].get("msg_id") == sent:
                break
        reply = message["content"]
        if reply.get("status") != "ok":
            text = f"{reply.get('ename', reply.get('status'))}: {reply.get('evalue', '')}"
            raise StudentError(TIDY.sub("", text)[:500].rstrip(": "))
        return reply

    def _note_worst(self, failure: StudentError) -> None:
        kind = "crash" if isinstance(failure, KernelDied) else "timeout"
        if self.worst != "crash":
            self.worst = kind
