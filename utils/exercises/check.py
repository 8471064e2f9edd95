"""Instant feedback inside a lab or a lesson: `check("ex1")` tests an answer in the learner's own kernel.

The first cell of a lab makes it, and that of a lesson, whose tasks bear the name that they ask for:

    from utils.exercises.check import checker
    check = checker("lab01", globals())

    from utils.exercises.check import tasks
    check, yours_or_ours = tasks("lesson01", globals())
    check("SplitInThree")
    SplitInThree = yours_or_ours("SplitInThree")   # goes on with the learner's if it passed, else with the course's

A verdict shows the facts that hold, the first that does not in plain words, and hints that unfold one by one.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape

import torch

from utils.common.settings import GRADING
from utils.exercises.class_service import instructor_looks, tell_progress
from utils.exercises.facts import Exercise, Finding, Lab, LocalStudent, judge, load_lab
from utils.observe.devices import devices

NO_VALUES = "this simulated machine keeps only shapes"  # simgpu's words where a value is asked for and there is none
# JupyterLab breaks the lines of a <pre> within words unless told not to.
TRIES_ALONE = 3  # after which a student in a class is told how to ask for help
WRAPPED = "margin:.3em 0 .3em 1.4em;white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere"


@dataclass
class Verdict:
    """What was found about one exercise. Shows itself in Jupyter and as text."""

    lab: str
    exercise: Exercise
    findings: list[Finding]
    hints_open: int = 0
    score: str = ""

    @property
    def passed(self) -> bool:
        return all(finding.holds for finding in self.findings)

    @property
    def points(self) -> int:
        return self.exercise.points_for(self.findings)

    def require(self) -> int:
        """The points. Raises AssertionError unless the exercise, or a part of it, passed.

        So nbgrader is told: what raises has no points there, and a number that a cell ends with is its points.
        """
        assert self.passed or self.points, repr(self)
        return self.points

    @property
    def headline(self) -> str:
        most = self.exercise.points
        points = f" ({most} point{'s' if most > 1 else ''})" if most else " (a star)" if self.exercise.star else ""
        if self.exercise.parts and not self.passed:
            points = f" ({self.points} of {most} points)"
        return f"{self.exercise.name} {'passed' if self.passed else 'not yet'}: {self.exercise.title}{points}"

    @property
    def parts(self) -> str:
        return self.exercise.parts_told(self.findings)

    def __repr__(self) -> str:
        lines = [self.headline]
        lines += [f"  points: {self.parts}"] if self.parts else []
        for finding in self.findings:
            lines.append(f"  {'yes' if finding.holds else 'NO '}  {finding.claim}")
            lines += [f"       {line}" for line in finding.found.splitlines()]
        if not self.passed:
            hints = self.exercise.hints[: self.hints_open]
            lines += [f"  Hint {n} of {len(self.exercise.hints)}: {hint}" for n, hint in enumerate(hints, 1)]
            if self.hints_open < len(self.exercise.hints):
                which = "The next" if self.hints_open else "A"
                lines.append(f'  {which} hint: check("{self.exercise.name}", hints={self.hints_open + 1})')
        if self.score:
            lines.append(f"  {self.score}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        colour = "#2e8b57" if self.passed else "#d9822b"
        rows = "".join(
            f"<div>{'✓' if finding.holds else '✗'} {escape(finding.claim)}</div>"
            + f"<pre style='{WRAPPED}'>{escape(finding.found)}</pre>" * bool(finding.found)
            for finding in self.findings
        )
        # Each hint sits inside the one before it, so that one click opens one.
        hints = ""
        if not self.passed:
            total = len(self.exercise.hints)
            for number in range(total, 0, -1):
                opened = " open" if number <= self.hints_open else ""
                hint = escape(self.exercise.hints[number - 1])
                hints = (
                    f"<details{opened} style='margin:.4em 0 0 1.4em'><summary>Hint {number} of {total}</summary>"
                    f"{hint}{hints}</details>"
                )
        parts = f"<div>Points: {escape(self.parts)}</div>" if self.parts else ""
        score = f"<div style='margin-top:.3em'>{escape(self.score)}</div>" if self.score else ""
        return (
            f"<div style='border-left:5px solid {colour};padding:.2em 0 .2em .9em'>"
            f"<b>{escape(self.headline)}</b>{parts}{rows}{hints}{score}</div>"
        )


_failed: dict[tuple[str, str], int] = {}  # by lab and exercise: how often in a row it has not passed
_last: dict[str, dict[str, bool]] = {}  # by lab and exercise: whether it passed when it was last checked


def last_verdicts(lab: str) -> dict[str, bool]:
    """The exercises of a lab that were checked in this kernel, and whether each passed the last time."""
    return dict(_last.get(lab, {}))


class CannotJudge(Verdict):
    """A verdict that is none: the facts ask for values, and the machine keeps none."""

    def __repr__(self) -> str:
        return (
            f"{self.exercise.name} cannot be checked: the check needs numbers, and the simulated machine now keeps "
            "only shapes. Restart the kernel, run the cells from the top to this one, and check again."
        )

    def _repr_html_(self) -> str:
        return escape(repr(self))


@dataclass
class Scoreboard:
    """Every exercise of a lab, and the points and stars that its visible tests would give."""

    lab: Lab
    verdicts: list[Verdict]

    @property
    def rows(self) -> list[tuple[str, str, str]]:
        return [(v.exercise.name, self._reached(v), v.exercise.title) for v in self.verdicts]

    @staticmethod
    def _reached(verdict: Verdict) -> str:
        if verdict.exercise.star:
            return "star" if verdict.passed else "no star"
        return f"{verdict.points} / {verdict.exercise.points}"

    @property
    def summary(self) -> str:
        got = f"{sum(v.points for v in self.verdicts)} of {self.lab.points} points"
        if of := len(self.lab.stars):
            stars = sum(v.exercise.star and v.passed for v in self.verdicts)
            got += f" and {stars} of {of} star{'s' if of > 1 else ''}"
        return f"{self.lab.title}: {got} from the visible tests. The grade also includes hidden tests."

    def __repr__(self) -> str:
        width = max(6, *(len(points) for _, points, _ in self.rows))
        return "\n".join(
            [*(f"{name:<5} {points:>{width}}  {title}" for name, points, title in self.rows), self.summary]
        )

    def _repr_html_(self) -> str:
        left = "<td style='text-align:left'>"  # Jupyter's own style puts everything on the right
        rows = "".join("<tr>" + "".join(f"{left}{escape(cell)}</td>" for cell in row) + "</tr>" for row in self.rows)
        heads = "".join(f"<th style='text-align:left'>{head}</th>" for head in ("exercise", "points", "title"))
        return f"<table><tr>{heads}</tr>{rows}</table>{escape(self.summary)}"


class NotChecked:
    """Shown instead of a verdict while the grader runs the notebook."""

    def require(self) -> None:
        """Nothing is required here, and there are no points."""

    def __repr__(self) -> str:
        return "Not checked here: the grader is running this notebook and will check it afterwards."


@contextmanager
def one_thread() -> Iterator[None]:
    """PyTorch computes in one thread here, as in the grader.

    Facts run many small operators. With several threads, each waits for the slowest: on a busy machine for 20 ms, where
    one thread needs less than 1 ms.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Checker:
    """`check` of one lab: `check("ex1")` judges that exercise, `check()` all of them.

    `last` is the verdict of the last check of one exercise, None before the first.
    """

    def __init__(self, lab: Lab, namespace: dict):
        self._lab = lab
        self._namespace = namespace
        self._raises = False
        self.last: Verdict | None = None

    def __call__(self, exercise: str | None = None, hints: int = 0) -> Verdict | Scoreboard:
        if exercise is None:
            return Scoreboard(self._lab, [self._judge(each, 0) for each in self._lab.exercises.values()])
        if exercise not in self._lab.exercises:
            raise ValueError(f"{self._lab.name} has no exercise {exercise!r}. It has: {', '.join(self._lab.exercises)}")
        raises, self._raises = self._raises, False
        self.last = self._judge(self._lab.exercises[exercise], hints)
        if raises:
            self.last.require()
        return self.last

    def raises(self) -> None:
        """The next check of an exercise raises AssertionError where nothing of it passed.

        For nbgrader, which grades by what raises.
        """
        self._raises = True

    def _judge(self, exercise: Exercise, hints: int) -> Verdict:
        lab = self._lab
        student = LocalStudent(self._namespace, [str(device) for device in devices(2, quiet=True)])
        with one_thread():
            found = Verdict(lab.name, exercise, judge(exercise, student), hints)
        if any(NO_VALUES in finding.found for finding in found.findings):
            return CannotJudge(lab.name, exercise, found.findings)
        _last.setdefault(lab.name, {})[exercise.name] = found.passed
        failed = next((finding for finding in found.findings if not finding.holds), None)
        tell_progress(lab.name, exercise.name, failed)
        tries = _failed[lab.name, exercise.name] = 0 if found.passed else _failed.get((lab.name, exercise.name), 0) + 1
        if tries >= TRIES_ALONE and instructor_looks():
            at = f'raise_hand("{lab.name} {exercise.name}")'
            print(f"Ask for help: from utils.exercises.raise_hand import raise_hand; {at}")
        if found.passed and exercise.par is not None:
            found.score = exercise.par.score(student)
        return found


