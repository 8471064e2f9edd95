"""Points: for one submission, and for a class as a table."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from utils.files import write_whole
from utils.grading.facts import Finding, Lab, judge
from utils.grading.kernel import KernelDidNotStart, KernelStudent, Limits
from utils.grading.submissions import NotANotebook, Submission, read_code_cells, read_free_text

# What can have happened to a submission. Points are given for whatever could be judged.
STATUSES = {
    "ok": "the notebook ran from top to bottom",
    "error": "a cell raised; what does not depend on it was graded",
    "timeout": "something did not finish in time; the rest was graded",
    "crash": "the kernel died; the rest was graded",
    "missing": "nothing to grade was handed in",
    "not-graded": "the grader could not start: grade this one again",
    "not-a-notebook": "what was handed in cannot be read as a notebook",
}


@dataclass
class Grade:
    """One student's result. `points` maps each exercise to the points it got.

    `flags` are reasons for a person to look at the submission. They cost nothing by themselves.
    """

    student: str
    status: str
    points: dict[str, int]
    note: str = ""
    id: str = ""  # what a learning platform calls the student
    findings: dict[str, list[Finding]] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    free_text: dict[str, str] = field(default_factory=dict)
    timelines: dict[str, dict] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(self.points.values())

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=True, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Grade:
        """The grade that `to_json` was asked of. Raises ValueError, TypeError or KeyError for other text."""
        data = json.loads(text)
        findings = {name: [Finding(**one) for one in found] for name, found in data.pop("findings").items()}
        return cls(**data, findings=findings)


def grade_submission(submission: Submission, lab: Lab, limits: Limits | None = None) -> Grade:
    """Run one submission in a kernel of its own and judge every exercise. Never raises for what was handed in."""
    grade = _judged(submission, lab, limits)
    grade.id = submission.id
    return grade


def _judged(submission: Submission, lab: Lab, limits: Limits | None) -> Grade:
    nothing = dict.fromkeys(lab.exercises, 0)
    if submission.path is None:
        return Grade(submission.student, "missing", nothing, submission.note)
    try:
        cells = read_code_cells(submission.path)
        free_text = read_free_text(submission.path)
    except NotANotebook as reason:
        return Grade(submission.student, "not-a-notebook", nothing, str(reason))
    if not any(cell.strip() for cell in cells):
        return Grade(submission.student, "missing", nothing, "the notebook has no code in it")
    timelines: dict[str, dict] = {}
    try:
        with KernelStudent(cells, limits) as student:
            findings = {name: judge(exercise, student) for name, exercise in lab.exercises.items()}
            errors, status, flags = student.errors, student.worst, student.flags
    except KernelDidNotStart as reason:
        return Grade(submission.student, "not-graded", nothing, str(reason))
    points = {
        name: exercise.points if all(finding.holds for finding in findings[name]) else 0
        for name, exercise in lab.exercises.items()
    }
    note = "; ".join(f"code cell {number}: {what.splitlines()[0]}" for number, what in sorted(errors.items())[:3])
    return Grade(submission.student, status, points, note, "", findings, flags, free_text, timelines)


def write_grades(grades: Iterable[Grade], lab: Lab, path: Path) -> None:
    """Write the table of a class: student, points per exercise, total, max, status, note, look_at.

    What would be a formula in a spreadsheet begins with an apostrophe.
    """
    most = sum(exercise.points for exercise in lab.exercises.values())
    file = io.StringIO()
    columns = ["student", *lab.exercises, "total", "max", "status", "note", "look_at"]
    table = csv.DictWriter(file, columns, lineterminator="\n")
    table.writeheader()
    for grade in sorted(grades, key=lambda one: one.student):
        row = {"student": grade.student, **grade.points, "total": grade.total, "max": most, "status": grade.status}
        row |= {"note": grade.note, "look_at": "; ".join(grade.flags)}
        table.writerow({name: _no_formula(value) for name, value in row.items()})
    write_whole(path, file.getvalue())


def _no_formula(value):
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@")) else value


def feedback(grade: Grade, lab: Lab) -> str:
    """One student's result in words. See feedback.student_text."""
    from utils.grading.feedback import student_text

    return student_text(grade, lab)
