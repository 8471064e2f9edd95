"""A lesson as it is stored, and as a code host shows it, answers none of its questions."""

import re

import nbformat
import pytest

from tests.support.notebooks import ROOT
from utils.common.cell_tags import FOLDED, PREDICTED
from utils.widgets.explanations import explanation

LESSONS = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))
EACH = pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem[:2])
ASKS, COMPARES = re.compile(r"(\w+) = predict\("), re.compile(r"(\w+)\.compare\(")
WHY = re.compile(r'(\w+) = predict\(.*?\bwhy="(\d+/\d+)"', re.DOTALL)
HEADING, PICTURE = re.compile(r"^#+ ", re.MULTILINE), re.compile(r"!\[[^]]*\]\(")


def cells_of(path):
    return nbformat.read(path, as_version=4).cells


def tagged(cell):
    return PREDICTED in cell.metadata.get("tags", [])


@EACH
def test_a_cell_that_tells_results_of_predictions_is_tagged(path):
    for cell in cells_of(path):
        if cell.cell_type == "code" and (COMPARES.search(cell.source) or re.search(r"^predictions\(\)", cell.source)):
            assert tagged(cell), cell.id


@EACH
def test_no_output_that_is_stored_open_tells_a_result(path):
    for cell in cells_of(path):
        for output in cell.get("outputs", []):
            if not output.get("metadata", {}).get(FOLDED):
                text = output.get("text", "") + str(output.get("data", ""))
                assert not re.search(r"\b[Ii]t is: ", text), cell.id


@EACH
def test_a_stored_answer_ends_with_the_explanation_of_today(path):
    cells = [cell for cell in cells_of(path) if cell.cell_type == "code"]
    names = dict(pair for cell in cells for pair in WHY.findall(cell.source))
    assert names
    for cell in cells:
        folded = [output for output in cell.outputs if output.get("metadata", {}).get(FOLDED)]
        for question in set(COMPARES.findall(cell.source)) if folded else ():
            assert any(explanation(names[question]) in output.data["text/markdown"] for output in folded), cell.id
    for name in names.values():
        assert not re.match(r"\d+\. ", explanation(name)), f"Markdown makes a list of {name}"


@EACH
def test_no_picture_stands_open_beside_a_question(path):
    """From the question to the words that follow its result: there a picture shows what was asked for."""
    cells = cells_of(path)
    asked = [number for number, cell in enumerate(cells) if cell.cell_type == "code" and ASKS.search(cell.source)]
    assert asked
    for start in asked:
        open_questions = set(ASKS.findall(cells[start].source))
        for cell in cells[start + 1 :]:
            if cell.cell_type == "markdown":
                before_a_heading = HEADING.split(cell.source)[0]
                assert not PICTURE.search(before_a_heading), cell.id
                if not open_questions:
                    break
            elif not tagged(cell):
                kinds = {kind for output in cell.outputs for kind in output.get("data", {})}
                assert not open_questions or not {"image/png", "image/svg+xml"} & kinds, cell.id
            else:
                open_questions -= set(COMPARES.findall(cell.source))
