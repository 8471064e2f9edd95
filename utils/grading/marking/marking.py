"""What an instructor has decided about a class: read and checked before anything is graded, then put on each grade."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from utils.exercises.facts import Lab
from utils.grading.grade import Grade
from utils.grading.marking import overrides, words
from utils.grading.marking.by_hand import Faults, Students
from utils.grading.marking.late import Deadline, lateness
from utils.grading.marking.mark import Late, Mark, Override, rounded_points
from utils.grading.roster import Row
from utils.grading.run.submissions import Submission


@dataclass(frozen=True)
class Marking:
    """The decisions about a class. `questions` are the lab's that are answered in words."""

    questions: list[str]
    words: words.Words
    overrides: dict[str, dict[str, Override]]
    late: dict[str, Late]
    rule: str  # when a submission is late and what that costs

    @classmethod
    def read(
        cls, out: Path, lab: Lab, submissions: Sequence[Submission], tables: Sequence[Sequence[Row]], rule: Deadline
    ) -> Marking:
        """Read words.csv and overrides.csv in `out`, and who was late. Of `lab` the outline is enough.

        Raises Problem: one for all that is wrong in the two files.
        """
        students, questions, faults = Students(submissions, tables), words.questions_of(lab.name), Faults()
        given, changed, most = words.Words(), {}, math.inf  # without the points for words a total's range is not known
        with faults.kept():
            given = words.read_words(out / words.NAME, students, questions)
            most = rounded_points(lab.points + given.most)
        with faults.kept():
            changed = overrides.read_overrides(out / overrides.NAME, students, lab, most)
        faults.tell()
        return cls(questions, given, changed, lateness(submissions, tables, rule, most), rule.words)

    def mark(self, grade: Grade) -> Mark:
        """The grade with all that was decided about it."""
        changed, late = self.overrides.get(grade.student, {}), self.late.get(grade.student)
        return Mark(
            **vars(grade),
            overrides=changed,
            in_words=self.words.of_student(grade.student, grade.free_text),
            late=_decided(late, changed),
            rule=self.rule,
        )


def _decided(late: Late | None, changed: dict[str, Override]) -> Late | None:
    """What being late costs: as the instructor has said, where that is so. Who was in time stays so."""
    said = changed.get(overrides.LATE)
    if said is None or (late is None and not said.points):
        return late
    return Late(late.words if late else "late", said.points)
