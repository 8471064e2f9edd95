"""What a student gets back: one page, and the same as plain text. Points, what holds, what does not, hints, a timeline.

The page has no test's code and no model answer in it. Whatever came from the submission is text, bounded in length.
"""

from __future__ import annotations

from dataclasses import dataclass

from utils.exercises.facts import Exercise, Finding, Lab
from utils.grading.grade import Grade
from utils.grading.marking.mark import LATE, TOTAL, Mark, Override, as_mark, most_of
from utils.grading.tell import pages
from utils.grading.tell.text import clean, line
from utils.grading.tell.timelines import timeline_from
from utils.observe import plots
from utils.observe.trace import Timeline

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
    mark = as_mark(grade)
    most = most_of(lab, [mark])
    return pages.render(
        "feedback.html",
        grade=mark,
        lab=lab,
        most=most,
        warning=warning,
        share=100 * min(max(mark.mark / most, 0), 1) if most else 0,
        status=_in_words(mark),
        waits=_waits(mark),
        exercises=_told(mark, lab),
        written=_written(mark),
        sum_up=_sum_up(mark, most),
        longest=LONGEST_FOUND,
    )


def student_text(grade: Grade, lab: Lab, warning: str = "") -> str:
    """One student's result as plain text. The hints come last, each after the one before."""
    mark = as_mark(grade)
    most = most_of(lab, [mark])
    total = "not graded yet" if _waits(mark) else f"{mark.mark:g} of {most:g} points"
    lines = [f"{lab.title} ({lab.name}), {line(mark.student, 80)}: {total}"]
    if mark.status != "ok":
        note = f" ({line(mark.note, 600)})" if mark.note else ""
        lines.append(f"status: {line(mark.status, 40)}. {_in_words(mark)}{note}")
    lines += [f"  {line(one, 600)}" for one in _sum_up(mark, most)]
    hints = []
    for told in _told(mark, lab):
        lines += ["", f"{told.name}  {told.reached}  {told.exercise.title}"]
        if told.changed:
            lines.append(f"  {line(told.changed, 600)}")
        if told.parts:
            lines.append(f"  points: {told.parts}")
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
    for question, points, reason in _written(mark):
        lines += ["", f"{line(question, 80)}  {points}  in your own words"]
        lines += [f"  {line(reason, 600)}"] if reason else []
    if hints:
        lines += ["", "", "Hints. Read one, try it, and come back for the next.", *hints]
    if warning:
        lines += ["", warning]
    return "\n".join(lines) + "\n"


def _waits(mark: Mark) -> bool:
    """Whether the grader has still to be run, and the instructor has given no mark meanwhile."""
    return mark.about.again and not mark.known


def _written(mark: Mark) -> list[tuple[str, str, str]]:
    """Each question that is answered in words, its points, and the instructor's reason."""
    return [
        (question, "no points yet" if one.points is None else f"{one.points:g} / {one.of:g}", one.reason)
        for question, one in mark.in_words.items()
    ]


def _sum_up(mark: Mark, most: float) -> list[str]:
    """How the mark comes about, where it is not simply the sum of the points."""
    told = []
    if mark.late is not None and TOTAL not in mark.overrides:
        cost = _cost(mark)
        of = f" (of {most:g} points)" if "%" in mark.rule else ""  # a share is of all points, not of those reached
        rule = f" The rule: {mark.rule}{of}." if mark.rule and LATE not in mark.overrides else ""
        told.append(f"{_late_in_words(mark.late.words)}: {cost}.{rule}{_because(mark.overrides.get(LATE))}")
    if TOTAL in mark.overrides:
        changed = mark.overrides[TOTAL]
        told.append(f"Your instructor has set the mark to {changed.points:g} points.{_because(changed)}")
    return told


def _cost(mark: Mark) -> str:
    if not mark.penalty:
        return "nothing is taken off"
    verb = "point is" if mark.penalty == 1 else "points are"
    return f"{mark.penalty:g} {verb} taken off"


def _late_in_words(words: str) -> str:
    if words == "not known":
        return "It is not known when this was handed in"
    return "Handed in late" if words == "late" else f"Handed in {words} late"


def _because(changed: Override | None) -> str:
    return f" Reason: {changed.reason}" if changed is not None and changed.reason else ""


@dataclass(frozen=True)
class _Told:
    """All that is told about one exercise, on the page and in the text."""

    name: str
    exercise: Exercise
    points: float
    found: list[Finding]
    recorded: Timeline | None
    changed: str  # by the instructor, and why, or nothing

    @property
    def failed(self) -> bool:
        return any(not finding.holds for finding in self.found)

    @property
    def reached(self) -> str:
        """The points, of how many; for an exercise with a star whether it is solved."""
        if self.exercise.star:
            return "star: yes" if self.exercise.solved(self.found) else "star: no"
        return f"{self.points:g} / {self.exercise.points}"

    @property
    def parts(self) -> str:
        """What the points are for, as they were found, where an exercise has parts."""
        return self.exercise.parts_told(self.found) if self.found else ""

    @property
    def kind(self) -> str:
        """The points decide; a colour only where something was judged or the instructor has given points."""
        if self.changed:
            return "passed" if self.points >= self.exercise.points else "" if self.points else "lost"
        if self.failed and self.exercise.star:
            return ""  # nothing is lost
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
        shares = self.recorded.utilization().items()
        busy = ", ".join(f"{device} works {share:.0%}" for device, share in shares)
        return f"Your own answer at work: {busy} of {self.recorded.span * 1e3:.3g} ms ({self.recorded.source})."

    @property
    def picture(self) -> plots.Picture:
        return plots.timeline(self.recorded)


def _told(mark: Mark, lab: Lab) -> list[_Told]:
    return [
        _Told(
            name,
            exercise,
            mark.counted.get(name, 0),
            mark.findings.get(name, []),
            timeline_from(mark.timelines.get(name)),
            _changed(mark, name),
        )
        for name, exercise in lab.exercises.items()
    ]


def _changed(mark: Mark, exercise: str) -> str:
    if exercise not in mark.overrides:
        return ""
    before = f" from {mark.points.get(exercise, 0):g}" if mark.judged else ""
    return f"Changed by the instructor{before}.{_because(mark.overrides[exercise])}"


def _in_words(mark: Mark) -> str:
    return IN_WORDS.get(mark.status, f"Something went wrong while your notebook ran: {line(mark.status, 40)}.")
