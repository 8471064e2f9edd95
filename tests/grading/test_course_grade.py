"""`course grade`, run as an instructor runs it: a class with wrong, right and broken submissions."""

import csv
import subprocess
import sys

import nbformat
import pytest
from typer.testing import CliRunner

from tests.support.answers import chosen
from tests.support.notebooks import ROOT, notebook_with
from utils.course.cli import app, main

# One class, graded once: all in one process where the tests run in several.
pytestmark = pytest.mark.xdist_group("class")
NAME = "lab01_split_a_model.ipynb"
POINTS = {"ex1": 1, "ex2": 3, "ex3": 1, "ex4": 2, "ex5": 3}
FULL = {name: str(points) for name, points in POINTS.items()}

# Some of each kind: all answers are judged in test_answers.py.
# Student -> (the exercise that is lost, the answer that is put in place of the model answer).
WRONG = {
    "both_layers_on_the_first": ("ex1", "both_on_first"),
    "input_never_moved": ("ex2", "input_never_moved"),
    "detached": ("ex5", "detach_at_the_cut"),
}
RIGHT = {
    "written_with_contexts": {"ex1": "device_context", "ex2": "asks_the_weights", "ex5": "module_list_loop"},
    "written_with_functions": {"ex2": "functional_relu", "ex4": "zip_names_and_devices", "ex5": "deep_copies"},
}
CRASH = "import os\nos._exit(1)"
HANG = "import time\n\n\ndef placement(model):\n    time.sleep(3600)"


def course(*arguments):
    command = [sys.executable, "-m", "utils.course", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def refused(monkeypatch, capsys, *arguments):
    """What the command says, on standard error, where it ends with 2: run here, which is quicker than starting one."""
    monkeypatch.setattr(sys, "argv", ["course", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    return capsys.readouterr().err


def with_first_cell(source):
    notebook = notebook_with("lab01", {})
    notebook.cells.insert(0, nbformat.v4.new_code_cell(source))
    return notebook


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """A graded class: (rows of grades.csv by student, the finished command, the folder with the results)."""
    folder = tmp_path_factory.mktemp("class")
    handed_in, out = folder / "submissions", folder / "graded"
    handed_in.mkdir()
    notebooks = {
        student: notebook_with("lab01", chosen("lab01", "wrong", **{exercise: name}))
        for student, (exercise, name) in WRONG.items()
    }
    notebooks |= {
        student: notebook_with("lab01", chosen("lab01", "right", **names)) for student, names in RIGHT.items()
    }
    notebooks["raises_first"] = with_first_cell("1 / 0")
    notebooks["raises_always"] = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("raise ValueError('no')")])
    notebooks["crashes"] = with_first_cell(CRASH)
    notebooks["hangs_in_ex4"] = notebook_with("lab01", {"ex4": HANG})
    notebooks["no_code"] = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("Sorry, I was ill.")])
    notebooks["chatty"] = with_first_cell("import warnings\nwarnings.warn('careful')\nprint('x' * 100_000)")
    for student, notebook in notebooks.items():
        (handed_in / student).mkdir()
        nbformat.write(notebook, handed_in / student / NAME)
    (handed_in / "empty_file").mkdir()
    (handed_in / "empty_file" / NAME).write_text("")
    (handed_in / "word_file").mkdir()
    (handed_in / "word_file" / "lab01.docx").write_bytes(b"PK\x03\x04\xff\xfe")
    (handed_in / "broken_json").mkdir()
    (handed_in / "broken_json" / NAME).write_text('{"cells": [')
    (handed_in / "empty_folder").mkdir()
    (folder / "students.csv").write_text("student,email\nchatty,c@example.org\nnever_came,n@example.org\n")
    limits = ("--cell-seconds", "12", "--call-seconds", "5", "--jobs", "2")
    done = course("grade", "lab01", handed_in, "--out", out, "--students", folder / "students.csv", *limits)
    assert done.returncode == 0, done.stderr
    with (out / "grades.csv").open() as file:
        rows = {row["student"]: row for row in csv.DictReader(file)}
    return rows, done, out


def points(row):
    return {exercise: row[exercise] for exercise in POINTS}


@pytest.mark.parametrize("student", WRONG)
def test_a_wrong_notebook_loses_that_exercise_and_only_that(graded, student):
    row, lost = graded[0][student], WRONG[student][0]
    assert points(row) == FULL | {lost: "0"}
    assert row["total"] == str(10 - POINTS[lost])
    assert row["max"] == "10"


@pytest.mark.parametrize("student", RIGHT)
def test_a_right_notebook_written_differently_gets_everything(graded, student):
    row = graded[0][student]
    assert points(row) == FULL
    assert (row["total"], row["status"], row["note"]) == ("10", "ok", "")


