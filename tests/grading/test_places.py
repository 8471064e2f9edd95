"""A course grades wherever it lies, as root and as another user; where it cannot, one line says what stands where.

Each place gets a copy of the course, by hard links, with an environment in it or linked to. Its own `course grade`
judges one right notebook there, in forked kernels.
"""

import csv
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat
import pytest

from tests.support.copies import copy_of_course, copy_of_environment, python_of_all
from tests.support.notebooks import ROOT, notebook_with, source_of
from tests.support.tiers import THOROUGH

pytestmark = [
    pytest.mark.xdist_group("places"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="bubblewrap is for Linux"),
]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may write there, or become another user")
USER = 12_345  # whose files and processes these are: of no user that there is
ODD = "Jürgen's Kurs & more"


@pytest.fixture
def folder(tmp_path_factory):
    """A new folder below any other, removed afterwards, with what had to be made on the way."""
    made = []

    def make(below: str) -> Path:
        missing = [path for path in (Path(below), *Path(below).parents) if not path.exists()]
        for path in reversed(missing):
            path.mkdir()
        found = Path(tempfile.mkdtemp(prefix="course-test-", dir=below))
        found.chmod(0o755)
        made.extend([found, *missing])
        return found

    yield make
    for path in made:
        shutil.rmtree(path)


def with_environment(folder: Path, course: Path) -> Path:
    """The environment as a folder in the course."""
    copy_of_environment(course / ".venv")
    return course


def with_link(folder: Path, course: Path) -> Path:
    """The environment elsewhere, and a link to it in the course."""
    (course / ".venv").symlink_to(sys.prefix)
    return course


def seen_by_a_link(folder: Path, course: Path) -> Path:
    """The course behind a link, and the environment behind another."""
    with_link(folder, course)
    (folder / "link").symlink_to(course)
    return folder / "link"


def grade(course: Path, place: Path, before: list[str] = (), after: list[str] = ()) -> tuple[list[dict], str]:
    """The rows of grades.csv when the course grades a right notebook in it, and what was said."""
    (place / "class").mkdir(exist_ok=True)
    nbformat.write(notebook_with("lab01", {}), place / "class" / source_of("lab01").name)
    command = [*before, course / ".venv" / "bin" / "python", "-m", "utils.course", "grade", "lab01", place / "class"]
    done = subprocess.run(
        [*map(str, command), "--out", str(place / "out"), *after],
        cwd=course,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HOME": "/nowhere", "MPLCONFIGDIR": str(place)},
        capture_output=True,
        text=True,
    )
    table = place / "out" / "grades.csv"
    rows = list(csv.DictReader(table.open(encoding="utf-8", newline=""))) if table.exists() else []
    return rows, done.stdout + done.stderr


def assert_full_points(rows: list[dict], said: str) -> None:
    found = [(row["total"], row["status"], row["look_at"]) for row in rows]
    assert found == [("10", "ok", "")], said
    assert "a Python of its own" not in said, "kernels are forked"


@pytest.mark.parametrize(
    ("below", "name", "environment"),
    [
        # A cheaper one: a class is graded where this course lies, in test_course_grade.py.
        pytest.param("/dev/shm", "course", with_link, marks=THOROUGH),
        pytest.param("/tmp", "course", with_link, marks=THOROUGH),
        pytest.param("/var/tmp", ODD, seen_by_a_link, marks=THOROUGH),
        pytest.param("/home/student", ODD, with_environment, marks=[as_root, THOROUGH]),
    ],
)
def test_a_course_grades_wherever_it_lies(below, name, environment, folder):
    here = folder(below)
    course = environment(here, copy_of_course(here / name))
    assert_full_points(*grade(course, folder("/tmp")))


@as_root
@THOROUGH
def test_a_course_grades_that_cannot_be_written_to(folder):
    here = folder("/opt")
    course = with_link(here, copy_of_course(here / "course"))
    mount = f"mount --bind {here} {here} && mount -o remount,bind,ro {here} && "
    mount += f'! touch {here}/x 2>/dev/null && exec "$@"'
    assert_full_points(*grade(course, folder("/tmp"), ["unshare", "--mount", "sh", "-c", mount, "sh"]))


@pytest.fixture
def another_user(folder):
    """A course in /home, a folder that belongs to another user, and how to become that user."""
    python = python_of_all()
    if python is None:
        pytest.skip("no other user may run this Python, and the system has none of its version")
    here, place = folder("/home"), folder("/tmp")
    course = copy_of_course(here / ODD)
    copy_of_environment(course / ".venv", python)
    os.chown(place, USER, USER)
    return course, place, ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--"]


@as_root
@THOROUGH
def test_another_user_grades(another_user):
    course, place, become = another_user
    assert_full_points(*grade(course, place, become))
    assert {path.stat().st_uid for path in (place / "out").rglob("*")} == {USER}


@as_root
@THOROUGH
def test_where_there_are_no_user_namespaces_one_line_says_so(another_user):
    course, place, become = another_user
    # As Linux answers where its settings forbid them.
    forbid = "import os, sys; from utils.grading.run import system_calls; system_calls.refuse(); "
    forbid += "os.execvp(sys.argv[1], sys.argv[1:])"
    become += [str(course / ".venv" / "bin" / "python"), "-c", forbid]
    rows, said = grade(course, place, become)
    assert rows == []
    assert said.startswith("course: no sandbox: bubblewrap cannot make one here (bwrap: ")
    assert "Allow user namespaces" in said
    assert len(said.splitlines()) == 1
    assert_full_points(*grade(course, place, become, ["--no-sandbox"]))


@as_root
def test_a_course_that_only_its_owner_can_read_is_told_to_be_one(folder):
    here = folder("/tmp")
    course = with_link(here, copy_of_course(here / "course"))
    shutil.rmtree(course / "utils")
    shutil.copytree(ROOT / "utils", course / "utils")  # its own files: a hard link has the mode of all
    (course / "utils").chmod(0o700)
    rows, said = grade(course, folder("/tmp"))
    assert rows == []
    assert said.startswith("course: no sandbox: Python does not start in it (")
    assert str(course / "utils") in said
    assert "chmod -R a+rX" in said
    assert len(said.splitlines()) == 1


def test_submissions_that_each_submission_could_read_are_refused():
    inside = Path(sys.prefix, "share", "handed-in")
    inside.mkdir()
    try:
        rows, said = grade(ROOT, inside)
    finally:
        shutil.rmtree(inside)
    assert rows == []
    assert (
        said
        == f"course: each submission can read all of {sys.prefix}, and so {inside / 'class'}: take a folder elsewhere\n"
    )
