"""Points: for one submission, and for a class as a table."""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from utils.grading.facts import Finding, Lab, judge
from utils.grading.kernel import KernelDidNotStart, KernelStudent, Limits
from utils.grading.submissions import NotANotebook, Submission, read_code_cells

# What can have happened to a submission. Points are given for whatever could be judged.
STATUSES = {
    "ok": "the notebook ran from top to bottom",
    "error": "a cell raised; what does not depend on it was graded",
    "timeout": "something did not finish in time; the rest was graded",
    "crash": "the kernel died; the rest was graded",
    "missing": "nothing to grade was handed in",
    "not-a-notebook": "what was handed in cannot be read as a notebook",
}


@dataclass
class Grade:
    """One student's result. `points` maps each exercise to the points it got."""

    student: str
    status: str
    points: dict[str, int]
    note: str = ""
    findings: dict[str, list[Finding]] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(self.points.values())


def grade_submission(submission: Submission, lab: Lab, limits: Limits | None = None) -> Grade:
    """Run one submission in a kernel of its own and judge every exercise. Never raises for what was handed in."""
    nothing = dict.fromkeys(lab.exercises, 0)
    if submission.path is None:
        return Grade(submission.student, "missing", nothing, submission.note)
    try:
        cells = read_code_cells(submission.path)
    except NotANotebook as reason:
        return Grade(submission.student, "not-a-notebook", nothing, str(reason))
    if not any(cell.strip() for cell in cells):
        return Grade(submission.student, "missing", nothing, "the notebook has no code in it")
    try:
        with KernelStudent(cells, limits) as student:
            findings = {name: judge(exercise, student) for name, exercise in lab.exercises.items()}
            errors, status = student.errors, student.worst
    except KernelDidNotStart as reason:
        return Grade(submission.student, "crash", nothing, str(reason))
    points = {
        name: exercise.points if all(finding.holds for finding in findings[name]) else 0
        for name, exercise in lab.exercises.items()
    }
    note = "; ".join(f"code cell {number}: {what.splitlines()[0]}" for number, what in sorted(errors.items())[:3])
    return Grade(submission.student, status, points, note, findings)


def write_grades(grades: Iterable[Grade], lab: Lab, path: Path) -> None:
    """Write the table of a class: student, points per exercise, total, max, status, note."""
    most = sum(exercise.points for exercise in lab.exercises.values())
    rows = [
        {"student": g.student, **g.points, "total": g.total, "max": most, "status": g.status, "note": g.note}
        for g in grades
    ]
    # Written beside and renamed: whoever looks sees the old table or the new one, never half of it.
    descriptor, beside = tempfile.mkstemp(dir=path.parent, prefix=".grades-")
    with os.fdopen(descriptor, "w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, ["student", *lab.exercises, "total", "max", "status", "note"], lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    os.chmod(beside, 0o644)
    os.replace(beside, path)


def feedback(grade: Grade, lab: Lab) -> str:
    """One student's result in words: points, and for each exercise the first fact that does not hold."""
    most = sum(exercise.points for exercise in lab.exercises.values())
    lines = [f"{lab.title} ({lab.name}), {grade.student}: {grade.total} of {most} points"]
    if grade.status != "ok":
        lines.append(f"status: {grade.status} ({STATUSES[grade.status]})" + (f": {grade.note}" if grade.note else ""))
    for name, exercise in lab.exercises.items():
        lines += ["", f"{name}  {grade.points[name]} / {exercise.points}  {exercise.title}"]
        for finding in grade.findings.get(name, []):
            lines.append(f"  {'yes' if finding.holds else 'NO '}  {finding.claim}")
            lines += [f"       {line}" for line in finding.found.splitlines()]
    return "\n".join(lines) + "\n"
