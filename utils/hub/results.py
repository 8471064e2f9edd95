"""What students of a class get back: the page of each, where only they and the instructors see it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from utils.common.files import write_whole
from utils.grading.run.submissions import file_stem
from utils.hub.class_folder import ClassFolder
from utils.hub.hand_ins import LAB


def give_back(of: ClassFolder, lab: str, feedback: Path, students: Iterable[str]) -> int:
    """Show these students the pages that `course grade` has written for them. Returns how many there were.

    The others have none from now on: what they were shown earlier is in doubt.
    """
    sure, count = set(students), 0
    for student in of.students:
        page, place = feedback / f"{file_stem(student)}.html", _page_of(of, student, lab)
        if student in sure and page.exists():
            place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_whole(place, page.read_text(encoding="utf-8"))
            count += 1
        else:
            place.unlink(missing_ok=True)
    return count


def given_back(of: ClassFolder, student: str, lab: str) -> str:
    """A student's page, or nothing. Any text may be asked for."""
    if student not in of.students or not LAB.fullmatch(lab):
        return ""
    place = _page_of(of, student, lab)
    return place.read_text(encoding="utf-8") if place.exists() else ""


def _page_of(of: ClassFolder, student: str, lab: str) -> Path:
    return of.results / student / f"{lab}.html"
