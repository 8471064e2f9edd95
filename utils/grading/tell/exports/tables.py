"""grades.csv, and the files of all platforms."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from utils.common.files import write_whole
from utils.exercises.facts import Lab
from utils.grading.grade import Grade
from utils.grading.marking.mark import Mark, as_mark, most_of
from utils.grading.tell.cells import as_csv
from utils.grading.tell.exports import canvas, gradescope, moodle
from utils.grading.tell.exports.marks import Held, Marks
from utils.grading.tell.text import line

PLATFORMS = (canvas, moodle, gradescope)
FILES = ("canvas.csv", "moodle.csv", "gradescope.zip", "look_at.csv", "how_to_import.txt")


def write_grades(grades: Sequence[Grade], lab: Lab, path: Path) -> None:
    """Write the table of a class: what each student got for what, the mark, and what there is to say about it.

    Points of exercises are those that count. `total` is before, `mark` after what being late costs; there is no mark
    where nothing was judged. An exercise with a star has a column with yes or no, which counts for nothing. Answers in
    words have a column each where they give points.
    """
    marks = sorted(map(as_mark, grades), key=lambda mark: mark.student)
    questions = list(marks[0].in_words) if marks else []
    columns = [
        "student",
        *lab.graded,
        *(f"{name} star" for name in lab.stars),
        *questions,
        "total",
        "late",
        "penalty",
        "mark",
        "max",
        "status",
    ]
    most = most_of(lab, marks)
    write_whole(
        path, as_csv([*columns, "changed", "note", "look_at"], [_row(one, lab, questions, most) for one in marks])
    )


def _row(mark: Mark, lab: Lab, questions: Sequence[str], most: float) -> list[object]:
    given = [mark.in_words[question].points for question in questions]
    late = mark.late.words if mark.late else ""
    seen = mark.flags + mark.open  # they stay when the instructor has decided
    stars = mark.stars(lab)
    look_at = [reason for reason in mark.doubts if reason not in seen] + seen
    return [
        *(mark.student, *(mark.counted[name] for name in lab.graded)),
        *("" if not mark.judged else "yes" if name in stars else "no" for name in lab.stars),
        *("" if points is None else points for points in given),
        *(mark.in_all, late, mark.penalty, mark.mark if mark.known else "", most, mark.status),
        *("; ".join(mark.changes), mark.note, "; ".join(look_at)),
    ]


class Exported(NamedTuple):
    """What to tell the instructor about the files, and who is in look_at.csv."""

    said: list[str]
    held: list[Held]


def write_exports(grades: Sequence[Grade], lab: Lab, folder: Path, gradebook: pd.DataFrame | None = None) -> Exported:
    """Write the files that platforms import into `folder`, and look_at.csv.

    `gradebook` is a platform's own export, see `read_gradebook`: its file is written for the platform it is from.
    Without one, files for all platforms are written, as far as the names of the submissions have ids in them. A file
    that an earlier call wrote and this one does not is removed: its marks are old.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        (folder / name).unlink(missing_ok=True)
    marks = Marks(sorted(map(as_mark, grades), key=lambda mark: mark.student), lab, gradebook)
    said = []
    platforms = PLATFORMS
    if gradebook is not None:
        columns = list(map(str, gradebook.columns))
        platforms = [platform for platform in PLATFORMS if platform.wrote(set(columns))][:1] or PLATFORMS
        if platforms is PLATFORMS:
            known = ", ".join(columns[:8])
            said.append(
                f"No platform is known by these columns: {known}. Its rows are used to find ids and emails. If the "
                "table is Moodle's, export it with Moodle in English."
            )
    said += [platform.write(marks, folder) for platform in platforms]
    held = marks.look_at()
    columns = ["student", "id", "points", "max", "status", "why", "note"]
    write_whole(folder / "look_at.csv", as_csv(columns, [_held_row(one, marks.most) for one in held]))
    said += marks.said
    said.append(f"look_at.csv: {len(held)} to look at by hand, who are in none of these files or need an id.")
    return Exported(said, held)


def _held_row(held: Held, most: float) -> list[object]:
    mark = held.mark
    if mark is None:
        return [held.name, held.id, "", most, "", "; ".join(held.why), ""]
    points = mark.mark if mark.known else ""
    return [line(held.name, 80), line(held.id, 40), points, most, mark.status, "; ".join(held.why), line(mark.note)]
