"""A lab's notebook, with some answers put in, and running it here without a kernel."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from utils.common.files import ROOT
from utils.common.notebook_format import nbformat

LABS = sorted(path.parent.name for path in (ROOT / "solutions").glob("lab*/lab*.ipynb"))


def source_of(lab: str) -> Path:
    return next((ROOT / "solutions" / lab).glob("lab*.ipynb"))


def grade_id(cell: nbformat.NotebookNode) -> str:
    return cell.metadata.get("nbgrader", {}).get("grade_id", "")


def notebook_with(lab: str, answers: dict[str, str]) -> nbformat.NotebookNode:
    """A lab as a student hands it in: the model answers, with those in `answers` put in place of them."""
    notebook = nbformat.read(source_of(lab), as_version=4)
    unused = dict(answers)
    for cell in notebook.cells:
        cell.source = unused.pop(grade_id(cell), cell.source)
    assert not unused, f"{lab} has no cell with the grade_id {' or '.join(unused)} (in the cell's metadata)"
    return notebook


def run_here(notebook: nbformat.NotebookNode) -> dict:
    """The namespace after running every code cell."""
    cells = enumerate(notebook.cells)
    return run_cells((number, cell.source) for number, cell in cells if cell.cell_type == "code")


def run_cells(cells: Iterable[tuple[int, str]]) -> dict:
    """The namespace after running these cells; one that raises is left as far as it came, as in a kernel."""
    namespace = {"__name__": "__main__"}
    before = os.environ.get("COURSE_GRADING")
    os.environ["COURSE_GRADING"] = "1"
    try:
        for number, source in cells:
            try:
                exec(compile(source, f"<cell {number}>", "exec"), namespace)
            except Exception as error:
                namespace.setdefault("errors", []).append(error)
    finally:
        if before is None:
            del os.environ["COURSE_GRADING"]
    return namespace
