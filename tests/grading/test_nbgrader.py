"""The labs' sources work with nbgrader's own commands: released, autograded, and shown by its formgrader."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import nbformat
import pytest

from tests.support.answers import chosen
from tests.support.notebooks import LABS, ROOT, grade_id, notebook_with, source_of
from tests.support.tiers import THOROUGH
from utils.common.files import python_path
from utils.course.release import lab_path, student_notebook

# One course folder, made once: all in one process where the tests run in several.
pytestmark = pytest.mark.xdist_group("nbgrader")
LAB = "lab01"
NAME = source_of(LAB).name
WRONG = {"ex2": "input_never_moved"}
LEFT_OPEN = "ex4"


def activated(**more):
    """The environment variables of an activated environment: nbgrader calls a program of its own by name."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "COURSE_DEVICES": "simulated", "PYTHONPATH": python_path(), **more}


def in_course(course, *command):
    """Run Python with these arguments in the course folder, on simulated devices, and return what it printed."""
    done = subprocess.run(
        [sys.executable, *map(str, command)], cwd=course, env=activated(), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def nbgrader(course, *command):
    return in_course(course, "-m", "nbgrader", *command)


def hand_in(course, student, released, answers):
    """Write a released notebook with the answers put in, as a student does: only those cells are touched."""
    notebook = nbformat.read(released, as_version=4)
    for cell in notebook.cells:
        cell.source = answers.get(grade_id(cell), cell.source)
    folder = course / "class" / "submitted" / student / LAB
    folder.mkdir(parents=True)
    nbformat.write(notebook, folder / NAME)


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A folder with the sources and nbgrader's configuration, and lab 01 released with nbgrader's command."""
    folder = tmp_path_factory.mktemp("course")
    shutil.copy(ROOT / "nbgrader_config.py", folder)
    shutil.copytree(ROOT / "solutions", folder / "solutions")
    nbgrader(folder, "generate_assignment", LAB)
    return folder


GRADES = """
import json
from nbgrader.api import Gradebook
with Gradebook("sqlite:///gradebook.db") as gradebook:
    print(json.dumps({
        submission.student.id: {grade.cell.name: [grade.score, grade.max_score]
                                for notebook in submission.notebooks for grade in notebook.grades}
        for submission in gradebook.assignment_submissions("lab01")
    }))
"""


@pytest.fixture(scope="module")
def grades(course):
    """Points and most points of each check cell, by student, from nbgrader's gradebook.

    ann took nbgrader's release and has the model answers; bob took the course's, has one answer wrong and one open.
    """
    model = {grade_id(cell): cell.source for cell in notebook_with(LAB, {}).cells if grade_id(cell)}
    answers = {name: code for name, code in model.items() if name.startswith("ex") and "-" not in name}
    hand_in(course, "ann", course / "class" / "release" / LAB / NAME, answers)
    answers |= chosen(LAB, "wrong", **WRONG)
    del answers[LEFT_OPEN]
    hand_in(course, "bob", lab_path(source_of(LAB)), answers)
    nbgrader(course, "autograde", LAB)
    return json.loads(in_course(course, "-c", GRADES).splitlines()[-1])


def without_nbgraders_own(cell):
    """A cell as `course release` writes it: nbgrader adds a checksum, the kind of cell, and what may be edited."""
    cell = nbformat.from_dict(cell)
    for name in ("deletable", "editable"):
        cell.metadata.pop(name, None)
    for name in ("checksum", "cell_type"):
        cell.metadata.get("nbgrader", {}).pop(name, None)
    return cell


def assert_the_same_release(course, lab):
    theirs = nbformat.read(course / "class" / "release" / lab / source_of(lab).name, as_version=4)
    ours = student_notebook(source_of(lab))
    assert [without_nbgraders_own(cell) for cell in theirs.cells] == ours.cells
    assert theirs.metadata == ours.metadata


def test_nbgrader_releases_the_notebook_that_the_course_does(course):
    assert_the_same_release(course, LAB)


GENERATE = """
import sys
from nbgrader.apps import NbGraderAPI
from nbgrader.apps.baseapp import NbGrader
app = NbGrader()
app.load_config_file()
api = NbGraderAPI(config=app.config)
for lab in sys.argv[1:]:
    result = api.generate_assignment(lab)
    assert result["success"], result
"""


@THOROUGH  # a cheaper one: its command and lab01, above
def test_so_does_the_button_of_its_formgrader_for_every_other_lab(course):
    others = [lab for lab in LABS if lab != LAB]
    in_course(course, "-c", GENERATE, *others)
    for lab in others:
        assert_the_same_release(course, lab)


def test_model_answers_get_full_marks_from_nbgrader(grades):
    points = {"ex1": 1, "ex2": 3, "ex3": 1, "ex4": 2, "ex5": 3}
    in_words = {"words": [0, 0]}  # read by a person
    assert grades["ann"] == {f"{exercise}-check": [most, most] for exercise, most in points.items()} | in_words


def test_a_wrong_answer_and_one_left_open_lose_their_points_and_no_others(grades):
    lost = {exercise for exercise, (got, most) in grades["bob"].items() if got < most}
    assert lost == {"ex2-check", f"{LEFT_OPEN}-check"}
    assert all(got in (0, most) for got, most in grades["bob"].values())


@THOROUGH  # a cheaper one: what its gradebook has, above
def test_formgrader_shows_the_class(course, grades):
    options = ["--no-browser", "--allow-root", "--ip=127.0.0.1", "--port=0", "--IdentityProvider.token=secret"]
    options.append("--ServerApp.jpserver_extensions={'nbgrader.server_extensions.formgrader': True}")
    with (course / "server.log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyter_server", *options],
            cwd=course,
            env=activated(HOME=str(course)),
            stdout=subprocess.DEVNULL,
            stderr=log,
        )
    try:
        address = address_of(server, course)
        assert "<title>nbgrader formgrade</title>" in get(address, "/formgrader")
        assignments = {a["name"]: a for a in json.loads(get(address, "/formgrader/api/assignments"))}
        assert assignments[LAB]["max_score"] == 10
        assert assignments[LAB]["num_submissions"] == 2
        assert assignments[LAB]["average_score"] == (10 + 5) / 2
        submissions = json.loads(get(address, f"/formgrader/api/submissions/{LAB}"))
        assert {s["student"]: s["score"] for s in submissions} == {"ann": 10, "bob": 5}
    finally:
        server.terminate()
        server.wait(30)


def address_of(server, course):
    """Where the server says that it listens, once it does."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and server.poll() is None:
        found = re.search(r"(http://127\.0\.0\.1:\d+)/\S*\?token=", (course / "server.log").read_text())
        if found:
            # It says so a little before.
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{found[1]}/api", timeout=10):
                return found[1]
        time.sleep(0.1)
    raise AssertionError((course / "server.log").read_text())


def get(address, path):
    request = urllib.request.Request(address + path, headers={"Authorization": "token secret"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{path}: {error.code} {error.read()[:500]}") from None
