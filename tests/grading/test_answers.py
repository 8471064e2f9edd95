"""The grader graded: every wrong answer loses its exercise and no other, every right one gets full marks.

The answers are data: tests/lab01/answers/wrong_ex2_input_never_moved.py is what a student wrote in exercise 2,
its docstring the misconception. All are judged here; a class of them goes through `course grade` beside this.
"""

import ast
from collections import Counter
from functools import cache

import pytest
from conftest import LABS, ROOT, notebook_with, run_here

from utils import simgpu
from utils.facts import LocalStudent, judge, load_lab

ANSWERS = sorted((ROOT / "tests").glob("lab*/answers/*.py"))


def read_answer(path):
    """(lab, right or wrong, exercise, misconception, code) of an answer file."""
    verdict, exercise, _ = path.stem.split("_", 2)
    source = path.read_text()
    tree = ast.parse(source)
    docstring = ast.get_docstring(tree)
    assert docstring, f"{path.name} does not say what it stands for"
    code = "\n".join(source.split("\n")[tree.body[0].end_lineno :]).strip()
    return path.parts[-3], verdict, exercise, docstring, code


@cache
def graded_lab(name):
    return load_lab(name, hidden=True)


def failures(lab, answers):
    """The exercises of a lab that lose their points, with what was found."""
    simgpu.enable(count=2)
    student = LocalStudent(run_here(notebook_with(lab, answers)), ["simgpu:0", "simgpu:1"])
    judged = {e.name: judge(e, student) for e in graded_lab(lab).exercises.values()}
    return {name: found[-1].found for name, found in judged.items() if not all(f.holds for f in found)}


@pytest.mark.parametrize("path", ANSWERS, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_a_wrong_answer_loses_its_exercise_only_and_a_right_one_nothing(path):
    lab, verdict, exercise, misconception, code = read_answer(path)
    lost = failures(lab, {exercise: code})
    assert list(lost) == ([exercise] if verdict == "wrong" else []), f"{misconception}\n{lost}"
    if verdict == "wrong":
        assert len(lost[exercise]) > 10, "a student is told what was found"


@pytest.mark.parametrize("lab", LABS)
def test_the_model_answers_get_full_marks(lab):
    assert failures(lab, {}) == {}


@pytest.mark.parametrize("lab", LABS)
def test_every_exercise_has_wrong_and_right_answers_to_be_tested_with(lab):
    counts = Counter(read_answer(path)[1:3] for path in ANSWERS if path.parts[-3] == lab)
    for exercise in graded_lab(lab).exercises:
        assert counts["wrong", exercise] >= 4, exercise
        assert counts["right", exercise] >= 2, exercise
