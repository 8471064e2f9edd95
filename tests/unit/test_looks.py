"""A probe reads what the list has, through classes that were there before the notebook; a lab with another is refused.

No kernel here: `known` are the classes that there are before a test makes its own.
"""

import ast
import sys
from collections import OrderedDict
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import simgpu
from tests.support.notebooks import LABS, ROOT
from utils.common.errors import Problem
from utils.exercises.facts import StudentError, facts_path, load_lab, rules
from utils.exercises.facts.looks import CALLED, COMPUTED, looker, rewritten


def classes_of_now():
    found, waiting = set(), [object]
    while waiting:
        kind = waiting.pop()
        if kind not in found:
            found.add(kind)
            waiting += type.__subclasses__(kind)
    return found


BEFORE = classes_of_now()
LOOK = looker(BEFORE.__contains__)


def run(source, *arguments):
    """What a probe called `probe` returns, rewritten as in a student's process."""
    own = {}
    exec(rewritten(source, LOOK), own)
    return own["probe"](*arguments)


# --- what is looked at ----------------------------------------------------------------------------------------


class Lying:
    """Answers anything that it is asked."""

    def __getattribute__(self, name):
        return "simgpu:1"


class TensorWithADevice(torch.Tensor):
    device = "simgpu:1"


class SplitModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.part0, self.part1 = nn.Linear(2, 3), nn.Linear(3, 1)

    def forward(self, x):
        return self.part1(self.part0(x))


@pytest.mark.parametrize(
    ("thing", "name", "says"),
    [
        (Lying(), "device", "A Lying stands where a tensor should be."),
        (SimpleNamespace(device="simgpu:1"), "device", "A SimpleNamespace stands where a tensor should be."),
        (SplitModel(), "device", "A SplitModel stands where a tensor should be."),
        (torch.ones(2).as_subclass(TensorWithADevice), "device", "There is a TensorWithADevice, a class of tensors"),
        (Lying(), "parameters", "A Lying stands where a module should be. Is its class an nn.Module?"),
        (Lying(), "weight", "A Lying stands where a module should be. Is its class an nn.Module?"),
        (Lying(), "param_groups", "A Lying stands where an optimizer should be."),
        (Lying(), "items", "A Lying stands where a dict, a list, a set or text should be."),
        (Lying(), "next_functions", "A Lying stands where a node of the backward graph should be."),
        (SplitModel(), "weight", "A SplitModel has no weight."),
    ],
)
def test_what_only_passes_for_something_is_refused(thing, name, says):
    with pytest.raises(StudentError) as refused:
        LOOK(thing, name)
    assert str(refused.value).startswith(says)


def test_an_honest_thing_is_read_as_python_reads_it():
    simgpu.enable(2)
    model = SplitModel()
    model.part0.to("simgpu:0")
    optimizer = torch.optim.Adam(model.parameters())
    output = (torch.ones(1, 2, requires_grad=True) * 2).to("simgpu:1")
    assert LOOK(model.part0.weight, "device") == torch.device("simgpu:0")
    assert LOOK(model.part0, "weight") is model.part0.weight
    assert [*LOOK(model, "parameters")()] == [*model.parameters()]
    assert LOOK(model, "training") is True
    assert LOOK(model, "train")(False) is model
    assert not model.part1.training
    assert LOOK(model, "part0", True) is model.part0
    assert LOOK(nn.Linear(2, 2, bias=False), "bias") is None
    assert LOOK(optimizer, "param_groups") is optimizer.param_groups
    assert LOOK(output.grad_fn, "name")() == "ToCopyBackward0"
    assert LOOK(output.grad_fn, "next_functions") == output.grad_fn.next_functions
    assert [*LOOK({"a": 1}, "items")()] == [("a", 1)]
    assert LOOK("simgpu:0", "startswith")("simgpu")
    assert LOOK(SplitModel, "__name__") == "SplitModel"
    assert LOOK(torch.get_device_module("simgpu"), "memory_allocated")("simgpu:1") >= 0


class Dict(dict):
    def items(self):
        return [("layer1", "simgpu:0")]


class Adam(torch.optim.Adam):
    def step(self, closure=None):
        raise AssertionError("this step was made by the notebook")


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Meta(type):
    @property
    def __name__(cls):
        return "Linear"


