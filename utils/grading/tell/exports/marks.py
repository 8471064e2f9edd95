"""The marks of a class: which are sure, whose they are, and who has to be looked at by hand."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import pandas as pd

from utils.exercises.facts import Lab
from utils.grading.marking.mark import Mark, most_of
from utils.grading.roster import IDS, NUMBERS, Row, display_name, first, match, students_in
from utils.grading.tell.text import line

UNCLAIMED = "in the platform's file, and no submission is this student's"


@dataclass(frozen=True)
class Held:
    """A student to look at by hand, and why. Without a mark it is a row of the platform's file of no student."""

    name: str
    id: str
    why: list[str]
    mark: Mark | None = None


@dataclass
class Marks:
    """The grades of a class, with the row of the platform's file for each student that one was found for."""

    grades: list[Mark]
    lab: Lab
    table: pd.DataFrame | None  # the platform's file
    rows: dict[str, Row] = field(default_factory=dict)  # student -> row, in the order of the file
    doubts: dict[str, list[str]] = field(default_factory=dict)  # student -> why there is no row, or no place in a file
    unclaimed: list[Row] = field(default_factory=list)  # rows that are no student's
    said: list[str] = field(default_factory=list)

    def __post_init__(self):
        if self.table is not None:
            self._match(students_in(self.table))

    @property
    def most(self) -> float:
        return most_of(self.lab, self.grades)

    @property
    def title(self) -> str:
        return f"{self.lab.name.capitalize()}: {self.lab.title}"

    def sure(self) -> list[tuple[Mark, Row]]:
        """The sure marks, each with the student's row. Without a roster the row is empty."""
        sure = [grade for grade in self.grades if not grade.doubts]
        if self.table is None:
            return [(grade, {}) for grade in sure]
        known = {grade.student: grade for grade in sure if grade.student in self.rows}
        return [(known[student], row) for student, row in self.rows.items() if student in known]

    def doubt(self, why: dict[str, str]) -> None:
        """Say why students are not in a file that has been written."""
        for student, reason in why.items():
            self.doubts.setdefault(student, []).append(reason)

    def look_at(self) -> list[Held]:
        """Who is in look_at.csv: students first, then rows of the platform's file of no student."""
        found = []
        for grade in self.grades:
            why = [*map(line, grade.doubts), *self.doubts.get(grade.student, [])]
            if why:
                found.append(Held(grade.student, grade.id, why, grade))
        for row in self.unclaimed:
            found.append(Held(display_name(row), first(row, [*NUMBERS, *IDS]), [UNCLAIMED]))
        return found

    def other_most(self, file: str, found: set[str]) -> None:
        """Say so if the platform counts to another number of points than the lab."""
        numbers = {n for n in (re.sub(r"\.0+$", "", value.strip().replace(",", ".")) for value in found) if n}
        if not numbers <= {f"{self.most:g}"}:
            there = ", ".join(sorted(numbers))
            low = any(re.fullmatch(r"\d+(\.\d+)?", n) and float(n) < self.most for n in numbers)
            do = f" Let it count to {self.most:g} before you import." if low else ""
            self.said.append(
                f"{file}: the platform counts to {there} points, and these marks are of {self.most:g}.{do}"
            )

    def _match(self, rows: list[Row]) -> None:
        found = match(self.grades, rows)
        self.rows = {student: rows[place] for student, place in found.rows.items()}
        self.unclaimed = [rows[place] for place in found.free]
        for student, places in found.doubts.items():
            fits = "more than one row, or a row that fits others too" if places else "no row"
            self.doubts[student] = [f"{fits} of the platform's file is this student's"]
