"""What `check` said in the students' kernels, as it comes: for the instructor's page, and for nothing else.

Kept in memory only. It is the statement of a student's own kernel, and no mark depends on it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

MOST_CHARACTERS = 200  # of a claim
MOST_EXERCISES = 20  # of a lab
MOST_LABS = 40  # of a student
RECENT = 600  # seconds


@dataclass(frozen=True)
class Tried:
    """What is known of a student and an exercise. `claim` is the first fact that did not hold, empty if all did.

    `thought` is what a student may think who fails it like this, where a wrong answer is known that does.
    """

    passed: bool
    tries: int
    claim: str
    thought: str
    first: float  # seconds, by the clock of Progress
    last: float


class Progress:
    """By student, lab and exercise. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self.clock = clock
        self._died: dict[str, tuple[int, float]] = {}
        self._of: dict[str, dict[str, dict[str, Tried]]] = {}

    def add(self, student: str, lab: str, exercise: str, passed: bool, claim: str, thought: str = "") -> None:
        """Note what a check said. A student's kernel may send anything: what is too much is left out."""
        labs = self._of.setdefault(student, {})
        if lab not in labs and len(labs) >= MOST_LABS:
            return
        exercises = labs.setdefault(lab, {})
        if exercise not in exercises and len(exercises) >= MOST_EXERCISES:
            return
        now, before = self.clock(), exercises.get(exercise)
        exercises[exercise] = Tried(
            passed,
            before.tries + 1 if before else 1,
            "" if passed else claim[:MOST_CHARACTERS],
            "" if passed else thought,
            before.first if before else now,
            now,
        )

    @property
    def labs(self) -> list[str]:
        """The labs that somebody has checked in the last ten minutes, or else ever, in order."""
        tried = [(lab, one) for labs in self._of.values() for lab, each in labs.items() for one in each.values()]
        recent = {lab for lab, one in tried if self._age(one) <= RECENT}
        return sorted(recent or {lab for lab, _ in tried})

    def of_lab(self, lab: str) -> dict[str, dict[str, Tried]]:
        """By student, what they tried in a lab."""
        return {student: labs[lab] for student, labs in sorted(self._of.items()) if lab in labs}

    def counts(self, lab: str) -> dict[str, tuple[int, int]]:
        """By exercise, how many passed it, and how many tried and have not."""
        found: dict[str, tuple[int, int]] = {}
        for exercises in self.of_lab(lab).values():
            for exercise, one in exercises.items():
                passed, trying = found.get(exercise, (0, 0))
                found[exercise] = (passed + one.passed, trying + (not one.passed))
        return dict(sorted(found.items()))

    def stuck_at(self, lab: str, most: int = 6) -> list[tuple[str, str, str, int]]:
        """(exercise, fact, thought, students) of the last ten minutes: where most are stuck, first."""
        found: Counter[tuple[str, str, str]] = Counter()
        for exercises in self.of_lab(lab).values():
            for exercise, one in exercises.items():
                if not one.passed and self._age(one) <= RECENT:
                    found[exercise, one.claim, one.thought] += 1
        return [(*where, count) for where, count in found.most_common(most)]

    def died(self, student: str, code: int) -> None:
        """Note a kernel that ended by itself: its exit code, or a signal's number below 0."""
        self._died[student] = (code, self.clock())

    def died_lately(self) -> list[tuple[str, int, float]]:
        """(student, code, seconds ago) of the last ten minutes, the latest first."""
        found = [(student, code, self.clock() - at) for student, (code, at) in self._died.items()]
        return sorted((one for one in found if one[2] <= RECENT), key=lambda one: one[2])

    def _age(self, one: Tried) -> float:
        return self.clock() - one.last
