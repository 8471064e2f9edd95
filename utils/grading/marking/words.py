"""words.csv: the points that an instructor gives for answers in words. It is read, and never written over.

Each row is a student and a question, with the points and `of`, the points that the question counts to. A question
counts as soon as one row is about it: then for everybody, and an answer without points has none *yet*.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from utils.common.errors import Problem
from utils.common.files import ROOT
from utils.common.notebook_format import nbformat
from utils.exercises.facts import lab_sources
from utils.grading.marking.by_hand import Faults, Row, Students, points_in, rows_of
from utils.grading.marking.mark import InWords

NAME = "words.csv"
TITLES = ("student", "question", "points", "of", "reason")
# What stands in a cell that was left as it was released.
UNANSWERED = ("", "YOUR ANSWER HERE", "*Double-click, and write here.*")
MOST = 100  # points that a question may count to


@dataclass(frozen=True)
class Words:
    """What words.csv says."""

    of: dict[str, float] = field(default_factory=dict)  # question -> the points that it counts to
    given: dict[tuple[str, str], InWords] = field(default_factory=dict)  # (student, question) -> points

    @property
    def most(self) -> float:
        """The points for all answers in words."""
        return sum(self.of.values())

    def of_student(self, student: str, answers: Mapping[str, str]) -> dict[str, InWords]:
        """The points for each question that counts: 0 where nothing was written, None where no points were given."""
        return {
            question: self.given.get(
                (student, question), InWords(None if answered(answers.get(question, "")) else 0, of)
            )
            for question, of in self.of.items()
        }


def answered(text: str) -> bool:
    """Whether somebody has written an answer there."""
    return str(text).strip() not in UNANSWERED


def read_words(path: Path, students: Students, questions: Mapping[str, object]) -> Words:
    """The points for answers in words: none where there is no such file.

    A row without points says only what the question counts to. Raises Problem for a student or a question that is
    none, points out of range, a question that counts to nothing or to two numbers, and for two rows about the same:
    one for all such rows.
    """
    faults = Faults()
    rows, of = _questions(rows_of(path, TITLES, TITLES[:4], faults), questions, faults)
    given: dict[tuple[str, str], InWords] = {}
    for where, row in rows:
        with faults.kept():
            question = row["question"]
            if not of.get(question):
                raise Problem(f"{where}: the column `of` says how many points {question} counts to: more than 0")
            student = students.find(where, row["student"])
            if (student, question) in given:
                raise Problem(f"{where}: {student!r} has points for {question} twice: keep one row")
            if row["points"]:
                points = points_in(where, row["points"], of[question])
                given[student, question] = InWords(points, of[question], row["reason"][:500])
    faults.tell()
    return Words(of, given)


def _questions(
    rows: Sequence[Row], questions: Mapping[str, object], faults: Faults
) -> tuple[list[Row], dict[str, float]]:
    """The rows that are about a question, and what each question counts to."""
    about, of = [], {}
    for where, row in rows:
        with faults.kept():
            question = row["question"]
            if question not in questions:
                known = ", ".join(questions) or "there is none in this lab"
                raise Problem(f"{where}: {question[:40]!r} is no question that is answered in words: {known}")
            if row["of"] and of.setdefault(question, most := points_in(f"{where}, of", row["of"], MOST)) != most:
                raise Problem(f"{where}: {question} counts to {most:g} points, and above to {of[question]:g}")
            about.append((where, row))
    return about, of


def questions_of(lab: str) -> list[str]:
    """The names of the cells of a lab that are answered in words, in their order."""
    cells = nbformat.read(lab_sources([lab])[0], as_version=4).cells
    about = [cell.metadata.get("nbgrader", {}) for cell in cells if cell.cell_type == "markdown"]
    return [one["grade_id"] for one in about if one.get("solution") and one.get("grade")]


def rubric_of(lab: str) -> list[str]:
    """What full, half and no understanding look like, in paragraphs of plain text. Empty without a rubric."""
    path = ROOT / "solutions" / lab / "rubric.md"
    if not path.is_file():
        return []
    blocks = re.split(r"\n\s*\n|\n(?=\* )", path.read_text(encoding="utf-8").strip())
    plain = [re.sub(r"^#+ |\*\*|`", "", block).replace("\n", " ") for block in blocks if block.strip()]
    return [re.sub(r"^\* ", "• ", block) for block in plain]
