"""The tables of a class: grades.csv, and files that learning platforms import.

Each of those is made from what the platform itself exported, so that its ids are in it:

    write_exports(grades, lab, out / "exports", read_gradebook(Path("gradebook.csv")))

Only a sure mark is exported. A crash or a missing notebook is not a zero, and an empty mark is not harmless: Moodle's
gradebook and Canvas take it as "delete the mark that is there". So whoever has no sure mark is not in the platform's
file at all, and is in look_at.csv with the reason and the points that were found. Nobody is in neither.

Sources, read as they are now:
  Moodle, gradebook   docs.moodle.org/en/Grade_import; moodle/moodle grade/import/csv/classes/load_data.php (an unknown
                      student stops the import; a row without an id goes to the student of the row before; "" deletes)
  Moodle, worksheet   moodle/moodle mod/assign/feedback/offline/importgradeslib.php, locallib.php (needs Identifier,
                      Grade and "Last modified (grade)"; Identifier is "Participant" and the number in the file names)
  Canvas              instructure/canvas-lms lib/gradebook_importer.rb (first columns Student, ID, .. Section; students
                      by ID, then SIS ids, then name; a column by the number in its title, then by its title)
  Gradescope          gradescope-autograders.readthedocs.io/en/latest/specs and /submission_metadata. No way to import
                      marks is documented; an autograder is. Ours only hands out the results that are in it.
"""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from utils.facts import Lab
from utils.files import write_whole
from utils.grading.grade import Grade
from utils.grading.roster import EMAILS, IDS, NUMBERS, Row, called, first, letters, match, name_of, students_in
from utils.grading.tell import pages
from utils.grading.tell.feedback import student_text
from utils.grading.tell.report import reasons_to_look

# Statuses after which the points are a mark.
SURE = ("ok", "error")
FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]")  # noqa: RUF001 spreadsheets take the wide ones, too
CANVAS_FIRST = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
MOODLE_IDS = ("Email address", "ID number", "Username")
EARLIEST = (1980, 1, 1, 0, 0, 0)  # a fixed date in the zip: the same grades give the same bytes


def write_grades(grades: Sequence[Grade], lab: Lab, path: Path) -> None:
    """Write the table of a class: student, points per exercise, total, max, status, note, look_at."""
    most = lab.points
    rows = [
        [g.student, *(g.points[name] for name in lab.exercises), g.total, most, g.status, g.note, "; ".join(g.flags)]
        for g in sorted(grades, key=lambda grade: grade.student)
    ]
    columns = ["student", *lab.exercises, "total", "max", "status", "note", "look_at"]
    write_whole(path, _csv(columns, rows))


