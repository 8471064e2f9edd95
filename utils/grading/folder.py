"""From what was handed in to marks, pages and files for platforms: all of `course grade` but its terminal.

    outcome = grade_folder("lab01", Path("submissions.zip"), Path("graded"), students=Path("class.csv"), jobs=4)

For a JupyterHub, a nightly job or a test. Workers are new processes that import the caller's main module: in a script,
call it under `if __name__ == "__main__":`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from utils.common.errors import Problem
from utils.common.files import write_whole
from utils.exercises.facts import Lab, lab_sources, load_lab, require_facts
from utils.grading import classroom
from utils.grading.grade import Grade
from utils.grading.marking import overrides, words
from utils.grading.marking.by_hand import Students
from utils.grading.marking.late import Deadline
from utils.grading.marking.mark import Mark, most_of
from utils.grading.marking.marking import Marking
from utils.grading.marking.outline import lab_outline
from utils.grading.roster import Row, found_in, read_gradebook, read_roster, students_in
from utils.grading.run import sandbox
from utils.grading.run.kernel import Limits
from utils.grading.run.places import places
from utils.grading.run.submissions import Submission, handed_in

if TYPE_CHECKING:
    from utils.grading.tell.exports.marks import Held

NO_SANDBOX = "Graded without a sandbox: each submission could read and write what the grader can."

LAB = "lab.txt"  # the lab that a folder has the results of


@dataclass(frozen=True)
class Outcome:
    """A graded folder: what each student got, and where it was written."""

    lab: Lab
    grades: list[Mark]
    most: float  # what a mark counts to
    table: Path  # grades.csv
    report: Path  # class.html
    warning: str  # about the whole run, or nothing
    held: list[Held]  # the rows of exports/look_at.csv
    earlier: int  # results that another version of the course gave, and that are kept

    @property
    def look_at(self) -> int:
        """How many have to be looked at by hand."""
        return len(self.held)

    def is_held(self, grade: Mark) -> bool:
        """Whether this one has to be looked at before it is a sure mark."""
        return any(one.mark is grade for one in self.held)

    @property
    def again(self) -> list[Mark]:
        """Those that could not be graded: the same call again grades them and no others."""
        return [grade for grade in self.grades if grade.about.again]

    @property
    def unmarked(self) -> int:
        """Answers in words that an instructor has yet to give points for: all of them where none counts."""
        if any(grade.in_words for grade in self.grades):
            return sum(len(grade.unmarked) for grade in self.grades)
        return sum(words.answered(text) for grade in self.grades for text in grade.free_text.values())


def grade_folder(
    lab: str,
    submissions: Path,
    out: Path,
    *,
    students: Path | None = None,
    gradebook: Path | None = None,
    deadline: Deadline | None = None,
    again: Sequence[str] = (),
    jobs: int = 1,
    dask: str | None = None,
    limits: Limits | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Outcome:
    """Grade a folder or a zip of submissions to one lab, and write grades.csv, feedback/, class.html and exports/.

    `students` is a file with everybody in the class (see `read_roster`), `gradebook` one that a platform exported.
    Both may say who was late, and `deadline` when that is and what it costs. `again` are students to judge whatever
    result they have, or "all". `jobs` is how many at once on this machine, or `dask` the address of a scheduler.
    `progress` is called with how many are done, of how many. A run that was stopped goes on where it was. What an
    instructor keeps in `out`, overrides.csv and words.csv, is read before anything is graded. Raises Problem for what
    the caller can mend.
    """
    limits = limits or Limits()
    notebook_name = lab_sources([lab])[0].name
    _check_lab(out, lab)
    roster = read_roster(students) if students else []
    table = read_gradebook(gradebook) if gradebook else None
    warning = "" if limits.sandboxed else NO_SANDBOX
    rows = students_in(table) if table is not None else []
    with handed_in(submissions, notebook_name, roster, rows) as found:
        few = _of_this_class(found, {"--students": (students, roster), "--gradebook": (gradebook, rows)})
        marking = Marking.read(out, _outline(lab), found, [roster, rows], deadline or Deadline())
        forced = _chosen(again, found, [roster, rows])
        if limits.sandboxed and dask is None:
            _require_sandbox(submissions, out)
            _say_if_slow(limits)
        if dask is None:
            classroom.start_processes(found, out, limits)  # while this process loads PyTorch
        # Here, and not above: what can be mended is told before the seconds that PyTorch takes.
        from utils.grading.tell.whole import tell_class, tell_student

        judged_by = load_lab(lab, hidden=True)
        feedback = _made(out / "feedback")
        write_whole(out / LAB, f"{lab}\n")
        done = kept = 0
        progress(done, len(found))

        def finished(grade: Grade, new: bool, earlier: bool) -> None:
            nonlocal done, kept
            done, kept = done + 1, kept + earlier
            tell_student(marking.mark(grade), judged_by, feedback, warning, new)
            progress(done, len(found))

        how = {"jobs": jobs, "dask": dask, "again": forced, "finished": finished}
        grades = classroom.grade_class(found, lab, out, limits, **how)
    marks = [marking.mark(grade) for grade in grades]
    overrides.begin(out / overrides.NAME)
    most = most_of(judged_by, marks)
    held = tell_class(marks, judged_by, out, warning, table, marking.questions, marking.rule)
    warning = " ".join(filter(None, [warning, few]))
    return Outcome(judged_by, marks, most, out / "grades.csv", out / "class.html", warning, held, kept)


def _check_lab(out: Path, lab: str) -> None:
    """Raise Problem where `out` has the results of another lab."""
    try:
        other = (out / LAB).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return  # nothing is there yet, or what an earlier version of the course wrote
    if other != lab:
        raise Problem(f"{out} has the results of {other}: give {lab} a folder of its own")


def _of_this_class(found: Sequence[Submission], tables: Mapping[str, tuple[Path | None, Sequence[Row]]]) -> str:
    """A warning where fewer than half of those who handed in are in a table; nothing where there are more.

    Raises Problem for a table that has none of them, unless the names of most are in doubt themselves.
    """
    came = [one for one in found if one.path is not None]
    clear = [one for one in came if not one.doubts]
    said = []
    for option, (path, rows) in tables.items():
        known = found_in(came, rows) if path is not None else len(came)
        if not known and 2 * len(clear) > len(came):
            raise Problem(f"{option} {path}: none of the {len(came)} who handed in is in it: is it this class's?")
        if 2 * known < len(came):
            said.append(f"Only {known} of the {len(came)} who handed in are in {path}: is it this class's?")
    return " ".join(said)


def _chosen(again: Sequence[str], found: Sequence[Submission], tables: Sequence[Sequence[Row]]) -> set[str]:
    """The students to judge again. Raises Problem for a name that is no student's."""
    if "all" in again:
        return {one.student for one in found}
    students = Students(found, tables)
    return {students.find("--again", name) for name in again}


def _outline(lab: str) -> Lab:
    for hidden in (False, True):
        try:
            require_facts(lab, hidden=hidden)
        except FileNotFoundError as error:
            raise Problem(f"{error}. Grading needs the instructor's copy of the course.") from None
    return lab_outline(lab)


def _require_sandbox(*private: Path) -> None:
    """Raise Problem where there is no sandbox, or one that shows what is `private`."""
    try:
        sandbox.require_sandbox()
    except sandbox.NoSandbox as reason:
        raise Problem(f"no sandbox: {reason}. Or trust every submission, with --no-sandbox.") from None
    for path in private:
        if through := places().seen_through(path):
            raise Problem(f"each submission can read all of {through}, and so {path}: take a folder elsewhere")


def _say_if_slow(limits: Limits) -> None:
    """The workers find out for themselves. Who waits for them should know why it takes so long."""
    if limits.warm and (reason := sandbox.no_forks()):
        logging.getLogger("course").warning(
            "course: each submission starts a Python of its own, which takes about twice as long: a process in the "
            "sandbox cannot make sandboxes of its own here (%s)",
            reason,
        )


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Problem(f"cannot write to {folder.parent}: {error.strerror}") from None
    return folder
