"""check(): a verdict, the first fact that fails, a hint, in Jupyter and as text; and the plain data under it."""

import numpy as np
import pytest
import torch
from torch import nn

from utils.check import NotChecked, checker
from utils.facts import StudentError, Unmet, load_lab, need, wire
from utils.facts.student import Names, answer


def right_layers(device0, device1):
    return nn.Linear(1000, 2000).to(device0), nn.Linear(2000, 1000).to(device1)


def both_on_the_first(device0, device1):
    return nn.Linear(1000, 2000).to(device0), nn.Linear(2000, 1000).to(device0)


def unfinished(device0, device1):
    raise NotImplementedError()


def test_a_right_answer_passes():
    verdict = checker("lab01", {"make_layers": right_layers})("ex1")
    assert verdict.passed
    assert repr(verdict).splitlines()[0] == "ex1 passed: Put two layers on two devices (2 points)"
    assert "Hint" not in repr(verdict)
    assert "Hint" not in verdict._repr_html_()
    verdict.require()


def test_a_wrong_answer_shows_the_first_fact_that_fails_and_one_hint():
    verdict = checker("lab01", {"make_layers": both_on_the_first})("ex1")
    assert not verdict.passed
    text = repr(verdict)
    assert "  yes  layer1 takes 1000 numbers" in text
    assert "  NO   layer1 is on device0 and layer2 is on device1" in text
    assert "layer1 is on simgpu:0 and layer2 is on simgpu:0." in text
    assert text.count("Hint ") == 1
    assert 'The next hint: check("ex1", hints=2)' in text
    with pytest.raises(AssertionError, match="ex1 not yet"):
        verdict.require()


def test_hints_unfold_in_steps():
    check = checker("lab01", {"make_layers": both_on_the_first})
    assert repr(check("ex1", hints=3)).count("Hint ") == 3
    assert "The next hint" not in repr(check("ex1", hints=3))
    page = check("ex1")._repr_html_()
    assert page.count("<details") == page.count("</details>") == 3
    assert page.index("Hint 1 of 3") < page.index("Hint 2 of 3") < page.index("Hint 3 of 3")
    assert page.rindex("</details></details></details>") > page.index("Hint 3 of 3")  # one inside the other


def test_html_is_escaped():
    def make_layers(device0, device1):
        raise ValueError("<script>alert(1)</script>")

    page = checker("lab01", {"make_layers": make_layers})("ex1")._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


@pytest.mark.parametrize(
    ("namespace", "says"),
    [
        ({}, "make_layers is not defined. Has its cell run"),
        ({"make_layers": unfinished}, "This is not written yet"),
        ({"make_layers": lambda a: None}, "It raised TypeError"),
        ({"make_layers": lambda a, b: None}, "It returned one NoneType. Return both layers"),
        ({"make_layers": lambda a, b: nn.Linear(3, 3)}, "It returned one Linear."),
        ({"make_layers": 3}, "It raised TypeError: 'int' object is not callable"),
    ],
)
def test_what_a_learner_meets_first(namespace, says):
    assert says in repr(checker("lab01", namespace)("ex1"))


def test_an_error_in_the_learners_code_names_the_line():
    source = (
        "def make_layers(device0, device1):\n    layer = nn.Linear(2, 2).to(device1)\n    layer(torch.ones(1, 2))\n"
    )
    namespace = {"nn": nn, "torch": torch}
    exec(compile(source, "<cell 4>", "exec"), namespace)
    text = repr(checker("lab01", namespace)("ex1"))
    assert "It raised RuntimeError: Expected all tensors to be on the same device" in text
    assert "in make_layers, line 3" in text


def test_an_exercise_that_does_not_exist():
    with pytest.raises(ValueError, match=r"lab01 has no exercise 'ex9'\. It has: ex1, ex2, ex3, ex4, ex5"):
        checker("lab01", {})("ex9")
    with pytest.raises(FileNotFoundError, match="no visible tests for lab99"):
        checker("lab99", {})


def test_the_scoreboard_counts_points():
    board = checker("lab01", {"make_layers": right_layers, "placement": lambda model: {}})()
    assert "ex1    2 / 2  Put two layers on two devices" in repr(board)
    assert "ex4    0 / 1" in repr(board)
    assert "2 of 10 points by the visible tests. The grade has hidden ones too." in repr(board)
    assert "<td>2 / 2</td>" in board._repr_html_()


def test_while_grading_nothing_is_checked(monkeypatch):
    monkeypatch.setenv("COURSE_GRADING", "1")
    result = checker("lab01", {})("ex1")
    assert isinstance(result, NotChecked)
    assert "judges it afterwards" in repr(result)
    result.require()


# --- plain data ---------------------------------------------------------------------------------------------


def test_plain_data_comes_back_as_it_went():
    value = {"a": [1, 2.5, None, True, "é"], "x": np.arange(6.0, dtype=np.float32).reshape(2, 3), "n": np.int64(3)}
    back = wire.decode(wire.encode(value))
    assert back["a"] == value["a"]
    assert back["n"] == 3
    assert back["x"].dtype == np.float32
    assert np.array_equal(back["x"], value["x"])


@pytest.mark.parametrize("value", [object(), {1, 2}, torch.ones(2), lambda: 0, np.array([object()])])
def test_only_plain_data_passes(value):
    with pytest.raises((TypeError, ValueError)):
        wire.encode(value)


@pytest.mark.parametrize("text", ["", "?", "eA==", "e30", "[" * 100_000])
def test_what_is_not_a_message_is_refused(text):
    with pytest.raises(ValueError, match="not a message"):
        wire.decode(text)


def test_deeply_nested_and_pickled_messages_are_refused():
    import base64
    import io
    import pickle

    deep = base64.b64encode(b"[" * 200_000).decode()
    with pytest.raises(ValueError, match="not a message"):
        wire.decode(deep)
    file = io.BytesIO()
    np.save(file, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    array = base64.b64encode(file.getvalue()).decode()
    with pytest.raises(ValueError, match="not a message"):
        wire.decode(base64.b64encode(f'{{"__array__": "{array}"}}'.encode()).decode())
    pickled = base64.b64encode(pickle.dumps([1])).decode()
    with pytest.raises(ValueError, match="not a message"):
        wire.decode(pickled)


def test_a_message_that_is_too_large_is_refused(monkeypatch):
    monkeypatch.setattr(wire, "LARGEST_MESSAGE", 10)
    with pytest.raises(ValueError, match="more than 10"):
        wire.decode(wire.encode("x" * 100))


# --- facts --------------------------------------------------------------------------------------------------


def test_names_and_answers():
    assert Names({"x": 1}).x == 1
    assert wire.decode(answer(lambda lab: lab.x + 1, {"x": 1}, [])) == 2
    with pytest.raises(StudentError, match="y is not defined"):
        answer(lambda lab: lab.y, {}, [])
    with pytest.raises(Unmet, match="no"):
        need(False, "no")


def test_hidden_facts_come_after_the_visible_ones_and_do_not_stay():
    visible, with_hidden = load_lab("lab01"), load_lab("lab01", hidden=True)
    for name, exercise in visible.exercises.items():
        longer = [fact.claim for fact in with_hidden.exercises[name].facts]
        assert longer[: len(exercise.facts)] == [fact.claim for fact in exercise.facts]
    assert sum(len(e.facts) for e in with_hidden.exercises.values()) > sum(
        len(e.facts) for e in visible.exercises.values()
    )