class Named(metaclass=Meta):
    pass


class OwnTrain(SplitModel):
    def train(self, mode=True):
        raise AssertionError("this train was made by the notebook")


class OwnWeight(nn.Linear):
    pass


def test_a_class_of_the_notebook_does_not_answer_where_pytorchs_or_pythons_can():
    assert [*LOOK(Dict(), "items")()] == []
    model, node = OwnTrain(), Square.apply(torch.ones(1, requires_grad=True)).grad_fn
    type(node).name = lambda self: "ToCopyBackward0"
    assert LOOK(model, "train")(False) is model
    assert LOOK(node, "name")() == "SquareBackward"
    optimizer = Adam(nn.Linear(2, 2).parameters(), lr=0.5)
    Adam.param_groups = property(lambda self: [{"lr": 1.0}])
    assert LOOK(optimizer, "param_groups")[0]["lr"] == 0.5
    assert LOOK(optimizer, "step").__func__ is torch.optim.Adam.step
    assert LOOK(Named, "__name__") == "Named"
    layer = OwnWeight(2, 3)
    OwnWeight.weight = property(lambda self: torch.ones(2000, 1000))
    assert LOOK(layer, "weight").shape == (3, 2)


def test_an_attribute_of_an_object_does_not_stand_before_its_class():
    model, optimizer = SplitModel(), torch.optim.SGD(nn.Linear(2, 2).parameters())
    model.train = optimizer.step = lambda *_: "anything"
    assert LOOK(model, "train")(False) is model
    assert LOOK(optimizer, "step")() is None


class WithoutParameters(SplitModel):
    def parameters(self, recurse=True):
        return iter([])


class OtherDict(SplitModel):
    __dict__ = property(lambda self: {"_parameters": {}, "_buffers": {}, "_modules": {}})


class Mixin:
    def forward(self, x):
        return x


class Mixed(Mixin, nn.Module):
    pass


@pytest.mark.parametrize("kind", [WithoutParameters, OtherDict])
def test_a_module_that_can_show_other_layers_is_refused_wherever_it_is(kind):
    for model in (kind(), nn.Sequential(nn.ReLU(), kind())):
        with pytest.raises(StudentError, match="of its own: what is graded keeps"):
            LOOK(model, "parameters")


def test_a_module_with_another_holder_is_refused_and_a_mixin_is_not():
    class Parameters(OrderedDict):
        pass

    model = SplitModel()
    model.__dict__["_parameters"] = Parameters()
    with pytest.raises(StudentError, match="has _parameters of its own"):
        LOOK(model, "state_dict")
    assert LOOK(Mixed(), "training") is True


# --- the text of a probe --------------------------------------------------------------------------------------

READS = """
def probe(lab):
    import torch

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(2, 3)

    model = Model()
    found = lab.answer
    return [torch.float32.itemsize, str(model.first.weight.dtype), found.device]
"""


def test_in_a_rewritten_probe_every_attribute_is_looked_at_but_for_the_free_ones():
    assert run(READS, SimpleNamespace(answer=torch.ones(1))) == [4, "torch.float32", torch.device("cpu")]
    with pytest.raises(StudentError, match="A Lying stands where a tensor should be"):
        run(READS, SimpleNamespace(answer=Lying()))


@pytest.fixture
def lab_with(tmp_path, monkeypatch):
    """Load a lab, called labxx, whose visible facts are a probe with this body and a fact that asks it."""

    def load(body, asked="probe", signature="lab"):
        text = "from utils.exercises.facts import Lab\nSIZE = 3\nlab = Lab('labxx', 'Made up')\n"
        text += f"\n\ndef probe({signature}):\n"
        text += "".join(f"    {line}\n" for line in body.splitlines())
        text += f"\n\ndef other(x):\n    return x\n\n\ndef ask(student):\n    return student.run({asked})\n"
        folder = tmp_path / "labs" / "labxx"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "facts.py").write_text(text)
        monkeypatch.setattr("utils.exercises.facts.lab.ROOT", tmp_path)
        return load_lab("labxx")

    return load


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("return lab.model.secret", "probe probe, line 7: it reads .secret, which is not in MAY_READ"),
        ("import torch\nreturn torch.ones(2).T", "probe probe, line 8: it reads .T, which is not in MAY_READ"),
        ("return getattr(lab.model, 'device')", "probe probe, line 7: it has getattr, which reads whatever it is told"),
        ("return map(vars, lab.models)", "probe probe, line 7: it has vars, which reads whatever it is told"),
        ("return torch.ones(2)", "probe probe, line 6: it uses torch, which is outside it. Import or make it inside."),
        ("return [SIZE for _ in lab.x]", "probe probe, line 6: it uses SIZE, which is outside it"),
    ],
)
def test_a_lab_with_a_probe_that_may_not_be_is_refused_with_the_line(lab_with, body, says):
    with pytest.raises(Problem) as refused:
        lab_with(body)
    assert str(refused.value).startswith(f"labxx/facts.py: {says}")


