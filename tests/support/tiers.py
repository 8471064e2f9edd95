"""What `make test` runs of tests that there are many of: one of each kind. `make test-more` runs the others.

A test with the marker `thorough` is in `make test-more` only: it claims once more, at more cost, what one in
`make test` claims already. Which these are is derived where it can be, so that no list has to be kept:

* wrong answers: the first of its page that fails a fact first, for each fact that one fails first.
  (solutions/lab01/misconceptions.json says which fact a wrong answer fails first.)
  Only this fact is asked about it; `make test-more` asks all facts of each exercise that it can change.
* right answers: the first of each exercise, which is judged by every fact. The model answers are right ones, too: nbval
  runs them with the visible facts, and lab 01's are judged by all.
* of the capstone none: an answer takes five to fifteen seconds there. nbval runs its model answers.
* attacks: those in the table of tests/attacks/README.md, one or more for each promise of the guide for instructors.

tests/unit/test_tiers.py holds it.
"""

from __future__ import annotations

import re
from functools import cache

import pytest

from .answers import Answer, answers_of
from .misconceptions import known
from .notebooks import ROOT

THOROUGH = pytest.mark.thorough
CAPSTONE = "lab19"
ATTACKS = ROOT / "tests" / "attacks"
ROW = re.compile(r"^\| (?P<promise>[^|]+) \| (?P<attacks>(?:`\w+`(?:, )?)+) \|$", re.MULTILINE)


@cache
def first_answers(lab: str) -> frozenset[tuple[str, str, str]]:
    """(exercise, verdict, name) of a lab's answers that `make test` judges."""
    if lab == CAPSTONE:
        return frozenset()
    of_fact: dict[tuple[str, str], str] = {}
    for row in known(lab):
        of_fact.setdefault((row["exercise"], row["claim"]), row["answer"])
    wrong = {(exercise, "wrong", name) for (exercise, _), name in of_fact.items()}
    right: dict[str, str] = {}
    for answer in answers_of(lab, "right"):
        right.setdefault(answer.exercise, answer.name)
    return frozenset(wrong | {(exercise, "right", name) for exercise, name in right.items()})


def is_first(answer: Answer) -> bool:
    """Whether `make test` judges this answer."""
    return (answer.exercise, answer.verdict, answer.name) in first_answers(answer.lab)


@cache
def promises() -> dict[str, list[str]]:
    """Each promise in the table of tests/attacks/README.md, in the guide's words, and the attacks that try it."""
    rows = ROW.finditer((ATTACKS / "README.md").read_text(encoding="utf-8"))
    return {row["promise"]: re.findall(r"`(\w+)`", row["attacks"]) for row in rows}


@cache
def first_attacks() -> frozenset[str]:
    """The attacks that `make test` runs."""
    return frozenset(name for names in promises().values() for name in names)