def write_exports(
    grades: Sequence[Grade], lab: Lab, folder: Path, roster_rows: pd.DataFrame | None = None
) -> list[str]:
    """Write the files that platforms import into `folder`, and look_at.csv; returns what to tell the instructor.

    `roster_rows` is a platform's own export, see `read_gradebook`: its file is written for the platform it is from.
    Without one, files for all platforms are written, as far as the names of the submissions have ids in them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    class_ = _Class(sorted(grades, key=lambda grade: grade.student), lab, roster_rows)
    said = []
    platform = None if roster_rows is None else _platform(roster_rows)
    if roster_rows is not None and platform is None:
        known = ", ".join(map(str, roster_rows.columns[:8]))
        said.append(f"No platform is known by these columns: {known}. Its rows are used to find ids and emails.")
    writers: dict[str, Callable[[_Class, Path], str]] = {
        "moodle": _write_moodle,
        "canvas": _write_canvas,
        "gradescope": _write_gradescope,
    }
    for name, writer in writers.items():
        if platform in (None, name):
            said.append(writer(class_, folder))
    held = class_.look_at()
    columns = ["student", "id", "points", "max", "status", "why", "note"]
    write_whole(folder / "look_at.csv", _csv(columns, held))
    said += class_.said
    said.append(f"look_at.csv: {len(held)} to look at by hand, who are in none of these files or need an id.")
    return said


# --- who is who -----------------------------------------------------------------------------------------------


@dataclass
class _Class:
    """The grades, with the row of the platform's file for each student that one was found for."""

    grades: list[Grade]
    lab: Lab
    roster: pd.DataFrame | None
    rows: dict[str, Row] = field(default_factory=dict)  # student -> row, in the order of the file
    doubts: dict[str, list[str]] = field(default_factory=dict)  # student -> why there is no row, or no place in a file
    nobodys: list[Row] = field(default_factory=list)  # rows that are no student's
    said: list[str] = field(default_factory=list)

    def __post_init__(self):
        if self.roster is not None:
            self._match(students_in(self.roster))

    @property
    def most(self) -> int:
        return self.lab.points

    @property
    def title(self) -> str:
        return f"{self.lab.name.capitalize()}: {self.lab.title}"

    def marks(self) -> list[tuple[Grade, Row]]:
        """The sure marks, each with the student's row. Without a roster the row is empty."""
        sure = [grade for grade in self.grades if not _unsure(grade)]
        if self.roster is None:
            return [(grade, {}) for grade in sure]
        known = {grade.student: grade for grade in sure if grade.student in self.rows}
        return [(known[student], row) for student, row in self.rows.items() if student in known]

    def doubt(self, why: dict[str, str]) -> None:
        """Say why students are not in a file that has been written."""
        for student, reason in why.items():
            self.doubts.setdefault(student, []).append(reason)

    def look_at(self) -> list[list]:
        """Rows of look_at.csv: students first, then rows of the platform's file that are nobody's."""
        found = []
        for grade in self.grades:
            why = [*_unsure(grade), *self.doubts.get(grade.student, [])]
            if why:
                points = "" if grade.status in ("missing", "not-graded", "not-a-notebook") else grade.total
                who = [pages.line(grade.student, 80), pages.line(grade.id, 40)]
                found.append([*who, points, self.most, grade.status, "; ".join(why), pages.line(grade.note)])
        for row in self.nobodys:
            why = "in the platform's file, and no submission is this student's"
            found.append([called(row), first(row, [*NUMBERS, *IDS]), "", self.most, "", why, ""])
        return found

    def _match(self, rows: list[Row]) -> None:
        found = match(self.grades, rows)
        self.rows = {student: rows[place] for student, place in found.rows.items()}
        self.nobodys = [rows[place] for place in found.free]
        for student, places in found.doubts.items():
            fits = "more than one row, or a row that fits others too" if places else "no row"
            self.doubts[student] = [f"{fits} of the platform's file is this student's"]


def _unsure(grade: Grade) -> list[str]:
    """Why the points are not a mark yet."""
    if grade.status not in SURE:
        return reasons_to_look(grade) or ["nothing was handed in"]
    return [pages.line(flag) for flag in grade.flags]


# --- the platforms ----------------------------------------------------------------------------------------------


def _platform(roster: pd.DataFrame) -> str | None:
    columns = set(roster.columns)
    if {"Student", "ID"} <= columns or {"LastName", "ID"} <= columns:
        return "canvas"
    if {"Identifier", "Grade"} <= columns or columns & {"Email address", "ID number", "Username"}:
        return "moodle"
    if "Email" in columns and columns & {"Name", "First Name", "SID"}:
        return "gradescope"
    return None


