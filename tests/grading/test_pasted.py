"""No point of a lab can be had by pasting: what lessons show and work out, under the name that an exercise asks for.

Every function and class of the lessons up to a lab's own, and of their working versions, is tried as the answer to each
of its exercises, judged as in the grade. A lesson's other lines are not tried: an answer is a function or a class.
`make test` tries what the lab's own lesson has and the one before it, and `make test-more` what all earlier ones have.
"""

import ast
import contextlib

import nbformat
import pytest

from tests.support.notebooks import LABS, ROOT, run_here, source_of
from tests.support.tiers import THOROUGH
from utils.course.release import student_notebook
from utils.exercises.facts import LocalStudent, judge, load_lab

DEFINITIONS = (ast.FunctionDef, ast.ClassDef)
IMPORTS = (ast.Import, ast.ImportFrom)


def shown_in(first: int, last: int) -> list[str]:
    """The code of the lessons from `first` to `last`, cell by cell, and of the working versions of their tasks."""
    found = []
    for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb")):
        if first <= int(path.name[:2]) <= last:
            found += [cell.source for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]
            worked = ROOT / "utils" / "exercises" / "tasks" / f"lesson{path.name[:2]}" / "worked.py"
            found += [worked.read_text()] if worked.exists() else []
    return found


def paste(cells: list[str], namespace: dict) -> dict:
    """What these cells define, run in a notebook that has the rest: their imports, constants, functions and classes."""
    candidates = {}
    for number, source in enumerate(cells):
        for node in ast.parse(source).body:
            if isinstance(node, (*IMPORTS, *DEFINITIONS)):
                exec(ast.unparse(node), namespace)
            elif is_constant(node):
                with contextlib.suppress(Exception):  # it needs what is not run here; who needs it fails below
                    exec(ast.unparse(node), namespace)
            if isinstance(node, DEFINITIONS):
                candidates[f"{node.name} of cell {number}"] = namespace[node.name]
    return candidates


def is_constant(node: ast.stmt) -> bool:
    """A name in capitals, which a function may have as the default of an argument."""
    return isinstance(node, ast.Assign) and all(isinstance(t, ast.Name) and t.id.isupper() for t in node.targets)


def asked(notebook: nbformat.NotebookNode, exercise: str) -> list[str]:
    """The names that an exercise's cell is to define."""
    [source] = [c.source for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == exercise]
    return [node.name for node in ast.parse(source).body if isinstance(node, DEFINITIONS)]


DEAR = ("lab12", "lab13", "lab14", "lab17", "lab18")


@pytest.mark.parametrize("lab", [pytest.param(lab, marks=THOROUGH) if lab in DEAR else lab for lab in LABS])
def test_no_exercise_passes_with_what_its_two_last_lessons_show(lab, monkeypatch):
    number = int(lab[-2:])
    try_all(lab, number - 1 if number > 2 else 0, number, monkeypatch)


@THOROUGH
@pytest.mark.parametrize("lab", LABS[2:])
def test_no_exercise_passes_with_what_earlier_lessons_show(lab, monkeypatch):
    try_all(lab, 0, int(lab[-2:]) - 2, monkeypatch)


def try_all(lab, first, last, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "notebooks")  # where lessons run: they import scripts that lie beside them
    notebook = student_notebook(source_of(lab))
    namespace = run_here(notebook)
    as_given = dict(namespace)
    candidates = paste(shown_in(first, last), namespace)
    assert len(candidates) > 3
    passed = []
    for name, exercise in load_lab(lab, hidden=True).exercises.items():
        for label, candidate in candidates.items():
            student = LocalStudent(as_given | dict.fromkeys(asked(notebook, name), candidate), ["simgpu:0", "simgpu:1"])
            passed += [(name, label)] * all(finding.holds for finding in judge(exercise, student))
    assert passed == []
