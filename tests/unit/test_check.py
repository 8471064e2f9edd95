"""check(): a verdict, the first fact that fails, a hint, in Jupyter and as text; and the plain data under it."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

import simgpu
from utils.exercises.check import NotChecked, checker
from utils.exercises.facts import Exercise, LocalStudent, StudentError, Unmet, case, judge, load_lab, need, probes, wire
from utils.exercises.facts.student import Names, run_probe
from utils.exercises.tasks.lesson08.worked import pipelined


def right_layers(device0, device1):
    return nn.Linear(1000, 2000, device=device0), nn.Linear(2000, 1000, device=device1)


def both_on_the_first(device0, device1):
    return nn.Linear(1000, 2000).to(device0), nn.Linear(2000, 1000).to(device0)


def unfinished(device0, device1):
    raise NotImplementedError()


def test_a_right_answer_passes():
    verdict = checker("lab01", {"make_layers": right_layers})("ex1")
    assert verdict.passed
    assert repr(verdict).splitlines()[0] == "ex1 passed: Put two layers on two devices (1 point)"
    assert "Hint" not in repr(verdict)
    assert "Hint" not in verdict._repr_html_()
    verdict.require()


def test_a_wrong_answer_shows_the_first_fact_that_fails_and_how_to_get_a_hint():
    verdict = checker("lab01", {"make_layers": both_on_the_first})("ex1")
    assert not verdict.passed
    text = repr(verdict)
    assert "  yes  layer1 has 1000 inputs" in text
    assert "  NO   layer1 is on device0 and layer2 is on device1" in text
    assert "layer1 is on simgpu:0 and layer2 is on simgpu:0." in text
    assert "Hint " not in text
    assert 'A hint: check("ex1", hints=1)' in text
    with pytest.raises(AssertionError, match="ex1 not yet"):
        verdict.require()


def test_the_check_after_raises_raises_where_the_answer_is_wrong_and_no_later_one():
    namespace = {"make_layers": both_on_the_first}
    check = checker("lab01", namespace)
    check.raises()
    with pytest.raises(AssertionError, match="ex1 not yet"):
        check("ex1")
    assert not check("ex1").passed
    namespace["make_layers"] = right_layers
    check.raises()
    assert check("ex1").passed
    assert check.last.require() == 1


def test_a_right_answer_on_a_machine_of_shapes_is_not_told_that_it_is_wrong():
    check = checker("lesson08", {"pipelined": pipelined})
    assert check("pipelined").passed
    simgpu.enable(count=2, compute=False)
    verdict = check("pipelined")
    assert not verdict.passed
    assert "not yet" not in repr(verdict)
    assert "the simulated machine now keeps only shapes" in verdict._repr_html_()
    assert "\n" not in repr(verdict)
    with pytest.raises(AssertionError, match="Restart the kernel"):
        verdict.require()


def test_hints_unfold_in_steps():
    check = checker("lab01", {"make_layers": both_on_the_first})
    assert repr(check("ex1", hints=1)).count("Hint ") == 1
    assert 'The next hint: check("ex1", hints=2)' in repr(check("ex1", hints=1))
    assert repr(check("ex1", hints=3)).count("Hint ") == 3
    assert "The next hint" not in repr(check("ex1", hints=3))
    page = check("ex1")._repr_html_()
    assert "<details open" not in page
    assert check("ex1", hints=2)._repr_html_().count("<details open") == 2
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
        ({"make_layers": lambda a, b: None}, "make_layers returned None. Return both layers"),
        ({"make_layers": lambda a, b: nn.Linear(3, 3)}, "make_layers returned a Linear."),
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


def in_a_cell(source, **names):
    """What a cell with this text defines, as in a notebook: its lines are those of `<cell 4>`."""
    namespace = {"nn": nn, "torch": torch} | names
    exec(compile(source, "<cell 4>", "exec"), namespace)
    return namespace


NOT_FORWARD = """
class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.layer1, self.layer2 = nn.Linear(1000, 2000).to(device0), nn.Linear(2000, 1000).to(device1)

    def foward(self, x):
        return x
"""


def test_a_misspelt_forward_is_told_as_what_it_is():
    text = repr(checker("lab01", in_a_cell(NOT_FORWARD))("ex2"))
    assert "NotImplementedError: Module [SimpleMPModel] is missing the required" in text
    assert "not written yet" not in text


LIST_CALLED = """
def step(x):
    parts = nn.ModuleList([nn.Linear(2, 2)])
    return parts(x)
"""
SWAPPED = """
def step(x):
    target = torch.zeros(1, dtype=torch.int64, device=x.device)
    return nn.CrossEntropyLoss()(target, x)
"""
MEAN_OF_NOTHING = """
import statistics
def step(x):
    return statistics.mean([])
