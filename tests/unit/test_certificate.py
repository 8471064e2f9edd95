"""Certificates: who gets one, what stands on it, and what is refused in a line before anything is written."""

import re

import pytest
from typer.testing import CliRunner

from utils.common.errors import Problem
from utils.course.cli import app
from utils.grading.tell.certificate import certificates

HEAD = "student,ex1,ex2,total,late,penalty,mark,max,status,changed,note,look_at\n"
ANN, BO = "Ann Lee,4,6,10,,0,10,10,ok,,,\n", "Bo <b>Ng</b>,4,1,5,,0,5,10,error,,A cell raised,\n"
CY = "Cy,0,4,4,,0,4,10,ok,,,\n"


@pytest.fixture
def graded(tmp_path):
    def put(lab, *rows, text=None):
        folder = tmp_path / "graded" / lab
        folder.mkdir(parents=True)
        (folder / "grades.csv").write_text(HEAD + "".join(rows) if text is None else text)
        return folder

    put("lab01", ANN, BO, CY)
    put("lab02", ANN, BO, CY.replace("0,4,4,,0,4", "4,6,10,,0,10"))
    return put


def test_who_has_enough_in_every_lab_gets_one_and_others_a_reason(graded, tmp_path):
    graded("lab03", ANN, BO, "Cy,0,0,0,,0,,10,missing,,,\n")
    written = certificates([tmp_path / "graded"], tmp_path / "out", by="Ada Meyer", on="1 July 2027")
    assert list(written.files) == ["Ann Lee", "Bo <b>Ng</b>"]
    assert written.without == {"Cy": "lab01: 4 of 10 points, and 5 are enough; lab03: nothing graded"}
    assert sorted(tmp_path.glob("out/*")) == sorted(written.files.values())


def test_it_says_what_was_done_by_whom_and_is_harmless(graded, tmp_path):
    written = certificates([tmp_path / "graded"], tmp_path / "out", by="Ada <i>Meyer</i>", on="1 July 2027")
    page = written.files["Bo <b>Ng</b>"].read_text()
    assert "Bo &lt;b&gt;Ng&lt;/b&gt;" in page
    assert "Ada &lt;i&gt;Meyer&lt;/i&gt;" in page
    assert "these 2 labs" in page
    assert "10 of 20 points" in " ".join(page.split())
    assert "lab01 Split a model" in page
    assert "split any model over several devices" in page, "from the table in docs/course.md"
    assert "script" not in re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL).lower()


def test_one_lab_and_another_share(graded, tmp_path):
    written = certificates([tmp_path / "graded" / "lab01"], tmp_path / "out", by="A", on="today", least=0.4)
    assert len(written.files) == 3
    assert "this lab of" in " ".join(written.files["Cy"].read_text().split())


def test_a_name_that_a_spreadsheet_would_take_for_a_formula_is_the_students_own_again(graded, tmp_path):
    folder = graded("lab04", "'=Eve,4,6,10,,0,10,10,ok,,,\n", "Al;'=1,4,6,10,,0,10,10,ok,,,\n")
    assert list(certificates([folder], tmp_path / "out", by="A", on="today").files) == ["=Eve", "Al;=1"]


def test_the_mark_counts_and_not_the_points_before_it(graded, tmp_path):
    late, overridden = "Di,4,6,10,2 days,6,4,10,ok,,,\n", "El,0,0,0,,0,8,10,not-a-notebook,mark: 8,,\n"
    folder = graded("lab04", late, overridden, "Fe,0,0,0,,0,,10,not-a-notebook,,,\n")
    written = certificates([folder], tmp_path / "out", by="A", on="today")
    assert list(written.files) == ["El"]
    assert written.without == {"Di": "lab04: 4 of 10 points, and 5 are enough", "Fe": "lab04: nothing graded"}


@pytest.mark.parametrize(
    ("lab", "text", "says"),
    [
        ("lab04", "student,total,max\nAnn,3,10\n", "has no column 'mark'"),
        ("lab04", HEAD + "Ann,1,1,1,,0,ten,10,ok,,,\n", "a mark or a max that is no number"),
        ("lab04", HEAD + "Ann,1\n", "a mark or a max that is no number"),
        ("week4", HEAD + ANN, "name the folder after its lab"),
        ("lab99", HEAD + ANN, "name the folder after its lab"),
    ],
)
def test_what_cannot_be_read_is_one_line_and_nothing_is_written(graded, tmp_path, lab, text, says):
    graded(lab, text=text)
    with pytest.raises(Problem, match=says) as found:
        certificates([tmp_path / "graded"], tmp_path / "out", by="A", on="today")
    assert "\n" not in str(found.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"least": 0}, "--least 0"),
        ({"least": 50}, "--least 50"),
        ({"by": " "}, "--by is empty"),
        ({"graded": ["nowhere"]}, "there is no such folder"),
        ({"graded": ["."]}, "has no grades.csv"),
        ({"graded": ["graded", "graded/lab01"]}, "lab01 is there twice"),
    ],
)
def test_what_makes_no_sense_is_one_line(graded, tmp_path, monkeypatch, more, says):
    monkeypatch.chdir(tmp_path)
    given = {"graded": ["graded"], "by": "A", "on": "today"} | more
    with pytest.raises(Problem, match=says):
        certificates(given.pop("graded"), tmp_path / "out", **given)
    assert not (tmp_path / "out").exists()


def test_the_command_says_how_many(graded, tmp_path):
    ran = CliRunner().invoke(
        app, ["certificate", str(tmp_path / "graded"), "--out", str(tmp_path / "out"), "--by", "A"]
    )
    assert ran.exit_code == 0, ran.output
    assert "Cy" in ran.output
    assert f"2 written to {tmp_path / 'out'}, 1 without" in ran.output
