"""Points for one submission."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass, field, replace

from utils.exercises.facts import Finding, Lab, judge, recorded_timelines
from utils.grading.handed_in.choosing import choose
from utils.grading.handed_in.reading import Document, NotRead, read_documents
from utils.grading.run.kernel import KernelDidNotStart, Limits
from utils.grading.run.kernel_student import KernelStudent
from utils.grading.run.submissions import Submission

LARGEST_TIMELINE = 1_000_000  # characters
DEEPEST_TIMELINE = 8  # lists in lists
MOST_FLAGS = 20  # that are told


@dataclass(frozen=True)
class Status:
    """What can have become of a submission, and what follows. Points are given for whatever could be judged."""

    means: str
    look: str = ""  # why a person should look at it. "error" has none: who leaves an exercise open has it
    judged: bool = True  # whether the points say something about the student
    again: bool = False  # whether the grader failed, so that its next run grades this one again


STATUSES = {
    "ok": Status("the notebook ran from top to bottom"),
    "error": Status("a cell raised; what does not depend on it was graded"),
    "timeout": Status("something did not finish in time; the rest was graded", look="something did not finish in time"),
    "crash": Status("the kernel died; the rest was graded", look="the kernel died"),
    "missing": Status("nothing to grade was handed in", judged=False),
    "not-graded": Status(
        "the grader could not start: grade this one again",
        look="the grader could not start: run the command again",
        judged=False,
        again=True,
    ),
    "not-a-notebook": Status(
        "what was handed in cannot be read as a notebook",
        look="what was handed in cannot be read as a notebook",
        judged=False,
    ),
    "another-lab": Status(
        "the notebook of another lab was handed in", look="the notebook of another lab was handed in", judged=False
    ),
    "untouched": Status(
        "the notebook is as it was released: perhaps it was not saved",
        look="the notebook is as it was released",
        judged=False,
    ),
}


@dataclass
class Grade:
    """One student's result. `points` maps each exercise that gives points to those it got; stars are in `findings`.

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
    answers: dict[str, str] = field(default_factory=dict)  # the code of each answer, to be compared
    group: str = ""  # of those who handed in together

    @property
    def total(self) -> int:
        return sum(self.points.values())

    def stars(self, lab: Lab) -> list[str]:
        """The exercises with a star that are solved."""
        return [name for name, exercise in lab.stars.items() if exercise.solved(self.findings.get(name, []))]

    @property
    def about(self) -> Status:
        """What the status means. One of another version of the course is for a person to look at."""
        return STATUSES.get(self.status) or Status("", look=f"status {self.status}")

    @property
    def judged(self) -> bool:
        """Whether the points say something about the student."""
        return self.about.judged

    @property
    def reasons_to_look(self) -> list[str]:
        """Why a person should look at this submission, in the submission's own text too. Empty for most."""
        reasons = [*filter(None, [self.about.look]), *self.flags[:MOST_FLAGS]]
        return reasons or ([] if self.judged else [self.note or "nothing was handed in"])

    def to_dict(self) -> dict:
        """The grade as it stands in a file of results."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict) -> Grade:
        """The grade that `to_dict` was asked of. Raises TypeError, KeyError or AttributeError for other data."""
        findings = {name: [Finding(**one) for one in found] for name, found in data["findings"].items()}
        return cls(**{**data, "findings": findings})


def grade_submission(submission: Submission, lab: Lab, limits: Limits | None = None) -> Grade:
    """Read one submission, run it in a kernel of its own and judge every exercise.

    Where there are several notebooks of the lab, each is judged. Never raises for what was handed in.
    """
    grade = _judged(submission, lab, limits)
    grade.id, grade.group = submission.id, submission.group
    grade.flags = [*submission.doubts, *grade.flags]
    if submission.group and grade.judged:
        grade.note = "; ".join(filter(None, [f"handed in by the group {submission.group}", grade.note]))
    return grade


def _judged(submission: Submission, lab: Lab, limits: Limits | None) -> Grade:
    limits = limits or Limits()
    limits = replace(limits, call=max(limits.call, lab.call_seconds))
    nothing = dict.fromkeys(lab.graded, 0)
    if submission.path is None:
        return Grade(submission.student, "missing", nothing, submission.note)
    try:
        chosen = choose(read_documents(submission.files), lab.name)
    except NotRead as reason:
        return Grade(submission.student, "not-graded", nothing, str(reason))
    if not chosen.notebooks:
        return Grade(submission.student, chosen.status, nothing, chosen.note, flags=chosen.flags)
    grades = [_run(submission.student, notebook, lab, limits) for notebook in chosen.notebooks]
    grade = _one_of(grades, [notebook.name for notebook in chosen.notebooks], lab)
    grade.flags = [*chosen.flags, *grade.flags]
    return grade


def _one_of(grades: list[Grade], names: list[str], lab: Lab) -> Grade:
    """The grade of several notebooks: the fullest, and a person is asked where the others have other points."""
    unjudged = next((grade for grade in grades if not grade.judged), None)
    if unjudged is not None:
        return unjudged
    fullest = max(range(len(grades)), key=lambda number: (grades[number].total, len(grades[number].stars(lab))))
    grade = grades[fullest]
    several = f"{len(grades)} notebooks"
    if any(other.points != grade.points for other in grades):
        told = ", ".join(f"{name} {one.total} of {lab.points}" for name, one in zip(names, grades, strict=True))
        grade.flags = [f"{several}: {told}: say which counts in overrides.csv", *grade.flags]
    elif any(other.free_text != grade.free_text for other in grades):
        told = f"{several} with the same points and other answers in words: those of {names[fullest]} are shown"
        grade.flags = [told, *grade.flags]
    return grade


def _run(student: str, notebook: Document, lab: Lab, limits: Limits | None) -> Grade:
    """One notebook, run and judged."""
    try:
        with KernelStudent(notebook.code, limits) as running:
            findings = {name: judge(exercise, running) for name, exercise in lab.exercises.items()}
            errors, status, flags = running.errors, running.worst, running.flags
            timelines = _small(recorded_timelines(lab, running, findings))
    except KernelDidNotStart as reason:
        return Grade(student, "not-graded", dict.fromkeys(lab.graded, 0), str(reason))
    points = {name: exercise.points_for(findings[name]) for name, exercise in lab.graded.items()}
    solved = any(exercise.solved(findings[name]) for name, exercise in lab.stars.items())
    if not notebook.ran and not solved and not any(points.values()):
        flags = [*flags, "no exercise got points, and no cell of the notebook was ever run: perhaps it is a wrong copy"]
    note = "; ".join(f"code cell {number}: {what.splitlines()[0]}" for number, what in sorted(errors.items())[:3])
    about = {"findings": findings, "flags": flags, "free_text": notebook.words, "answers": notebook.answers}
    return Grade(student, status, points, note, timelines=timelines, **about)


def _small(timelines: dict[str, dict]) -> dict[str, dict]:
    """Those that are JSON, and neither large nor deep: they are kept in the result."""
    found = {}
    for name, data in timelines.items():
        with contextlib.suppress(TypeError, ValueError, RecursionError):
            if _is_flat(data, DEEPEST_TIMELINE) and len(json.dumps(data)) <= LARGEST_TIMELINE:
                found[name] = data
    return found


def _is_flat(data: object, levels: int) -> bool:
    inner = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return levels > 0 and all(_is_flat(one, levels - 1) for one in inner)
