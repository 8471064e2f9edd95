"""What a student gets back: right in words and numbers, harmless whatever was handed in, nothing hidden in it."""

import json
import re
import time
from dataclasses import asdict
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest
from jinja2 import UndefinedError

import simgpu
from tests.support.notebooks import ROOT, notebook_with, run_here
from utils.exercises.facts import Finding, Lab, LocalStudent, StudentError, load_lab, recorded_timelines
from utils.grading.grade import STATUSES, Grade, _small
from utils.grading.tell.feedback import IN_WORDS, student_page, student_text
from utils.grading.tell.pages import TEMPLATES
from utils.grading.tell.text import LONGEST, clean
from utils.grading.tell.timelines import timeline_from
from utils.observe.trace import Event, Timeline

HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&amp; \x1b[31mred\x1b[0m \x1b]0;title\x07 nul\x00 "
    "\u202egnirts\u202c \u2066x\u2069 🙂👩‍🔬 é \ud800 </pre></details>"
)


class Reader(HTMLParser):
    """The elements of a page, and whether each that was opened is closed."""

    def __init__(self, page):
        super().__init__()
        self.opened, self.elements = [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in ("meta", "img", "br", "input"):
            self.opened.append(tag)

    def handle_endtag(self, tag):
        assert self.opened.pop() == tag


def is_harmless(page):
    read = Reader(page)
    assert read.opened == []
    assert {tag for tag, _ in read.elements}.isdisjoint({"script", "iframe", "object", "link", "form", "base", "svg"})
    for tag, attributes in read.elements:
        assert not [name for name in attributes if name.startswith("on")]
        assert tag != "img" or attributes["src"].startswith("data:image/png;base64,")
        assert not re.match(r"\s*(javascript|https?|//)", attributes.get("href") or "")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800]", page)
    assert "url(" not in page
    assert "default-src 'none'" in page
    return True


def a_lab():
    lab = Lab("lab77", "Knit a scarf")
    for name, points, title in (("ex1", 2, "Cast on"), ("ex2", 3, "Purl")):
        exercise = lab.exercise(
            name, points=points, title=title, hints=[f"{name} think", f"{name} look", f"{name} try"]
        )
        for claim in ("the needle is there", "the wool is there", "a secret third thing"):
            exercise.fact(claim)(lambda student: None)
    return lab


def a_grade(**changes):
    findings = {
        "ex1": [Finding("the needle is there", True), Finding("the wool is there", True), Finding("a third", True)],
        "ex2": [Finding("the needle is there", True), Finding("the wool is there", False, "There is no wool.\nNone.")],
    }
    return Grade(
        **{"student": "Ann Lee", "status": "ok", "points": {"ex1": 2, "ex2": 0}, "findings": findings} | changes
    )


def a_timeline(**changes):
    copy = Event("simgpu:0", 0, "copy", "d2d", "forward", 0.4, 0.5, other="simgpu:1")
    kernels = [Event(f"simgpu:{n}", 0, "mm", "kernel", "forward", n / 2, n / 2 + 0.4, label="0") for n in (0, 1)]
    timeline = Timeline(("simgpu:0", "simgpu:1"), (*kernels, copy), 0.0, 1.0, "simulated: 2 x V100")
    return json.loads(json.dumps(asdict(timeline))) | changes


def test_the_text_says_points_facts_and_hints():
    text = student_text(a_grade(), a_lab())
    assert text.startswith("Knit a scarf (lab77), Ann Lee: 2 of 5 points\n")
    assert "ex1  2 / 2  Cast on\n  yes  the needle is there" in text
    assert "  NO   the wool is there\n       There is no wool.\n       None.\n" in text
    assert "1 more fact was not looked at." in text
    assert text.index("None.") < text.index("Hints.") < text.index("1 of 3: ex2 think") < text.index("3 of 3: ex2 try")
    assert "ex1 think" not in text  # nothing failed there
    assert "a secret third thing" not in text


def test_the_page_says_the_same_and_its_hints_unfold_one_in_the_other():
    page = student_page(a_grade(), a_lab())
    assert is_harmless(page)
    for words in ("Knit a scarf", "Ann Lee", "2 / 2", "0 / 3", "There is no wool.", "1 more fact was not looked at."):
        assert words in page
    assert re.search(r">2 <small>of 5 points", page)
    assert page.count("<details") == 3
    assert "<details open" not in page
    assert re.search(r"Hint 1 of 3</summary><p>ex2 think</p><details><summary>Hint 2 of 3</summary>", page)
    assert "ex1 think" not in page
    assert "a secret third thing" not in page
    assert student_page(a_grade(), a_lab()) == page


