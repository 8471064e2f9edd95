"""The instructor's guide: the cells that it names exist, and every misconception is in its table."""

import ast
import re

import nbformat
import pytest
from conftest import ROOT

GUIDE = (ROOT / "docs" / "instructors.md").read_text()
CELLS = sorted(set(re.findall(r"\(\.\./((?:notebooks|solutions)/\S+?\.ipynb)#([\w-]+)\)", GUIDE)))
WRONG = sorted((ROOT / "tests").glob("lab*/answers/wrong_*.py"))


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


@pytest.mark.parametrize("path", WRONG, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_every_misconception_is_in_the_table(path):
    first = ast.get_docstring(ast.parse(path.read_text())).split("\n\n")[0]
    line = re.sub(r"\s+", " ", first).replace("|", "\\|").strip()
    assert f"| {line} |" in GUIDE, "write it anew: .venv/bin/python tests/grading/misconceptions.py"
    assert "not caught" not in GUIDE
