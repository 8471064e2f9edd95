"""The answers of every lab in real, sealed, sandboxed kernels: several at once in a notebook, one for each exercise.

test_answers.py judges each answer alone, without a kernel. Here the same answers go the way of a submission: the seal
and the strict looks must cost a right answer nothing, and a wrong one its exercise and no other.
"""

import itertools

import nbformat
import pytest
from conftest import LABS, notebook_with
from support.answers import answers_of

from utils.facts import load_lab
from utils.grading.grade import grade_submission
from utils.grading.run.submissions import Submission

WRONG_NOTEBOOKS = 1  # of each lab; all of them are many minutes


def notebooks(lab, kind):
    """Answers of one kind, put together so that each notebook has at most one for each exercise."""
    by_exercise = {}
    for answer in answers_of(lab, kind):
        by_exercise.setdefault(answer.exercise, []).append(answer)
    for together in itertools.zip_longest(*by_exercise.values()):
        yield [answer for answer in together if answer]


CASES = [
    *((lab, kind, number) for lab in LABS for kind in ["right"] for number, _ in enumerate(notebooks(lab, kind))),
    *((lab, "wrong", number) for lab in LABS for number in range(WRONG_NOTEBOOKS)),
]


@pytest.mark.parametrize(("lab", "kind", "number"), CASES)
def test_answers_in_a_sealed_kernel(lab, kind, number, tmp_path):
    answers = {answer.exercise: answer.code for answer in list(notebooks(lab, kind))[number]}
    path = tmp_path / "student.ipynb"
    nbformat.write(notebook_with(lab, answers), path)
    judged_by = load_lab(lab, hidden=True)
    grade = grade_submission(Submission("student", path), judged_by)
    lost = set(answers) if kind == "wrong" else set()
    expected = {name: 0 if name in lost else exercise.points for name, exercise in judged_by.exercises.items()}
    words = {name: finding.found for name, found in grade.findings.items() for finding in found if not finding.holds}
    assert grade.points == expected, (grade.status, grade.note, grade.flags, words)
    assert not grade.flags
