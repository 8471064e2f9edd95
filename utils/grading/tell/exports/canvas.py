"""Canvas: a CSV for its gradebook.

Source, read as it is now: instructure/canvas-lms lib/gradebook_importer.rb (first columns Student or LastName and
FirstName, ID, .. Section; students by ID, then SIS ids, then name; a column by the number in its title, then by its
title).
"""

from __future__ import annotations

import re
from pathlib import Path

from utils.common.files import write_whole
from utils.exercises.facts import Lab
from utils.grading.roster import full_name, letters
from utils.grading.tell.cells import as_csv, is_formula
from utils.grading.tell.exports.marks import Marks

FIRST = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]


def wrote(columns: set[str]) -> bool:
    """Whether a table with these columns is Canvas's."""
    return "ID" in columns and not columns.isdisjoint({"Student", "LastName"})


def write(marks: Marks, folder: Path) -> str:
    """Write canvas.csv; returns what to tell the instructor."""
    columns, sure = FIRST, marks.sure()
    if marks.table is not None and "Section" in marks.table.columns:
        given = list(marks.table.columns)
        columns = given[: given.index("Section") + 1]
    assignment, most = _assignment(marks, columns)
    rows, without = [["    Points Possible", *[""] * (len(columns) - 1), most]], {}
    for grade, row in sure:
        row = row or {"Student": grade.student, "ID": grade.id}
        if any(is_formula(row.get(column, "")) for column in columns[1:]):
            without[grade.student] = "canvas.csv: a spreadsheet would take an id of this student for a formula"
        else:
            rows.append([*(row.get(column, "") for column in columns), grade.mark])
    marks.doubt(without)
    write_whole(folder / "canvas.csv", as_csv([*columns, assignment], rows))
    unnamed = sum(not (row or grade.id) for grade, row in sure)
    by_name = f" {unnamed} have no id and are found by their name, if Canvas knows it." if unnamed else ""
    return f"canvas.csv: {len(rows) - 1} marks, in the column {assignment!r}. In the gradebook: Import.{by_name}"


def _assignment(marks: Marks, columns: list[str]) -> tuple[str, str]:
    """The title of the column with the marks, and the points that it counts to: those of the gradebook, if it tells."""
    if columns is FIRST:
        return marks.title, str(marks.most)
    asked = [c for c in list(marks.table.columns)[len(columns) :] if _is_about(c, marks.lab)]
    if len(asked) != 1:
        what = "more than one column" if asked else "no column"
        marks.said.append(f"canvas.csv: {what} of the gradebook is about {marks.lab.name}: Canvas will ask.")
        return marks.title, str(marks.most)
    heads = [row for row in marks.table.to_dict("records") if full_name(row).startswith("Points Possible")]
    most = next((row[asked[0]].strip() for row in heads), "") or str(marks.most)
    marks.other_most("canvas.csv", {most})
    return asked[0], most


def _is_about(column: str, lab: Lab) -> bool:
    """Whether a column's title names the lab: "Lab 01", "lab01: Split a model (1234)", or the title alone."""
    found = letters(re.sub(r"\s*\(\d+\)$", "", column))
    return found.startswith(letters(lab.name)) or found == letters(lab.title)
