"""`grade_folder`, called as a JupyterHub or a nightly job would: without a terminal."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.notebooks import ROOT
from tests.unit.test_report import section
from tests.unit.test_roster import EXPORTS
from utils.common.errors import Problem
from utils.course import cli
from utils.grading import classroom
from utils.grading.folder import grade_folder
from utils.grading.grade import Grade
from utils.grading.marking.late import deadline


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


WORKSHEET = """\
Identifier,Full name,Status,Grade,Maximum Grade,Last modified (submission),Last modified (grade)
Participant 1,Lee Ann,Submitted for grading,,10.00,"Monday, 23 November 2026, 9:00 PM",-
Participant 2,A Stranger,Submitted for grading - 2 hours late,,10.00,"Monday, 23 November 2026, 11:00 PM",-
"""


def rows(out):
    with (out / "grades.csv").open(newline="", encoding="utf-8") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


@pytest.fixture
def judged(monkeypatch):
    """Which students were judged: everybody gets 7 points and has answered in words, and no kernel is started."""
    new = []

    def judge(todo, lab_name, limits, jobs):
        for one in todo:
            new.append(one.student)
            points = {"ex1": 1, "ex2": 3, "ex3": 1, "ex4": 2, "ex5": 0}
            yield one, Grade(one.student, "ok", points, id=one.id, free_text={"words": "Because."})

    monkeypatch.setattr(classroom, "_here", judge)
    return new


def test_a_deadline_a_mark_and_words_change_what_is_told_and_nothing_is_judged_again(submissions, tmp_path, judged):
    out, book = tmp_path / "out", tmp_path / "worksheet.csv"
    book.write_text(WORKSHEET, encoding="utf-8")

    def grade(**how):
        judged.clear()
        return grade_folder("lab01", submissions, out, gradebook=book, **how)

    outcome = grade()
    assert sorted(judged) == ["a_stranger", "lee ann"]
    assert (out / "overrides.csv").read_text() == "student,exercise,points,reason\n"
    assert (outcome.most, outcome.look_at, outcome.unmarked) == (10, 0, 2)
    assert [rows(out)["a_stranger"][name] for name in ("late", "penalty", "mark")] == ["2 h", "0", "7"]
    undisturbed = contents(out)

    grade(deadline=deadline("2026-11-23 20:30", penalty="1/hour"))
    assert [row["mark"] for row in rows(out).values()] == ["4", "6"]
    assert "Handed in 2 h 30 min late: 3 points are taken off" in (out / "feedback" / "a_stranger.txt").read_text()
    assert "Handed in 30 min late: 1 point is taken off" in (out / "feedback" / "lee ann.html").read_text()

    (out / "overrides.csv").write_text("student,exercise,points,reason\nlee ann,ex5,3,right\na_stranger,late,0,ill\n")
    (out / "words.csv").write_text("student,question,points,of,reason\nlee ann,words,1.5,2,\n")
    kept = {name: (out / name).read_bytes() for name in ("overrides.csv", "words.csv")}
    outcome = grade(deadline=deadline("2026-11-23 20:30", penalty="1/hour"))
    assert [rows(out)["lee ann"][name] for name in ("ex5", "words", "total", "mark", "max")] == [
        "3",
        "1.5",
        "11.5",
        "10.5",
        "12",
    ]
    assert rows(out)["a_stranger"]["mark"] == "7"
    assert (outcome.most, outcome.look_at, outcome.unmarked) == (12, 1, 1), "one answer in words has no points yet"
    assert cli._next_steps(outcome)[1].startswith("Mark: 1 answer in words has no points: ")
    assert (out / "exports" / "moodle.csv").read_text().count("Participant") == 1
    assert {name: (out / name).read_bytes() for name in kept} == kept
    assert judged == []

    for name in kept:
        (out / name).unlink()
    grade()
    assert contents(out) == undisturbed, "without them all is as it was"


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        (
            "overrides.csv",
            "student,exercise,points,reason\nlee ann,ex5,4,\n",
            r"overrides\.csv, line 2: 4 points, and 3",
        ),
        ("words.csv", "student,question,points,of,reason\nnobody,words,1,2,\n", r"words\.csv, line 2: no student"),
    ],
)
def test_a_fault_in_what_an_instructor_wrote_is_told_before_anything_is_graded(
    submissions, tmp_path, judged, name, text, says
):
    out = tmp_path / "out"
    out.mkdir()
    (out / name).write_text(text)
    with pytest.raises(Problem, match=says):
        grade_folder("lab01", submissions, out)
    assert judged == []
    assert list(contents(out)) == [Path(name)]


def test_some_or_all_are_judged_again_on_demand(submissions, tmp_path, judged):
    def grade(*again):
        judged.clear()
        return grade_folder("lab01", submissions, tmp_path / "out", again=again)

    grade()
    grade("lee ann")
    assert judged == ["lee ann"]
    grade("all")
    assert sorted(judged) == ["a_stranger", "lee ann"]
    with pytest.raises(Problem, match="--again: no student in this class is called 'nobody'"):
        grade("nobody")


def test_results_of_an_earlier_version_of_the_course_are_kept_and_counted(submissions, tmp_path, judged):
    grade_folder("lab01", submissions, tmp_path / "out")
    path = tmp_path / "out" / "results" / "lee ann.json"
    result = json.loads(path.read_text())
    path.write_text(json.dumps(result | {"course": "another"}))
    judged.clear()
    outcome = grade_folder("lab01", submissions, tmp_path / "out")
    assert (judged, outcome.earlier) == ([], 1)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"lab": "lab77"}, "there is no lab called lab77"),
        ({"submissions": "nowhere"}, "nowhere does not exist"),
        ({"students": "nobody.txt"}, "nobody.txt does not exist"),
        ({"gradebook": "nothing.csv"}, "nothing.csv does not exist"),
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


def test_another_labs_results_are_not_written_over(submissions, tmp_path, judged):
    grade_folder("lab01", submissions, tmp_path / "out")
    before = contents(tmp_path / "out")
    judged.clear()
    with pytest.raises(Problem, match=r"out has the results of lab01: give lab02 a folder of its own$"):
        grade_folder("lab02", submissions, tmp_path / "out")
    assert judged == []
    assert contents(tmp_path / "out") == before
    (tmp_path / "out" / "lab.txt").unlink()
    grade_folder("lab01", submissions, tmp_path / "out")
    assert contents(tmp_path / "out") == before


@pytest.mark.parametrize("option", ["students", "gradebook"])
def test_a_table_of_another_class_is_refused_and_one_of_few_is_told(submissions, tmp_path, judged, option):
    book = tmp_path / "class.csv"
    head = "Student,ID,Section\n"
    book.write_text(f'{head}"Ng, Bo",1,A\n')
    with pytest.raises(Problem, match=r"class\.csv: none of the 2 who handed in is in it: is it this class's\?$"):
        grade_folder("lab01", submissions, tmp_path / "out", **{option: book})
    assert judged == []
    assert not (tmp_path / "out").exists()
    for n in range(3):
        (submissions / f"stranger {n}").mkdir()
    for path in submissions.glob("stranger*"):
        (path / "lab01_split_a_model.ipynb").write_text("{")
    book.write_text(f'{head}"Lee, Ann",1,A\n')
    outcome = grade_folder("lab01", submissions, tmp_path / "out", **{option: book})
    assert outcome.warning == f"Only 1 of the 5 who handed in are in {book}: is it this class's?"


def test_to_look_at_is_the_same_everywhere(submissions, tmp_path, judged, capsys):
    """On the terminal, on the class's page and in look_at.csv: the missing, and rows that are no submission's, too."""
    for name in ("no row", "sure"):
        (submissions / name).mkdir()
        (submissions / name / "lab01_split_a_model.ipynb").touch()
    book, roster, out = tmp_path / "worksheet.csv", tmp_path / "class.txt", tmp_path / "out"
    book.write_text(f"{WORKSHEET}Participant 3,Sure,,,10.00,-,-\nParticipant 4,Gone Away,,,10.00,-,-\n")
    roster.write_text("Lee Ann\nA Stranger\nSure\nno row\nMis Sing\n")
    cli._print(grade_folder("lab01", submissions, out, students=roster, gradebook=book))
    with (out / "exports" / "look_at.csv").open(newline="", encoding="utf-8") as file:
        names = [row["student"] for row in csv.DictReader(file)]
    assert names == ["Mis Sing", "no row", "Gone Away"]
    printed = capsys.readouterr().out
    assert f"Look: {len(names)} by hand" in printed
    marked = [line for line in printed.splitlines() if line.endswith("look at it by hand")]
    assert [line.split("  ")[0] for line in marked] == names[:2]
    page = (out / "class.html").read_text(encoding="utf-8")
    assert f"<b>{len(names)}</b>to look at by hand" in page
    listed = section(page, "look")
    assert sorted(re.findall("<bdi>(.*?)</bdi>", listed)) == sorted(names)
    assert len(re.findall("<td>look</td>", section(page, "students"))) == 2


def test_a_fault_is_told_before_pytorch_is_loaded(submissions, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "overrides.csv").write_text("student,exercise,points\nnobody,ex1,1\na_stranger,ex9,1\n")
    code = f"""
import sys
from pathlib import Path
from utils.grading.folder import grade_folder
from utils.common.errors import Problem
try:
    grade_folder("lab01", Path({str(submissions)!r}), Path({str(tmp_path / "out")!r}))
except Problem as problem:
    print(problem)
print(sorted({{"torch", "pandas", "matplotlib"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    told, loaded = done.stdout.splitlines()
    assert "line 2: no student in this class is called 'nobody'" in told
    assert "line 3: 'ex9' is none of ex1, ex2, ex3, ex4, ex5, total, late" in told
    assert loaded == "[]"
