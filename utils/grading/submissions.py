"""What was handed in: one notebook for each student, found in a folder, read without running anything."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import nbformat

LARGEST_NOTEBOOK = 50_000_000  # bytes; a notebook with a film in its outputs is smaller


class Problem(Exception):
    """Something the instructor has to mend before grading can start. One line."""


class NotANotebook(Exception):
    """A file that was handed in and cannot be read as a notebook. The message says why."""


@dataclass(frozen=True)
class Submission:
    """A student, and the file that was handed in: None where there is none, and then `note` says why."""

    student: str
    path: Path | None
    note: str = ""


def find_submissions(folder: Path, notebook_name: str, roster: list[str] = ()) -> list[Submission]:
    """The submissions in `folder`, sorted by student: a file for each, or a folder for each.

    A student of the `roster` with neither has a submission without a path. Raises Problem for a folder that
    is not there or holds nothing, and for a student with two submissions.
    """
    if not folder.is_dir():
        raise Problem(f"{folder} is not a folder. Name the folder that holds the submissions.")
    entries = [entry for entry in sorted(folder.iterdir()) if not entry.name.startswith((".", "__"))]
    found = [_in_folder(entry, notebook_name) if entry.is_dir() else Submission(entry.stem, entry) for entry in entries]
    if not found:
        raise Problem(f"{folder} is empty. It should hold one notebook, or one folder, for each student.")
    by_student: dict[str, Submission] = {}
    for submission in found:
        if submission.student in by_student:
            raise Problem(f"{folder} has two submissions of {submission.student}: keep one of them.")
        by_student[submission.student] = submission
    for student in roster:
        by_student.setdefault(student, Submission(student, None, "nothing was handed in"))
    return [by_student[student] for student in sorted(by_student)]


def _in_folder(folder: Path, notebook_name: str) -> Submission:
    files = [f for f in sorted(folder.rglob("*")) if f.is_file() and not f.name.startswith(".")]
    files = [f for f in files if ".ipynb_checkpoints" not in f.parts]
    notebooks = [f for f in files if f.suffix == ".ipynb"]
    named = [f for f in notebooks if f.name == notebook_name]
    if len(named) == 1:
        return Submission(folder.name, named[0])
    if len(notebooks) == 1:
        return Submission(folder.name, notebooks[0])
    if notebooks:
        return Submission(folder.name, None, f"{len(notebooks)} notebooks, and not one that is named {notebook_name}")
    if files:
        return Submission(folder.name, files[0])
    return Submission(folder.name, None, "the folder is empty")


def read_roster(path: Path) -> list[str]:
    """Student names from a text file, one a line (of a CSV file the first column). Raises Problem if unreadable."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Problem(f"{path} cannot be read as a list of students: {error}") from None
    names = [line.split(",")[0].strip().strip('"') for line in lines]
    return [name for name in names if name and name.lower() != "student"]


def read_code_cells(path: Path) -> list[str]:
    """The code cells of a notebook, in order. Raises NotANotebook for a file that is none, saying why."""
    size = path.stat().st_size
    if size == 0:
        raise NotANotebook("the file is empty")
    if size > LARGEST_NOTEBOOK:
        raise NotANotebook(f"the file has {size / 1e6:.0f} MB, more than {LARGEST_NOTEBOOK / 1e6:.0f}")
    try:
        notebook = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
        return [str(cell.source) for cell in notebook.cells if cell.cell_type == "code"]
    except UnicodeDecodeError:
        raise NotANotebook(f"{path.name} is not text") from None
    except Exception as error:  # nbformat has a class of error for each way a file can be wrong, and lets others out
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise NotANotebook(f"{path.name} is not a notebook: {reason[0][:120]}") from None
