"""Instant feedback inside a lab: `check("ex1")` tests an answer in the learner's own kernel.

The first cell of a lab makes it:

    from utils.check import checker
    check = checker("lab01", globals())

A verdict shows the facts that hold, the first that does not in plain words, and a hint that unfolds in steps.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from html import escape

from utils.devices import devices
from utils.environment import GRADING
from utils.facts import Exercise, Finding, Lab, LocalStudent, judge, load_lab


@dataclass
class Verdict:
    """What was found about one exercise. Shows itself in Jupyter and as text."""

    lab: str
    exercise: Exercise
    findings: list[Finding]
    hints_open: int = 1

    @property
    def passed(self) -> bool:
        return all(finding.holds for finding in self.findings)

    def require(self) -> None:
        """Raise AssertionError unless the exercise passed: how nbgrader, which grades by what raises, is told."""
        assert self.passed, repr(self)

    @property
    def headline(self) -> str:
        points = f"{self.exercise.points} point{'s' if self.exercise.points > 1 else ''}"
        if self.passed:
            return f"{self.exercise.name} passed: {self.exercise.title} ({points})"
        return f"{self.exercise.name} not yet: {self.exercise.title} ({points})"

    def __repr__(self) -> str:
        lines = [self.headline]
        for finding in self.findings:
            lines.append(f"  {'yes' if finding.holds else 'NO '}  {finding.claim}")
            lines += [f"       {line}" for line in finding.found.splitlines()]
        if not self.passed:
            hints = self.exercise.hints[: self.hints_open]
            lines += [f"  Hint {n} of {len(self.exercise.hints)}: {hint}" for n, hint in enumerate(hints, 1)]
            if self.hints_open < len(self.exercise.hints):
                lines.append(f'  The next hint: check("{self.exercise.name}", hints={self.hints_open + 1})')
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        colour = "#2e8b57" if self.passed else "#d9822b"
        rows = "".join(
            f"<div>{'✓' if finding.holds else '✗'} {escape(finding.claim)}</div>"
            + (f"<pre style='margin:.3em 0 .3em 1.4em;white-space:pre-wrap'>{escape(finding.found)}</pre>")
            * bool(finding.found)
            for finding in self.findings
        )
        # Each hint sits inside the one before it, so that one click opens one.
        hints = ""
        if not self.passed:
            total = len(self.exercise.hints)
            for number in range(total, 0, -1):
                opened = " open" if number < self.hints_open else ""
                hint = escape(self.exercise.hints[number - 1])
                hints = (
                    f"<details{opened} style='margin:.4em 0 0 1.4em'><summary>Hint {number} of {total}</summary>"
                    f"{hint}{hints}</details>"
                )
        return (
            f"<div style='border-left:5px solid {colour};padding:.2em 0 .2em .9em'>"
            f"<b>{escape(self.headline)}</b>{rows}{hints}</div>"
        )


@dataclass
class Scoreboard:
    """Every exercise of a lab, and the points that its visible tests would give."""

    lab: Lab
    verdicts: list[Verdict]

    @property
    def rows(self) -> list[tuple[str, str, str]]:
        return [
            (v.exercise.name, f"{v.exercise.points * v.passed} / {v.exercise.points}", v.exercise.title)
            for v in self.verdicts
        ]

    @property
    def summary(self) -> str:
        got = sum(v.exercise.points for v in self.verdicts if v.passed)
        return (
            f"{self.lab.title}: {got} of {self.lab.points} points by the visible tests. The grade has hidden ones too."
        )

    def __repr__(self) -> str:
        return "\n".join([*(f"{name:<5} {points:>6}  {title}" for name, points, title in self.rows), self.summary])

    def _repr_html_(self) -> str:
        rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in self.rows)
        return f"<table><tr><th>exercise</th><th>points</th><th></th></tr>{rows}</table>{escape(self.summary)}"


class NotChecked:
    """Shown instead of a verdict while the grader runs the notebook."""

    def require(self) -> None:
        """Nothing is required here."""

    def __repr__(self) -> str:
        return "Not checked here: the grader is running this notebook and judges it afterwards."


def checker(lab_name: str, namespace: dict):
    """A `check` function for one lab: `check("ex1")` judges that exercise, `check()` all of them.

    `namespace` is the notebook's `globals()`. Raises FileNotFoundError where there is no such lab.
    """
    if os.environ.get(GRADING):
        return lambda *_, **__: NotChecked()
    lab = load_lab(lab_name)

    def check(exercise: str | None = None, hints: int = 1):
        if exercise is None:
            return Scoreboard(lab, [verdict(each, 1) for each in lab.exercises.values()])
        if exercise not in lab.exercises:
            raise ValueError(f"{lab.name} has no exercise {exercise!r}. It has: {', '.join(lab.exercises)}")
        return verdict(lab.exercises[exercise], hints)

    def verdict(exercise: Exercise, hints: int) -> Verdict:
        student = LocalStudent(namespace, [str(device) for device in devices(2, quiet=True)])
        return Verdict(lab.name, exercise, judge(exercise, student), hints)

    return check
