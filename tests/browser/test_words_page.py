"""Points for answers in words, given in a browser without a network: the file that it saves is read as it was meant."""

import sys

import pytest

from tests.unit.test_feedback import HOSTILE
from tests.unit.test_marking import made
from utils.exercises.facts import load_lab
from utils.grading.marking.by_hand import Students
from utils.grading.marking.mark import InWords
from utils.grading.marking.words import read_words
from utils.grading.run.submissions import Submission
from utils.grading.tell.words import words_page

pytestmark = [
    pytest.mark.xdist_group("browser"),
    pytest.mark.skipif(
        not sys.platform.startswith("linux"), reason="the browser tests use Debian's chromium: run them on Linux"
    ),
]
NAMES = ['Ann "Ada" Lee', "Bo;=1+1", "Zoë, the 2nd", "=Cy"]


def test_points_are_given_downloaded_and_read(tmp_path):
    from tests.browser.lab import browser_page

    marks = [made(name, free_text={"words": HOSTILE}) for name in NAMES]
    path = tmp_path / "words.html"
    path.write_text(words_page(marks, load_lab("lab01"), ["words"]), encoding="utf-8")
    errors = []
    with browser_page(offline=True, accept_downloads=True) as page:
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("dialog", lambda dialog: errors.append(dialog.message))
        page.goto(path.as_uri())
        assert page.locator("#count").inner_text() == "0 of 4 have points"
        page.get_by_label("This question counts to").fill("3")
        for name, points in zip(NAMES, ("3", "0", "1.5"), strict=False):
            card = page.locator(".card", has_text=name)
            card.get_by_label("Points").fill(points)
            card.get_by_label("Reason").fill(f'For "{points}", see; lesson 02')
        assert page.locator("#count").inner_text() == "3 of 4 have points"
        with page.expect_download() as download:
            page.get_by_role("button", name="Download words.csv").click()
        assert download.value.suggested_filename == "words.csv"
        download.value.save_as(tmp_path / "words.csv")
        page.locator(".card", has_text=NAMES[0]).get_by_label("Points").fill("4")  # of 3
        page.get_by_role("button", name="Download words.csv").click()
        assert page.evaluate("document.activeElement.matches('[name=points]:invalid')"), "what is wrong has the focus"
    assert errors == []
    students = Students([Submission(name, None) for name in NAMES])
    found = read_words(tmp_path / "words.csv", students, ["words"])
    assert found.of == {"words": 3}
    assert {student: one.points for (student, _), one in found.given.items()} == dict(
        zip(NAMES, (3, 0, 1.5), strict=False)
    )
    assert found.given[NAMES[2], "words"] == InWords(1.5, 3, 'For "1.5", see; lesson 02')
