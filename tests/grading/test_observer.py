"""The observer in a kernel (observer.py), asked with probes that are made for one attempt each."""

import pytest

from utils.facts import StudentError
from utils.grading.run.kernel_student import KernelStudent

NOTEBOOK = """
import torch
from utils.simgpu.hardware import machine

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
    from utils.simgpu.memory import Memory
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

def finds_the_look(given):
    found = [given.__code__.co_consts]
    return given()
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


@pytest.mark.parametrize("name", ["honest", "empties_a_storage", "finds_the_look", "replaces_and_puts_back"])
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
    ],
)
def test_what_is_changed_for_one_call_is_seen(student, name, what):
    with pytest.raises(StudentError, match=f"While it ran it replaced {what}"):
        student.run(hand_over, name)
    assert student.run(hand_over, "honest") == 7.0  # and is put right for the next
