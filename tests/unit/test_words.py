"""The page on which an instructor gives points for answers in words: one script, the course's own, and nothing else."""

import base64
import hashlib
import re

from tests.unit.test_feedback import HOSTILE, Reader, a_lab
from tests.unit.test_marking import made
from utils.exercises.facts import load_lab
from utils.grading.marking.mark import InWords
from utils.grading.tell.words import words_page

ANSWER = {"words": "Because <b>one</b> waits."}
CLASS = [
    made("cem", free_text={"words": "YOUR ANSWER HERE"}),
    made("bob", free_text=ANSWER),
    made("Ann;=1", free_text={"words": HOSTILE}),
]


def test_every_answer_stands_beside_a_field_for_its_points():
    page = words_page(CLASS, load_lab("lab01"), ["words"])
    cards = [a for tag, a in Reader(page).elements if "data-student" in a]
    assert [(card["data-student"], card["data-question"]) for card in cards] == [("Ann;'=1", "words"), ("bob", "words")]
    assert "Because &lt;b&gt;one&lt;/b&gt; waits." in page
    assert "the last copy can go" in page, "the rubric"
    assert "This question counts to" in page
    assert words_page(CLASS[::-1], load_lab("lab01"), ["words"]) == page


def test_points_of_an_earlier_file_are_filled_in():
    marked = [
        made("ann", free_text=ANSWER, in_words={"words": InWords(1.5, 3, 'no "labels"')}),
        made("bob", in_words={"words": InWords(0, 3)}),
        made("cem", in_words={"words": InWords(0, 3, "on paper")}),
    ]
    page = words_page(marked, a_lab(), ["words"])
    fields = [a for tag, a in Reader(page).elements if tag == "input"]
    assert [a.get("value") for a in fields] == ["3", "1.5", 'no "labels"', "0", "on paper"]
    assert [a["max"] for a in fields if a.get("name") == "points"] == ["3", "3"]


def test_the_only_script_is_the_courses_own():
    page = words_page(CLASS, a_lab(), ["words"])
    read = Reader(page)
    assert [tag for tag, _ in read.elements].count("script") == 1
    assert {tag for tag, _ in read.elements}.isdisjoint({"iframe", "object", "link", "form", "base", "svg", "img"})
    assert not [name for _, attributes in read.elements for name in attributes if name.startswith("on")]
    script = re.search(r"<script>(.*?)</script>", page, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'" in page
    assert not re.search(r"fetch|XMLHttpRequest|innerHTML|eval|https?:", script)


def test_there_is_no_page_where_nothing_was_answered():
    assert words_page(CLASS[:1], a_lab(), ["words"]) == ""
    assert words_page(CLASS, a_lab(), []) == ""
    assert words_page([], a_lab(), ["words"]) == ""
