"""A page that says what a student has done: the labs of a course, with the points that an instructor's grades say.

    certificates([Path("graded/lab01"), Path("graded/lab02")], Path("certificates"), by="Ada Meyer", on="1 July 2027")

It is no proof by itself: the person who signs it vouches for it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from utils.common.errors import Problem
from utils.common.files import ROOT, write_whole
from utils.exercises.facts import facts_path, load_lab
from utils.grading.run.submissions import file_stem
from utils.grading.tell import pages
from utils.grading.tell.cells import plain

COLUMNS = ("student", "mark", "max")
LABEL = re.compile(r"lab\d\d")


@dataclass(frozen=True)
class Row:
    """A lab on a certificate: its title, the points, and what one can do afterwards."""

    lab: str
    title: str
    points: float
    most: float
    can: str


@dataclass(frozen=True)
class Written:
    """What became of a class: a file for each who has done it, and why the others have none."""

    files: dict[str, Path]
    without: dict[str, str]


def certificates(graded: Sequence[Path], out: Path, *, by: str, on: str, least: float = 0.5) -> Written:
    """Write a page for each student who has at least `least` of the points in **every** lab given.

    `graded` are folders that `course grade` has written, each named after its lab, or folders of such folders. `by` is
    who signs, `on` the date, both as text. All grades are read before anything is written. Raises Problem, one line,
    for what cannot be read, a lab that is given twice, and a share that makes no sense.
    """
    if not 0 < least <= 1:
        raise Problem(f"--least {least:g}: give the share of a lab's points that is enough, above 0 and up to 1")
    if not by.strip():
        raise Problem("--by is empty: who signs?")
    labs = {folder.name: _grades(folder) for folder in _folders(graded)}
    said = _can_afterwards()
    titles = {lab: load_lab(lab).title for lab in labs}
    files, without = {}, {}
    for student in sorted({name for grades in labs.values() for name in grades}):
        lacks = [lab for lab, grades in labs.items() if not _enough(grades, student, least)]
        short = [_short(lab, labs[lab].get(student), least) for lab in lacks]
        if short:
            without[student] = "; ".join(short)
            continue
        rows = [Row(lab, titles[lab], *grades[student], said.get(lab, "")) for lab, grades in labs.items()]
        files[student] = out / f"{file_stem(student)}.html"
        _write(files[student], student, rows, by, on)
    return Written(files, without)


def _enough(grades: dict[str, tuple[float, float] | None], student: str, least: float) -> bool:
    points, most = grades.get(student) or (0.0, 1.0)
    return points >= least * most


def _short(lab: str, found: tuple[float, float] | None, least: float) -> str:
    if found is None:
        return f"{lab}: nothing graded"
    return f"{lab}: {found[0]:g} of {found[1]:g} points, and {least * found[1]:g} are enough"


def _folders(graded: Sequence[Path]) -> list[Path]:
    """The folders of labs, in the labs' order."""
    found: list[Path] = []
    for place in map(Path, graded):
        if not place.is_dir():
            raise Problem(f"{place}: there is no such folder")
        inside = [place] if (place / "grades.csv").is_file() else sorted(place.glob("*/grades.csv"))
        found += [each if each.is_dir() else each.parent for each in inside]
        if not inside:
            raise Problem(f"{place} has no grades.csv, and no folder with one: give what `course grade --out` wrote")
    for folder in found:
        if not LABEL.fullmatch(folder.name) or not facts_path(folder.name).is_file():
            raise Problem(f"{folder}: name the folder after its lab, such as lab01, so that I know which one it is")
    names = [folder.name for folder in found]
    if twice := [name for name in names if names.count(name) > 1]:
        raise Problem(f"{twice[0]} is there twice: {' and '.join(str(f) for f in found if f.name == twice[0])}")
    return sorted(found, key=lambda folder: folder.name)


def _grades(folder: Path) -> dict[str, tuple[float, float] | None]:
    """The mark and the most points by student; None where there is no mark."""
    path = folder / "grades.csv"
    try:
        with path.open(encoding="utf-8", newline="") as file:
            table = csv.DictReader(file)
            if missing := [name for name in COLUMNS if name not in (table.fieldnames or ())]:
                raise Problem(f"{path} has no column {missing[0]!r}: run the `course grade` that wrote it again")
            rows = list(table)
        return {
            plain(row["student"]): None if row["mark"] == "" else (float(row["mark"]), float(row["max"]))
            for row in rows
        }
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise Problem(f"{path} cannot be read: {error}") from None
    except (TypeError, ValueError):
        raise Problem(f"{path} has a mark or a max that is no number: was it edited by hand?") from None


def _can_afterwards() -> dict[str, str]:
    """What the table in docs/course.md says one can do after each lesson, by the name of its lab."""
    try:
        text = (ROOT / "docs" / "course.md").read_text(encoding="utf-8")
    except OSError:
        return {}
    rows = re.findall(r"^\|[^|]*\|[^|]*\|[^|]*\((?:\.\./)?labs/(lab\d\d)/[^)]*\)[^|]*\| (.*?) \|$", text, re.MULTILINE)
    return {lab: re.sub(r"[`*]|\]\([^)]*\)|\[", "", words) for lab, words in rows}


def _write(path: Path, student: str, rows: Sequence[Row], by: str, on: str) -> None:
    text = pages.render(
        "certificate.html",
        student=student,
        rows=rows,
        points=sum(row.points for row in rows),
        most=sum(row.most for row in rows),
        by=by,
        on=on,
        version=version("model-parallel-course"),
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
    except OSError as error:
        raise Problem(f"{path} cannot be written: {error.strerror}") from None
