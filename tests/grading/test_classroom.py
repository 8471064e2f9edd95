"""A class: what is graded again and what is not, workers that die, workers on other machines."""

import dataclasses
import json
import os

import nbformat
import psutil
import pytest

from tests.support.notebooks import notebook_with
from tests.support.tiers import THOROUGH
from utils.common.errors import Problem
from utils.grading import classroom
from utils.grading.run.kernel import Limits
from utils.grading.run.submissions import Submission

LIMITS = Limits(cell=30, call=10)


@pytest.fixture
def handed_in(tmp_path):
    """Four submissions that need no kernel, and one that does."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "ann.ipynb").write_text("")
    (folder / "bob.ipynb").write_text("not JSON")
    (folder / "cat.ipynb").write_text(nbformat.writes(nbformat.v4.new_notebook()))
    nbformat.write(notebook_with("lab01", {}), folder / "dan.ipynb")
    found = [Submission(path.stem, path, id=f"id-{path.stem}") for path in sorted(folder.iterdir())]
    return [*found, Submission("eve", None, "nothing was handed in")]


def rows(grades):
    return [(grade.student, grade.id, grade.total, grade.status) for grade in grades]


RIGHT = [
    ("ann", "id-ann", 0, "not-a-notebook"),
    ("bob", "id-bob", 0, "not-a-notebook"),
    ("cat", "id-cat", 0, "missing"),
    ("dan", "id-dan", 10, "ok"),
    ("eve", "", 0, "missing"),
]


def test_what_has_a_result_is_not_graded_again_unless_it_changed(handed_in, tmp_path):
    out, new = tmp_path / "out", []

    def grade(submissions, limits=LIMITS):
        new.clear()
        finished = lambda grade, is_new, earlier: new.append(grade.student) if is_new else None  # noqa: E731
        return rows(classroom.grade_class(submissions, "lab01", out, limits, jobs=2, finished=finished))

    assert grade(handed_in) == RIGHT
    assert sorted(new) == ["ann", "bob", "cat", "dan", "eve"]
    assert grade(handed_in[::-1]) == RIGHT[::-1]
    assert new == []
    handed_in[0].path.write_text("{")
    (out / "results" / "cat.json").write_text('{"fingerprint": "')  # half a file
    assert grade(handed_in) == RIGHT
    assert sorted(new) == ["ann", "cat"]
    quick = [one for one in handed_in if one.student != "dan"]
    grade(quick, Limits(cell=29, call=10))
    assert sorted(new) == ["ann", "bob", "cat", "eve"], "other limits can give another grade"


def test_a_worker_that_dies_costs_nothing_but_time(handed_in, tmp_path):
    killed = []

    def finished(grade, new, earlier):
        if not killed:  # the others are still waiting, or at work
            # On Linux they are children of the process that forks them, elsewhere of this one.
            below = psutil.Process().children(recursive=True)
            servers = [p.pid for p in below if "forkserver" in " ".join(p.cmdline()) and p.ppid() == os.getpid()]
            workers = [p for p in below if p.ppid() in servers or "spawn_main" in " ".join(p.cmdline())]
            killed.extend(worker.pid for worker in workers)
            for worker in workers:
                worker.kill()

    grades = classroom.grade_class(handed_in, "lab01", tmp_path / "out", LIMITS, finished=finished)
    assert killed
    assert rows(grades) == RIGHT


def abort(*_):
    os.abort()


def test_a_submission_that_always_kills_its_worker_is_told_apart_from_a_zero(handed_in, tmp_path, monkeypatch):
    monkeypatch.setattr(classroom, "_begin_work", abort)  # what a worker does first
    grades = classroom.grade_class(handed_in[:1], "lab01", tmp_path / "out", LIMITS)
    assert [(grade.status, grade.note) for grade in grades] == [("not-graded", "the grader's own process ended")]
    assert not list((tmp_path / "out" / "results").iterdir()), "so that the next run grades it"


@THOROUGH  # cheaper ones: what goes to another machine, and a scheduler that is not there
def test_the_same_grades_come_from_workers_of_dask(handed_in, tmp_path):
    from distributed import LocalCluster

    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None, scheduler_port=0) as cluster:
        grades = classroom.grade_class(handed_in, "lab01", tmp_path / "dask", LIMITS, dask=cluster.scheduler_address)
    assert rows(grades) == RIGHT
    kept = {
        path.stem: json.loads(path.read_text())["grade"]["points"] for path in (tmp_path / "dask/results").iterdir()
    }
    assert {student: sum(points.values()) for student, points in kept.items()} == {row[0]: row[2] for row in RIGHT}


def test_a_group_is_graded_once_and_each_member_has_its_grade(handed_in, tmp_path, monkeypatch):
    begun = []

    def here(todo, lab_name, limits, jobs):
        begun.extend(one.student for one in todo)
        return [(one, classroom.grade_one(one, None, lab_name, limits)) for one in todo]

    monkeypatch.setattr(classroom, "_here", here)
    bob = dataclasses.replace(handed_in[1], group="Rockets", doubts=("whose?",))
    members = [dataclasses.replace(bob, student=name, id=name, doubts=()) for name in ("may", "ned")]
    grades = classroom.grade_class([bob, *members, handed_in[0]], "lab01", tmp_path / "out", LIMITS)
    assert sorted(begun) == ["ann", "bob"]
    assert [(grade.student, grade.id, grade.flags) for grade in grades] == [
        ("bob", "id-bob", ["whose?"]),
        ("may", "may", []),
        ("ned", "ned", []),
        ("ann", "id-ann", []),
    ]
    assert len({grade.note for grade in grades[:3]}) == 1


def test_all_files_of_a_submission_go_to_another_machine(tmp_path):
    for name, content in {"a/x.ipynb": "", "b/x.ipynb": "{", "b/y.pdf": "%PDF"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    paths = [tmp_path / "a" / "x.ipynb", tmp_path / "b" / "x.ipynb", tmp_path / "b" / "y.pdf"]
    one = Submission("ann", paths[0], more=tuple(paths[1:]))
    there = classroom.grade_one(one, [classroom._sent(path) for path in one.files], "lab01", LIMITS)
    assert there == classroom.grade_one(one, None, "lab01", LIMITS)
    assert "a/x.ipynb: the file is empty" in there.note


def test_a_scheduler_that_is_not_there_is_one_line(handed_in, tmp_path):
    with pytest.raises(Problem, match="no Dask scheduler answers at"):
        classroom.grade_class(handed_in, "lab01", tmp_path, LIMITS, dask="nonsense://x")


def test_folders_of_killed_graders_are_swept(tmp_path, monkeypatch):
    monkeypatch.setattr(classroom.tempfile, "tempdir", str(tmp_path))
    gone = max(psutil.pids()) + 100_000
    for name in (f"grading-{gone}-abc", f"grading-{classroom.os.getpid()}-def", "grading-mine", "other"):
        (tmp_path / name).mkdir()
    classroom._sweep()
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == sorted([f"grading-{classroom.os.getpid()}-def", "grading-mine", "other"])
