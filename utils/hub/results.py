"""What students of a class get back: the page of each, where only they and the instructors see it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from utils.common.files import write_whole
from utils.grading.run.submissions import file_stem
from utils.hub.class_folder import ClassFolder
from utils.hub.hand_ins import LAB


def give_back(of: ClassFolder, lab: str, feedback: Path, students: Iterable[str]) -> int:
    """Show these students the pages that `course grade` has written for them. Returns how many there were."""
    count = 0
    for student in set(students) & set(of.students):
        page = feedback / f"{file_stem(student)}.html"
        if page.exists():
            place = _page_of(of, student, lab)
            place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_whole(place, page.read_text(encoding="utf-8"))
            count += 1
    return count


def given_back(of: ClassFolder, student: str, lab: str) -> str:
    """A student's page, or nothing. Any text may be asked for."""
    if student not in of.students or not LAB.fullmatch(lab):
        return ""
    place = _page_of(of, student, lab)
    return place.read_text(encoding="utf-8") if place.exists() else ""


def _page_of(of: ClassFolder, student: str, lab: str) -> Path:
    return of.results / student / f"{lab}.html"
