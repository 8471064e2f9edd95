"""An exercise with a star costs nobody a point and is told like the others; one with parts gives points for each."""

import csv
import json
import logging
import re
import zipfile

import nbformat
import pytest

from tests.support.notebooks import LABS, ROOT
from tests.unit.test_marking import STUDENTS
from tests.unit.test_report import section
from utils.common.errors import Problem
from utils.exercises.check import Scoreboard, Verdict
from utils.exercises.facts import Lab, LocalStudent, judge, load_lab, need
from utils.grading import grade as grading
from utils.grading.grade import Grade
from utils.grading.marking import overrides
from utils.grading.marking.mark import Mark, most_of
from utils.grading.marking.outline import lab_outline
from utils.grading.tell.certificate import certificates
from utils.grading.tell.exports import write_exports, write_grades
from utils.grading.tell.feedback import student_page, student_text
from utils.grading.tell.report import class_page

PARTS = {"the scarf": 3, "its fringe": 1, "its colour": 2}


def a_lab(**holds):
    """A lab with an exercise of three parts, a plain one and one with a star; `holds` says which facts do not."""
    lab = Lab("lab13", "Knit a scarf")
    knit = lab.exercise("ex1", points=6, parts=PARTS, title="Knit", hints=["Think."])
    lab.exercise("ex2", points=4, title="Sell", hints=["Think."])
    lab.exercise("ex3", star=True, title="Knit a dog", hints=["Think."])

    def add(exercise, claim, **part):
        exercise.fact(claim, **part)(lambda student: need(holds.get(claim.split()[1], True), f"No: {claim}."))

    add(knit, "a scarf")
    add(knit, "a fringe", part="its fringe")
    add(knit, "a colour", part="its colour")
    add(knit, "a second scarf")  # as a hidden fact: it comes last, and belongs to the first part
    add(lab.exercises["ex2"], "a buyer")
    add(lab.exercises["ex3"], "a dog")
    return lab


def judged(lab, student="Ann"):
    findings = {name: judge(exercise, LocalStudent({}, [])) for name, exercise in lab.exercises.items()}
    points = {name: exercise.points_for(findings[name]) for name, exercise in lab.graded.items()}
    return Mark(student, "ok", points, findings=findings)


@pytest.mark.parametrize(
    ("holds", "points", "looked_at"),
    [
        ({}, 6, "scarf second fringe colour"),
        ({"fringe": False}, 5, "scarf second fringe colour"),
        ({"colour": False}, 4, "scarf second fringe colour"),
        ({"fringe": False, "colour": False}, 3, "scarf second fringe colour"),
        ({"second": False}, 0, "scarf second"),
        ({"scarf": False}, 0, "scarf"),
    ],
)
def test_parts_are_judged_each_on_its_own_where_the_first_holds(holds, points, looked_at):
    exercise = a_lab(**holds).exercises["ex1"]
    found = judge(exercise, LocalStudent({}, []))
    assert [finding.claim.split()[1] for finding in found] == looked_at.split()
    assert exercise.points_for(found) == points
    assert exercise.solved(found) == (points == 6)


def test_what_is_declared_wrongly_is_refused():
    lab = Lab("lab13", "Knit a scarf")
    with pytest.raises(ValueError, match="ex1 has a star and 2 points: a star has none"):
        lab.exercise("ex1", star=True, points=2, title="Knit", hints=[])
    with pytest.raises(ValueError, match="the parts of ex1 give 6 points, not 5"):
        lab.exercise("ex1", points=5, parts=PARTS, title="Knit", hints=[])
    with pytest.raises(ValueError, match=r"ex1 has no part 'its color'\. It has: the scarf, its fringe, its colour"):
        a_lab().exercises["ex1"].fact("a color", part="its color")


@pytest.mark.parametrize("lab", LABS)
def test_a_student_sees_a_fact_of_each_part(lab):
    for name, exercise in load_lab(lab).exercises.items():
        assert all(exercise.facts_by_part().values()), name


def test_a_star_is_in_no_total():
    lab = a_lab(dog=False)
    assert (lab.points, list(lab.graded), list(lab.stars)) == (10, ["ex1", "ex2"], ["ex3"])
    mark = judged(lab)
    assert (mark.mark, most_of(lab, [mark]), mark.stars(lab)) == (10, 10, [])
    mark = judged(a_lab())
    assert (mark.mark, most_of(lab, [mark]), mark.stars(lab)) == (10, 10, ["ex3"])
    assert Grade("Bo", "missing", {"ex1": 0, "ex2": 0}).stars(lab) == []


def test_check_tells_the_points_of_parts_and_the_star():
    lab = a_lab(fringe=False, dog=False)
    verdicts = [Verdict(lab.name, e, judge(e, LocalStudent({}, []))) for e in lab.exercises.values()]
    knit, _, dog = verdicts
    assert repr(knit).splitlines()[:2] == [
        "ex1 not yet: Knit (5 of 6 points)",
        "  points: the scarf 3 / 3, its fringe 0 / 1, its colour 2 / 2",
    ]
    assert "its fringe 0 / 1" in knit._repr_html_()
    assert repr(dog).splitlines()[0] == "ex3 not yet: Knit a dog (a star)"
    board = Scoreboard(lab, verdicts)
    assert [reached for _, reached, _ in board.rows] == ["5 / 6", "4 / 4", "no star"]
    assert board.summary.startswith("Knit a scarf: 9 of 10 points and 0 of 1 star from the visible tests.")


def test_nbgrader_is_told_points_by_a_number_and_none_by_an_error():
    def told(**holds):
        exercise = a_lab(**holds).exercises["ex1"]
        return Verdict("lab13", exercise, judge(exercise, LocalStudent({}, []))).require()

    assert (told(), told(colour=False)) == (6, 4)
    with pytest.raises(AssertionError, match="0 of 6 points"):
        told(scarf=False)


