"""What `python train.py` and torchrun are in a room: a program forked from the class's warm process.

It is the process that was started, and stands for the program: it passes on signals, and ends as that ends. Where
nothing can be forked, it becomes an ordinary Python.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

from utils.common.settings import FORK_SERVER
from utils.processes.forking import ForkServerEnded, lent_at
from utils.processes.program import READ_WHILE_LOADING, what_runs


def main() -> None:
    """Never returns."""
    arguments = sys.argv[1:]
    request = {"environment": dict(os.environ), "folder": os.getcwd(), "program": arguments}
    try:
        if not what_runs(arguments) or any(name in os.environ for name in READ_WHILE_LOADING):
            raise ForkServerEnded("an ordinary Python is needed")
        warm = lent_at(os.environ.get(FORK_SERVER, ""))
        program = warm.fork(request, [0, 1, 2])
    except ForkServerEnded:
        os.execv(sys.executable, [sys.executable, *arguments])
    warm.close()
    for number in set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
        with suppress(OSError, ValueError):
            signal.signal(number, lambda number, _: program.send_signal(number))
    code = program.wait()
    if code < 0:
        with suppress(OSError):  # SIGKILL is as it always was
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)
