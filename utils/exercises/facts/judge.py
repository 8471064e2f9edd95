"""Testing the facts of an exercise."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext

from utils.exercises.facts import wire
from utils.exercises.facts.errors import StudentError, Unmet, case
from utils.exercises.facts.lab import Exercise, Fact, Finding, Lab
from utils.exercises.facts.student import Student


def orders_of(student: Student) -> Iterator[tuple[str, str, AbstractContextManager]]:
    """The student's two devices in both orders, each inside a `case`: an answer has to use those it is given."""
    device0, device1 = student.devices
    yield device0, device1, nullcontext()
    yield device1, device0, case(f"Called with device0={device1} and device1={device0}, swapped on purpose")


def judge(exercise: Exercise, student: Student) -> list[Finding]:
    """Test the facts of an exercise in order, up to the first that does not hold.

    Where it has parts: up to the first in each part, and of the first part alone where that does not hold. A probe that
    several facts ask with the same arguments is run once.
    """
    student = _AskedOnce(student, exercise.likely)
    findings: list[Finding] = []
    for place, facts in enumerate(exercise.facts_by_part().values()):
        findings += _judged(facts, student)
        if place == 0 and not exercise.solved(findings):
            break
    return findings


def _judged(facts: Sequence[Fact], student: _AskedOnce) -> list[Finding]:
    findings = []
    for fact in facts:
        try:
            fact.test(student)
        except Unmet as unmet:
            return [*findings, Finding(fact.claim, False, str(unmet))]
        except Exception as error:
            # A probe's answer of another form than any probe gives: the student's code has changed the probe's tools.
            return [*findings, Finding(fact.claim, False, f"The answer could not be read ({type(error).__name__}).")]
        findings.append(Finding(fact.claim, True))
    return findings


def explained(error: str, likely: dict[str, str]) -> str:
    """The text of an error that the student's code raised, and below it what is likely wrong, where that is known."""
    return "\n".join([error, *[line for piece, line in likely.items() if piece in error][:1]])


class _AskedOnce:
    """A student who remembers the answers that it gave during one exercise."""

    def __init__(self, student: Student, likely: dict[str, str]):
        self.devices, self._student, self._answers = student.devices, student, {}
        self._likely = likely
        self.here = getattr(student, "here", False)  # whether probes run in this process

    def run(self, probe: Callable, *args):
        question = (probe, wire.encode(args))
        if question not in self._answers:
            try:
                self._answers[question] = self._student.run(probe, *args)
            except StudentError as error:
                raise type(error)(explained(str(error), self._likely)) from None
        # A copy: a fact may change what it got.
        return copy.deepcopy(self._answers[question])


def recorded_timelines(lab: Lab, student: Student, findings: dict[str, list[Finding]]) -> dict[str, dict]:
    """The timeline of each exercise that has one, as plain data that has not been checked. Ask when all is judged.

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
