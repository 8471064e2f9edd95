"""What the observer puts back, in this process: with the versions of dicts that this Python counts, and without."""

import builtins
import sys

import pytest
import torch

import simgpu
from utils.grading.run import student_process

OBSERVER = student_process.HERE / "observer.py"


@pytest.fixture(scope="module")
def observer():
    namespace = {"__name__": "observer", "__builtins__": dict(vars(builtins))}
    exec(compile(OBSERVER.read_text(encoding="utf-8"), str(OBSERVER), "exec"), namespace)
    return namespace


@pytest.fixture(params=["by versions", "by values"])
def guard(observer, request):
    found = observer["_Guard"](observer["all_classes"]())
    if request.param == "by values":
        found.heads = {}
    assert found.put_back() == []
    return found


def test_this_python_counts_changes_up_to_3_13(observer):
    assert observer["_heads_tell_changes"]() == (sys.version_info < (3, 14))


@pytest.mark.parametrize("near", [True, False])
@pytest.mark.parametrize("times", [1, 50])  # the interpreter has a faster way for what it has done often
def test_what_was_replaced_is_put_back_and_named(guard, near, times):
    enable, forward, module = simgpu.enable, torch.Tensor.backward, sys.modules["simgpu"]
    for _ in range(times):
        simgpu.enable = torch.Tensor.backward = lambda *_: None
    sys.modules["simgpu"] = simgpu.hardware
    replaced = guard.put_back(near=near)
    assert sorted(replaced) == ["simgpu.enable", "sys.modules['simgpu']", "torch.Tensor.backward"]
    assert (simgpu.enable, torch.Tensor.backward, sys.modules["simgpu"]) == (enable, forward, module)
    assert guard.put_back(near=near) == []


def test_so_is_what_was_taken_away_or_added(guard):
    extra_repr = torch.nn.Linear.extra_repr
    del torch.nn.Linear.extra_repr
    torch.nn.Linear.__getattr__ = lambda *_: None
    assert sorted(guard.put_back()) == [
        f"torch.nn.modules.linear.Linear.{name}" for name in ("__getattr__", "extra_repr")
    ]
    assert torch.nn.Linear.extra_repr is extra_repr
    assert "__getattr__" not in vars(torch.nn.Linear)


def test_what_the_first_of_two_looks_has_not_asked_about_the_second_finds(guard):
    extra_repr = torch.nn.Linear.extra_repr
    torch.nn.Linear.extra_repr = lambda *_: "mine"
    assert guard.put_back(near=True) == []
    assert guard.put_back() == ["torch.nn.modules.linear.Linear.extra_repr"]
    assert torch.nn.Linear.extra_repr is extra_repr
