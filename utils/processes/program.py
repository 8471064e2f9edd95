"""Be a Python program, in a process that was forked with PyTorch loaded: as `python ARGUMENTS` would have been."""

from __future__ import annotations

import atexit
import io
import os
import runpy
import signal
import sys
import threading
import traceback
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType, TracebackType
from typing import cast

UNBUFFERED, MODULE = "-u", "-m"
# PyTorch reads these while it is loaded, so a program that is told them has to load it.
READ_WHILE_LOADING = ("TORCH_LOGS", "TORCH_CPP_LOG_LEVEL", "TORCH_SHOW_CPP_STACKTRACES")


def what_runs(arguments: list[str]) -> list[str]:
    """A script, or "-m" and a module, and its arguments. Empty where Python is asked for anything else."""
    rest = arguments[1:] if arguments[:1] == [UNBUFFERED] else arguments
    if not rest or (rest[0].startswith("-") and (rest[0] != MODULE or len(rest) < 2)):
        return []
    return rest


def be_program(arguments: list[str]) -> None:
    """Run a program by Python's arguments, and end as it ends. Never returns."""
    rest = what_runs(arguments)
    for stream in (sys.stdout, sys.stderr):
        unbuffered = rest != arguments or stream is sys.stderr
        cast(io.TextIOWrapper, stream).reconfigure(line_buffering=stream.isatty(), write_through=unbuffered)
    _as_the_environment_says()
    code = _run(rest)
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code & 0xFF)


def _as_the_environment_says() -> None:
    """Do what Python and PyTorch do with the environment when they start."""
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [*(name for name in named if name and name not in sys.path), *sys.path]
    if torch := sys.modules.get("torch"):
        if (threads := os.environ.get("OMP_NUM_THREADS", "")).isdigit():
            torch.set_num_threads(max(1, int(threads)))
        if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD") != "0":
            for started_by_pytorch in entry_points(group="torch.backends"):
                started_by_pytorch.load()()


def _run(rest: list[str]) -> int:
    """The exit code of a program, or a signal's number below 0."""
    try:
        if rest[0] == MODULE:
            sys.path[:] = [os.getcwd(), *filter(None, sys.path)]
            sys.argv = rest[1:]
            runpy.run_module(rest[1], run_name="__main__", alter_sys=True)
        else:
            _run_script(rest)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException as error:
        traceback.print_exception(error.with_traceback(_its_own(error.__traceback__)))
        return -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _run_script(rest: list[str]) -> None:
    script = os.path.abspath(rest[0])
    try:
        source = Path(script).read_bytes()
    except OSError as error:
        print(f"{sys.executable}: can't open file {script!r}: [Errno {error.errno}] {error.strerror}", file=sys.stderr)
        raise SystemExit(2) from None
    sys.path[:] = [os.path.dirname(os.path.realpath(script)), *filter(None, sys.path)]
    sys.argv = rest
    sys.modules["__main__"] = its = ModuleType("__main__")
    its.__file__ = script
    exec(compile(source, script, "exec"), vars(its))


def _its_own(frames: TracebackType | None) -> TracebackType | None:
    """A traceback without the lines of this file."""
    while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    return frames
