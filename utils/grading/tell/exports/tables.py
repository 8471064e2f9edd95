"""grades.csv, and the files of all platforms."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from utils.facts import Lab
from utils.files import write_whole
from utils.grading.grade import Grade
from utils.grading.tell.exports import canvas, gradescope, moodle
from utils.grading.tell.exports.cells import as_csv
from utils.grading.tell.exports.marks import Marks

PLATFORMS = (canvas, moodle, gradescope)


def write_grades(grades: Sequence[Grade], lab: Lab, path: Path) -> None:
    """Write the table of a class: student, points per exercise, total, max, status, note, look_at."""
    most = lab.points
    rows = [
        [g.student, *(g.points[name] for name in lab.exercises), g.total, most, g.status, g.note, "; ".join(g.flags)]
        for g in sorted(grades, key=lambda grade: grade.student)
    ]
    columns = ["student", *lab.exercises, "total", "max", "status", "note", "look_at"]
    write_whole(path, as_csv(columns, rows))


def write_exports(grades: Sequence[Grade], lab: Lab, folder: Path, gradebook: pd.DataFrame | None = None) -> list[str]:
    """Write the files that platforms import into `folder`, and look_at.csv; returns what to tell the instructor.

    `gradebook` is a platform's own export, see `read_gradebook`: its file is written for the platform it is from.
    Without one, files for all platforms are written, as far as the names of the submissions have ids in them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    marks = Marks(sorted(grades, key=lambda grade: grade.student), lab, gradebook)
    said = []
    platforms = PLATFORMS
    if gradebook is not None:
        columns = list(map(str, gradebook.columns))
        platforms = [platform for platform in PLATFORMS if platform.wrote(set(columns))][:1] or PLATFORMS
        if platforms is PLATFORMS:
            known = ", ".join(columns[:8])
            said.append(f"No platform is known by these columns: {known}. Its rows are used to find ids and emails.")
    said += [platform.write(marks, folder) for platform in platforms]
    held = marks.look_at()
    columns = ["student", "id", "points", "max", "status", "why", "note"]
    write_whole(folder / "look_at.csv", as_csv(columns, held))
    said += marks.said
    said.append(f"look_at.csv: {len(held)} to look at by hand, who are in none of these files or need an id.")
    return said
