"""A lab: its exercises, and the facts that each claims."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from utils.common.errors import Problem
from utils.common.files import ROOT
from utils.exercises.facts import rules
from utils.exercises.facts.student import Student


@dataclass(frozen=True)
class Fact:
    claim: str
    test: Callable[[Student], None]
    part: str = ""  # of an exercise with parts: the one that it belongs to


@dataclass(frozen=True)
class Par:
    """What a right answer is measured by, beyond its points: as in golf, for students who want to beat it."""

    value: float
    unit: str  # what the number is, after it, and what is better: "% of your own bound; more is better"
    measure: Callable[[Student], float]

    def score(self, student: Student) -> str:
        """The student's score beside par, in a line. It costs nothing and is not graded."""
        return f"Score: {self.measure(student):.0f}{self.unit} (par, the course's own answer: {self.value:.0f})."


@dataclass(frozen=True)
class Finding:
    """Whether one fact holds, and if not, what was found instead."""

    claim: str
    holds: bool
    found: str = ""


@dataclass
class Exercise:
    """An exercise. One with a star goes beyond the lab: it is judged and told like the others, and has no points.

    `parts` maps what an exercise gives points for to these points, in order. The first part is what the others build
    on: they are judged where it holds, each on its own.
    """

    name: str
    points: int
    title: str
    hints: list[str]
    star: bool = False
    parts: dict[str, int] = field(default_factory=dict)
    facts: list[Fact] = field(default_factory=list)
    recorded: Callable[[Student], dict] | None = None
    par: Par | None = None
    likely: dict[str, str] = field(default_factory=dict)  # by a piece of an error's text: the likely mistake

    def __post_init__(self):
        if self.star and self.points:
            raise ValueError(f"{self.name} has a star and {self.points} points: a star has none")
        if self.parts and sum(self.parts.values()) != self.points:
            raise ValueError(f"the parts of {self.name} give {sum(self.parts.values())} points, not {self.points}")

    def facts_by_part(self) -> dict[str, list[Fact]]:
        """The facts of each part, in order. An exercise without parts is one part without a name."""
        return {part: [fact for fact in self.facts if fact.part == part] for part in self.parts or ("",)}

    def solved(self, findings: Sequence[Finding]) -> bool:
        """Whether it was judged and every fact held."""
        return bool(findings) and all(finding.holds for finding in findings)

    def points_of_parts(self, findings: Sequence[Finding]) -> dict[str, int]:
        """The points reached in each part. One without facts, as hidden ones are for a student, has reached none."""
        held = {finding.claim for finding in findings if finding.holds}
        by_part = self.facts_by_part()
        reached = {part for part, facts in by_part.items() if facts and all(fact.claim in held for fact in facts)}
        return {part: most if part in reached else 0 for part, most in self.parts.items()}

    def points_for(self, findings: Sequence[Finding]) -> int:
        """The points that an answer gets of which this was found."""
        if self.parts:
            return sum(self.points_of_parts(findings).values())
        return self.points * self.solved(findings)

    def parts_told(self, findings: Sequence[Finding]) -> str:
        """The points reached in each part, in a line; nothing where there are no parts."""
        reached = self.points_of_parts(findings).items()
        return ", ".join(f"{part} {points} / {self.parts[part]}" for part, points in reached)

    def timeline(self, record: Callable[[Student], dict]) -> Callable[[Student], dict]:
        """Say how to record a run of the student's answer: `record` returns a `Timeline` as plain data.

        Such data is `asdict(timeline)`, returned by a probe. It is drawn in the feedback and never graded.
        """
        self.recorded = record
        return record

    def scored(self, par: float, unit: str) -> Callable:
        """Say how an answer that passes is scored: the decorated function measures it, `par` is what is good."""

        def add(measure):
            self.par = Par(par, unit, measure)
            return measure

        return add

    def fact(self, claim: str, *, part: str = "") -> Callable:
        """Add a fact: the decorated function raises Unmet where it does not hold.

        Where an exercise has parts, `part` is the one that the fact belongs to, and the first if it is not given.
        Raises ValueError for a part that the exercise does not have.
        """
        if part and part not in self.parts:
            raise ValueError(f"{self.name} has no part {part!r}. It has: {', '.join(self.parts) or 'none'}")
        part = part or next(iter(self.parts), "")

        def add(test):
            self.facts.append(Fact(claim, test, part))
            return test

        return add


