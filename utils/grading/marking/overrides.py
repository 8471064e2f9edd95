"""overrides.csv: points, totals and penalties that an instructor has changed. It is read, and never written over."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from utils.common.errors import Problem
from utils.exercises.facts import Lab
from utils.grading.marking.by_hand import Faults, Students, points_in, rows_of
from utils.grading.marking.mark import LATE, TOTAL, Override

NAME = "overrides.csv"
TITLES = ("student", "exercise", "points", "reason")


def read_overrides(path: Path, students: Students, lab: Lab, most: float) -> dict[str, dict[str, Override]]:
    """The overrides of each student: by exercise, or for `total` or `late`, which is what being late costs.

    `most` is what a total counts to. Raises Problem for a student or an exercise that is none, for points out of
    range, and where two rows are about the same: one for all such rows.
    """
    found: dict[str, dict[str, Override]] = {}
    faults = Faults()
    ranges = {name: exercise.points for name, exercise in lab.graded.items()} | {TOTAL: most, LATE: most}
    for where, row in rows_of(path, TITLES, TITLES[:3], faults):
        with faults.kept():
            student, about = students.find(where, row["student"]), row["exercise"].casefold()
            if about in lab.stars:
                raise Problem(f"{where}: {about} has a star and no points: there is nothing to change")
            if about not in ranges:
                raise Problem(f"{where}: {row['exercise'][:40]!r} is none of {', '.join(ranges)}")
            points = points_in(where, row["points"], ranges[about])
            mine = found.setdefault(student, {})
            if about in mine:
                raise Problem(f"{where}: {about} of {student!r} is overridden twice: keep one row")
            mine[about] = Override(points, row["reason"][:500])
    faults.tell()
    return found


def begin(path: Path) -> None:
    """Write the titles into the file where there is none yet."""
    with suppress(FileExistsError), path.open("x", encoding="utf-8") as file:
        file.write(",".join(TITLES) + "\n")
