"""Notebooks as files: run a lesson and keep its outputs, in a form that reads well on a code host."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from utils.common.cell_tags import FOLDED, PREDICTED
from utils.common.errors import Problem
from utils.common.files import python_path
from utils.common.notebook_format import nbformat
from utils.common.settings import WIDGETS

HERE = "what is between is PyTorch's own code"


def refresh(path: Path, seconds: int = 120) -> None:
    """Run a notebook from top to bottom and store its outputs in it.

    Raises Problem, and leaves the file as it is, where a cell raises that is not meant to (tag `raises-exception`).
    """
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=seconds, kernel_name="python3", resources={"metadata": {"path": path.parent}}
    )
    try:
        # Widgets as text: a stored one has no kernel to show it.
        client.execute(env={**os.environ, WIDGETS: "0", "PYTHONPATH": python_path(sys.path)})
    except CellExecutionError as error:
        raise Problem(f"{path.name}: {error.ename}: {error.evalue}") from None
    path.write_text(nbformat.writes(tidy(notebook)) + "\n", encoding="utf-8")


def tidy(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Take out what differs between two runs or machines, and what answers a prediction."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if PREDICTED in cell.metadata.get("tags", []):
            # Its output would answer before the question. What is folded shows nothing.
            cell.outputs = [output for output in cell.outputs if output.get("metadata", {}).get(FOLDED)]
            if not cell.outputs:  # with outputs and no count nbval takes a cell for one that never ran
                cell.execution_count = None
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                output.traceback = _short(output.traceback)
    return notebook


def _short(traceback: list[str]) -> list[str]:
    """The heading, the student's own frame, and the last line: the frames between hold this machine's paths."""
    if len(traceback) <= 4:
        return traceback
    return [*traceback[:3], f"    [... {HERE} ...]\n", traceback[-1]]
