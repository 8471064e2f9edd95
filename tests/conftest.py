"""What several test files need: a lab's notebook, run here without a kernel."""

import os
from pathlib import Path

# One thread a process: the tests run in as many processes as there are cores, and start kernels of their own.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import nbformat
import pytest

ROOT = Path(__file__).resolve().parent.parent
LABS = sorted(path.parent.name for path in (ROOT / "solutions").glob("lab*/lab*.ipynb"))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """pytest-xdist 3.8 writes a test's group where pytest 9.2 does not look: groups had no effect."""
    for item in items:
        if "@" in getattr(item, "_nodeid", "") and hasattr(item, "_id"):
            item._id = type(item._id).parse(item._nodeid)


@pytest.fixture(autouse=True)
def simulated_devices(monkeypatch):
    """Tests give the same result on every machine, also on one with GPUs."""
    monkeypatch.setenv("COURSE_DEVICES", "simulated")


def source_of(lab: str) -> Path:
    return next((ROOT / "solutions" / lab).glob("lab*.ipynb"))


def grade_id(cell) -> str:
    return cell.metadata.get("nbgrader", {}).get("grade_id", "")


def notebook_with(lab: str, answers: dict[str, str]) -> nbformat.NotebookNode:
    """A lab as a student hands it in: the model answers, with those in `answers` put in place of them."""
    notebook = nbformat.read(source_of(lab), as_version=4)
    unused = dict(answers)
    for cell in notebook.cells:
        cell.source = unused.pop(grade_id(cell), cell.source)
    assert not unused, f"{lab} has no cell for {list(unused)}"
    return notebook


def run_here(notebook: nbformat.NotebookNode) -> dict:
    """The namespace after running every code cell; a cell that raises is left as far as it came, as in a kernel."""
    namespace = {"__name__": "__main__"}
    before = os.environ.get("COURSE_GRADING")
    os.environ["COURSE_GRADING"] = "1"
    try:
        for number, cell in enumerate(notebook.cells):
            if cell.cell_type == "code":
                try:
                    exec(compile(cell.source, f"<cell {number}>", "exec"), namespace)
                except Exception as error:
                    namespace.setdefault("errors", []).append(error)
    finally:
        if before is None:
            del os.environ["COURSE_GRADING"]
    return namespace
