"""The instructor's guide: the cells that it names exist, and its page of misconceptions is fresh."""

import re

import nbformat
import pytest

from tests.support.misconceptions import PAGE, WRITE_AGAIN, page
from tests.support.notebooks import ROOT

GUIDE = (ROOT / "docs" / "instructors.md").read_text()
CELLS = sorted(set(re.findall(r"\(\.\./((?:notebooks|solutions)/\S+?\.ipynb)#([\w-]+)\)", GUIDE)))


@pytest.mark.parametrize(("path", "cell"), CELLS)
def test_a_named_cell_exists(path, cell):
    notebook = nbformat.read(ROOT / path, as_version=4)
    assert cell in {c.id for c in notebook.cells} | {
        c.metadata.get("nbgrader", {}).get("grade_id") for c in notebook.cells
    }


def test_the_map_of_practical_8_leaves_nothing_out():
    mapped = GUIDE.partition("## Where Practical 8 went")[2].partition("## What the graders catch")[0]
    rows = re.findall(r"^\| (.+?) \| (.*?) ?\|$", mapped, re.MULTILINE)[2:]
    assert len(rows) >= 15
    assert all("](../" in where for _, where in rows), [what for what, where in rows if "](../" not in where]


def test_the_page_of_misconceptions_is_what_the_tables_give():
    """The tables are compared with what is judged in grading/test_answers.py."""
    assert PAGE.read_text() == page(), WRITE_AGAIN
