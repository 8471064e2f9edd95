"""The submissions in a folder or a zip, told apart by their names alone: no file is read."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

from utils.common.errors import Problem
from utils.grading.handed_in.platforms import LEFT_OUT, METADATA, Named, read_names
from utils.grading.handed_in.unpacking import inner, unpack
from utils.grading.roster import EMAILS, IDS, Row, display_name, first, match, platform_id

FOLDERS = "grading-"  # temporary ones, and the number of the process that grades: what a killed one left is found
MOST_FILES = 500  # of one student
NOTHING = "nothing was handed in"


@dataclass(frozen=True)
class Submission:
    """A student, and the files that were handed in: none where `path` is None, and then `note` says why.

    `path` is the first file and `more` are the others: which are notebooks is seen where they are read. `id` is what
    a learning platform calls the student, and `late` whether it came late, where the name of the file told it. `doubts`
    are reasons why a person has to look before the mark is this student's. `group` is who handed in for the student.
    """

    student: str
    path: Path | None
    note: str = ""
    id: str = ""
    late: bool = False
    more: tuple[Path, ...] = ()
    doubts: tuple[str, ...] = ()
    group: str = ""

    @property
    def files(self) -> tuple[Path, ...]:
        """Everything that was handed in."""
        return () if self.path is None else (self.path, *self.more)

    def digest(self) -> str:
        """A digest of all that a grade depends on here: the student, the doubts, every file with its name."""
        about = (self.student, self.note, self.id, self.doubts, self.group, len(self.files))
        digest = hashlib.sha256(repr(about).encode(errors="replace"))
        for path in self.files:
            digest.update(path.name.encode(errors="replace") + b"\0")
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()


def file_stem(student: str) -> str:
    """A name for files about a student: the name itself where that is a plain one, otherwise safe and still its own."""
    plain = "".join(c if c.isalnum() or c in " .,()'-_@+" else f"%{ord(c):x}" for c in student) or "%"
    if plain.strip(". ") != plain:
        plain = f"%{plain}%"
    if len(plain.encode()) > 150:
        plain = f"{plain[:30]}-{hashlib.sha256(student.encode(errors='replace')).hexdigest()[:12]}"
    return plain


@contextmanager
def handed_in(
    place: Path, notebook_name: str, roster: Sequence[Row] = (), tables: Sequence[Row] = ()
) -> Iterator[list[Submission]]:
    """The submissions in a folder or a zip file, sorted by student. What a zip holds is there inside the `with`.

    Who is in the `roster` (see `read_roster`) and handed in nothing has a submission without a path. `tables` has the
    rows of a platform's other file: they tell groups, and names that can be read in two ways. Raises Problem for a
    place that is not there, holds nothing, or cannot be read, and for a student with two submissions.
    """
    with TemporaryDirectory(prefix=f"{FOLDERS}{os.getpid()}-") as unpacked:
        if place.is_file():
            damaged = unpack(place, Path(unpacked))
            yield find_submissions(inner(Path(unpacked)), notebook_name, roster, tables, place, damaged)
        else:
            yield find_submissions(place, notebook_name, roster, tables)


def find_submissions(
    folder: Path,
    notebook_name: str,
    roster: Sequence[Row] = (),
    tables: Sequence[Row] = (),
    named: Path | None = None,
    damaged: Mapping[Path, str] = MappingProxyType({}),
) -> list[Submission]:
    """The submissions in a folder, sorted by student: a file for each, or a folder for each. See `handed_in`.

    `named` is what to call the folder, and `damaged` has the reasons why files in it are not whole.
    """
    named = named or folder
    if not named.exists():
        raise Problem(f"{named} does not exist. Name the folder, or the zip, that holds the submissions.")
    if not folder.is_dir():
        raise Problem(f"{named} is not a folder. Name the folder, or the zip, that holds the submissions.")
    entries = [entry for entry in sorted(folder.iterdir()) if not entry.name.startswith(LEFT_OUT)]
    export = read_names(entries, notebook_name.split("_")[0], [*roster, *tables])
    # Several files of one student are together where the platform says that they are one's: by a number.
    together: dict[tuple[str, str], list[tuple[Path, Named]]] = {}
    for entry in entries:
        if export.platform == "Gradescope" and entry.name == METADATA:
            continue
        for one in export.whose[entry]:
            own = entry.name if export.platform == "a folder" else one.key
            together.setdefault((one.student, own), []).append((entry, one))
    if not together:
        raise Problem(f"{named} is empty. It should hold one notebook, or one folder, for each student.")
    found = [_submission(of_one, name, damaged) for of_one, name in _told_apart(list(together.values()))]
    twice = [student for student, count in Counter(one.student for one in found).items() if count > 1]
    if twice:
        raise Problem(f"{named} has two submissions of {twice[0]}: keep one of them.")
    nameless = export.platform == "Canvas, anonymous"
    by_student = {one.student: one for one in _absent(found, roster, nameless)} | {one.student: one for one in found}
    return [by_student[student] for student in sorted(by_student)]


def _told_apart(all_of: list[list[tuple[Path, Named]]]) -> list[tuple[list[tuple[Path, Named]], str]]:
    """With each student's entries a name: students of one name have the platform's number in it."""
    names = Counter(of_one[0][1].student for of_one in all_of)
    ones = [(of_one, of_one[0][1]) for of_one in all_of]
    return [
        (of_one, f"{one.student} ({one.key})" if one.key and names[one.student] > 1 else one.student)
        for of_one, one in ones
    ]


def _absent(found: list[Submission], roster: Sequence[Row], nameless: bool) -> list[Submission]:
    """A submission without a file for each student of the roster who handed in nothing.

    `nameless` is whether the platform left all names out.
    """
    matched = match(found, roster)
    names, here = Counter(map(display_name, roster)), {one.student for one in found}
    absent = []
    for place in matched.free:
        row, name = roster[place], display_name(roster[place])
        if names[name] > 1:
            name = f"{name} ({platform_id(row) or first(row, IDS)})".removesuffix(" ()")
        elif name in here:  # also where another's name has the same words
            continue
        perhaps = sorted(student for student, places in matched.doubts.items() if place in places)
        note = f"nothing was handed in, unless it is {perhaps[0]!r}: that fits others, too" if perhaps else NOTHING
        if nameless:
            note = "nothing was handed in, unless it is one of those whose names were left out"
        email = first(row, EMAILS)
        absent.append(Submission(name, None, note, platform_id(row) or (email if "@" in email else "")))
    return absent


def _submission(of_one: list[tuple[Path, Named]], student: str, damaged: Mapping[Path, str]) -> Submission:
    """What the entries of one student come to."""
    one = of_one[0][1]
    doubts = tuple(dict.fromkeys(doubt for _, each in of_one for doubt in each.doubts))
    group = ", ".join(dict.fromkeys(each.group for _, each in of_one if each.group))
    about = {"id": one.id, "late": any(each.late for _, each in of_one), "doubts": doubts, "group": group}
    entries = [(entry, each) for entry, each in of_one if not each.typed]
    if any(entry.is_symlink() for entry, _ in entries):
        return _nothing(student, "what was handed in is a link to another file", about)
    files = [file for entry, each in entries for file in _files(entry, each.within)]
    if not all(file.is_file() for file in files):
        return _nothing(student, "what was handed in is no ordinary file", about)
    if len(files) > MOST_FILES:
        return _nothing(student, f"{len(files)} files were handed in, and at most {MOST_FILES} are read", about)
    broken = [f"{file.name} is {damaged[file]}" for file in files if file in damaged]
    files = [file for file in files if file not in damaged]
    if broken and not files:
        return _nothing(student, broken[0], about)
    about["doubts"] += tuple(broken)
    if files:
        return Submission(student, files[0], more=tuple(files[1:]), **about)
    typed = sorted({each.typed for _, each in of_one if each.typed})
    if typed:
        return _nothing(student, f"{' and '.join(typed)} was handed in, and no file: the .ipynb is needed", about)
    if one.within:
        return Submission(student, None, f"nothing was handed in for {one.within}", **about)
    return Submission(student, None, "the folder is empty", **about)


def _nothing(student: str, why: str, about: dict) -> Submission:
    """Something was handed in, and nothing of it can be read: a person should look."""
    return Submission(student, None, why, **about | {"doubts": (why, *about["doubts"])})


def _files(entry: Path, within: str) -> list[Path]:
    """The files of an entry, without links and without files that computers add on their own."""
    if not entry.is_dir():
        return [entry]
    folder = entry / within
    files = [f for f in sorted(folder.rglob("*")) if not f.is_symlink() and f.is_file()]
    return [f for f in files if not any(part.startswith(LEFT_OUT) for part in f.relative_to(folder).parts)]