"""
NO_JSON = """
import json
def step(x):
    return json.loads("{")
"""


@pytest.mark.parametrize(
    ("source", "says", "line"),
    [
        (LIST_CALLED, 'NotImplementedError: Module [ModuleList] is missing the required "forward"', 4),
        (SWAPPED, 'NotImplementedError: "log_softmax', 4),
        (MEAN_OF_NOTHING, "StatisticsError: mean requires at least one data point", 4),
        (NO_JSON, "JSONDecodeError: Expecting property name", 4),
    ],
)
def test_what_torch_or_python_raises_below_the_learners_line_is_told_with_that_line(source, says, line):
    simgpu.enable(2)
    namespace = in_a_cell(source, x=torch.ones(1, 2, device="simgpu:0"))
    with pytest.raises(StudentError) as told:
        run_probe(lambda lab: lab.step(lab.x), namespace, [])
    assert says in str(told.value)
    assert f"in step, line {line}" in str(told.value)
    assert "not written yet" not in str(told.value)


def devices_for_names(model):
    return {name: parameter.device for name, parameter in model.named_parameters()}


def tensors_for_names(model):
    return dict(model.named_parameters())


@pytest.mark.parametrize(
    ("placement", "says"),
    [
        (devices_for_names, "placement gives a torch.device. A string is expected: str(device)."),
        (tensors_for_names, "placement gives a tensor. A string is expected"),
        (lambda model: None, "placement returned None. Return a dict."),
        (lambda model: torch.ones(2), "placement returned a tensor. Return a dict."),
    ],
)
def test_what_stands_where_text_should_be_is_told_in_words(placement, says):
    assert says in repr(checker("lab01", {"placement": placement})("ex4"))


def test_of_an_entry_that_is_no_text_all_is_told():
    def devices_seen(model, x):
        return [("block.0", x.device, None)]

    text = repr(checker("lab02", {"devices_seen": devices_seen})("ex1"))
    assert "One entry is ('block.0', a torch.device, None). Three strings are expected" in text


PIPELINED = """
def pipelined(part0, part1, device0, device1, x, size):
    pieces = x.to(device0).split(size)
"""
ALL_FIRST_PARTS_FIRST = """
    hidden = [part0(piece) for piece in pieces]
    return torch.cat([part1(each.to(device1)) for each in hidden])
"""
ALL_COPIES_FIRST = """
    hidden = [part0(piece).to(device1) for piece in pieces]
    return torch.cat([part1(each) for each in hidden])
"""
OUTPUTS_BACK = """
    return torch.cat([part1(part0(piece).to(device1)).to(device0) for piece in pieces]).to(device1)
"""
A_WAIT_IN_THE_LOOP = """
    outputs = []
    for piece in pieces:
        outputs.append(part1(part0(piece).to(device1)))
        torch.get_device_module(device0).synchronize(device1)
    return torch.cat(outputs)
"""


@pytest.mark.parametrize(
    ("forward", "says"),
    [
        (ALL_FIRST_PARTS_FIRST, "All of stage 0 was launched before the first copy."),
        (ALL_COPIES_FIRST, "All copies were launched before the first kernel of stage 1."),
        (OUTPUTS_BACK, "device1 copies something back to device0."),
        (A_WAIT_IN_THE_LOOP, "Inside the loop, Python waits for a device"),
    ],
)
def test_a_wrong_order_of_launches_is_told_from_a_wait(forward, says):
    assert says in repr(checker("lesson08", in_a_cell(PIPELINED + forward.strip("\n")))("pipelined"))


PLAIN_LIST = """
class SplitGPT(nn.Module):
    def __init__(self, model, cut, device0, device1):
        super().__init__()
        self.blocks = [block.to(device0 if n < cut else device1) for n, block in enumerate(model.blocks)]
        self.norm, self.cut, self.devices = model.norm.to(device1), cut, (device0, device1)
        self.embed, self.tables = model.embed.to(device1), (model.cos, model.sin)

    def forward(self, words):
        x = self.embed(words.to(self.devices[1]))
        for n, block in enumerate(self.blocks):
            device = self.devices[n >= self.cut]
            x = block(x.to(device), *(table[: words.shape[1]].to(device) for table in self.tables))
        return self.norm(x) @ self.embed.weight.T
