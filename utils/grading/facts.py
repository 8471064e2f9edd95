"""Facts: what a lab claims about a right answer, one plain sentence each, and how it finds out.

A lab's visible facts (tests/visible/lab01.py) are checked in the learner's own kernel by `check("ex1")`.
The hidden ones (tests/hidden/lab01.py) are checked by the grader, together with the visible ones, against
a kernel in another process. Both are written once, against `Student`:

    lab = Lab("lab01", "Split a model")
    ex1 = lab.exercise("ex1", points=2, title="...", hints=["...", "..."])

    @ex1.fact("layer1 is on the first device")
    def _(student):
        found = student.run(places, *student.devices)      # a probe, run beside the student's code
        need(found[0] == student.devices[0], f"layer1 is on {found[0]}")
"""

from __future__ import annotations

import importlib.util
import inspect
import linecache
import textwrap
import traceback
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from utils.grading import plain

ROOT = Path(__file__).resolve().parents[2]


class Unmet(Exception):
    """A fact does not hold. The message says in plain words what was found instead."""


class StudentError(Unmet):
    """The student's code raised, or is not there, or did not answer."""


def need(condition: bool, otherwise: str) -> None:
    """Raise Unmet, with `otherwise` as its words, unless `condition` holds."""
    if not condition:
        raise Unmet(otherwise)


@contextmanager
def case(description: str):
    """Put `description` before the words of whatever is unmet inside: which of several calls it was."""
    try:
        yield
    except Unmet as unmet:
        raise type(unmet)(f"{description}: {unmet}") from None


def orders_of(student: Student):
    """The student's two devices in both orders, each inside a `case`: an answer has to use those it is given."""
    device0, device1 = student.devices
    yield device0, device1, nullcontext()
    yield device1, device0, case(f"Called with device0={device1} and device1={device0}, swapped on purpose")


class Student(Protocol):
    """A student's notebook that has been run: here or in another process."""

    devices: list[str]

    def run(self, probe: Callable, *args):
        """What `probe(lab, *args)` returns, where `lab.name` is what the notebook calls `name`. Plain data only.

        Raises StudentError where the student's code raises.
        """


@dataclass(frozen=True)
class Fact:
    claim: str
    test: Callable[[Student], None]


@dataclass
class Exercise:
    name: str
    points: int
    title: str
    hints: list[str]
    facts: list[Fact] = field(default_factory=list)
    recorded: Callable[[Student], dict] | None = None

    def timeline(self, record: Callable[[Student], dict]) -> Callable[[Student], dict]:
        """Say how to record a run of the student's answer: `record` returns a `Timeline` as plain data.

        Such data is `asdict(timeline)`, returned by a probe. It is drawn in the feedback and never graded.
        """
        self.recorded = record
        return record

    def fact(self, claim: str) -> Callable:
        """Add a fact: the decorated function raises Unmet where it does not hold."""

        def add(test):
            self.facts.append(Fact(claim, test))
            return test

        return add


@dataclass
class Lab:
    name: str
    title: str
    exercises: dict[str, Exercise] = field(default_factory=dict)

    def exercise(self, name: str, *, points: int, title: str, hints: list[str]) -> Exercise:
        """Add an exercise."""
        self.exercises[name] = Exercise(name, points, title, hints)
        return self.exercises[name]


def visible(name: str):
    """The module with the visible facts of a lab. Each call loads it afresh, so that facts can be added to it."""
    return _module("visible", name)


def load_lab(name: str, *, hidden: bool = False) -> Lab:
    """The lab called `name`, with its visible facts, and its hidden ones after them if asked.

    Raises FileNotFoundError where there is no such lab, or where this copy of the course has no hidden facts.
    """
    return _module("hidden" if hidden else "visible", name).lab


def _module(folder: str, name: str):
    path = ROOT / "tests" / folder / f"{name}.py"
    if not path.exists():
        raise FileNotFoundError(f"no {folder} tests for {name}: {path.relative_to(ROOT)} is not there")
    spec = importlib.util.spec_from_file_location(f"{folder}_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class Finding:
    """Whether one fact holds, and if not, what was found instead."""

    claim: str
    holds: bool
    found: str = ""


def judge(exercise: Exercise, student: Student) -> list[Finding]:
    """Test the facts of an exercise in order, up to the first that does not hold."""
    findings = []
    for fact in exercise.facts:
        try:
            fact.test(student)
        except Unmet as unmet:
            return [*findings, Finding(fact.claim, False, str(unmet))]
        except Exception as error:
            # A probe's answer of another form than any probe gives: the student's code has changed the probe's tools.
            return [*findings, Finding(fact.claim, False, f"The answer could not be read ({type(error).__name__}).")]
        findings.append(Finding(fact.claim, True))
    return findings


def recorded_timelines(lab: Lab, student: Student, findings: dict[str, list[Finding]]) -> dict[str, dict]:
    """The timeline of each exercise that has one, as plain data that nobody has checked. Ask when all is judged.

    An answer that cannot be run has none. Where something crashed or hung before, answers of which no fact holds are
    not run again.
    """
    found = {}
    calm = getattr(student, "worst", "ok") in ("ok", "error")
    for name, exercise in lab.exercises.items():
        judged = findings.get(name, [])
        if exercise.recorded is not None and judged and (calm or any(finding.holds for finding in judged)):
            try:
                found[name] = exercise.recorded(student)
            except (Unmet, AttributeError, IndexError, KeyError, TypeError, ValueError):
                continue
    return {name: data for name, data in found.items() if isinstance(data, dict)}


# --- the student's side -------------------------------------------------------------------------------------


class Names:
    """What the notebook has defined, by name: `lab.make_layers` is the notebook's `make_layers`."""

    def __init__(self, namespace: dict):
        self._namespace = namespace

    def __getattr__(self, name):
        if name not in self._namespace:
            raise StudentError(f"{name} is not defined. Has its cell run, to the end?")
        return self._namespace[name]


def answer(probe: Callable, namespace: dict, args: list):
    """Run a probe beside the student's code. Raises StudentError, in words for the student, where that raises."""
    try:
        return plain.decode(plain.encode(probe(Names(namespace), *args)))
    except StudentError:
        raise
    except NotImplementedError:
        raise StudentError("This is not written yet: the cell still raises NotImplementedError.") from None
    except Exception as error:
        raise StudentError(_in_words(error, probe)) from None


def _in_words(error: Exception, probe: Callable) -> str:
    words = f"{type(error).__name__}: {error}"
    own = [inspect.getsourcefile(answer), probe.__code__.co_filename]
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename not in own]
    # The student's own line says more than the one inside PyTorch that raised.
    frames = [f for f in frames if "site-packages" not in f.filename and "/utils/" not in f.filename]
    if not frames:
        return f"It raised {words}"
    line = frames[-1].line or linecache.getline(frames[-1].filename, frames[-1].lineno).strip()
    return f"It raised {words}\n    in {frames[-1].name}, line {frames[-1].lineno}: {line}"


class LocalStudent:
    """The learner's own kernel: probes run right here."""

    def __init__(self, namespace: dict, devices: list[str]):
        self.namespace = namespace
        self.devices = devices

    def run(self, probe: Callable, *args):
        return answer(probe, self.namespace, list(args))


def probe_source(probe: Callable) -> str:
    """The text of a probe, to be run in another process. A probe imports what it needs inside itself."""
    return textwrap.dedent(inspect.getsource(probe))
