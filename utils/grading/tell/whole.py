"""All that is written about a class: a page and a text for each student, the tables, the class's page, the exports."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from utils.common.files import write_whole
from utils.exercises.facts import Lab
from utils.grading.marking.mark import Mark
from utils.grading.run.submissions import file_stem
from utils.grading.tell import pages
from utils.grading.tell.exports import write_exports, write_grades
from utils.grading.tell.exports.marks import Held
from utils.grading.tell.feedback import student_page, student_text
from utils.grading.tell.report import class_page
from utils.grading.tell.words import words_page


def tell_student(mark: Mark, lab: Lab, folder: Path, warning: str, new: bool) -> None:
    """Write a student's page and text, unless an earlier run told the same with the templates of today.

    The text has all that the page has but the timeline, which is the same until the submission is judged again; and it
    is written last.
    """
    stem = folder / file_stem(mark.student)
    page, text = stem.with_name(f"{stem.name}.html"), stem.with_name(f"{stem.name}.txt")
    told = student_text(mark, lab, warning)
    there = page.exists() and page.stat().st_mtime > pages.changed() and _read(text) == told
    if new or not there:
        write_whole(page, student_page(mark, lab, warning))
        write_whole(text, told)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def tell_class(
    marks: Sequence[Mark],
    lab: Lab,
    out: Path,
    warning: str,
    gradebook: pd.DataFrame | None,
    questions: Sequence[str],
    rule: str,
) -> list[Held]:
    """Write what is about the whole class; `questions` are those that are answered in words.

    Returns who has to be looked at before there is a sure mark: the rows of look_at.csv.
    """
    write_grades(marks, lab, out / "grades.csv")
    if page := words_page(marks, lab, questions):
        write_whole(out / "words.html", page)
    said, held = write_exports(marks, lab, out / "exports", gradebook)
    write_whole(out / "exports" / "how_to_import.txt", "\n".join(said) + "\n")
    write_whole(out / "class.html", class_page(marks, lab, warning, rule=rule, held=held))
    return held