class CheckedLater:
    """`check` while the grader runs the notebook: it judges nothing."""

    last = NotChecked()

    def __call__(self, *_, **__) -> NotChecked:
        return self.last

    def raises(self) -> None:
        """Nothing is judged, so nothing raises."""


def checker(lab_name: str, namespace: dict) -> Checker | CheckedLater:
    """The `check` of one lab.

    `namespace` is the notebook's `globals()`. Raises FileNotFoundError where there is no such lab.
    """
    return CheckedLater() if os.environ.get(GRADING) else Checker(load_lab(lab_name), namespace)


def tasks(lesson: str, namespace: dict):
    """For a lesson with tasks: `check`, as in a lab, and `yours_or_ours`, for which no task has to be passed.

    A task has the name of the function or class that it asks for. `yours_or_ours(name)` returns the learner's where it
    passes, and the working version in utils/exercises/tasks/ where it does not, and says which. `namespace` is the
    notebook's `globals()`. Raises FileNotFoundError or ModuleNotFoundError for a lesson that has no tasks.
    """
    judged = checker(lesson, namespace)
    worked = importlib.import_module(f"utils.exercises.tasks.{lesson}.worked")

    def check(name: str, hints: int = 0):
        if namespace.get(name) is getattr(worked, name, worked):
            raise ValueError(f"{name} is now the course's version. Run the cell with your {name} again, then check it.")
        return judged(name, hints)

    def yours_or_ours(name: str):
        ours = getattr(worked, name)
        found = None if namespace.get(name) is ours else judged(name)
        if found and found.passed:
            print(f"Continuing with your {name}.")
            return namespace[name]
        why = found if isinstance(found, CannotJudge) else "yours has not passed its check yet."
        print(f"Continuing with the course's {name}, in utils/exercises/tasks/{lesson}/worked.py: {why}")
        return ours

    return check, yours_or_ours
