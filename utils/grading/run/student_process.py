"""The grader's part of a student's process: it is started with KEY_FD -f CONNECTION_FILE ....

It loads what will be needed, reads the key from a pipe that is empty afterwards, seals the process (observer.py), and
becomes an ordinary Jupyter kernel.
"""

from __future__ import annotations

import builtins
import ctypes
import importlib
import os
import sys
import types
from pathlib import Path

import utils.facts
from utils.facts import StudentError, looks, student, wire
from utils.files import ROOT
from utils.grading.run import system_calls

HERE = Path(__file__).parent
# Loaded before the student's code, so that nobody else can be there first.
EARLY = (
    *("torch", "torch.nn", "torch.optim", "torch._dynamo", "torch.utils.checkpoint", "torch.utils.data", "numpy"),
    *("IPython", "ipykernel.kernelapp", "matplotlib.figure", "utils.devices", "utils.simgpu", "utils.trace"),
    *("utils.timing", "utils.pipeline", "utils.intervals", "utils.check", "utils.plots", "utils.monitor"),
)

look = None


def answer(request: str, namespace: dict, audit=sys.audit) -> str:
    """Run the probe of a request beside the student's code; "answer" or "error", and what it is as a `wire` message."""
    try:
        source, name, arguments = wire.decode(request)
        own: dict = {"__warningregistry__": {}}  # a warning would make it
        exec(looks.rewritten(source, look), own)
        audit("course.probe", own)  # what the student's code may see of it, and not change
        return f"answer {student.answer(own[name], namespace, arguments)}"
    except StudentError as error:
        return f"error {wire.encode(str(error))}"


def _strict_probes() -> None:
    """Load utils.facts.probes with its looks made strict, before anybody imports it."""
    path = ROOT / "utils" / "facts" / "probes.py"
    module = types.ModuleType("utils.facts.probes")
    module.__file__, module.__package__ = str(path), "utils.facts"
    exec(looks.rewritten(path.read_text(encoding="utf-8"), look, str(path)), module.__dict__)
    sys.modules[module.__name__] = utils.facts.probes = module


def _let_torch_settle() -> None:
    """PyTorch replaces some of its own functions when they are first used: let it, before the seal."""
    import torch

    for kind in vars(torch.optim).values():
        if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer) and kind is not torch.optim.Optimizer:
            kind([torch.nn.Parameter(torch.zeros(1, 1))])


def _keep_memory_private() -> None:
    """Neither this process nor a child of it may read or write its memory as a file. (Linux)"""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE


def _set_known(known) -> None:
    global look
    look = looks.looker(known)
    _strict_probes()


def main() -> None:
    """Become a sealed kernel."""
    key_fd = int(sys.argv.pop(1))
    with os.fdopen(key_fd, "rb") as pipe:
        key = pipe.read()
    for name in EARLY:
        importlib.import_module(name)
    from utils import simgpu
    from utils.simgpu import origin
    from utils.simgpu.hardware import Machine
    from utils.simgpu.memory import Memory, Storage

    simgpu.enable(2)
    _let_torch_settle()
    _keep_memory_private()
    system_calls.refuse()
    # Its own names and its own builtins: nothing that the student's code can reach is looked up by it.
    private: dict = {"__name__": "seal", "__builtins__": dict(vars(builtins))}
    path = HERE / "observer.py"
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), private)
    places = (f"{ROOT / 'utils'}/", f"{sys.prefix}/", f"{sys.base_prefix}/", "<frozen importlib")
    readers = {origin.here.__code__: vars(origin)}
    recorders = {getattr(Machine, name).__code__ for name in ("launch", "_copy", "configure")}
    recorders |= {function.__code__ for function in (Memory.take, Memory.reset_peak, Storage.__del__)}
    private["seal"](key, answer, _set_known, places, readers, recorders)
    del key, private
    from ipykernel import kernelapp

    kernelapp.launch_new_instance()


if __name__ == "__main__":
    main()
