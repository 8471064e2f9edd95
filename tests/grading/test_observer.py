"""The observer in a kernel (observer.py), asked with probes that are made for one attempt each."""

import pytest

from utils.exercises.facts import StudentError
from utils.grading.run.kernel_student import KernelStudent

pytestmark = pytest.mark.xdist_group("kernels")  # forked from one process: to start it takes seconds

NOTEBOOK = """
import torch
from simgpu.hardware import machine

def honest(given):
    return given()

def replaces_a_name(given):
    names = given.__globals__
    def fake(value):
        del names["float"]
        return 42.0
    names["float"] = fake
    return given()

def replaces_and_puts_back(given):
    names = given.__globals__
    names["float"] = lambda value: 42.0
    del names["float"]
    return given()

def keeps_the_peak_low(given):
    memory = machine.gpu("simgpu:0").memory
    kept = torch.empty(1000, device="simgpu:0")
    memory.allocated -= 4096
    more = torch.empty(1000, device="simgpu:0")
    memory.allocated += 4096
    return given()

def empties_a_storage(given):
    kept = torch.empty(1000, device="simgpu:0")
    kept.untyped_storage().resize_(0)
    return given()

def raises_the_capacity(given):
    memory = machine.gpu("simgpu:0").memory
    capacity, memory.capacity = memory.capacity, 2**60
    large = torch.empty(1000, device="simgpu:0")
    memory.capacity = capacity
    return given()

def other_memory(given):
    from simgpu.memory import Memory
    gpu = machine.gpu("simgpu:0")
    own, gpu.memory = gpu.memory, Memory("0", 2**60)
    large = torch.empty(1000, device="simgpu:0")
    gpu.memory = own
    return given()

def says_that_memory_is_free(given):
    import sys
    memory = machine.gpu("simgpu:0").memory
    kept = torch.empty(1000, device="simgpu:0")
    sys.audit("simgpu.memory", memory, -4096)
    memory.allocated -= 4096
    return given()

def names_another_probe(given):
    import sys
    names = given.__globals__
    names["float"] = lambda value: 42.0
    sys.audit("course.probe", names)
    return given()

def reads_the_code(given):
    return given.__code__.co_consts

def has_dis_read_the_code(given):
    import dis
    return dis.Bytecode(given).dis()

def asks_the_collector(given):
    import gc
    return [each for each in gc.get_objects() if getattr(each, "__name__", "") == "hand_over"]

def changes_a_table(given):
    from simgpu import operators
    operators.SPECIAL[torch.ops.aten._to_copy.default] = lambda *given, **more: None
    return given()

def hooks_all_modules(given):
    torch.nn.modules.module.register_module_forward_hook(lambda *given: None)
    return given()
"""
TABLES = """
from simgpu import operators
from utils.exercises.facts import rules
import torch
operators.SPECIAL[torch.ops.aten._to_copy.default] = print
rules.MAY_READ["a tensor"] = {"forged"}
handle = torch.nn.modules.module.register_module_forward_hook(lambda *given: None)
refused = []
for operators in ("aten", "_"):
    try:
        torch.library.Library(operators, "IMPL")
    except PermissionError as error:
        refused.append(str(error))
own = torch.library.Library("mine", "FRAGMENT")
def refusals():
    return refused
"""
SPY = """
import builtins
builtins.seen = []
shell = get_ipython()
original = shell.user_expressions
def spy(expressions):
    builtins.seen += expressions.values()
    return original(expressions)
shell.user_expressions = spy
def what_came_in():
    return seen
"""


def hand_over(lab, name):
    def given():
        return 7

    return float(getattr(lab, name)(given))


@pytest.fixture(scope="module")
def student():
    with KernelStudent([NOTEBOOK]) as student:
        assert not student.errors
        yield student


@pytest.mark.parametrize("name", ["honest", "empties_a_storage", "replaces_and_puts_back"])
def test_who_changes_nothing_is_answered(student, name):
    assert student.run(hand_over, name) == 7.0


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("replaces_a_name", "a name of the grader's"),
        ("names_another_probe", "a name of the grader's"),
        ("keeps_the_peak_low", "the accounts of simulated memory"),
        ("raises_the_capacity", "the accounts of simulated memory"),
        ("other_memory", "the accounts of simulated memory"),
        ("says_that_memory_is_free", "the accounts of simulated memory"),
        ("changes_a_table", "what is in simgpu.operators.SPECIAL"),
        ("hooks_all_modules", "what is in torch.nn.modules.module._global_forward_hooks"),
    ],
)
def test_what_is_changed_for_one_call_is_seen(student, name, what):
    with pytest.raises(StudentError, match=f"While it ran it replaced {what}"):
        student.run(hand_over, name)
    assert student.run(hand_over, "honest") == 7.0  # and is put right for the next


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("reads_the_code", "the code of a test cannot be read"),
        ("has_dis_read_the_code", "the code of a test cannot be read"),
        ("asks_the_collector", "gc.get_objects is not available while an answer is looked at"),
    ],
)
def test_a_function_of_the_notebook_cannot_read_the_probe_that_calls_it(student, name, says):
    with pytest.raises(StudentError, match=says):
        student.run(hand_over, name)
    assert student.run(hand_over, "honest") == 7.0


def entries(lab):
    import torch

    from simgpu import operators
    from utils.exercises.facts import rules

    special = operators.SPECIAL[torch.ops.aten._to_copy.default] is print
    hooks = len(torch.nn.modules.module._global_forward_hooks)
    return [special, "forged" in rules.MAY_READ["a tensor"], hooks, lab.refusals()]


def test_entries_of_tables_are_put_back_before_a_look_and_told():
    with KernelStudent([TABLES]) as student:
        assert not student.errors
        refused = [f"operators of {name} cannot be overridden while this is graded" for name in ("aten", "_")]
        assert student.run(entries) == [False, False, 0, refused]
        told = " ".join(student.flags)
        for name in ("operators.SPECIAL", "rules.MAY_READ", "_global_forward_hooks", "override operators of aten"):
            assert name in told


def came_in(lab):
    return lab.what_came_in()


def test_the_text_of_a_probe_does_not_come_by_the_notebook():
    from base64 import b64decode

    with KernelStudent([SPY]) as student:
        student.run(came_in)
        [first, second] = student.run(came_in)
    for request in (first, second):
        sealed = b64decode(request.split("'course.look', '")[1].split("-", 1)[1].split(".")[0])
        assert b"came_in" not in sealed
        assert not sealed.isascii()
    assert first.split("-", 1)[1][:60] != second.split("-", 1)[1][:60], "the same probe is enciphered otherwise"
