"""The grader's part of a student's process: it is started with KEY_FD -f CONNECTION_FILE ....

It loads what will be needed, reads the key from a pipe that is empty afterwards, seals the process (observer.py), and
becomes an ordinary Jupyter kernel.
"""

from __future__ import annotations

import builtins
import importlib
import os
import sys
import types
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import utils.exercises.facts
from utils.common.files import ROOT
from utils.exercises.facts import StudentError, looks, student, wire
from utils.grading.run import isolation, system_calls

HERE = Path(__file__).parent
# Loaded before the student's code, so that it cannot be there first.
EARLY = (
    *("torch", "torch.nn", "torch.optim", "torch._dynamo", "torch.utils.checkpoint", "torch.utils.data", "numpy"),
    *("IPython", "ipykernel.kernelapp", "matplotlib.figure", "utils.observe.devices", "simgpu", "utils.observe.trace"),
    *(
        "utils.observe.timing",
        "utils.schedules.of_layers",
        "utils.observe.intervals",
        "utils.exercises.check",
        "utils.observe.plots",
        "utils.observe.monitor",
    ),
    *(
        "utils.kits.mailbox",
        "utils.kits.experts",
        "utils.kits.job_dumps",
        "utils.kits.job_traces",
        "utils.kits.lives",
        "utils.kits.parallel_block",
        "utils.kits.ranks_in_turns",
        "utils.exercises.ledger",
        "utils.models.gpt",
        "utils.kits.decoding",
        "utils.kits.step",
        "utils.kits.two_nodes",
        "utils.kits.sharded",
        "utils.kits.recipe",
        "utils.schedules",
        "utils.exercises.facts.reference",
    ),
)

# What a kernel loads when it starts, a third of a second: its debugger most of all. Loaded where kernels are forked.
KERNELS = (
    *("ipykernel.debugger", "IPython.core.debugger", "IPython.core.magics.execution", "IPython.core.oinspect"),
    *("IPython.core.completerlib", "IPython.core.pylabtools", "IPython.extensions.storemagic"),
)

# Random numbers that are made before a fork, so that not each makes its own: as many as lab01 asks for.
NUMBERS = 3 * 2**20

look = None


def answer(request: str, namespace: dict, audit=sys.audit) -> str:
    """Run the probe of a request beside the student's code; "answer" or "error", and what it is as a `wire` message."""
    try:
        source, name, arguments = wire.decode(request)
        own: dict = {"__warningregistry__": {}}  # a warning would make it
        exec(looks.rewritten(source, look), own)
        audit("course.probe", own)  # what the student's code may see of it, and not change
        return f"answer {student.run_probe(own[name], namespace, arguments)}"
    except StudentError as error:
        return f"error {wire.encode(str(error))}"


def _strict_probes() -> None:
    """Load utils.exercises.facts.probes with its looks made strict, before anybody imports it."""
    path = ROOT / "utils" / "exercises" / "facts" / "probes.py"
    module = types.ModuleType("utils.exercises.facts.probes")
    module.__file__, module.__package__ = str(path), "utils.exercises.facts"
    exec(looks.rewritten(path.read_text(encoding="utf-8"), look, str(path)), module.__dict__)
    module.random_numbers(0, NUMBERS)
    sys.modules[module.__name__] = utils.exercises.facts.probes = module


def _let_torch_settle() -> None:
    """PyTorch replaces some of its own functions when they are first used: let it, before the observer looks."""
    import torch

    for kind in vars(torch.optim).values():
        if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer) and kind is not torch.optim.Optimizer:
            parameter = torch.nn.Parameter(torch.zeros(1, 1))
            parameter.grad = torch.zeros(1, 1)
            with suppress(RuntimeError, ValueError, TypeError):  # some want another parameter
                kind([parameter]).step(lambda: 0.0)


def look_strictly(known: Callable[[type], bool]) -> None:
    """Have probes look past the classes of the notebook. `known` says of a class whether it was there before."""
    global look
    look = looks.looker(known)
    _strict_probes()


def load_for_kernels() -> None:
    """Load what notebooks and kernels need."""
    quiet = "PYDEVD_DISABLE_FILE_VALIDATION"  # else the debugger warns of what Python has frozen
    before = os.environ.get(quiet)
    os.environ[quiet] = "1"
    for name in (*EARLY, *KERNELS):
        importlib.import_module(name)
    del os.environ[quiet]
    if before is not None:
        os.environ[quiet] = before


def prepare() -> list[Callable[[bytes], None]]:
    """Load what a notebook will need, and remember it. The one in the answer begins the observing, with a key."""
    load_for_kernels()
    import torch

    import simgpu
    from simgpu import ordering
    from simgpu.hardware import Machine, machine
    from simgpu.memory import Memory, Storage
    from utils.exercises import ledger

    _let_torch_settle()
    simgpu.enable(2)
    with torch.simgpu.device(1):  # what that replaces of PyTorch's is there before anybody looks
        pass
    # Its own names and its own builtins: nothing that the student's code can reach is looked up by it.
    private: dict = {"__name__": "observer", "__builtins__": dict(vars(builtins))}
    path = HERE / "observer.py"
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), private)
    places = (f"{ROOT / 'utils'}/", f"{sys.prefix}/", f"{sys.base_prefix}/", "<frozen importlib")
    machine.priorities = False  # a record of a kernel that may still be delayed would come from elsewhere
    recorders = {getattr(Machine, name).__code__ for name in ("launch", "_copy", "communicate", "configure")}
    recorders |= {function.__code__ for function in (Memory.take, Memory.give, Memory.reset_peak, Storage.__del__)}
    listens = ordering.unfinished_reads.__wrapped__
    recorders |= {function.__code__ for function in (ledger._notes, ordering._warn_of_race, listens)}
    return [private["remember"](answer, look_strictly, places, recorders)]


def become_kernel(begin: list[Callable[[bytes], None]], key_fd: int, arguments: Sequence[str]) -> None:
    """Read the key from a pipe that is empty afterwards, begin observing, and be a Jupyter kernel until it ends.

    `begin` is empty then: the notebook can walk to these frames, and from a function of the observer's to its key.
    """
    if sys.platform.startswith("linux"):
        isolation.keep_memory_private()
        system_calls.refuse()
    with os.fdopen(key_fd, "rb") as pipe:
        begin.pop()(pipe.read())
    sys.argv = ["kernel", *arguments]
    from ipykernel import kernelapp

    kernelapp.launch_new_instance()


def main() -> None:
    """A process that is started for one submission: python -c ... KEY_FD -f CONNECTION_FILE ..."""
    become_kernel(prepare(), int(sys.argv[1]), sys.argv[2:])
