"""What was handed in: one notebook for each student, found in a folder or a zip, read without running anything."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from utils.grading.roster import IDS, Row, called, first, match, number_of
from utils.notebook_format import nbformat
from utils.problem import Problem

FOLDERS = "grading-"  # temporary ones, and the number of the process that grades: what a killed one left is found
LARGEST_NOTEBOOK = 50_000_000  # bytes; a notebook with a film in its outputs is smaller
LARGEST_CLASS = 4_000_000_000  # bytes that a zip may unpack to
NOTHING = "nothing was handed in"
LONGEST_TEXT = 4000  # characters of a free-text answer that are kept
LONGEST_ANSWER, MOST_ANSWERS = 20_000, 20  # characters of an answer in code that are kept, and how many
OTHER_CELLS = "other cells"  # the name of all code that is no answer
# How learning platforms name what they export, with the number that their gradebooks know the student by:
#   Moodle   "Ann Lee_123456_assignsubmission_file/lab01.ipynb", or the same without a folder (its help page
#            "Assignment settings: Download submissions in folders")
#   Canvas   "leeann_late_4242_99887_lab01.ipynb": name, LATE, user id, file id, file name (its guide "How do I
#            download all student submissions for an assignment?")
MOODLE = re.compile(r"(?P<student>.+?)_(?P<id>\d+)_assignsubmission_(?:file|onlinetext)_?(?:/|$|(?=[^/]))")
CANVAS = re.compile(r"(?P<student>[^_/]+)_(?:LATE_|late_)?(?P<id>\d+)_\d+_(?P<file>[^/]+)$")


class NotANotebook(Exception):
    """A file that was handed in and cannot be read as a notebook. The message says why."""


@dataclass(frozen=True)
class Submission:
    """A student, and the file that was handed in: None where there is none, and then `note` says why.

    `id` is what a learning platform calls the student, and `late` whether it came late, where the name of the file
    told it.
    """

    student: str
    path: Path | None
    note: str = ""
    id: str = ""
    late: bool = False


def file_stem(student: str) -> str:
    """A name for files about a student: the name itself where that is a plain one, otherwise safe and still its own."""
    plain = "".join(c if c.isalnum() or c in " .,()'-_@+" else f"%{ord(c):x}" for c in student) or "%"
    if plain.strip(". ") != plain:
        plain = f"%{plain}%"
    if len(plain.encode()) > 150:
        plain = f"{plain[:30]}-{hashlib.sha256(student.encode(errors='replace')).hexdigest()[:12]}"
    return plain


@contextmanager
def handed_in(place: Path, notebook_name: str, roster: Sequence[Row] = ()) -> Iterator[list[Submission]]:
    """The submissions in a folder or a zip file, sorted by student. What a zip holds is there inside the `with`.

    Who is in the `roster` (see `read_roster`) and handed in nothing has a submission without a path. Raises Problem
    for a place that is not there, holds nothing, or cannot be read, and for a student with two submissions.
    """
    with TemporaryDirectory(prefix=f"{FOLDERS}{os.getpid()}-") as unpacked:
        if place.is_file():
            _unpack(place, Path(unpacked))
            yield find_submissions(_inner(Path(unpacked)), notebook_name, roster, named=place)
        else:
            yield find_submissions(place, notebook_name, roster)


def find_submissions(
    folder: Path, notebook_name: str, roster: Sequence[Row] = (), named: Path | None = None
) -> list[Submission]:
    """The submissions in a folder, sorted by student: a file for each, or a folder for each. See `handed_in`."""
    named = named or folder
    if not folder.is_dir():
        raise Problem(f"{named} is not a folder. Name the folder, or the zip, that holds the submissions.")
    entries = [entry for entry in sorted(folder.iterdir()) if not entry.name.startswith((".", "__"))]
    # Several files of one student are together only where a platform has numbered them.
    files: dict[tuple[str, str, str], list[Path]] = {}
    for entry in entries:
        student, number = _whose(entry)
        files.setdefault((student, number, "" if number else entry.name), []).extend(
            _files(entry) if entry.is_dir() and not entry.is_symlink() else [entry]
        )
    if not files:
        raise Problem(f"{named} is empty. It should hold one notebook, or one folder, for each student.")
    found = [_choose(student, number, candidates, notebook_name) for (student, number, _), candidates in files.items()]
    found = _told_apart(found)
    twice = [student for student, count in Counter(one.student for one in found).items() if count > 1]
    if twice:
        raise Problem(f"{named} has two submissions of {twice[0]}: keep one of them.")
    by_student = {one.student: one for one in _absent(found, roster)} | {one.student: one for one in found}
    return [by_student[student] for student in sorted(by_student)]


def _told_apart(found: list[Submission]) -> list[Submission]:
    """Students of one name have the platform's number in their names."""
    names = Counter(one.student for one in found)
    return [
        replace(one, student=f"{one.student} ({one.id})") if one.id and names[one.student] > 1 else one for one in found
    ]


def _absent(found: list[Submission], roster: Sequence[Row]) -> list[Submission]:
    """A submission without a file for each row of the roster that is nobody's who handed in."""
    matched = match(found, roster)
    names, here = Counter(map(called, roster)), {one.student for one in found}
    absent = []
    for place in matched.free:
        row, name = roster[place], called(roster[place])
        if names[name] > 1:
            name = f"{name} ({number_of(row) or first(row, IDS)})".removesuffix(" ()")
        elif name in here:  # also where another's name has the same words
            continue
        perhaps = sorted(student for student, places in matched.doubts.items() if place in places)
        note = f"nothing was handed in, unless it is {perhaps[0]!r}: that fits others, too" if perhaps else NOTHING
        absent.append(Submission(name, None, note))
    return absent


