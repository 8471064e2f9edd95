"""The grader is killed three times, and the same command ends with the same grades; and a class is what it says."""

import filecmp

import pytest

from tests.support.a_class import CELLS, FAULTS, make_class
from tests.support.kill_and_resume import kill_and_resume
from tests.support.tiers import THOROUGH

# The mildest of each kind. What is not here is graded in test_course_grade.py: a hang, which costs its seconds each
# time, crashes and errors of a first cell, and much output.
KINDS = ["right", "fork_bomb", "partly", "leaves_a_process", "broken_json", "partly"]


@THOROUGH  # a cheaper one: what has a result is not graded again (test_classroom.py)
@pytest.mark.xdist_group("resume")
def test_a_killed_grader_goes_on_where_it_was_and_ends_with_the_same_grades(tmp_path):
    outcome = kill_and_resume(tmp_path, kinds=KINDS, seed=1)
    assert len(outcome.killed_at) == 3
    assert outcome.different == []
    assert outcome.regraded == []
    assert outcome.broken == []
    assert outcome.left == []
    assert outcome.folders_left == 0
    assert outcome.feedback == []
    assert outcome.wrong == []


def test_the_same_seed_gives_the_same_class(tmp_path):
    expected = [make_class(tmp_path / name, count=60, seed=seed) for name, seed in (("a", 3), ("b", 3), ("c", 4))]
    assert expected[0] == expected[1] != expected[2]
    files = sorted(p.relative_to(tmp_path / "a") for p in (tmp_path / "a").rglob("*") if p.is_file())
    assert len(files) > 50
    assert filecmp.cmpfiles(tmp_path / "a", tmp_path / "b", files, shallow=False) == (files, [], [])


def test_a_wrong_answer_of_a_class_keeps_the_points_of_the_parts_that_hold(tmp_path):
    expected = make_class(tmp_path, "lab13", kinds=["partly"] * 12)
    assert {e.points["ex4"] for e in expected} > {0, 8}
    assert {e.points["ex4"] for e in expected} <= {0, 4, 6, 8}


def test_a_class_of_two_hundred_has_every_fault_and_knows_what_each_deserves(tmp_path):
    expected = make_class(tmp_path, count=200)
    assert {e.kind for e in expected} >= {*FAULTS, "right", "partly"}
    assert [e.student for e in expected] == sorted(e.student for e in expected)
    totals = {e.kind: set() for e in expected}
    for e in expected:
        totals[e.kind].add(e.total)
    assert all(totals[kind] == {10} for kind in ("right", *CELLS) if kind in totals)
    assert len(totals["partly"]) > 4
    assert totals["missing"] == totals["broken_json"] == {0}