def _write_moodle(class_: _Class, folder: Path) -> str:
    if class_.roster is None or {"Identifier", "Grade"} <= set(class_.roster.columns):
        return _write_worksheet(class_, folder)
    marks = class_.marks()
    there = [c for c in MOODLE_IDS if c in class_.roster.columns]
    filled = {c: sum(bool(row[c].strip()) for _, row in marks) for c in there}
    # Every row needs its id: in a row without one Moodle gives the mark to the student of the row before.
    ids = [c for c in there if filled[c] == len(marks)] or sorted(there, key=lambda c: -filled[c])[:1]
    if not ids:
        return "moodle.csv is not written: the roster has no column called Email address, ID number or Username."
    names = [c for c in ("First name", "Last name", "Surname") if c in class_.roster.columns]
    rows, without = [], {}
    for grade, row in marks:
        if not all(row[c].strip() for c in ids):
            without[grade.student] = f"moodle.csv: no {ids[0]} in the platform's file"
        elif any(_is_formula(row[c].strip()) for c in ids):
            without[grade.student] = f"moodle.csv: a spreadsheet would take this {ids[0]} for a formula"
        else:
            rows.append([*(row[c] for c in names), *(row[c].strip() for c in ids), grade.total])
    class_.doubt(without)
    write_whole(folder / "moodle.csv", _csv([*names, *ids, f"{class_.title} (of {class_.most})"], rows))
    return (
        f"moodle.csv: {len(rows)} marks. In the gradebook: Import, CSV file; map {ids[0]!r} to the same field, and the "
        "last column to the grade item or to a new one."
    )


def _write_worksheet(class_: _Class, folder: Path) -> str:
    """The assignment's own grading worksheet, with the marks in it."""
    rows, without = [], {}
    # Not the comments: a comment in the file replaces the one in Moodle.
    columns = ["Identifier", "Full name", "Email address", "Grade", "Maximum Grade", "Last modified (grade)"]
    if class_.roster is not None:
        columns = [column for column in columns if column in class_.roster.columns]
    for grade, row in class_.marks():
        if class_.roster is None:
            if not grade.id:
                without[grade.student] = "moodle.csv: no number in the name of the submission"
                continue
            row = {"Identifier": f"Participant {grade.id}", "Full name": grade.student}
            row |= {"Maximum Grade": class_.most, "Last modified (grade)": "-"}
        rows.append([{**row, "Grade": grade.total}.get(column, "") for column in columns])
    if class_.roster is not None:
        class_.said += _other_most(class_, "moodle.csv", {row.get("Maximum Grade", "") for row in class_.rows.values()})
    if not rows:
        return "moodle.csv is not written: it has no marks. Give the worksheet or the gradebook that Moodle exports."
    class_.doubt(without)
    write_whole(folder / "moodle.csv", _csv(columns, rows))
    return f"moodle.csv: {len(rows)} marks. In the assignment: Submissions, Actions, Upload grading worksheet."


def _write_canvas(class_: _Class, folder: Path) -> str:
    marks, columns, assignment, most = class_.marks(), CANVAS_FIRST, class_.title, str(class_.most)
    if class_.roster is not None and "Section" in class_.roster.columns:
        given = list(class_.roster.columns)
        columns = given[: given.index("Section") + 1]
        asked = [c for c in given[len(columns) :] if _is_about(c, class_.lab)]
        if len(asked) == 1:
            assignment = asked[0]
            heads = [r for r in class_.roster.to_dict("records") if name_of(r).startswith("Points Possible")]
            most = next((r[assignment].strip() for r in heads), "") or most
            class_.said += _other_most(class_, "canvas.csv", {most})
        else:
            what = "more than one column" if asked else "no column"
            class_.said.append(f"canvas.csv: {what} of the gradebook is about {class_.lab.name}: Canvas will ask.")
    rows, without = [["    Points Possible", *[""] * (len(columns) - 1), most]], {}
    for grade, row in marks:
        row = row or {"Student": grade.student, "ID": grade.id}
        if any(_is_formula(row.get(column, "")) for column in columns[1:]):
            without[grade.student] = "canvas.csv: a spreadsheet would take an id of this student for a formula"
        else:
            rows.append([*(row.get(column, "") for column in columns), grade.total])
    class_.doubt(without)
    write_whole(folder / "canvas.csv", _csv([*columns, assignment], rows))
    unnamed = sum(not (row or grade.id) for grade, row in marks)
    by_name = f" {unnamed} have no id and are found by their name, if Canvas knows it." if unnamed else ""
    return f"canvas.csv: {len(rows) - 1} marks, in the column {assignment!r}. In the gradebook: Import.{by_name}"


