"""Which misconception a failed fact looks like: the wrong answers that the graders are tested with, read backwards.

Each wrong answer (tests/lab01/answers and the like) names a misconception. `tests/grading/misconceptions.py` has the
grader judge it and keeps what its student would be told, in tests/misconceptions.json. Who is told the same may think
the same: likely, never certain, so it is shown to the instructor only.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

from utils.facts import Finding
from utils.files import ROOT

TABLE = ROOT / "tests" / "misconceptions.json"
DEVICE = re.compile(r"\b(?:simgpu|cuda|cpu)(?::\d+)?\b")
NUMBER = re.compile(r"-?\d[\d.,]*(?:e[+-]?\d+)?")


def blanked(words: str) -> str:
    """The first line of what was said, without the numbers and devices in it."""
    first = words.strip().split("\n")[0]
    return " ".join(NUMBER.sub("0", DEVICE.sub("device", first)).split())


def likely(lab: str, exercise: str, finding: Finding, path: Path = TABLE) -> list[str]:
    """The misconceptions that a fact which does not hold may come from, in the order of the table.

    Those whose student is told exactly the same; if there are none, those that are told the same but for numbers and
    devices. Empty where no wrong answer is known to fail like this, or where this copy of the course has no table.
    """
    claimed = (lab, exercise, finding.claim)
    alike = [row for row in _table(path) if (row["lab"], row["exercise"], row["claim"]) == claimed]
    same = [row for row in alike if row["told"].strip() == finding.found.strip()]
    same = same or [row for row in alike if blanked(row["told"]) == blanked(finding.found)]
    return list(dict.fromkeys(row["misconception"] for row in same))


@cache
def _table(path: Path) -> list[dict[str, str]]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:  # a student's copy has no answers
        return []
