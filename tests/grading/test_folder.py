"""`grade_folder`, called as a JupyterHub or a nightly job would: without a terminal."""

import os

import pytest
from unit.test_roster import EXPORTS

from utils.grading.folder import grade_folder
from utils.problem import Problem


@pytest.fixture
def submissions(tmp_path):
    """A class in which nothing has to be run: no kernel is started."""
    folder = tmp_path / "submissions"
    for student, content in {"lee ann": "", "a_stranger": "{"}.items():
        (folder / student).mkdir(parents=True)
        (folder / student / "lab01_split_a_model.ipynb").write_text(content)
    return folder


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_folder_is_graded_and_told_about_and_the_second_time_nothing_is_done(submissions, tmp_path):
    book = tmp_path / "class.csv"
    book.write_text(EXPORTS["Canvas"][0], encoding="utf-8")
    steps = []
    how = {"students": book, "gradebook": book, "progress": lambda done, total: steps.append((done, total))}
    outcome = grade_folder("lab01", submissions, tmp_path / "out", **how)
    assert [(grade.student, grade.status, grade.note) for grade in outcome.grades] == [
        ("Ng, Bo", "missing", "nothing was handed in"),
        ("a_stranger", "not-a-notebook", outcome.grades[1].note),
        ("lee ann", "not-a-notebook", "the file is empty"),
    ]
    assert steps == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert (outcome.lab.points, outcome.again, outcome.warning) == (10, [], "")
    first = contents(tmp_path / "out")
    assert {outcome.table, outcome.report} < {tmp_path / "out" / path for path in first}
    assert sum(path.parts[0] == "feedback" for path in first) == 6
    assert b"Ng, Bo" in first[(tmp_path / "out" / "exports" / "look_at.csv").relative_to(tmp_path / "out")]

    page = tmp_path / "out" / "feedback" / "lee ann.html"
    page.write_text("of yesterday's template")
    os.utime(page, (0, 0))
    seen = page.with_name("Ng, Bo.html").stat().st_mtime_ns
    grade_folder("lab01", submissions, tmp_path / "out", **how)
    assert contents(tmp_path / "out") == first
    assert page.with_name("Ng, Bo.html").stat().st_mtime_ns == seen


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"lab": "lab77"}, "there is no lab called lab77"),
        ({"submissions": "nowhere"}, "nowhere is not a folder"),
        ({"students": "nobody.txt"}, "nobody.txt cannot be read as a list of students"),
        ({"gradebook": "nothing.csv"}, "nothing.csv cannot be read as a CSV of a gradebook"),
        ({"out": "a_file"}, "a_file: "),
    ],
)
def test_what_can_be_mended_is_a_problem_and_nothing_is_written(submissions, tmp_path, changes, says):
    (tmp_path / "a_file").touch()
    how = {"lab": "lab01", "submissions": submissions, "out": tmp_path / "out"}
    how |= {name: value if name == "lab" else tmp_path / value for name, value in changes.items()}
    with pytest.raises(Problem, match=says):
        grade_folder(**how)
    assert not (tmp_path / "out" / "grades.csv").exists()
