"""A lab's cells as students run them: an answer, a wrong one, the right one again. They show the same of it each time.

In a kernel, in the lab's order. Before each try the random numbers begin again.
"""

import re

import nbformat
import pytest
from nbclient import NotebookClient

from tests.support.answers import answers_of
from tests.support.notebooks import LABS, grade_id, notebook_with, source_of
from tests.support.tiers import THOROUGH
from tools.nbval_kernels import kernel_manager
from utils.common.settings import WIDGETS

pytestmark = pytest.mark.slow
START = "import random as _random, torch as _torch; _random.seed(0); _torch.manual_seed(0)"
ADDRESS, DECIMALS = re.compile(r"0x[0-9a-f]+"), re.compile(r"\d+\.\d+(?:e-?\d+)?")
DIFFER = {
    "lab04-ex2-run": "It times this machine: by chance one try in 24 sees a difference where there is none.",
    "lab05-ex4-run": "Parameters whose hooks know them are not freed. The picture's heading says how much they hold.",
}


def tries(lab):
    """[(name, source)] of the cells in the order of a student, and the names of those to compare, by cell."""
    wrong = {}
    for one in answers_of(lab, "wrong"):
        wrong.setdefault(one.exercise, one.code)
    cells = [cell for cell in notebook_with(lab, {}).cells if cell.cell_type == "code"]
    names = [grade_id(cell) for cell in cells]
    order, compared = [], {}
    begin = min(names.index(exercise) for exercise in wrong)
    order += [(cell.id, cell.source) for cell in cells[:begin]]
    starts = [number for number, name in enumerate(names) if name in wrong]
    for start, end in zip(starts, [*starts[1:], len(cells)], strict=True):
        answer, between = cells[start], cells[start + 1 : end]
        shown = [cell for cell in between if not cell.source.startswith(("check(", "### BEGIN HIDDEN"))]
        for name, source in (("first", answer.source), ("wrong", wrong[names[start]]), ("again", answer.source)):
            order.append((f"{answer.id} {name}", source))
            for cell in shown:
                order += [("", START), (f"{cell.id} {name}", cell.source)]
        for cell in shown:
            order += [("", START), (f"{cell.id} once more", cell.source)]
            compared[cell.id] = [f"{cell.id} {name}" for name in ("first", "again", "once more")]
    return order, compared


def outputs(cell) -> str:
    parts = []
    for output in cell.outputs:
        assert output.output_type != "error", f"{cell.source}\n{output.ename}: {output.evalue}"
        parts.append(output.text if output.output_type == "stream" else output.data.get("text/plain", ""))
    text = ADDRESS.sub("0x", "".join(parts))
    return DECIMALS.sub(lambda found: f"{float(found[0]):.6g}", text)  # times far from 0 have fewer digits


FIRST = ("lab01",)  # in `make test`. Others take up to a minute.


@pytest.mark.parametrize("lab", [lab if lab in FIRST else pytest.param(lab, marks=THOROUGH) for lab in LABS])
def test_a_right_answer_is_shown_the_same_after_a_wrong_one_and_once_more(lab, monkeypatch):
    monkeypatch.setenv(WIDGETS, "0")
    order, compared = tries(lab)
    cells = [nbformat.v4.new_code_cell(source) for _, source in order]
    place = {"metadata": {"path": str(source_of(lab).parent)}}
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, km=kernel_manager(), timeout=300, allow_errors=True, resources=place).execute()
    ran = {name: cell for (name, _), cell in zip(order, notebook.cells, strict=True) if name}
    for cell in sorted(compared.keys() - DIFFER.keys()):
        first, *others = [outputs(ran[name]) for name in compared[cell]]
        for other in others:
            assert other.splitlines() == first.splitlines(), cell
