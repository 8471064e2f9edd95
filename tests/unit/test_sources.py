"""docs/sources.md: each row says how another person has checked it, and leads to cells and tests that exist."""

import json
import re

import pytest

from tests.support.notebooks import ROOT

PAGE = ROOT / "docs" / "sources.md"
IN_ONE_PROCESS = ROOT / "tests" / "unit" / "test_claims_pytorch.py"
ON_RANKS = ROOT / "tests" / "process_groups" / "claims.py"
CHECKED = re.compile(r"20\d\d-\d\d-\d\d (run|source|page): \S|not checked: \S")


def tables():
    """(heading, row as a list of cells) of each row below each heading, without the tables' own headings."""
    heading = ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            heading = line[3:]
        elif line.startswith("| ") and not line.startswith(("| ---", "| where |", "| what it says | here")):
            yield heading, [cell.strip() for cell in line.strip("| ").split(" | ")]


ROWS = list(tables())
CLAIMS = {
    name: re.findall(r'"([^"]+)"', places)
    for path in (IN_ONE_PROCESS, ON_RANKS)
    for places, name in re.findall(r"^@claim\(((?:.|\n)*?)\)\ndef (\w+)", path.read_text(), re.MULTILINE)
}


@pytest.mark.parametrize("heading", sorted({heading for heading, _ in ROWS}))
def test_each_claim_says_how_it_was_checked_by_another_person(heading):
    columns = 3 if heading.startswith("The article") else 4
    for row in [row for where, row in ROWS if where == heading]:
        assert len(row) == columns, row
        assert CHECKED.match(row[-1]), row


def test_the_tests_that_are_named_exist():
    named = {name for _, row in ROWS for name in re.findall(r"`([a-z_0-9]{25,})`", row[-1])}
    assert named, "no row names a test"
    assert named <= CLAIMS.keys(), named - CLAIMS.keys()


def cells():
    """The places that a claim can name: `01: cell`, `lab01: cell`, `explanation 01/2`, `simgpu.md`."""
    notebooks = [*(ROOT / "notebooks").glob("[0-9]*.ipynb"), *(ROOT / "solutions").glob("lab*/*.ipynb")]
    for path in notebooks:
        for cell in json.loads(path.read_text())["cells"]:
            for name in (cell["id"], cell["metadata"].get("nbgrader", {}).get("grade_id", "")):
                yield f"{path.name.split('_')[0]}: {name}"
    for path in (ROOT / "utils" / "widgets" / "explained").glob("*.md"):
        yield from (f"explanation {path.stem}/{number}" for number in re.findall(r"^## (\d+)", path.read_text(), re.M))
    yield from (path.name for path in (ROOT / "docs").glob("*.md"))


def test_claims_stand_where_their_tests_say():
    there = set(cells())
    assert {place for places in CLAIMS.values() for place in places} <= there, {
        name: gone for name, places in CLAIMS.items() if (gone := set(places) - there)
    }


def test_links_lead_to_cells_that_exist():
    gone = []
    for path, anchor in re.findall(r"\]\(\.\./([^)#]+\.ipynb)#([^)]+)\)", PAGE.read_text()):
        ids = {
            name
            for cell in json.loads((ROOT / path).read_text())["cells"]
            for name in (cell["id"], cell["metadata"].get("nbgrader", {}).get("grade_id"))
        }
        if anchor not in ids:
            gone.append(f"{path}#{anchor}")
    assert not gone
