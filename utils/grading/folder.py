"""From what was handed in to marks, pages and files for platforms: all of `course grade` but its terminal.

    outcome = grade_folder("lab01", Path("submissions.zip"), Path("graded"), students=Path("class.csv"), jobs=4)

For a JupyterHub, a nightly job or a test. Workers are new processes that import the caller's main module: in a script,
call it under `if __name__ == "__main__":`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from utils.facts import Lab, lab_sources, load_lab
from utils.files import write_whole
from utils.grading import classroom
from utils.grading.grade import Grade
from utils.grading.roster import read_gradebook, read_roster, students_in
from utils.grading.run import sandbox
from utils.grading.run.kernel import Limits, begin_to_warm
from utils.grading.run.submissions import file_stem, handed_in
from utils.grading.tell import pages
from utils.grading.tell.exports import write_exports, write_grades
from utils.grading.tell.feedback import student_page, student_text
from utils.grading.tell.report import class_page
from utils.problem import Problem

NO_SANDBOX = "Graded without a sandbox: each submission could read and write what the grader can."


@dataclass(frozen=True)
class Outcome:
    """A graded folder: what each student got, and where it was written."""

    lab: Lab
    grades: list[Grade]
    table: Path  # grades.csv
    report: Path  # class.html
    warning: str  # about the whole run, or nothing

    @property
    def again(self) -> list[Grade]:
        """Those that could not be graded: the same call again grades them, and nobody else."""
        return [grade for grade in self.grades if grade.status == "not-graded"]


def grade_folder(
    lab: str,
    submissions: Path,
    out: Path,
    *,
    students: Path | None = None,
    gradebook: Path | None = None,
    jobs: int = 1,
    dask: str | None = None,
    limits: Limits | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Outcome:
    """Grade a folder or a zip of submissions to one lab, and write grades.csv, feedback/, class.html and exports/.

    `students` is a file with everybody in the class (see `read_roster`), `gradebook` one that a platform exported.
    `jobs` is how many at once on this machine, or `dask` the address of a scheduler. `progress` is called with how many
    are done, of how many. A run that was stopped goes on where it was. Raises Problem for what the caller can mend.
    """
    limits = limits or Limits()
    notebook_name = lab_sources([lab])[0].name
    roster = read_roster(students) if students else []
    table = read_gradebook(gradebook) if gradebook else None
    warning = "" if limits.sandboxed else NO_SANDBOX
    rows = students_in(table) if table is not None else []
    with handed_in(submissions, notebook_name, roster, rows) as found:
        if limits.sandboxed and dask is None:
            _require_sandbox()
            _say_if_slow(limits)
        if dask is None:
            begin_to_warm(limits)  # while this process loads PyTorch
        judged_by = _with_hidden_facts(lab)
        feedback = _made(out / "feedback")
        done = 0
        progress(done, len(found))

        def finished(grade: Grade, new: bool) -> None:
            nonlocal done
            done += 1
            _give_back(grade, judged_by, feedback, warning, new)
            progress(done, len(found))

        grades = classroom.grade_class(found, lab, out, limits, jobs=jobs, dask=dask, finished=finished)
    _tell(grades, judged_by, out, warning, table)
    return Outcome(judged_by, grades, out / "grades.csv", out / "class.html", warning)


def _with_hidden_facts(lab: str) -> Lab:
    try:
        return load_lab(lab, hidden=True)
    except FileNotFoundError as missing:
        raise Problem(f"{missing}. Grading needs the instructor's copy of the course.") from None


def _require_sandbox() -> None:
    try:
        sandbox.require()
    except sandbox.NoSandbox as reason:
        raise Problem(f"no sandbox: {reason}. Or trust every submission, with --no-sandbox.") from None


def _say_if_slow(limits: Limits) -> None:
    """The workers find out for themselves. Who waits for them should know why it takes so long."""
    if limits.warm and (reason := sandbox.no_forks()):
        logging.getLogger("course").warning(
            "course: each submission starts Python anew, which takes about twice as long: a process in the sandbox "
            "cannot make sandboxes of its own here (%s)",
            reason,
        )


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Problem(f"cannot write to {folder.parent}: {error.strerror}") from None
    return folder


def _give_back(grade: Grade, lab: Lab, folder: Path, warning: str, new: bool) -> None:
    """Write a student's page and text, unless an earlier run did with the templates of today."""
    stem = folder / file_stem(grade.student)
    page, text = stem.with_name(f"{stem.name}.html"), stem.with_name(f"{stem.name}.txt")
    there = page.exists() and text.exists() and page.stat().st_mtime > pages.changed()
    if new or not there:
        write_whole(page, student_page(grade, lab, warning))
        write_whole(text, student_text(grade, lab, warning))


def _tell(grades: Sequence[Grade], lab: Lab, out: Path, warning: str, gradebook: pd.DataFrame | None) -> None:
    """Write what is about the whole class."""
    write_grades(grades, lab, out / "grades.csv")
    write_whole(out / "class.html", class_page(grades, lab, warning))
    how = write_exports(grades, lab, out / "exports", gradebook)
    write_whole(out / "exports" / "how_to_import.txt", "\n".join(how) + "\n")