@pytest.mark.parametrize(
    ("student", "status", "total", "note"),
    [
        ("raises_first", "error", "10", "code cell 1: ZeroDivisionError: division by zero"),
        ("raises_always", "error", "0", "code cell 1: ValueError: no"),
        ("crashes", "crash", "10", "code cell 1: The kernel died."),
        ("hangs_in_ex4", "timeout", "8", "code cell 10: No answer within 12 seconds."),
        ("no_code", "missing", "0", "the notebook has no code in it"),
        ("empty_file", "not-a-notebook", "0", "the file is empty"),
        ("word_file", "not-a-notebook", "0", "a Word document, and no notebook"),
        ("broken_json", "not-a-notebook", "0", "is not a notebook: "),
        ("empty_folder", "missing", "0", "the folder is empty"),
        ("never_came", "missing", "0", "nothing was handed in"),
        ("chatty", "ok", "10", ""),
    ],
)
def test_each_kind_of_broken_submission_gets_its_status(graded, student, status, total, note):
    row = graded[0][student]
    assert (row["status"], row["total"]) == (status, total)
    assert note in row["note"]


def test_every_row_is_complete_and_in_order(graded):
    rows, _, out = graded
    header = (out / "grades.csv").read_text().splitlines()[0]
    assert header == "student,ex1,ex2,ex3,ex4,ex5,total,late,penalty,mark,max,status,changed,note,look_at"
    assert list(rows) == sorted(rows)
    assert len(rows) == len(WRONG) + len(RIGHT) + 11
    for row in rows.values():
        assert all(row[column] is not None for column in header.split(","))
        assert sum(int(row[exercise]) for exercise in POINTS) == int(row["total"])


def test_no_traceback_reaches_the_terminal(graded):
    _, done, _ = graded
    assert "Traceback" not in done.stdout + done.stderr
    assert "raises_always              0 / 10  error  (code cell 1: ValueError: no)" in done.stdout
    assert "SANDBOX" not in done.stdout


def test_it_ends_with_what_to_do_next_in_three_lines(graded):
    _, done, out = graded
    look, mark, bring = done.stdout.splitlines()[-3:]
    held = len((out / "exports" / "look_at.csv").read_text().splitlines()) - 1
    assert look == f"Look: {held} by hand, in {out}/exports/look_at.csv; the class, in {out}/class.html."
    assert mark.startswith("Mark: ")
    assert f"change a mark in {out}/overrides.csv; then run the same command again." in mark
    assert bring == f"Import: {out}/exports/how_to_import.txt says how."


def test_feedback_says_what_was_found_in_words(graded):
    text = (graded[2] / "feedback" / "both_layers_on_the_first.txt").read_text()
    assert "ex1  0 / 1  Put two layers on two devices" in text
    assert "NO   layer1 is on device0 and layer2 is on device1" in text
    assert "layer1 is on simgpu:0 and layer2 is on simgpu:0." in text
    kinds = [path.suffix for path in (graded[2] / "feedback").iterdir()]
    assert kinds.count(".txt") == kinds.count(".html") == len(graded[0])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["lab77", "."], "there is no lab called lab77. There is: lab01"),
        (["lab01", "nowhere"], "nowhere does not exist"),
        (["lab01", "."], "is empty. It should hold one notebook"),
        (["lab01", ".", "--students", "nobody.txt"], "nobody.txt does not exist"),
        (["lab01", ".", "--deadline", "soon"], "--deadline 'soon': write it as '2026-11-30 23:59'"),
        (["lab01", ".", "--late-penalty", "some"], "--late-penalty 'some': write '10%/day'"),
    ],
)
def test_what_the_instructor_can_mend_is_one_line(tmp_path, monkeypatch, capsys, arguments, says):
    arguments = [tmp_path if a == "." else a for a in arguments]
    said = refused(monkeypatch, capsys, "grade", *arguments, "--out", tmp_path.parent / f"{tmp_path.name}-out")
    assert says in said
    assert len(said.splitlines()) == 1


def test_two_submissions_of_one_student_are_not_guessed_about(tmp_path, monkeypatch, capsys):
    (tmp_path / "ann").mkdir()
    (tmp_path / "ann" / NAME).touch()
    (tmp_path / "ann.ipynb").touch()
    said = refused(monkeypatch, capsys, "grade", "lab01", tmp_path, "--out", tmp_path / "out")
    assert "two submissions of ann: keep one of them" in said
    assert len(said.splitlines()) == 1


def test_help_is_for_newcomers():
    said = CliRunner().invoke(app, ["--help"]).stdout
    assert "release" in said
    assert "grade" in said
    assert "grades.csv" in CliRunner().invoke(app, ["grade", "--help"]).stdout
