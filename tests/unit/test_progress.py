"""What checks said, counted for the instructor's page, whatever students send."""

import json

import pytest

from utils.exercises.facts.alike import likeness
from utils.grading.tell import misconceptions
from utils.hub.class_folder import ClassFolder
from utils.hub.hands import MOST_CHARACTERS, Hands
from utils.hub.live_page import live_page
from utils.hub.progress import MOST_EXERCISES, MOST_LABS, RECENT, Progress


@pytest.fixture
def now():
    return [0.0]


@pytest.fixture
def progress(now):
    return Progress(clock=lambda: now[0])


@pytest.fixture
def hands(now):
    return Hands(clock=lambda: now[0])


@pytest.fixture
def of(tmp_path):
    return ClassFolder(tmp_path, ("ann", "bob"), live=True)


def test_the_last_try_counts(progress):
    progress.add("ann", "lab01", "ex1", False, "returns two layers")
    progress.add("ann", "lab01", "ex1", True, "")
    progress.add("bob", "lab01", "ex1", False, "returns two layers")
    progress.add("bob", "lab01", "ex2", False, "copies nothing")
    assert progress.counts("lab01") == {"ex1": (1, 1), "ex2": (0, 1)}
    assert progress.of_lab("lab01")["ann"]["ex1"].tries == 2


def test_where_most_are_stuck_is_first_and_ten_minutes_later_gone(progress, now):
    for student in ("ann", "bob", "carl"):
        progress.add(student, "lab01", "ex2", False, "copies nothing")
    progress.add("ann", "lab01", "ex1", False, "returns two layers")
    progress.add("dora", "lab01", "ex2", False, "copies nothing", "Thinks that views are free.")
    assert progress.stuck_at("lab01") == [
        ("ex2", "copies nothing", "", 3),
        ("ex1", "returns two layers", "", 1),
        ("ex2", "copies nothing", "Thinks that views are free.", 1),
    ]
    now[0] = RECENT + 1
    assert progress.stuck_at("lab01") == []
    progress.add("bob", "lab01", "ex2", True, "")
    assert progress.stuck_at("lab01") == []


def test_a_fingerprint_finds_what_a_student_may_think_and_numbers_do_not_matter():
    row = json.loads(misconceptions.table_of("lab01").read_text())[0]
    where = ("lab01", row["exercise"], row["claim"])
    assert misconceptions.by_likeness(*where, likeness(row["told"]))[0] == row["misconception"]
    on_a_gpu = row["told"].replace("simgpu:0", "cuda:3")
    assert misconceptions.by_likeness(*where, likeness(on_a_gpu))[0] == row["misconception"]
    assert misconceptions.by_likeness(*where, likeness("something else")) == []


def test_the_labs_of_now_are_shown(progress, now):
    progress.add("ann", "lab01", "ex1", True, "")
    now[0] = RECENT + 1
    assert progress.labs == ["lab01"]
    progress.add("ann", "lab02", "ex1", True, "")
    assert progress.labs == ["lab02"]


def test_whatever_one_student_sends_stays_small(progress):
    for number in range(1000):
        progress.add("ann", "lab01", f"ex{number}", False, "x" * 100_000)
        progress.add("ann", f"lab{number}", "ex1", False, "x" * 100_000)
    labs = {lab: exercises for lab in progress.labs for exercises in [progress.of_lab(lab)["ann"]]}
    assert len(labs) == MOST_LABS
    assert max(map(len, labs.values())) == MOST_EXERCISES
    assert all(len(one.claim) <= 200 for exercises in labs.values() for one in exercises.values())


def test_the_page_shows_counts_and_no_markup_of_a_students(progress, hands, of):
    progress.add("ann", "lab01", "ex1", True, "")
    progress.add("bob", "lab01", "<script>alert(1)</script>", False, "<b>bold</b>")
    page = live_page(of, progress, hands)
    assert "lab01: 2 students have checked" in page
    assert "1 passed" in page
    assert "<script>" not in page
    assert "<b>" not in page


def test_a_page_that_is_off_says_how_to_turn_it_on(progress, hands, tmp_path):
    assert "live = true" in live_page(ClassFolder(tmp_path, ("ann",)), progress, hands)


def test_who_asked_first_is_first_and_asking_again_loses_no_place(hands, now):
    assert hands.put_up("ann", "lab01 ex1") == 0
    now[0] = 60
    assert hands.put_up("bob", "lab01 ex2") == 1
    assert hands.put_up("ann", "x" * 1000) == 0
    assert [(hand.student, len(hand.at), waited) for hand, waited in hands.waiting()] == [
        ("ann", MOST_CHARACTERS, 60),
        ("bob", 9, 0),
    ]
    assert hands.put_down("ann")
    assert not hands.put_down("ann")
    assert hands.put_up("bob", "") == 0


def test_the_page_shows_raised_hands_and_kernels_that_died(progress, hands, of, now):
    hands.put_up("bob", "<i>lab01</i>")
    progress.died("ann", -9)
    now[0] = 120
    page = live_page(of, progress, hands, "<input name=_xsrf>")
    assert "<td>bob</td><td>&lt;i&gt;lab01&lt;/i&gt;</td><td>2 min</td>" in page
    assert '<input name=_xsrf><button name="student" value="bob">' in page
    assert "<td>ann</td><td>killed, as Linux does when memory is full</td><td>2 min ago</td>" in page
    now[0] = RECENT + 1
    assert "died" not in live_page(of, progress, Hands())
