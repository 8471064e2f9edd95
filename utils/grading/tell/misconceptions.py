"""Which misconception a failed fact looks like: the wrong answers that the graders are tested with, read backwards.

Each wrong answer (solutions/lab01/answers and the like) names a misconception. `tests/support/misconceptions.py` has it
judged and keeps what its student would be told, in solutions/lab01/misconceptions.json and the like. Students who are
told the same may think the same: likely, never certain, so it is shown to the instructor only.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from utils.common.files import ROOT
from utils.exercises.facts import Finding
from utils.exercises.facts.alike import blanked, likeness

SHELF = ROOT / "solutions"


def table_of(lab: str, shelf: Path = SHELF) -> Path:
    """The file with a row for each wrong answer of a lab."""
    return shelf / lab / "misconceptions.json"


def likely(lab: str, exercise: str, finding: Finding, shelf: Path = SHELF) -> list[str]:
    """The misconceptions that a fact which does not hold may come from, in the order of the table.

    Those whose student is told exactly the same; if there are none, those that are told the same but for numbers and
    devices. Empty where no wrong answer is known to fail like this, or where this copy of the course has no table.
    """
    rows = _read(table_of(lab, shelf))
    alike = [row for row in rows if (row["exercise"], row["claim"]) == (exercise, finding.claim)]
    same = [row for row in alike if row["told"].strip() == finding.found.strip()]
    same = same or [row for row in alike if blanked(row["told"]) == blanked(finding.found)]
    return list(dict.fromkeys(row["misconception"] for row in same))


def by_likeness(lab: str, exercise: str, claim: str, alike: str, shelf: Path = SHELF) -> list[str]:
    """The same for a student of whom the message's fingerprint is known, and not the message."""
    rows = _read(table_of(lab, shelf))
    there = [row for row in rows if (row["exercise"], row["claim"]) == (exercise, claim)]
    return list(dict.fromkeys(row["misconception"] for row in there if likeness(row["told"]) == alike))


@cache
def _read(path: Path) -> list[dict[str, str]]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:  # a student's copy has no answers
        return []
