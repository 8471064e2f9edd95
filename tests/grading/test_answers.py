"""The grader graded: every wrong answer loses its exercise and no other, every right one gets full marks.

The answers are data: tests/lab01/answers/ex2.py has what students wrote in exercise 2, each with what it stands for.

Each is judged alone, in a fork of a process that is warm (support/judging.py), with looks as strict as a submission
meets: its own exercise, and every exercise that asks for a name which the answer can change. Exercises that share
nothing with it are not judged again for each answer. test_sealed_kernels.py judges all exercises of a few notebooks in
real kernels.
"""

from collections import Counter
from contextlib import ExitStack
from functools import cache

import pytest
from conftest import LABS
from support.answers import ANSWERS, Answer, answers_of
from support.judging import Judge
from support.misconceptions import WRITE_ANEW, known, row
from support.names import EVERYTHING

from utils.facts import load_lab

GROUPED = {lab: pytest.mark.xdist_group(f"answers of {lab}") for lab in LABS}
EACH_LAB = [pytest.param(lab, id=lab, marks=GROUPED[lab]) for lab in LABS]
EACH_ANSWER = [
    pytest.param(one, id=f"{one.lab}-{one.exercise}-{one.verdict}-{one.name}", marks=GROUPED[one.lab])
    for one in ANSWERS
]


@pytest.fixture(scope="module")
def judge_of():
    """The process that judges a lab, started when first asked for. The tests of a lab run in one worker."""
    with ExitStack() as stack:
        yield cache(lambda lab: stack.enter_context(Judge(lab)))


@pytest.mark.parametrize("answer", EACH_ANSWER)
def test_a_wrong_answer_loses_its_exercise_only_and_a_right_one_nothing(judge_of, answer):
    lost = judge_of(answer.lab)(answer)
    assert list(lost) == ([answer.exercise] if answer.verdict == "wrong" else []), f"{answer.says}\n{lost}"
    if answer.verdict == "wrong":
        assert len(lost[answer.exercise].found) > 10, "a student is told what was found"
        assert row(answer, lost[answer.exercise]) in known(answer.lab), WRITE_ANEW


@pytest.mark.parametrize("lab", EACH_LAB)
def test_the_model_answers_get_full_marks(judge_of, lab):
    assert judge_of(lab).model["lost"] == {}


@pytest.mark.parametrize("lab", EACH_LAB)
def test_what_judging_an_exercise_reads_is_known_from_its_facts(judge_of, lab):
    """So an answer that changes it is judged in this exercise, too."""
    model = judge_of(lab).model
    for exercise, read in model["read"].items():
        assert read
        assert set(read) <= set(model["asked"][exercise]) or EVERYTHING in model["asked"][exercise], exercise


@pytest.mark.parametrize(
    "code",
    ["def placement(model):\n    return {}", "nn.Module.named_parameters = lambda self: iter(())"],
    ids=["binds its name", "changes what it uses"],
)
@pytest.mark.xdist_group("answers of lab01")
def test_an_answer_that_breaks_another_exercise_is_seen_to(judge_of, code):
    """Here in exercise 5, which is lost, too: placement is what exercise 4 asks for."""
    assert {"ex4", "ex5"} <= set(judge_of("lab01")(Answer("lab01", "ex5", "wrong", "made_up", "Breaks more.", code)))


@pytest.mark.xdist_group("answers of lab01")
def test_a_class_that_shows_other_layers_than_it_computes_with_is_refused_here_as_in_a_kernel(judge_of):
    [right, *_] = [one for one in answers_of("lab01", "right") if one.exercise == "ex2"]
    lies = f"{right.code}\nSimpleMPModel.named_parameters = lambda self: nn.Module.named_parameters(self)"
    lost = judge_of("lab01")(Answer("lab01", "ex2", "wrong", "made_up", "Lies.", lies))
    assert "SimpleMPModel has named_parameters of its own" in lost["ex2"].found


@pytest.mark.xdist_group("answers of lab01")
def test_an_answer_that_ends_its_process_is_told_from_a_lost_exercise(judge_of):
    with pytest.raises(RuntimeError, match="ended: 3"):
        judge_of("lab01")(Answer("lab01", "ex5", "wrong", "made_up", "Ends.", "import os\nos._exit(3)"))
    assert judge_of("lab01")(answers_of("lab01", "right")[0]) == {}, "and the next is judged"


@pytest.mark.parametrize("lab", LABS)
def test_the_table_has_the_wrong_answers_in_their_order_and_no_others(lab):
    rows = [(known_row["exercise"], known_row["answer"]) for known_row in known(lab)]
    assert rows == [(one.exercise, one.name) for one in answers_of(lab, "wrong")], WRITE_ANEW


@pytest.mark.parametrize("lab", LABS)
def test_every_exercise_has_wrong_and_right_answers_to_be_tested_with(lab):
    counts = Counter((one.verdict, one.exercise) for one in ANSWERS if one.lab == lab)
    for exercise in load_lab(lab, hidden=True).exercises:
        assert counts["wrong", exercise] >= 4, exercise
        assert counts["right", exercise] >= 2, exercise
