"""What a student gets back: one page, and the same as plain text. Points, what holds, what does not, hints, a timeline.

The page has no test's code and no model answer in it. Whatever came from the submission is text, bounded in length.
"""

from __future__ import annotations

from dataclasses import dataclass

from utils import plots
from utils.facts import Exercise, Finding, Lab
from utils.grading.grade import Grade
from utils.grading.tell import pages
from utils.grading.tell.text import clean, line
from utils.grading.tell.timelines import timeline_from
from utils.trace import Timeline

# What became of a submission, told to its student.
IN_WORDS = {
    "ok": "Your notebook ran from top to bottom.",
    "error": "A cell of your notebook raised an error. Everything that does not depend on it was graded.",
    "timeout": "Something in your notebook did not finish in time. It was left out, and the rest was graded.",
    "crash": "Something in your notebook ended the kernel. It was left out, and the rest was graded.",
    "missing": "There was nothing to grade. If you did hand in, tell your instructor.",
    "not-graded": "Your notebook could not be graded, and that is not your fault. You will get your points later.",
    "not-a-notebook": "What you handed in cannot be read as a notebook. Save it in Jupyter, and hand in the .ipynb.",
    "another-lab": "You handed in the notebook of another lab.",
    "untouched": "The notebook has no answer in it. If you wrote some, save it in Jupyter and hand it in again.",
}
LONGEST_FOUND = 2000  # characters of what was found


def student_page(grade: Grade, lab: Lab, warning: str = "") -> str:
    """One student's result as an HTML page of its own: readable on a phone, in light and dark, and on paper.

    `warning` is about the whole run, and stands at the end.
    """
    return pages.page(
        "feedback.html",
        grade=grade,
        lab=lab,
        warning=warning,
        share=100 * min(max(grade.total / lab.points, 0), 1) if lab.points else 0,
        status=_in_words(grade),
        exercises=_told(grade, lab),
        longest=LONGEST_FOUND,
    )


def student_text(grade: Grade, lab: Lab, warning: str = "") -> str:
    """One student's result as plain text. The hints come last, each after the one before."""
    total = "not graded yet" if grade.status == "not-graded" else f"{grade.total} of {lab.points} points"
    lines = [f"{lab.title} ({lab.name}), {line(grade.student, 80)}: {total}"]
    if grade.status != "ok":
        note = f" ({line(grade.note, 600)})" if grade.note else ""
        lines.append(f"status: {line(grade.status, 40)}. {_in_words(grade)}{note}")
    hints = []
    for told in _told(grade, lab):
        lines += ["", f"{told.name}  {told.points} / {told.exercise.points}  {told.exercise.title}"]
        for finding in told.found:
            lines.append(f"  {'yes' if finding.holds else 'NO '}  {line(finding.claim, 300)}")
            lines += [f"       {row}" for row in clean(finding.found, LONGEST_FOUND).splitlines()]
        if told.left:
            lines.append(f"       {told.left}")
        if told.recorded:
            lines.append(f"  {told.at_work}")
        if told.failed:
            of = len(told.exercise.hints)
            hints += ["", f"{told.name}  {told.exercise.title}"]
            hints += [f"  {number} of {of}: {hint}" for number, hint in enumerate(told.exercise.hints, 1)]
    if hints:
        lines += ["", "", "Hints. Read one, try it, and come back for the next.", *hints]
    if warning:
        lines += ["", warning]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class _Told:
    """What is told about one exercise, on the page and in the text."""

    name: str
    exercise: Exercise
    points: int
    found: list[Finding]
    recorded: Timeline | None

    @property
    def failed(self) -> bool:
        return any(not finding.holds for finding in self.found)

    @property
    def kind(self) -> str:
        """The grade decides; a colour only where something was judged."""
        return "" if not self.found else "lost" if self.failed else "passed"

    @property
    def left(self) -> str:
        """How many facts were not looked at, because one before did not hold."""
        left = len(self.exercise.facts) - len(self.found)
        if not self.failed or left < 1:
            return ""
        return "1 more fact was not looked at." if left == 1 else f"{left} more facts were not looked at."

    @property
    def at_work(self) -> str:
        shares = self.recorded.utilisation().items()
        busy = ", ".join(f"{device} works {share:.0%}" for device, share in shares)
        return f"Your own answer at work: {busy} of {self.recorded.span * 1e3:.3g} ms ({self.recorded.source})."

    @property
    def picture(self) -> plots.Picture:
        return plots.timeline(self.recorded)


def _told(grade: Grade, lab: Lab) -> list[_Told]:
    return [
        _Told(
            name,
            exercise,
            grade.points.get(name, 0),
            grade.findings.get(name, []),
            timeline_from(grade.timelines.get(name)),
        )
        for name, exercise in lab.exercises.items()
    ]


def _in_words(grade: Grade) -> str:
    return IN_WORDS.get(grade.status, f"Something went wrong while your notebook ran: {line(grade.status, 40)}.")
