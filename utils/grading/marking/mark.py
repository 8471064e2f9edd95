"""A mark: what the grader found about one submission, and what an instructor and the clock have made of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from utils.exercises.facts import Lab
from utils.grading.grade import Grade

TOTAL, LATE = "total", "late"  # what an override may be about, beside an exercise


@dataclass(frozen=True)
class Override:
    """Points that an instructor has given instead of those found: for an exercise, the whole mark, or being late."""

    points: float
    reason: str


@dataclass(frozen=True)
class InWords:
    """The points for an answer in words: None where the answer has none yet."""

    points: float | None
    of: float
    reason: str = ""


@dataclass(frozen=True)
class Late:
    """How late a submission came, in words, and the points that this costs.

    `doubt` is why the cost is not known, or nothing.
    """

    words: str
    penalty: float = 0
    doubt: str = ""


@dataclass
class Mark(Grade):
    """A grade, and what was changed about it. A grade that nothing was changed about is a mark, too: see `as_mark`."""

    overrides: dict[str, Override] = field(default_factory=dict)
    in_words: dict[str, InWords] = field(default_factory=dict)  # every question that gives points
    late: Late | None = None
    rule: str = ""  # when a submission is late and what that costs, in the instructor's words

    @property
    def counted(self) -> dict[str, float]:
        """Points for each exercise: the instructor's where there are some, else those found."""
        changed = {name: one.points for name, one in self.overrides.items() if name in self.points}
        return {**self.points, **changed}

    @property
    def in_all(self) -> float:
        """Points for all exercises and answers in words, before what being late costs."""
        return rounded_points(sum(self.counted.values()) + sum(one.points or 0 for one in self.in_words.values()))

    @property
    def penalty(self) -> float:
        """Points that being late costs. A total that the instructor has set is the mark, whenever it came."""
        if self.late is None or TOTAL in self.overrides:
            return 0
        return rounded_points(min(self.late.penalty, self.in_all))

    @property
    def mark(self) -> float:
        """The points that count in the end."""
        return self.overrides[TOTAL].points if TOTAL in self.overrides else rounded_points(self.in_all - self.penalty)

    @property
    def known(self) -> bool:
        """Whether the points say something about the student: by the grader or by the instructor."""
        return self.judged or TOTAL in self.overrides or self.points.keys() <= self.overrides.keys()

    @property
    def doubts(self) -> list[str]:
        """Why the mark is not one yet. It is exported where there is no doubt.

        An instructor who has set the total has no doubt left; one who has changed an exercise of a submission that
        was judged has looked at it.
        """
        if TOTAL in self.overrides:
            return []
        undecided = not self.known or (self.judged and not self.overrides)
        return (self.reasons_to_look if undecided else []) + self.open

    @property
    def unmarked(self) -> list[str]:
        """The questions whose answer in words has no points yet."""
        return [question for question, one in self.in_words.items() if one.points is None]

    @property
    def changes(self) -> list[str]:
        """What the instructor has changed, each in a line."""
        told = []
        for name, one in self.overrides.items():
            found = {**self.points, TOTAL: self.in_all}
            differs = name in found and self.judged and found[name] != one.points
            before = f" instead of {found[name]:g}" if differs else ""
            what = {TOTAL: "mark", LATE: "taken off for being late"}.get(name, name)
            told.append(f"{what}: {one.points:g}{before}" + (f" ({one.reason})" if one.reason else ""))
        return told

    @property
    def open(self) -> list[str]:
        """What is still to be decided about a submission that was judged."""
        if not self.known:
            return []
        late = [self.late.doubt] if self.late is not None and self.late.doubt else []
        return late + [f"the answer in words ({question}) has no points yet" for question in self.unmarked]


def as_mark(grade: Grade) -> Mark:
    """The grade as a mark: itself if it is one."""
    return grade if isinstance(grade, Mark) else Mark(**vars(grade))


def most_of(lab: Lab, marks: Iterable[Mark] = ()) -> float:
    """The points that a mark counts to: the lab's, and those for answers in words."""
    for mark in marks:
        return rounded_points(lab.points + sum(one.of for one in mark.in_words.values()))
    return lab.points


def rounded_points(points: float) -> float:
    """To hundredths, and a whole number where it is one."""
    rounded = round(points, 2)
    return int(rounded) if rounded == int(rounded) else rounded