def test_what_stands_beside_a_probes_arguments_has_to_be_there_too(lab_with):
    with pytest.raises(Problem, match="it uses SIZE, which is outside it"):
        lab_with("return size", signature="lab, size=SIZE")


@pytest.mark.parametrize("asked", ["other", "unknown", "lambda lab: lab.x"])
def test_only_a_probe_is_given_to_run(lab_with, asked):
    with pytest.raises(Problem, match=r"line 15: student.run is given .*A probe is a function of"):
        lab_with("return 1", asked)


def test_an_honest_probe_is_loaded(lab_with):
    body = "import torch\nmodel = torch.nn.Module()\nmodel.first = lab.layer\nreturn str(model.first.weight.device)"
    assert lab_with(body).name == "labxx"
    assert lab_with("return [getattr(lab, name) for name in ('a', 'b')]").name == "labxx"


# --- the list -------------------------------------------------------------------------------------------------


def test_the_functions_that_probes_import_read_no_more_than_probes():
    rules.check_probes(ROOT / "utils" / "exercises" / "facts" / "probes.py")


def test_the_list_has_no_name_that_no_probe_reads():
    paths = [path for lab in LABS for path in (facts_path(lab), facts_path(lab, hidden=True))]
    trees = [ast.parse(path.read_text()) for path in (*paths, ROOT / "utils" / "exercises" / "facts" / "probes.py")]
    read = {node.attr for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert rules.READABLE - read == set()


# --- where no code of the notebook can have run -----------------------------------------------------------------


@pytest.fixture
def events():
    """What was raised of the two auditing events. A hook cannot be taken back: it hears of nothing after the test."""
    heard, listening = [], [True]
    sys.addaudithook(lambda event, _: heard.append(event) if listening and event in (CALLED, COMPUTED) else None)
    yield heard
    listening.clear()


class Sly(int):
    def __add__(self, other):
        return 7

    __radd__ = __add__


@pytest.mark.parametrize(
    ("body", "given", "called"),
    [
        ("return len(given), sum(given), max(given)", [1, 2], 0),
        ("return sum(each for each in given)", [1, 2], 0),
        ("return sum(given)", [1, Sly(2)], 1),
        ("return int(given)", Sly(2), 1),
        ("return len(given)", [Sly(2)], 0),
        ("return any(each for each in given)", [0, 1], 1),
        ("return sorted(given, key=lab)", [1, 2], 1),
        ("return given.get('a')", type("Own", (dict,), {})(), 1),
        ("return given.get('a', 1), given.get('b', 1)", {"a": 2}, 0),
        ("return given.get('a')", {Sly(1): 2}, 1),
        ("def twice():\n        return 2 * given\n    return twice() + twice()", 3, 0),
        ("def twice():\n        return lab()\n    return twice() + twice()", 3, 2),
        ("def twice():\n        return 2 * given\n    lab(twice)\n    return twice()", 3, 2),
        ("def twice():\n        return 2 * given\n    lab(lambda: twice())\n    return twice()", 3, 3),
        ("def one():\n        return 1\n    def two():\n        return one()\n    lab(two)\n    return one()", 3, 3),
        ("len = lab\n    return len(given)", [1], 1),
    ],
)  # fmt: skip
def test_an_event_says_that_code_of_the_notebook_may_have_run(body, given, called, events):
    def lab(*given):
        return given[0]() if given and callable(given[0]) else 1

    own = {}
    exec(rewritten(f"def probe(lab, given):\n    {body}", LOOK), own)
    own["probe"](lab, given)
    assert events.count(CALLED) == called