def _write_gradescope(class_: _Class, folder: Path) -> str:
    results, without = {}, {}
    for grade, row in class_.marks():
        email = next((v for v in (first(row, [title]) for title in EMAILS) if "@" in v), "")
        email = (email or next((v for v in (grade.student, grade.id) if re.fullmatch(r"\S+@\S+\.\S+", v)), "")).lower()
        if not email or email in results:
            what = "an email of two students" if email else "no email"
            without[grade.student] = f"gradescope.zip: {what}"
            continue
        tests = [
            {"number": name, "name": e.title, "score": grade.points.get(name, 0), "max_score": e.points}
            for name, e in class_.lab.exercises.items()
        ]
        results[email] = {"score": grade.total, "output": student_text(grade, class_.lab), "tests": tests}
    if not results:
        return "gradescope.zip is not written: no email is known. Give a roster with a column Email."
    class_.doubt(without)
    files = {"setup.sh": "#!/bin/sh\n", "run_autograder": RUN_AUTOGRADER}
    files["results.json"] = json.dumps(results, indent=1, sort_keys=True)
    with io.BytesIO() as buffer:
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, text in files.items():
                info = zipfile.ZipInfo(name, EARLIEST)
                info.external_attr, info.compress_type = 0o755 << 16, zipfile.ZIP_DEFLATED
                archive.writestr(info, text)
        (folder / "gradescope.zip").write_bytes(buffer.getvalue())
    return (
        f"gradescope.zip: {len(results)} results. Upload it as the autograder of a programming "
        "assignment and regrade. It runs no student's code: it hands out the results in it, by email."
    )


# What Gradescope runs beside each submission. Only Python's own library is there.
RUN_AUTOGRADER = '''#!/usr/bin/env python3
"""Hands out the result that was found elsewhere. Without one it fails, which Gradescope shows as no score."""

import json
import sys
from pathlib import Path

here = Path(__file__).resolve().parent
results = json.loads((here / "source" / "results.json").read_text())
users = json.loads((here / "submission_metadata.json").read_text())["users"]
found = [results[user["email"].lower()] for user in users if user["email"].lower() in results]
if len(found) != 1:
    sys.exit(f"{len(found)} results for {[user['email'] for user in users]}: see look_at.csv")
(here / "results").mkdir(exist_ok=True)
(here / "results" / "results.json").write_text(json.dumps(found[0]))
'''


def _is_about(column: str, lab: Lab) -> bool:
    """Whether a column's title names the lab: "Lab 01", "lab01: Split a model (1234)", or the title alone."""
    found = letters(re.sub(r"\s*\(\d+\)$", "", column))
    return found.startswith(letters(lab.name)) or found == letters(lab.title)


def _other_most(class_: _Class, file: str, found: set[str]) -> list[str]:
    """A line if the platform counts to another number of points than the lab."""
    numbers = {n for n in (re.sub(r"\.0+$", "", value.strip().replace(",", ".")) for value in found) if n}
    if numbers <= {str(class_.most)}:
        return []
    there = ", ".join(sorted(numbers))
    return [f"{file}: the platform counts to {there} points, and these marks are of {class_.most}."]


# --- CSV --------------------------------------------------------------------------------------------------------


def cell(value: object) -> str:
    """A cell that no spreadsheet takes for a formula: text that would be one begins with an apostrophe."""
    if isinstance(value, int | float):
        return str(value)
    text = pages.clean(value, 1000).replace("\t", " ").replace("\n", " ")
    return f"'{text}" if _is_formula(text) else text


def _is_formula(text: str) -> bool:
    return FORMULA.match(text) is not None and text.strip() != "-"


def _csv(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    file = io.StringIO()
    table = csv.writer(file, lineterminator="\n")
    table.writerows([[cell(value) for value in row] for row in [columns, *rows]])
    return file.getvalue()
