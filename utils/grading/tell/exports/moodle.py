"""Moodle: a CSV for its gradebook, or the assignment's own grading worksheet with the marks in it.

Sources, read as they are now:
  gradebook   docs.moodle.org/en/Grade_import; moodle/moodle grade/import/csv/classes/load_data.php (an unknown student
              stops the import; a row without an id goes to the student of the row before; "" deletes)
  worksheet   moodle/moodle mod/assign/feedback/offline/importgradeslib.php, locallib.php (needs Identifier, Grade and
              "Last modified (grade)"; Identifier is "Participant" and the number in the file names)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from utils.common.files import write_whole
from utils.grading.roster import first
from utils.grading.tell.cells import as_csv, is_formula
from utils.grading.tell.exports.marks import Marks

# Titles, in small letters: "Maximum grade" was "Maximum Grade" in older versions.
IDS = ("email address", "id number", "username")
NAMES = ("first name", "last name", "surname")
WORKSHEET = ("identifier", "full name", "email address", "grade", "maximum grade", "last modified (grade)")
# The number in the name of a folder is a student's or, in a group assignment, the group's: only the table tells.
NO_TABLE = (
    "moodle.csv is not written without the table that Moodle exports (grading worksheet or gradebook): "
    "give it with --gradebook."
)


def wrote(columns: set[str]) -> bool:
    """Whether a table with these columns is Moodle's."""
    titles = set(map(str.casefold, columns))
    return _is_worksheet(titles) or not titles.isdisjoint(IDS)


def _is_worksheet(titles: set[str]) -> bool:
    return titles >= {"identifier", "grade"}


def _columns(marks: Marks, titles: Sequence[str]) -> list[str]:
    """The columns of the table with these titles, in this order, as the table writes them."""
    there = {column.casefold(): column for column in map(str, marks.table.columns)}
    return [there[title] for title in titles if title in there]


def write(marks: Marks, folder: Path) -> str:
    """Write moodle.csv; returns what to tell the instructor."""
    if marks.table is None:
        return NO_TABLE
    if _is_worksheet({column.casefold() for column in map(str, marks.table.columns)}):
        return _write_worksheet(marks, folder)
    sure = marks.sure()
    there = _columns(marks, IDS)
    filled = {c: sum(bool(row[c].strip()) for _, row in sure) for c in there}
    # Every row needs its id: in a row without one Moodle gives the mark to the student of the row before.
    ids = [c for c in there if filled[c] == len(sure)] or sorted(there, key=lambda c: -filled[c])[:1]
    if not ids:
        return "moodle.csv is not written: the roster has no column called Email address, ID number or Username."
    names = _columns(marks, NAMES)
    rows, without = [], {}
    for grade, row in sure:
        if not all(row[c].strip() for c in ids):
            without[grade.student] = f"moodle.csv: no {ids[0]} in the platform's file"
        elif any(is_formula(row[c].strip()) for c in ids):
            without[grade.student] = f"moodle.csv: a spreadsheet would take this {ids[0]} for a formula"
        else:
            rows.append([*(row[c] for c in names), *(row[c].strip() for c in ids), grade.mark])
    marks.doubt(without)
    write_whole(folder / "moodle.csv", as_csv([*names, *ids, f"{marks.title} (of {marks.most})"], rows))
    return (
        f"moodle.csv: {len(rows)} marks. In the gradebook: Import, CSV file; map {ids[0]!r} to the same field, and the "
        "last column to the grade item or to a new one."
    )


def _write_worksheet(marks: Marks, folder: Path) -> str:
    """The assignment's own grading worksheet, with the marks in it."""
    # Not the comments: a comment in the file replaces the one in Moodle.
    columns = _columns(marks, WORKSHEET)
    (grade,) = _columns(marks, ["grade"])
    rows = [[{**row, grade: mark.mark}.get(column, "") for column in columns] for mark, row in marks.sure()]
    marks.other_most("moodle.csv", {first(row, ["maximum grade"]) for row in marks.rows.values()})
    if not rows:
        return "moodle.csv is not written: it has no marks. Give the worksheet or the gradebook that Moodle exports."
    write_whole(folder / "moodle.csv", as_csv(columns, rows))
    return f"moodle.csv: {len(rows)} marks. In the assignment: Submissions, Actions, Upload grading worksheet."
