"""Whose mark it is, in the exports of every platform: each row is as it should be, none has another's mark."""

import pytest

from tests.support.every_platform import ALL, EXPORTS, compared, notebook, write
from utils.exercises.facts import load_lab
from utils.grading import grade as grading
from utils.grading.grade import Grade, grade_submission
from utils.grading.roster import read_gradebook, students_in
from utils.grading.run.submissions import handed_in
from utils.grading.tell.exports import write_exports

NAME = "lab01_split_a_model.ipynb"
MODEL = {
    cell["metadata"]["nbgrader"]["grade_id"]: "".join(cell["source"])
    for cell in notebook(*ALL)["cells"]
    if cell["metadata"].get("nbgrader", {}).get("grade_id") in ALL
}


def without_a_kernel(student, document, lab, limits):
    """Points for the model answers that stand in the notebook: which notebook it was shows in them."""
    code = "\n".join(document.code)
    points = {name: one.points if MODEL[name] in code else 0 for name, one in lab.exercises.items()}
    flags = [] if document.ran or any(points.values()) else ["no cell of the notebook was ever run"]
    return Grade(student, "ok", points, flags=flags, free_text=document.words)


@pytest.fixture
def graded(monkeypatch, tmp_path):
    """What comes of an export: the comparison of its rows, and the submissions."""
    monkeypatch.setattr(grading, "_run", without_a_kernel)
    lab = load_lab("lab01", hidden=True)

    def grade(name):
        export = EXPORTS[name]()
        place, path = write(name, export, tmp_path / "class")
        table = read_gradebook(path)
        with handed_in(place, NAME, tables=students_in(table)) as found:
            grades = [grade_submission(one, lab) for one in found]
        write_exports(grades, lab, tmp_path / "exports", table)
        return export, found, compared(export, tmp_path / "exports")

    return grade


@pytest.mark.parametrize("name", EXPORTS)
def test_each_row_has_the_mark_that_is_its_own(graded, name):
    export, found, rows = graded(name)
    wrong = [row for row in rows if not row[3]]
    assert not wrong, "\n".join(map(str, wrong))
    assert len(rows) == len(export.expected)
    assert {one.student for one in found if one.late} == set(export.late)


def test_the_class_is_large_enough():
    assert sum(len(make().expected) for make in EXPORTS.values()) >= 60