@pytest.mark.parametrize("status", [*STATUSES, "a status of tomorrow"])
def test_every_status_is_told_in_words(status):
    grade = a_grade(status=status, note="code cell 3: it broke", findings={}, points={"ex1": 0, "ex2": 0})
    for told in (student_page(grade, a_lab()), student_text(grade, a_lab())):
        assert status == "ok" or IN_WORDS.get(status, "a status of tomorrow") in told
        assert status == "ok" or "code cell 3: it broke" in told
    assert set(IN_WORDS) >= set(STATUSES)


def test_what_was_not_graded_is_not_a_zero():
    grade = a_grade(status="not-graded", findings={}, points={"ex1": 0, "ex2": 0})
    assert "not graded yet" in student_text(grade, a_lab())
    assert "not graded yet" in student_page(grade, a_lab())


def test_hostile_text_is_only_text():
    findings = {"ex1": [Finding("the needle is there", False, HOSTILE)]}
    grade = a_grade(student=HOSTILE, status="error", note=HOSTILE, findings=findings)
    page, text = student_page(grade, a_lab()), student_text(grade, a_lab())
    assert is_harmless(page)
    assert "&lt;script&gt;alert(1)" in page
    assert "👩‍🔬" in page
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800]", text)
    text.encode("utf-8")


def test_a_long_text_is_cut_and_costs_nothing():
    findings = {"ex1": [Finding("the needle is there", False, "y" * 50_000_000)]}
    grade = a_grade(student="n" * 10**6, status="error", note="x" * 10**6 + "\n" * 10**6, findings=findings)
    page, text = student_page(grade, a_lab()), student_text(grade, a_lab())
    assert len(page) < 20_000
    assert len(text) < 10_000
    assert "cut off here" in page
    assert "cut off here" in text


def test_clean_keeps_what_is_text():
    assert clean("a\r\nb\tc é 漢 🙂") == "a\nb\tc é 漢 🙂"
    assert clean("a" * 10, 4) == "aaaa … (cut off here)"


# --- timelines ----------------------------------------------------------------------------------------------------


def test_the_students_own_timeline_is_drawn_with_its_words():
    grade = a_grade(timelines={"ex2": a_timeline()})
    page = student_page(grade, a_lab())
    assert is_harmless(page)
    images = [attributes for tag, attributes in Reader(page).elements if tag == "img"]
    assert len(images) == 1
    assert "simgpu:1: forward from 500 to 900 ms" in images[0]["alt"]
    words = "Your own answer at work: simgpu:0 works 40%, simgpu:1 works 40% of 1e+03 ms (simulated: 2 x V100)."
    assert words in page
    assert words in student_text(grade, a_lab())
    assert student_page(grade, a_lab()) == page


EVENT = ["simgpu:0", 0, "mm", "kernel", "forward", 0.0, 0.4, None, 0, 0, None, "", ""]


def changed(place, value):
    return {"events": [[*EVENT[:place], value, *EVENT[place + 1 :]]]}


@pytest.mark.parametrize(
    "change",
    [
        {"devices": []},
        {"devices": ["simgpu:0"] * 2},
        {"devices": [f"simgpu:{n}" for n in range(9)]},
        {"devices": ["$\\frac{$", "simgpu:1"]},
        {"devices": "simgpu:0"},
        {"devices": ["x" * 1000, "simgpu:0", "simgpu:1"]},
        {"events": [EVENT] * 5000},
        {"events": [[]]},
        {"events": [*EVENT, 1]},
        {"events": None},
        {"begin": float("nan")},
        {"end": 10**400},
        {"end": "1"},
        {"begin": 2.0},
        {"source": None},
        {"source": "测"},
        changed(0, "simgpu:7"),
        changed(0, None),
        changed(3, "party"),
        changed(4, "party"),
        changed(5, -1.0),
        changed(5, True),
        changed(6, float("inf")),
        changed(10, {}),
        changed(12, "$x$"),
        {"events": [[*EVENT[:12], str(n)] for n in range(100)]},
    ],
)
def test_malformed_timelines_give_no_picture(change):
    data = a_timeline(**change)
    assert timeline_from(data) is None
    page = student_page(a_grade(timelines={"ex2": data}), a_lab())
    assert "<img" not in page