@dataclass
class Lab:
    """`call_seconds`: what a probe of this lab may take, where that is more than what the grader gives."""

    name: str
    title: str
    exercises: dict[str, Exercise] = field(default_factory=dict)
    call_seconds: float = 0

    @property
    def points(self) -> int:
        """How many points the lab gives in all."""
        return sum(exercise.points for exercise in self.exercises.values())

    @property
    def graded(self) -> dict[str, Exercise]:
        """The exercises that give points: all but those with a star."""
        return {name: exercise for name, exercise in self.exercises.items() if not exercise.star}

    @property
    def stars(self) -> dict[str, Exercise]:
        """The exercises with a star."""
        return {name: exercise for name, exercise in self.exercises.items() if exercise.star}

    def exercise(
        self,
        name: str,
        *,
        title: str,
        hints: list[str],
        points: int = 0,
        star: bool = False,
        parts: dict[str, int] | None = None,
        likely: dict[str, str] | None = None,
    ) -> Exercise:
        """Add an exercise: with points, in all or for each of its `parts`, or with a star.

        `likely` explains errors that the student's code raises: the key is a piece of the error's text, the value a
        line that says what is likely wrong. The first key that is found counts.

        Raises ValueError for a star with points, and for parts whose points are not `points` in all.
        """
        self.exercises[name] = Exercise(name, points, title, hints, star, parts or {}, likely=likely or {})
        return self.exercises[name]


def lab_sources(names: Sequence[str] = (), root: Path = ROOT) -> list[Path]:
    """The source notebooks of the labs called `names`, or of all.

    Raises Problem for a name that is none, and where this copy of the course has no sources.
    """
    sources = {path.parent.name: path for path in sorted((root / "solutions").glob("lab*/lab*.ipynb"))}
    if not sources:
        raise Problem("this copy of the course is for learning: labs are released and graded in one with solutions/")
    unknown = [name for name in names if name not in sources]
    if unknown:
        raise Problem(f"there is no lab called {unknown[0]}. There is: {', '.join(sources)}")
    return [sources[name] for name in names or sources]


def visible(name: str):
    """The module with the visible facts of a lab. Each call loads it afresh, so that facts can be added to it."""
    return _module(name, hidden=False)


def load_lab(name: str, *, hidden: bool = False) -> Lab:
    """The lab called `name`, with its visible facts, and its hidden ones after them if asked.

    Raises FileNotFoundError where there is no such lab, or where this copy of the course has no hidden facts.
    """
    return _module(name, hidden=hidden).lab


def facts_path(name: str, *, hidden: bool = False, root: Path | None = None) -> Path:
    """The file with the visible facts of a lab or of a lesson's tasks, or with a lab's hidden ones."""
    root = root or ROOT
    if hidden:
        return root / "solutions" / name / "hidden.py"
    folder = root / "labs" if name.startswith("lab") else root / "utils" / "exercises" / "tasks"
    return folder / name / "facts.py"


def require_facts(name: str, *, hidden: bool = False) -> Path:
    """The same. Raises FileNotFoundError where there is no such file."""
    path = facts_path(name, hidden=hidden)
    if not path.is_file():
        kind = "hidden" if hidden else "visible"
        raise FileNotFoundError(f"no {kind} tests for {name}: {path.relative_to(ROOT)} is not there")
    return path


def _module(name: str, *, hidden: bool):
    path = require_facts(name, hidden=hidden)
    kind = "hidden" if hidden else "visible"
    spec = importlib.util.spec_from_file_location(f"{kind}_{name}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rules.check_lab(module, path)
    return module
