"""The two tiers of tests (support/tiers.py): `make test` has each fact and each promise, and its tables are true."""

import re

import pytest

from tests.support.answers import ANSWERS
from tests.support.misconceptions import known
from tests.support.notebooks import LABS, ROOT
from tests.support.tiers import (
    ATTACKS,
    CAPSTONE,
    first_answers,
    first_attacks,
    is_first,
    promises,
)
from utils.exercises.facts import load_lab

JUDGED = [lab for lab in LABS if lab != CAPSTONE]


@pytest.mark.parametrize("lab", JUDGED)
def test_each_fact_that_an_answer_fails_first_is_failed_in_the_first_tier(lab):
    every = {(row["exercise"], row["claim"]) for row in known(lab)}
    wrong = {(exercise, name) for exercise, verdict, name in first_answers(lab) if verdict == "wrong"}
    assert {(row["exercise"], row["claim"]) for row in known(lab) if (row["exercise"], row["answer"]) in wrong} == every
    assert len(wrong) == len(every)


@pytest.mark.parametrize("lab", LABS)
def test_each_fact_is_seen_failing(lab):
    """A fact, visible or hidden, that no wrong answer fails first is untested or needless.

    Where one is new, write the wrong answer that it is there for; where none can be found because a fact before it
    always fails first, leave it out or join the two.
    """
    failed_first = {(row["exercise"], row["claim"]) for row in known(lab)}
    facts = [(name, fact.claim) for name, one in load_lab(lab, hidden=True).exercises.items() for fact in one.facts]
    assert [fact for fact in facts if fact not in failed_first] == []
    assert len(set(facts)) == len(facts), "the table tells facts apart by their claims"
    assert failed_first <= set(facts), "the table has a claim that is no fact's"


@pytest.mark.parametrize("lab", JUDGED)
def test_each_exercise_has_a_right_and_wrong_answers_in_the_first_tier(lab):
    first = [answer for answer in ANSWERS if answer.lab == lab and is_first(answer)]
    exercises = sorted({answer.exercise for answer in ANSWERS if answer.lab == lab})
    assert sorted(answer.exercise for answer in first if answer.verdict == "right") == exercises
    assert sorted({answer.exercise for answer in first if answer.verdict == "wrong"}) == exercises


def test_the_capstones_answers_are_left_to_the_second_tier():
    assert not [answer for answer in ANSWERS if answer.lab == CAPSTONE and is_first(answer)]


def test_each_promise_is_one_of_the_guide_and_has_an_attack_that_is_there():
    guide = re.sub(r"[*_`]|\s+", " ", (ROOT / "docs" / "instructors.md").read_text())
    guide = re.sub(" +", " ", guide)
    assert len(promises()) > 30
    for promise, attacks in promises().items():
        words = re.sub(" +", " ", re.sub(r"[*_`]", " ", promise)).strip()
        assert words in guide, promise
        assert [name for name in attacks if (ATTACKS / f"{name}.py").is_file()] == attacks


def test_most_attacks_are_left_to_the_second_tier_and_none_is_lost():
    every = {path.stem for path in ATTACKS.glob("*.py")}
    assert first_attacks() < every
    assert len(first_attacks()) < len(every) / 2
