"""A student's notebook that has been run, and running a probe beside what it has defined."""

from __future__ import annotations

import inspect
import linecache
import sys
import sysconfig
import textwrap
import traceback
from collections.abc import Callable
from typing import Protocol

from utils.common.files import ROOT
from utils.exercises.facts import wire
from utils.exercises.facts.errors import StudentError

# Code below these is no student's answer: Python, its library, packages, the course.
NOT_THE_STUDENTS = (
    *(f"{path}/" for path in (sysconfig.get_path("stdlib"), sys.prefix, sys.base_prefix, ROOT / "utils")),
    *("<frozen ", "<string>", "<probe>", "<__array_function__"),
)


class Student(Protocol):
    """A student's notebook that has been run: here or in another process."""

    devices: list[str]

    def run(self, probe: Callable, *args):
        """What `probe(lab, *args)` returns, where `lab.name` is what the notebook calls `name`. Plain data only.

        Raises StudentError where the student's code raises.
        """


class LocalStudent:
    """The learner's own kernel: probes run right here."""

    here = True  # probes run in the process that judges

    def __init__(self, namespace: dict, devices: list[str]):
        self.namespace = namespace
        self.devices = devices

    def run(self, probe: Callable, *args):
        return wire.decode(run_probe(probe, self.namespace, list(args)))


class Names:
    """What the notebook has defined, by name: `lab.make_layers` is the notebook's `make_layers`."""

    def __init__(self, namespace: dict):
        self._namespace = namespace

    def __getattr__(self, name):
        if name not in self._namespace:
            raise StudentError(f"{name} is not defined. Has its cell run, to the end?")
        return self._namespace[name]


def run_probe(probe: Callable, namespace: dict, args: list) -> str:
    """Run a probe beside the student's code; what it tells as a `wire` message.

    Raises StudentError, in words for the student, where the student's code raises.
    """
    try:
        return wire.encode(probe(Names(namespace), *args))
    except StudentError:
        raise
    except Exception as error:
        raise StudentError(_in_words(error, probe)) from None


def probe_source(probe: Callable) -> str:
    """The text of a probe, to be run in another process. A probe imports what it needs inside itself."""
    return textwrap.dedent(inspect.getsource(probe))


def _in_words(error: Exception, probe: Callable) -> str:
    try:
        frames = traceback.extract_tb(error.__traceback__)
    except PermissionError:  # it leads to the observer of a sealed kernel, who has refused something
        frames = []
    own = [f for f in frames if _is_the_students(f.filename) and f.filename != probe.__code__.co_filename]
    # Others raise it too: a module without forward, a loss that does not know what it was given.
    if isinstance(error, NotImplementedError) and own and own[-1] is frames[-1]:
        return "This is not written yet: the cell still raises NotImplementedError."
    words = f"It raised {type(error).__name__}: {error}"
    if not own:
        return words
    # The student's own line says more than the one inside PyTorch, or Python, that raised.
    line = own[-1].line or linecache.getline(own[-1].filename, own[-1].lineno or 0).strip()
    return f"{words}\n    in {own[-1].name}, line {own[-1].lineno}: {line}"


def _is_the_students(file: str) -> bool:
    return not file.startswith(NOT_THE_STUDENTS) and "site-packages" not in file and "dist-packages" not in file