def test_nbgrader_gives_the_number_that_a_cell_ends_with():
    nbutils = pytest.importorskip("nbgrader.utils")
    cell = nbformat.v4.new_code_cell('check("ex1")', metadata={"nbgrader": {"grade": True, "points": 6}})
    cell.outputs = [nbformat.v4.new_output("execute_result", {"text/plain": "4"})]
    assert nbutils.determine_grade(cell, logging.getLogger()) == (4, 6)


def test_the_students_page_says_yes_or_no_and_what_the_points_are_for():
    lab = a_lab(colour=False, dog=False)
    mark = judged(lab)
    for told in (student_text(mark, lab), student_page(mark, lab)):
        assert "star: no" in told
        assert "the scarf 3 / 3, its fringe 1 / 1, its colour 0 / 2" in told
        assert "8" in told
        assert "No: a dog." in told
    assert "8 of 10 points" in student_text(mark, lab)
    assert "ex1  4 / 6  Knit" in student_text(mark, lab)
    assert student_page(mark, lab).count('class="card exercise lost"') == 1, "a star that is not there is not lost"
    assert "star: yes" in student_page(judged(a_lab()), lab)


def test_the_class_page_counts_who_has_all_points_and_who_has_the_star():
    lab = a_lab()
    marks = [judged(a_lab(), "Ann"), judged(a_lab(fringe=False), "Bo"), judged(a_lab(dog=False), "Cy")]
    page = class_page(marks, lab)
    rows = re.findall(r"<tr>.*?</tr>", section(page, "exercises"), re.S)
    counts = {name: count for row in rows[1:] for name, count in re.findall(r"<b>(ex\d)</b>.*?(\d of 3)", row, re.S)}
    assert counts == {"ex1": "2 of 3", "ex2": "3 of 3", "ex3": "2 of 3"}
    assert section(page, "students").count("★") == 2
    assert "mark (10)" in page


def test_tables_have_the_star_beside_the_points(tmp_path):
    lab = a_lab()
    marks = [judged(a_lab(), "Ann"), judged(a_lab(dog=False, fringe=False), "Bo")]
    marks.append(Mark("Cy", "missing", {"ex1": 0, "ex2": 0}))
    for mark, id in zip(marks, ("a@b.org", "b@b.org", ""), strict=True):
        mark.id = id
    write_grades(marks, lab, tmp_path / "grades.csv")
    with (tmp_path / "grades.csv").open(newline="") as file:
        rows = [
            [row[name] for name in ("ex1", "ex2", "ex3 star", "total", "mark", "max")] for row in csv.DictReader(file)
        ]
    assert rows == [
        ["6", "4", "yes", "10", "10", "10"],
        ["5", "4", "no", "9", "9", "10"],
        ["0", "0", "", "0", "", "10"],
    ]
    write_exports(marks, lab, tmp_path / "exports")
    with zipfile.ZipFile(tmp_path / "exports" / "gradescope.zip") as archive:
        results = json.loads(archive.read("results.json"))
    told = [test for test in results["b@b.org"]["tests"] if test["number"] == "ex3"]
    assert told == [{"number": "ex3", "name": "Knit a dog (star: no)"}], "no score: nothing is added up"
    assert results["b@b.org"]["score"] == 9


def test_a_certificate_counts_points_and_no_stars(tmp_path):
    folder = tmp_path / "lab13"
    folder.mkdir()
    write_grades([judged(a_lab(dog=False))], a_lab(), folder / "grades.csv")
    [page] = certificates([folder], tmp_path / "out", by="A", on="today").files.values()
    assert "10 of 10 points" in " ".join(page.read_text().split())


def test_an_override_is_of_a_part_of_the_points_and_of_no_star(tmp_path):
    path, lab = tmp_path / "overrides.csv", a_lab()
    path.write_text("student,exercise,points,reason\nAnn Lee,ex3,0,\n")
    with pytest.raises(Problem, match="line 2: ex3 has a star and no points: there is nothing to change"):
        overrides.read_overrides(path, STUDENTS, lab, 10)
    path.write_text("student,exercise,points,reason\nAnn Lee,ex1,5,\nAnn Lee,ex2,0,\n")
    found = overrides.read_overrides(path, STUDENTS, lab, 10)["Ann Lee"]
    crashed = Mark("Ann Lee", "missing", {"ex1": 0, "ex2": 0}, overrides=found)
    assert (crashed.known, crashed.mark) == (True, 5), "all that gives points is decided"


def test_of_two_notebooks_with_equal_points_the_one_with_the_star_is_shown():
    lab = a_lab()
    without, with_star = judged(a_lab(dog=False)), judged(a_lab())
    assert grading._one_of([without, with_star], ["a.ipynb", "b.ipynb"], lab) is with_star


def test_the_outline_knows_stars_and_parts(tmp_path, monkeypatch):
    path = tmp_path / "facts.py"
    path.write_text(
        'ex1 = lab.exercise("ex1", star=True, title="A", hints=[])\n'
        'ex2 = lab.exercise("ex2", points=3, parts={"a": 1, "b": 2}, title="B", hints=[])\n'
    )
    monkeypatch.setattr("utils.grading.marking.outline.facts_path", lambda name: path)
    found = lab_outline("lab13")
    assert (list(found.stars), found.points, found.exercises["ex2"].parts) == (["ex1"], 3, {"a": 1, "b": 2})


def test_the_guide_says_so():
    guide = (ROOT / "docs" / "instructors.md").read_text()
    assert "star" in guide
    assert "parts" in guide
