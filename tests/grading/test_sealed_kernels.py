"""The answers of every lab in real, sealed, sandboxed kernels: several at once in a notebook, one for each exercise.

test_answers.py judges each answer alone, with the same strict looks and without a kernel. Here some of them go the way
of a submission: the seal must cost a right answer nothing, and a wrong one its exercise and no other. `make test` has
those of two labs, `make test-more` of all.
"""

import nbformat
import pytest

from tests.support.answers import answers_of
from tests.support.notebooks import LABS, notebook_with
from tests.support.tiers import THOROUGH
from utils.exercises.facts import load_lab
from utils.grading.grade import grade_submission
from utils.grading.run.submissions import Submission


def answers_to_each_exercise(lab, verdict, which):
    """The first answers of a lab or, with -1, the last: one for each exercise, by its name."""
    by_exercise = {}
    for answer in answers_of(lab, verdict):
        by_exercise.setdefault(answer.exercise, []).append(answer.code)
    return {exercise: codes[which] for exercise, codes in by_exercise.items()}


# In `make test`: a short lab, and one that takes long.
FIRST = {("lab01", "model"), ("lab01", "right"), ("lab09", "model")}
pytestmark = pytest.mark.xdist_group("kernels")  # forked from one process: to start it takes seconds
EACH = [
    pytest.param(lab, kind, marks=[] if (lab, kind) in FIRST else THOROUGH)
    for lab in LABS
    for kind in ("model", "right", "wrong")
]


@pytest.mark.parametrize(("lab", "kind"), EACH)
def test_answers_in_a_sealed_kernel(lab, kind, tmp_path):
    answers = {} if kind == "model" else answers_to_each_exercise(lab, kind, -1 if kind == "right" else 0)
    path = tmp_path / "student.ipynb"
    notebook = notebook_with(lab, answers)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.execution_count = 1  # one that was never run and has no points is told as such
    nbformat.write(notebook, path)
    judged_by = load_lab(lab, hidden=True)
    grade = grade_submission(Submission("student", path), judged_by)
    assert grade.status in ("ok", "error"), f"no kernel judged it: {grade.status}, {grade.note}"
    lost = set(answers) if kind == "wrong" else set()
    in_parts = {name: exercise.points_for(grade.findings[name]) for name, exercise in judged_by.graded.items()}
    expected = {name: in_parts[name] if name in lost else e.points for name, e in judged_by.graded.items()}
    assert all(expected[name] < judged_by.graded[name].points for name in lost & judged_by.graded.keys())
    assert set(grade.stars(judged_by)) == judged_by.stars.keys() - lost
    words = {name: finding.found for name, found in grade.findings.items() for finding in found if not finding.holds}
    assert grade.points == expected, (grade.status, grade.note, grade.flags, words)
    assert not grade.flags
