"""The grader graded: every wrong answer loses its exercise and no other, every right one gets full marks.

The answers are data: solutions/lab01/answers/ex2.py has what students write in exercise 2, each with what it means.

Each is judged alone, in a fork of a process that is warm (support/judging.py), with looks as strict as a submission
meets: its own exercise, and every exercise that reads a name which the answer can change. Exercises that share
nothing with it are not judged again for each answer. test_sealed_kernels.py judges all exercises of a few notebooks in
real kernels. `make test` asks each fact about the first answer that fails it, and all facts of an exercise about its
first right answer. `make test-more` has the rest, and the capstone (support/tiers.py).
"""

import re
from collections import Counter

import pytest

from tests.support.answers import ANSWERS, Answer, answers_of
from tests.support.judging import Judge
from tests.support.misconceptions import WRITE_AGAIN, is_known, known, row
from tests.support.names import bound
from tests.support.notebooks import LABS, ROOT, grade_id, notebook_with
from tests.support.parts import read_parts
from tests.support.tiers import CAPSTONE, THOROUGH, is_first
from utils.exercises.facts import load_lab

GROUPED = {lab: pytest.mark.xdist_group(f"answers of {lab}") for lab in LABS}
DEAR = {CAPSTONE: [THOROUGH]}  # marks of all that judges there
# The model answers, judged once in each lab: nbval runs them in all labs' notebooks.
EACH_LAB = [pytest.param(lab, id=lab, marks=[GROUPED[lab], *[THOROUGH][: lab != LABS[0]]]) for lab in LABS]


def param(answer, *marks):
    name = f"{answer.lab}-{answer.exercise}-{answer.verdict}-{answer.name}"
    return pytest.param(answer, id=name, marks=[GROUPED[answer.lab], *marks])


# What a wrong answer keeps of the points of an exercise with parts, for each part that can be lost.
KEEPS = {
    ("lab10", "ex4", "not_divided"): 0,
    ("lab10", "ex4", "nobody_waits_for_copies"): 4,
    ("lab10", "ex4", "everything_kept"): 5,
    ("lab11", "ex4", "summed"): 0,
    ("lab11", "ex4", "all_in_finish"): 3,
    ("lab12", "ex2", "two_devices"): 0,
    ("lab12", "ex2", "everybody_gets_all_parts"): 3,
    ("lab12", "ex3", "sum_for_mean"): 0,
    ("lab12", "ex3", "sum_rounded_once"): 4,
    ("lab12", "ex3", "averaged_gradients_kept"): 4,
    ("lab13", "ex4", "sum_of_means"): 0,
    ("lab13", "ex4", "all_forward_first"): 4,
    ("lab13", "ex4", "each_action_sends_at_once"): 6,
    ("lab19", "ex2", "recomputes_nothing"): 0,
    ("lab19", "ex2", "shards_over_all_ranks"): 2,
    ("lab19", "ex2", "reduces_each_micro_batch_between_nodes"): 3,
}
IN_ALL_EXERCISES = [param(one, THOROUGH) for one in ANSWERS]
FIRST = [param(one) for one in ANSWERS if is_first(one)]


@pytest.fixture(scope="session")
def judge():
    """The process that judges. It prepares a lab when it is first asked about it: a lab's tests are one group.

    Of the session, since a worker of pytest-xdist has other modules' tests between those of two labs.
    """
    with Judge() as judge:
        yield judge


@pytest.mark.parametrize("answer", IN_ALL_EXERCISES)
def test_a_wrong_answer_loses_its_exercise_only_and_a_right_one_nothing(judge, answer):
    look_at(answer, judge(answer))


@pytest.mark.parametrize("answer", FIRST)
def test_a_wrong_answer_fails_its_fact_and_a_right_one_none(judge, answer):
    claims = {(one["exercise"], "wrong", one["answer"]): one["claim"] for one in known(answer.lab)}
    claim = claims.get((answer.exercise, answer.verdict, answer.name), "")
    look_at(answer, judge(answer, alone=True, claim=claim))


def look_at(answer, lost):
    assert list(lost) == ([answer.exercise] if answer.verdict == "wrong" else []), f"{answer.says}\n{lost}"
    if answer.verdict == "wrong":
        assert len(lost[answer.exercise].found) > 10, "a student is told what was found"
        assert is_known(row(answer, lost[answer.exercise]), answer.lab), WRITE_AGAIN


@pytest.mark.parametrize(
    ("name", "points"),
    [
        pytest.param(name, points, id="-".join(name), marks=[GROUPED[name[0]], *DEAR.get(name[0], [])])
        for name, points in KEEPS.items()
    ],
)
def test_a_wrong_answer_keeps_the_points_of_the_parts_that_hold(judge, name, points):
    lab, exercise, answer = name
    [wrong] = [one for one in answers_of(lab, "wrong") if (one.exercise, one.name) == (exercise, answer)]
    assert judge.points(wrong) == points


