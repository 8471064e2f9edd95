"""Answers of every lab in real, sealed, sandboxed kernels: several at once in a notebook, one for each exercise.

test_answers.py judges each answer alone, with the same strict looks and without a kernel. Here some of them go the way
of a submission: the seal must cost a right answer nothing, and a wrong one its exercise and no other. Right and wrong
answers take turns, beginning with a right one in every second lab; lab01 has a second notebook, the other way round.
`make test` has those of lab01 and one more, `make test-more` has all.
"""

from itertools import cycle

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
FIRST = {("lab01", "right"), ("lab01", "wrong"), ("lab09", "wrong")}
pytestmark = pytest.mark.xdist_group("kernels")  # forked from one process: to start it takes seconds
BOTH = [("lab01", "right"), ("lab01", "wrong")]
EACH = [*BOTH, *zip(LABS[1:], cycle(("right", "wrong")))]


@pytest.mark.parametrize(
    ("lab", "begins"), [pytest.param(*each, marks=[] if each in FIRST else THOROUGH) for each in EACH]
)
def test_right_and_wrong_answers_take_turns_in_a_sealed_kernel(lab, begins, tmp_path):
    right = answers_to_each_exercise(lab, "right", -1)
    wrong = answers_to_each_exercise(lab, "wrong", 0)
    begin = 0 if begins == "wrong" else 1
    lost = set(sorted(wrong)[begin::2])
    answers = right | {exercise: wrong[exercise] for exercise in lost}
    assert len(answers) > 2
    path = tmp_path / "student.ipynb"
    notebook = notebook_with(lab, answers)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.execution_count = 1  # one that was never run and has no points is told as such
    nbformat.write(notebook, path)
    judged_by = load_lab(lab, hidden=True)
    grade = grade_submission(Submission("student", path), judged_by)
    assert grade.status in ("ok", "error"), f"no kernel judged it: {grade.status}, {grade.note}"
    in_parts = {name: exercise.points_for(grade.findings[name]) for name, exercise in judged_by.graded.items()}
    expected = {name: in_parts[name] if name in lost else e.points for name, e in judged_by.graded.items()}
    assert all(expected[name] < judged_by.graded[name].points for name in lost & judged_by.graded.keys())
    assert set(grade.stars(judged_by)) == judged_by.stars.keys() - lost
    words = {name: finding.found for name, found in grade.findings.items() for finding in found if not finding.holds}
    assert grade.points == expected, (grade.status, grade.note, grade.flags, words)
    assert not grade.flags
