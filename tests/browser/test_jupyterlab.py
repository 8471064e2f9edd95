"""A student's way through the course in a real browser: open the lessons, run them, solve an exercise, check it."""

import re
import sys

import pytest

from tests.support.notebooks import ROOT, grade_id, notebook_with
from tests.support.tiers import THOROUGH

# nbval runs every lesson. In a browser run again: the first that a student opens, and those with a live view in them.
# (The questions of `predict`, which all have, are clicked in test_widgets.py, and the explorer of lesson 07 is moved.)
LESSONS = [
    path.name
    for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))
    if path.name.startswith("00") or re.search(r"\blive\(", path.read_text(encoding="utf-8"))
]

pytestmark = [
    pytest.mark.xdist_group("browser"),  # one JupyterLab for all, where the tests run in several processes
    pytest.mark.skipif(
        not sys.platform.startswith("linux"), reason="the browser tests use Debian's chromium: run them on Linux"
    ),
]


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    from tests.browser.lab import copy_of_the_course, jupyterlab

    with jupyterlab(copy_of_the_course(tmp_path_factory.mktemp("course"))) as url:
        yield url


@pytest.fixture
def page():
    from tests.browser.lab import browser_page, end_kernels

    with browser_page() as page:
        yield page
        end_kernels(page)


# `make test` has the first: nbval runs the others, and test_widgets.py the live view.
@pytest.mark.parametrize("lesson", [LESSONS[0], *(pytest.param(lesson, marks=THOROUGH) for lesson in LESSONS[1:])])
def test_a_lesson_runs_from_top_to_bottom(page, address, lesson):
    from tests.browser.lab import open_notebook, run_all, screenshot, what_is_wrong

    open_notebook(page, address, f"notebooks/{lesson}")
    ran = [cell for cell in run_all(page) if cell["type"] == "code"]
    assert ran
    for cell in ran:
        assert not what_is_wrong(cell)
    screenshot(page, lesson.removesuffix(".ipynb"))


def test_the_pictures_of_a_lesson_are_shown(page, address):
    from tests.browser.lab import open_notebook, screenshot

    open_notebook(page, address, "notebooks/19_what_to_do_with_n_gpus.ipynb")
    picture = page.locator(".jp-RenderedMarkdown img").first
    picture.wait_for()
    page.wait_for_function("element => element.complete", arg=picture.element_handle())
    assert picture.evaluate("element => element.naturalWidth") > 0
    assert "decision diagram" in picture.get_attribute("alt")
    screenshot(page, "14_top")


def test_a_student_solves_an_exercise_and_checks_it(page, address):
    from tests.browser.lab import open_notebook, screenshot

    open_notebook(page, address, "labs/lab01/lab01_split_a_model.ipynb")

    def run(cell_id, source=None):
        """Put `source` into a cell, run it, and wait for it; returns the texts of its outputs."""
        return page.evaluate(
            """async ([id, source]) => {
                const panel = window.jupyterapp.shell.currentWidget, notebook = panel.content;
                const index = notebook.widgets.findIndex(cell => cell.model.id === id);
                notebook.activeCellIndex = index;
                if (source !== null) notebook.activeCell.model.sharedModel.setSource(source);
                await window.jupyterapp.commands.execute('notebook:run-cell');
                notebook.scrollToItem(index, 'center');
                return notebook.activeCell.model.sharedModel.toJSON().outputs.map(
                    o => o.text || o.evalue || (o.data || {})['text/plain'] || o.ename);
            }""",
            [cell_id, source],
        )

    assert "simulated" in "".join(run("lab01-setup"))
    run("lab01-ex1")
    assert "not written yet" in "".join(run("lab01-ex1-check"))
    verdict = page.locator(".jp-RenderedHTMLCommon details").first
    assert verdict.locator("summary").first.inner_text() == "Hint 1 of 3"
    verdict.locator("summary").first.click()
    assert verdict.get_by_text("Hint 2 of 3").is_visible()
    assert not verdict.get_by_text("Hint 3 of 3").is_visible()
    screenshot(page, "lab01_hint")

    answer = next(cell.source for cell in notebook_with("lab01", {}).cells if grade_id(cell) == "ex1")
    run("lab01-ex1", answer)
    assert "ex1 passed" in "".join(run("lab01-ex1-check"))
    screenshot(page, "lab01_passed")