"""


def test_layers_in_a_plain_list_beside_a_norm_that_is_seen():
    text = repr(checker("lab07", in_a_cell(PLAIN_LIST))("ex4"))
    assert "the split model has 3 parameters, but GPT has 51. PyTorch does not see layers in a plain list." in text


def test_facts_run_in_one_thread_and_the_notebook_goes_on_with_as_many_as_before():
    threads = set()

    def make_layers(device0, device1):
        threads.add(torch.get_num_threads())
        return right_layers(device0, device1)

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        assert checker("lab01", {"make_layers": make_layers})("ex1").passed
        assert threads == {1}
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_an_exercise_that_does_not_exist():
    with pytest.raises(ValueError, match=r"lab01 has no exercise 'ex9'\. It has: ex1, ex2, ex3, ex4, ex5"):
        checker("lab01", {})("ex9")
    with pytest.raises(FileNotFoundError, match="no visible tests for lab99"):
        checker("lab99", {})


def test_the_scoreboard_counts_points():
    board = checker("lab01", {"make_layers": right_layers, "placement": lambda model: {}})()
    assert "ex1    1 / 1  Put two layers on two devices" in repr(board)
    assert "ex4    0 / 2" in repr(board)
    assert "1 of 10 points from the visible tests. The grade also includes hidden tests." in repr(board)
    page = board._repr_html_()
    assert "<td style='text-align:left'>1 / 1</td>" in page
    assert ">title</th>" in page


def test_while_grading_nothing_is_checked(monkeypatch):
    monkeypatch.setenv("COURSE_GRADING", "1")
    check = checker("lab01", {})
    check.raises()
    assert isinstance(check("ex1"), NotChecked)
    assert "will check it afterwards" in repr(check("ex1"))
    check.last.require()


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
    assert wire.decode(run_probe(lambda lab: lab.x + 1, {"x": 1}, [])) == 2
    with pytest.raises(StudentError, match="y is not defined"):
        run_probe(lambda lab: lab.y, {}, [])
    with pytest.raises(Unmet, match="no"):
        need(False, "no")


def test_within_an_exercise_the_same_question_is_asked_once_and_its_answer_stays_as_it_was():
    asked, exercise = [], Exercise("ex1", 1, "Made up", [])

    def count(lab, start):
        asked.append(start)
        return {"numbers": [start, start + 1]}

    @exercise.fact("a fact may change what it got")
    def _(student):
        student.run(count, 1)["numbers"].clear()

    @exercise.fact("and the next gets it whole")
    def _(student):
        need(student.run(count, 1) == {"numbers": [1, 2]}, "it was changed")
        need(student.run(count, 2) == {"numbers": [2, 3]}, "other arguments, and the old answer")

    assert all(finding.holds for finding in judge(exercise, LocalStudent({}, [])))
    assert asked == [1, 2]
    judge(exercise, LocalStudent({}, []))
    assert asked == [1, 2, 1, 2]


def test_what_an_error_likely_means_is_told_below_it():
    exercise = Exercise("ex1", 1, "Made up", [], likely={"division": "There can be no samples.", "zero": "Not told."})

    @exercise.fact("it divides")
    def _(student):
        with case("With 0 samples"):
            student.run(lambda lab: 1 / 0)

    finding = judge(exercise, LocalStudent({}, []))[0].found
    assert finding.startswith("With 0 samples: It raised ZeroDivisionError: division by zero")
    assert finding.endswith("\nThere can be no samples.")


def filled(*layers, seed):
    model = nn.Sequential(*layers)
    probes.fill(model, seed)
    return {tuple(parameter.shape): parameter.detach() for parameter in model.parameters()}


def test_parameters_are_filled_by_seed_and_shape_whatever_their_order_and_whatever_was_filled_before():
    script = "from torch import nn; from utils.exercises.facts.probes import fill\n"
    script += "layer = nn.Linear(1500, 900); fill(layer, 3);"
    script += "print(layer.weight.detach().double().sum().item())"
    alone = float(subprocess.check_output([sys.executable, "-c", script], text=True))
    filled(nn.Linear(7, 8), seed=1)
    one = filled(nn.Linear(1500, 900), nn.Linear(900, 20), seed=3)
    other = filled(nn.Linear(900, 20), nn.Linear(1500, 900), seed=3)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[shape], other[shape]) for shape in one)
    assert one[900, 1500].double().sum().item() == pytest.approx(alone, rel=1e-9)
    assert not torch.equal(one[900, 1500], filled(nn.Linear(1500, 900), seed=4)[900, 1500])
    assert one[900, 1500].std().item() == pytest.approx(1500**-0.5, rel=0.01)
    assert one[900,].std().item() == pytest.approx(900**-0.5, rel=0.1)


def test_hidden_facts_come_after_the_visible_ones_and_do_not_stay():
    visible, with_hidden = load_lab("lab01"), load_lab("lab01", hidden=True)
    for name, exercise in visible.exercises.items():
        longer = [fact.claim for fact in with_hidden.exercises[name].facts]
        assert longer[: len(exercise.facts)] == [fact.claim for fact in exercise.facts]
    assert sum(len(e.facts) for e in with_hidden.exercises.values()) > sum(
        len(e.facts) for e in visible.exercises.values()
    )