@pytest.mark.parametrize("data", [None, [], "x", 3, {}, {"devices": {"a": 1}}])
def test_what_is_no_timeline_at_all_gives_no_picture(data):
    assert timeline_from(data) is None


def test_the_largest_timeline_is_drawn_in_a_moment():
    steps = [["simgpu:0", 0, "mm", "kernel", "forward", n / 4000, (n + 0.4) / 4000] for n in range(4000)]
    rows = [[*step, None, 0, 0, None, "", str(n % 60)] for n, step in enumerate(steps)]
    begin = time.process_time()
    assert "<img" in student_page(a_grade(timelines={"ex2": a_timeline(events=rows)}), a_lab())
    assert time.process_time() - begin < 60  # bounded, on any machine


def test_the_timeline_of_lab_05_is_that_of_the_students_own_model():
    simgpu.enable(count=2)
    lab = load_lab("lab05")
    findings = {"ex5": [Finding("some fact", True)]}
    student = LocalStudent(run_here(notebook_with("lab05", {})), ["simgpu:0", "simgpu:1"])
    recorded = timeline_from(recorded_timelines(lab, student, findings)["ex5"])
    assert recorded.source.startswith("simulated: ")
    assert 0.1 < recorded.utilization()["simgpu:1"] < 0.9
    assert 0.1 < recorded.utilization()["simgpu:0"] < 0.9
    assert recorded_timelines(lab, student, {}) == {}  # nothing of it was judged


def test_where_something_crashed_an_answer_of_which_nothing_holds_is_not_run_again():
    lab = a_lab()
    for exercise in lab.exercises.values():
        exercise.timeline(lambda student: {"recorded": True})
    findings = {"ex1": [Finding("a fact", True), Finding("another", False)], "ex2": [Finding("a fact", False)]}
    assert list(recorded_timelines(lab, SimpleNamespace(worst="crash"), findings)) == ["ex1"]
    assert list(recorded_timelines(lab, SimpleNamespace(worst="error"), findings)) == ["ex1", "ex2"]


def test_a_timeline_that_is_deep_or_large_is_not_kept_with_the_grade():
    deep = a_timeline()
    for _ in range(600):
        deep = {"devices": [deep]}
    kept = _small({"ex1": a_timeline(), "ex2": deep, "ex3": {"devices": ["x" * 1_000_001]}, "ex4": {"begin": object()}})
    assert kept == {"ex1": a_timeline()}
    grade = a_grade(timelines=kept)
    assert Grade.from_dict(json.loads(json.dumps(grade.to_dict(), indent=1))) == grade


@pytest.mark.parametrize("error", [StudentError("no"), KeyError("timeline"), TypeError("no")])
def test_an_answer_that_cannot_be_recorded_has_no_timeline(error):
    lab = a_lab()

    @lab.exercises["ex1"].timeline
    def _(student):
        raise error

    lab.exercises["ex2"].timeline(lambda student: "not a dict")
    holds = [Finding("a fact", True)]
    assert recorded_timelines(lab, None, {"ex1": holds, "ex2": holds}) == {}


TELL = ROOT / "utils" / "grading" / "tell"


def test_what_a_template_shows_is_text_whatever_the_template_says():
    template = '{% macro it() %}{{ x }}{% endmacro %}<p title="{{ x }}">{{ x|clean(9) }}{{ [x]|first }}{{ it() }}</p>'
    shown = TEMPLATES.from_string(template).render(x=HOSTILE)
    assert [tag for tag, _ in Reader(shown).elements] == ["p"]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800]", shown)
    assert shown.count("&lt;img src=x") == 3
    assert len(TEMPLATES.from_string(template).render(x="y" * 10**6)) < 3.1 * LONGEST
    with pytest.raises(UndefinedError):
        TEMPLATES.from_string("{{ y }}").render(x=1)


@pytest.mark.parametrize("path", [*TELL.glob("*.py"), *TELL.glob("templates/*")], ids=lambda path: path.name)
def test_the_pages_code_has_no_script_and_no_address_in_it(path):
    odd = {"<script", "http://", "https://", "|safe", "autoescape false"}
    found = {one for one in odd if one in path.read_text()}
    assert found == ({"<script"} if path.name == "words.html" else set())  # see test_words.py
