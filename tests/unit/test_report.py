"""What an instructor gets: counted right, none forgotten, the same bytes each time, misconceptions by their words."""

import json
import re
from urllib.parse import unquote

import pytest

from tests.support.notebooks import LABS
from tests.unit.test_feedback import HOSTILE, Reader, a_lab, is_harmless
from utils.exercises.facts import Finding
from utils.grading.grade import STATUSES, Grade
from utils.grading.run.submissions import file_stem
from utils.grading.tell import misconceptions
from utils.grading.tell.report import (
    class_page,
    exercises_picture,
    likely_misconceptions,
    totals_picture,
)

NEEDLE = "the needle is there"


def made(student, ex1, ex2, status="ok", **more):
    """A grade; an exercise that was lost has a fact that failed."""
    findings = {"ex1": [Finding(NEEDLE, ex1 > 0, "" if ex1 else "no needle")]}
    findings["ex2"] = [Finding("the wool is there", ex2 > 0, "" if ex2 else "no wool on simgpu:0")]
    if status in ("missing", "not-a-notebook", "not-graded"):
        findings = {}
    return Grade(student, status, {"ex1": ex1, "ex2": ex2}, findings=findings, **more)


CLASS = [
    made("Ann Lee", 2, 3),
    made("bob", 2, 0, free_text={"words": "Because <b>one</b> waits."}),
    made("cem", 2, 0, "error", note="code cell 3: NameError", free_text={"words": "YOUR ANSWER HERE"}),
    made("dana", 0, 0, "error", note="code cell 1: ValueError: no"),
    made("eva", 2, 3, "crash", note="code cell 2: The kernel died."),
    made("finn", 2, 0, "timeout", id="4242"),
    made("goran", 0, 0, "missing"),
    made("hana", 0, 0, "not-a-notebook", note="the file is empty"),
    made("ivo", 2, 3, flags=["it replaced torch.equal, which was put back before looking"]),
    made("jana", 0, 0, "not-graded"),
]


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A table of misconceptions for the made-up lab."""
    rows = [
        {"exercise": "ex2", "claim": "the wool is there", "told": told, "misconception": thinks}
        for told, thinks in [
            ("no wool on simgpu:1", "Thinks that wool grows on trees."),
            ("no wool at all", "Thinks that wool is optional."),
            ("no wool at all", "Forgets the wool."),
        ]
    ]
    path = misconceptions.table_of("lab77", tmp_path)
    path.parent.mkdir()
    path.write_text(json.dumps(rows))
    monkeypatch.setattr(misconceptions.likely, "__defaults__", (tmp_path,))
    return path


def section(page, anchor):
    return re.search(rf'<h2 id="{anchor}">.*?(?=<h2|</body>)', page, re.S)[0]


def test_the_numbers_on_top_are_right():
    page = class_page(CLASS, a_lab())
    boxes = dict((a, b) for b, a in re.findall(r"<div><b>(.*?)</b>(.*?)</div>", page))
    # Totals of the seven that were judged: 5, 2, 2, 0, 5, 2, 5.
    assert boxes["students"] == "10"
    assert boxes["judged"] == "7"
    assert boxes["median"] == "2 / 5"
    assert boxes["mean"] == "3.0 / 5"
    assert boxes["full points"] == "3"
    assert boxes["to look at by hand"] == "6"


def test_pictures_say_in_words_what_they_show():
    picture = totals_picture([5, 2, 2, 0, 5, 2, 5], 5, "lab77, 7 submissions judged")
    summary = "Median 2 of 5 points, mean 3.0, the middle half from 2 to 5 (lab77, 7 submissions judged)."
    assert picture.summary == summary
    assert picture.alt == f"Students by total. 0: 1, 2: 3, 5: 3. {summary}"
    picture = exercises_picture({"ex2": 3 / 7, "ex1": 6 / 7}, "lab77")
    assert picture.alt == "Exercises, hardest first. ex2 43%, ex1 86% (lab77)."
    assert class_page(CLASS, a_lab()).count("<img") == 2


def test_the_hardest_exercise_comes_first_with_the_fact_that_failed():
    found = section(class_page(CLASS, a_lab()), "exercises")
    assert found.index("<b>ex2</b>") < found.index("<b>ex1</b>")
    assert "43%" in found
    assert "3 of 7" in found
    assert "the wool is there <b>(4)</b>" in found
    assert f"{NEEDLE} <b>(1)</b>" in found


def test_who_needs_a_look_is_listed_with_the_reason():
    page = class_page(CLASS, a_lab())
    found = section(page, "look")
    for student, why in {
        "eva": "the kernel died",
        "finn": "did not finish in time",
        "goran": "nothing was handed in",
        "hana": "cannot be read as a notebook",
        "ivo": "it replaced torch.equal",
        "jana": "the grader could not start",
    }.items():
        group = next(part for part in found.split("<details") if f"<bdi>{student}</bdi>" in part)
        assert why in group
    assert found.index("torch.equal") < found.index("the kernel died")  # what is odd comes first
    for student in ("Ann Lee", "bob", "cem", "dana"):  # no points are a sure mark where a cell raised
        assert f"<bdi>{student}</bdi>" not in found
    assert made("x", 0, 0, "a status of tomorrow").reasons_to_look == ["status a status of tomorrow"]


def test_no_points_are_no_zero_where_nothing_was_judged():
    rows = re.findall(r"<tr>.*?</tr>", section(class_page(CLASS, a_lab()), "students"), re.S)
    cells = {re.search("<bdi>(.*?)</bdi>", row)[1]: re.findall(r"<td.*?</td>", row) for row in rows[1:]}
    assert len(cells) == 10
    for student in ("goran", "hana", "jana"):
        assert all("&ndash;" in cell for cell in cells[student][2:5])
    assert "<b>0</b>" in cells["dana"][2]
    assert ">4242<" in cells["finn"][1]


def test_every_student_is_in_the_table_and_links_to_the_page():
    odd = [made("weird/../name %41", 2, 3), made(".hidden", 2, 3), made("Zoë 漢", 2, 3), made("x" * 300, 2, 3)]
    page = class_page(CLASS + odd, a_lab())
    links = {unquote(a["href"]) for tag, a in Reader(page).elements if tag == "a" and not a["href"].startswith("#")}
    assert links - {"words.html"} == {f"feedback/{file_stem(grade.student)}.html" for grade in CLASS + odd}


def test_free_text_stands_side_by_side_without_what_was_not_answered():
    found = section(class_page(CLASS, a_lab()), "answers")
    assert "words: 1 answer of 10 students" in found
    assert "Because &lt;b&gt;one&lt;/b&gt; waits." in found
    assert "YOUR ANSWER HERE" not in found


def test_every_status_is_counted_and_explained():
    found = section(class_page(CLASS, a_lab()), "statuses")
    for status in {grade.status for grade in CLASS}:
        assert STATUSES[status].means in found
    odd = class_page([made("x", 0, 0, "a status of tomorrow")], a_lab())
    assert "a status of tomorrow" in section(odd, "statuses")


def test_misconceptions_are_named_by_the_same_words_then_by_the_same_but_for_numbers(table):
    same = Finding("the wool is there", False, "no wool on simgpu:1")
    other_device = Finding("the wool is there", False, "no wool on cuda:0\n    in forward, line 3")
    two = Finding("the wool is there", False, "no wool at all")
    assert misconceptions.likely("lab77", "ex2", same) == ["Thinks that wool grows on trees."]
    assert misconceptions.likely("lab77", "ex2", other_device) == ["Thinks that wool grows on trees."]
    assert misconceptions.likely("lab77", "ex2", two) == ["Thinks that wool is optional.", "Forgets the wool."]
    assert misconceptions.likely("lab77", "ex1", same) == []
    assert misconceptions.likely("lab77", "ex2", Finding("another claim", False, same.found)) == []
    assert misconceptions.likely("lab77", "ex2", Finding("the wool is there", False, "new words")) == []


def test_the_report_counts_misconceptions_and_calls_them_likely(table):
    found = likely_misconceptions(CLASS, a_lab())
    assert found == {("ex2", ("Thinks that wool grows on trees.",)): ["bob", "cem", "dana", "finn"]}
    text = section(class_page(CLASS, a_lab()), "misconceptions")
    assert "5 exercises lost by these students, 4 of them" in text
    assert "likely" in text
    assert "Thinks that wool grows on trees." in text


def test_a_copy_without_the_table_names_no_misconception(tmp_path):
    finding = Finding("the wool is there", False, "no wool")
    assert misconceptions.likely("lab77", "ex2", finding, tmp_path) == []


@pytest.mark.parametrize("lab", LABS)
def test_each_known_wrong_answer_finds_itself(lab):
    rows = json.loads(misconceptions.table_of(lab).read_text())
    assert rows
    for row in rows:
        finding = Finding(row["claim"], False, row["told"])
        assert row["misconception"] in misconceptions.likely(lab, row["exercise"], finding)


@pytest.mark.parametrize("grades", [[], CLASS[:1], [made("a", 0, 0, "missing")]], ids=["none", "one", "one missing"])
def test_small_classes(grades):
    page = class_page(grades, a_lab())
    assert is_harmless(page)
    assert f"<b>{len(grades)}</b>students" in page


def test_a_large_class_is_one_page_of_some_hundred_kilobytes():
    grades = [made(f"student {n:03}", 2 * (n % 3 > 0), 3 * (n % 7 > 0)) for n in range(500)]
    page = class_page(grades, a_lab())
    assert is_harmless(page)
    assert len(page) < 1_500_000
    assert section(page, "students").count("<tr>") == 501


def test_hostile_text_is_only_text():
    hostile = {"note": HOSTILE, "flags": [HOSTILE] * 1000, "free_text": {HOSTILE: HOSTILE * 10_000}, "id": HOSTILE}
    findings = {"ex1": [Finding(HOSTILE, False, HOSTILE * 1000)]}
    grade = Grade(HOSTILE, "error", {"ex1": 0, "ex2": 0}, findings=findings, **hostile)
    page = class_page([grade], a_lab())
    assert is_harmless(page)
    assert len(page) < 200_000


def test_the_same_grades_in_any_order_give_the_same_bytes():
    assert class_page(CLASS, a_lab()) == class_page(CLASS[::-1], a_lab())
