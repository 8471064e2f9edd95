"""What checks said, counted for the instructor's page, whatever students send."""

import pytest

from utils.hub.class_folder import ClassFolder
from utils.hub.live_page import live_page
from utils.hub.progress import MOST_EXERCISES, MOST_LABS, RECENT, Progress


@pytest.fixture
def now():
    return [0.0]


@pytest.fixture
def progress(now):
    return Progress(clock=lambda: now[0])


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
    assert progress.stuck_at("lab01") == [("ex2", "copies nothing", 3), ("ex1", "returns two layers", 1)]
    now[0] = RECENT + 1
    assert progress.stuck_at("lab01") == []
    progress.add("bob", "lab01", "ex2", True, "")
    assert progress.stuck_at("lab01") == []


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


def test_the_page_shows_counts_and_no_markup_of_a_students(progress, of):
    progress.add("ann", "lab01", "ex1", True, "")
    progress.add("bob", "lab01", "<script>alert(1)</script>", False, "<b>bold</b>")
    page = live_page(of, progress)
    assert "lab01: 2 students have checked" in page
    assert "1 passed" in page
    assert "<script>" not in page
    assert "<b>" not in page


def test_a_page_that_is_off_says_how_to_turn_it_on(progress, tmp_path):
    assert "live = true" in live_page(ClassFolder(tmp_path, ("ann",)), progress)