def _whose(entry: Path) -> tuple[str, str]:
    """The student whose file or folder this is, and the platform's number for the student, from its name."""
    name = entry.name.encode(errors="replace").decode()  # not every file's name is text
    match = MOODLE.match(name) or (CANVAS.match(name) if entry.suffix else None)
    if match:
        return match["student"], match["id"]
    # Two files that differ in their ending only are two submissions of one student.
    return (name if entry.is_dir() else name.removesuffix(entry.suffix)), ""


def _files(folder: Path) -> list[Path]:
    files = [f for f in sorted(folder.rglob("*")) if not f.is_symlink() and f.is_file()]
    return [f for f in files if not f.name.startswith(".") and ".ipynb_checkpoints" not in f.parts]


def _choose(student: str, number: str, files: list[Path], notebook_name: str) -> Submission:
    if any(file.is_symlink() for file in files):
        return Submission(student, None, "what was handed in is a link to another file", number)
    if not all(file.is_file() for file in files):
        return Submission(student, None, "what was handed in is no ordinary file", number)
    notebooks = [f for f in files if f.suffix == ".ipynb"]
    named = [f for f in notebooks if f.name.endswith(notebook_name)]
    for candidates in (named, notebooks):
        if len(candidates) == 1:
            return Submission(student, candidates[0], "", number)
    if notebooks:
        note = f"{len(notebooks)} notebooks, and not one that is named {notebook_name}"
        return Submission(student, None, note, number)
    if files:
        return Submission(student, files[0], "", number)
    return Submission(student, None, "the folder is empty", number)


def _unpack(archive: Path, folder: Path) -> None:
    """Unpack the files of a zip, with bounds. Links and names that lead elsewhere are left out; nothing is followed."""
    try:
        with zipfile.ZipFile(archive) as opened:
            members = opened.infolist()
            if sum(member.file_size for member in members) > LARGEST_CLASS:
                raise Problem(f"{archive} unpacks to more than {LARGEST_CLASS / 1e9:g} GB.")
            for member in members:
                parts = PurePosixPath(member.filename.replace("\\", "/")).parts
                odd = any(part == ".." or set("/\x00:") & set(part) for part in parts) or not parts
                if not member.filename or member.is_dir() or odd or stat.S_ISLNK(member.external_attr >> 16):
                    continue
                # A zip from a platform may have one folder around everything.
                target = folder.joinpath(*(part[-150:] for part in parts))
                if target.exists() or any(parent.is_file() for parent in target.parents):
                    continue
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(_member(opened, member))
    except zipfile.BadZipFile:
        raise Problem(f"{archive} is not a zip file that can be read.") from None
    except OSError as error:
        raise Problem(f"{archive} cannot be unpacked: {error.strerror or error}") from None


def _inner(folder: Path) -> Path:
    """The folder with the submissions: some platforms put one more around it."""
    entries = [entry for entry in folder.iterdir() if not entry.name.startswith((".", "__"))]
    if len(entries) == 1 and entries[0].is_dir():
        inside = list(entries[0].iterdir())
        if any(entry.is_dir() for entry in inside) or sum(entry.suffix == ".ipynb" for entry in inside) > 1:
            return entries[0]
    return folder


def _member(opened: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """One file of a zip, whole or empty: never more than it says, and never more than a notebook may have."""
    if member.flag_bits & 1 or member.file_size > LARGEST_NOTEBOOK:
        return b""
    try:
        with opened.open(member) as file:
            content = file.read(member.file_size + 1)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError, OSError):
        return b""
    return content if len(content) == member.file_size else b""


def read_code_cells(path: Path) -> list[str]:
    """The code cells of a notebook, in order. Raises NotANotebook for a file that is none, saying why."""
    return [source for kind, _, source in _cells(path) if kind == "code"]


def read_free_text(path: Path) -> dict[str, str]:
    """The answers in words, by the name of their cell: those that a person marks. Raises NotANotebook."""
    found = {}
    for kind, about, source in _cells(path):
        if kind == "markdown" and about.get("solution") and about.get("grade"):
            found[str(about.get("grade_id", ""))[:80]] = source[:LONGEST_TEXT]
    return dict(list(found.items())[:10])


def read_answers(path: Path) -> dict[str, str]:
    """The code of each answer, by the name of its cell, and that of all other cells as one. Raises NotANotebook."""
    found: dict[str, str] = {}
    for kind, about, source in _cells(path):
        if kind == "code":
            name = str(about.get("grade_id", ""))[:80] if about.get("solution") else OTHER_CELLS
            found[name] = f"{found[name]}\n{source}" if name in found else source
    return {name: source[:LONGEST_ANSWER] for name, source in list(found.items())[:MOST_ANSWERS]}


def _cells(path: Path) -> list[tuple[str, dict, str]]:
    """Each cell's type, what nbgrader knows about it, and its text."""
    size = path.stat().st_size
    if size == 0:
        raise NotANotebook("the file is empty")
    if size > LARGEST_NOTEBOOK:
        raise NotANotebook(f"the file has {size / 1e6:.0f} MB, more than {LARGEST_NOTEBOOK / 1e6:.0f}")
    try:
        notebook = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
        return [
            # Not every text of JSON is one that can be written: half a character cannot.
            (cell.cell_type, dict(cell.metadata.get("nbgrader", {})), cell.source.encode(errors="replace").decode())
            for cell in notebook.cells
        ]
    except UnicodeDecodeError:
        raise NotANotebook(f"{path.name} is not text") from None
    except Exception as error:  # nbformat has a class of error for each way a file can be wrong, and lets others out
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise NotANotebook(f"{path.name} is not a notebook: {reason[0][:120]}") from None
