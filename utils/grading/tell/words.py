"""A page on which an instructor gives points for answers in words: all answers to a question, and the rubric.

It is the only page with a script, and its policy allows that one alone, by its digest: the script writes the points
into words.csv, which the browser downloads. Answers are text, as on every page.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from utils.exercises.facts import Lab
from utils.grading.marking.mark import InWords, Mark
from utils.grading.marking.words import answered, rubric_of
from utils.grading.tell import pages
from utils.grading.tell.cells import cell

SCRIPT = Path(__file__).with_name("templates") / "words.js"
COUNTS_TO = 2  # points of a question that counts to none yet: a beginning, for the instructor to change


@dataclass(frozen=True)
class _Question:
    name: str
    of: float
    answers: list[tuple[Mark, str, InWords]]  # with each mark what words.csv calls the student


def words_page(marks: Sequence[Mark], lab: Lab, questions: Sequence[str]) -> str:
    """The page for these questions; nothing where no question was answered. The same marks give the same bytes."""
    marks = sorted(marks, key=lambda mark: mark.student)
    asked = [question for name in questions if (question := _question(name, marks)).answers]
    if not asked:
        return ""
    script = SCRIPT.read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return pages.render(
        "words.html",
        lab=lab,
        questions=asked,
        rubric=rubric_of(lab.name),
        script=Markup(script),
        policy=Markup(f"sha256-{digest}"),
    )


def _question(name: str, marks: Sequence[Mark]) -> _Question:
    """Who has written something, or has points for it."""
    found = []
    for mark in marks:
        one = mark.in_words.get(name)
        if answered(mark.free_text.get(name, "")) or (one is not None and (one.points or one.reason)):
            found.append((mark, cell(mark.student), one or InWords(None, COUNTS_TO)))
    return _Question(name, found[0][2].of if found else COUNTS_TO, found)