@pytest.mark.parametrize("lab", LABS)
def test_the_table_has_each_exercise_with_parts(lab):
    in_parts = {exercise.name for exercise in load_lab(lab).exercises.values() if exercise.parts}
    assert {exercise for of, exercise, _ in KEEPS if of == lab} == in_parts


@pytest.mark.parametrize("lab", EACH_LAB)
def test_the_model_answers_get_full_marks(judge, lab):
    assert judge.model(lab)["lost"] == {}


@pytest.mark.parametrize("lab", EACH_LAB)
def test_judging_an_exercise_reads_what_the_notebook_defines(judge, lab):
    """So an answer that changes it is judged in this exercise, too."""
    model = judge.model(lab)
    defined = set().union(*(bound(cell.source) for cell in notebook_with(lab, {}).cells if cell.cell_type == "code"))
    for exercise, read in model["read"].items():
        assert defined & set(read), exercise


@pytest.mark.parametrize(
    "code",
    ["def placement(model):\n    return {}", "nn.Module.named_parameters = lambda self: iter(())"],
    ids=["binds its name", "changes what it uses"],
)
@pytest.mark.xdist_group("answers of lab01")
def test_an_answer_that_breaks_another_exercise_is_seen_to(judge, code):
    """Here in exercise 5, which is lost, too: placement is what exercise 4 asks for."""
    assert {"ex4", "ex5"} <= set(judge(Answer("lab01", "ex5", "wrong", "made_up", "Breaks more.", code)))


@THOROUGH
@pytest.mark.xdist_group("answers of lab19")
@pytest.mark.parametrize("name", ["sum_of_micro_batches", "its_own_loss"])
def test_a_wrong_trainer_of_the_capstone_loses_no_other_exercise(judge, name):
    """Exercises 2 and 3 use it, as students' do. They ask whether it is fast, and whether it goes on as it was."""
    [wrong] = [one for one in answers_of("lab19", "wrong") if (one.exercise, one.name) == ("ex1", name)]
    code = wrong.code.replace("class Mine(Trainer)", "class Trainer(Trainer)").replace("Mine(", "Trainer(")
    assert list(judge(Answer("lab19", "ex1", "wrong", name, wrong.says, code))) == ["ex1"]


@pytest.mark.parametrize("lab", LABS)
def test_what_begins_each_answer_of_a_page_is_what_the_notebook_has(lab):
    cells = {grade_id(cell): cell.source for cell in notebook_with(lab, {}).cells}
    for path in sorted((ROOT / "solutions" / lab / "answers").glob("*.py")):
        assert read_parts(path)[1] in cells[path.stem], path


@pytest.mark.xdist_group("answers of lab01")
def test_a_class_that_shows_other_layers_than_it_computes_with_is_refused_here_as_in_a_kernel(judge):
    [right, *_] = [one for one in answers_of("lab01", "right") if one.exercise == "ex2"]
    lies = f"{right.code}\nSimpleMPModel.named_parameters = lambda self: nn.Module.named_parameters(self)"
    lost = judge(Answer("lab01", "ex2", "wrong", "made_up", "Lies.", lies))
    assert "SimpleMPModel has named_parameters of its own" in lost["ex2"].found


@pytest.mark.xdist_group("answers of lab01")
def test_an_answer_that_ends_its_process_is_told_from_a_lost_exercise(judge):
    with pytest.raises(RuntimeError, match="ended: 3"):
        judge(Answer("lab01", "ex5", "wrong", "made_up", "Ends.", "import os\nos._exit(3)"))
    assert judge(answers_of("lab01", "right")[0]) == {}, "and the next is judged"


def test_a_row_is_known_where_only_rounding_differs():
    [found] = [one for one in known("lab12") if one["answer"] == "in_bfloat16"]
    loss = re.search(r"\d\.\d{4}", found["told"])[0]
    assert is_known(found | {"told": found["told"].replace(loss, f"{float(loss) + 0.0003:.4f}")}, "lab12")
    for other in (f"{float(loss) + 0.1:.4f}", "x", f"{loss} and 3.0"):
        assert not is_known(found | {"told": found["told"].replace(loss, other)}, "lab12")


@pytest.mark.parametrize("lab", LABS)
def test_the_table_has_the_wrong_answers_in_their_order_and_no_others(lab):
    rows = [(known_row["exercise"], known_row["answer"]) for known_row in known(lab)]
    assert rows == [(one.exercise, one.name) for one in answers_of(lab, "wrong")], WRITE_AGAIN


@pytest.mark.parametrize("lab", LABS)
def test_every_exercise_has_wrong_and_right_answers_to_be_tested_with(lab):
    counts = Counter((one.verdict, one.exercise) for one in ANSWERS if one.lab == lab)
    for exercise in load_lab(lab, hidden=True).exercises:
        assert counts["wrong", exercise] >= 4, exercise
        assert counts["right", exercise] >= 2, exercise
