"""utils/kits/lives.py: what a function kept in memory is gone in the next life, and what was there before stays."""

import sys
from functools import partial
from types import FunctionType, ModuleType

import pytest
import torch

from utils.kits.lives import forgetting

SOURCE = """
import torch
from collections import deque
from torch import nn

KEPT, LIST, SET, QUEUE, BYTES = {"old": [1]}, [1], {1}, deque([1]), bytearray(b"a")
TENSOR = torch.zeros(2)
model = nn.Linear(1, 1)


class Holder:
    count = 0

    def __init__(self):
        self.own = []

    def keep(self):
        self.own.append(1)


holder = Holder()


def closed(kept=[]):
    inner = {}

    def closure():
        return inner

    return closure


closure = closed()


def told():
    return (
        KEPT, LIST, SET, list(QUEUE), bytes(BYTES), TENSOR.tolist(), closure(), closed.__defaults__, vars(holder),
        getattr(Holder, "more", None), Holder.count, getattr(train, "kept", None), globals().get("NEW"),
        float(model.weight.detach()) == 7.0,
    )


def train():
    global NEW
    NEW = 1
    KEPT["new"] = 1
    KEPT["old"].append(2)
    LIST.append(2)
    SET.add(2)
    QUEUE.append(2)
    BYTES.extend(b"b")
    TENSOR.add_(1)
    closure()["kept"] = 1
    closed.__defaults__[0].append(1)
    holder.own.append(1)
    holder.more = 1
    Holder.more, Holder.count = 1, 2
    train.kept = 1
    with torch.no_grad():
        model.weight.fill_(7.0)
    return None
"""


@pytest.fixture
def notebook():
    module = ModuleType("a_notebook")
    exec(SOURCE, vars(module))
    return module


def test_nothing_that_a_life_has_kept_is_there_in_the_next(notebook):
    before = repr(notebook.told())
    forget = forgetting(notebook.train)
    notebook.train()
    assert repr(notebook.told()) != before
    forget()
    assert repr(notebook.told()) == before
    notebook.train()
    forget()
    assert repr(notebook.told()) == before


def test_methods_and_partial_functions_are_followed_too(notebook):
    vars(notebook)["wrapped"] = partial(FunctionType(notebook.train.__code__, vars(notebook)))
    for function in (notebook.holder.keep, notebook.wrapped):
        before = repr(notebook.told())
        forget = forgetting(function)
        function()
        forget()
        assert repr(notebook.told()) == before


def test_what_others_have_made_is_left_alone(notebook):
    other = ModuleType("another")
    exec("CACHE = {}\n\ndef remember():\n    CACHE[1] = 1\n", vars(other))
    notebook.remember, notebook.modules = other.remember, sys.modules
    forget = forgetting(notebook.train)
    other.remember()
    torch.manual_seed(3)
    drawn = torch.rand(1)
    forget()
    assert other.CACHE == {1: 1}
    torch.manual_seed(3)
    assert torch.equal(torch.rand(1), drawn)
