"""What a killed process knew, forgotten: what a function can reach of its notebook is put back as it was.

    forget = forgetting(train)
    train(...)  # one life: it may write to a global list, to a class of the notebook, to a tensor
    forget()    # the next one finds them as they were before

Names of the notebook, closures, attributes of functions, classes and objects of the notebook and of models, containers
and tensors of the CPU in them are put back. Files stay. So does what is kept elsewhere, as an attribute of a module.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from operator import is_
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType, NoneType
from typing import Any

import numpy as np
import torch
from torch import nn

MOST_NUMBERS = 1_000_000  # of a tensor or an array that is put back
# What has nothing inside and cannot change, or stays as it is: most of what there is.
LEAVES = {bool, int, float, complex, str, bytes, NoneType, range, slice, BuiltinFunctionType, ModuleType}


def forgetting(function: Callable) -> Callable[[], None]:
    """A function that puts back what `function` can reach now of its notebook, as it is now."""
    home = _home_of(function)
    seen: dict[int, Any] = {}
    restore: list[Callable[[], None]] = []
    waiting: list[Any] = [function]
    while waiting:
        thing = waiting.pop()
        if type(thing) in LEAVES or id(thing) in seen:
            continue
        seen[id(thing)] = thing  # kept, so that no other gets its address
        own = _way_back(thing, home)
        if own is not None:
            restore.append(own)
        waiting.extend(_inside(thing, home))

    def forget() -> None:
        for put_back in restore:
            put_back()

    return forget


def _home_of(function: Any) -> str:
    """The name of the module that is the notebook: functions and classes of others are left as they are."""
    while isinstance(function, (MethodType, partial)):
        function = function.__func__ if isinstance(function, MethodType) else function.func
    return function.__module__ if isinstance(function, (FunctionType, type)) else type(function).__module__


def _inside(thing: Any, home: str) -> Iterator[Any]:
    if isinstance(thing, FunctionType):
        if thing.__globals__.get("__name__") != home:
            return
        yield from (thing.__globals__, thing.__dict__, thing.__defaults__, thing.__kwdefaults__)
        yield from thing.__closure__ or ()
    elif isinstance(thing, MethodType):
        yield from (thing.__func__, thing.__self__)
    elif isinstance(thing, partial):
        yield from (thing.func, thing.args, thing.keywords)
    elif isinstance(thing, CellType):
        yield from _content(thing)
    elif isinstance(thing, dict):
        yield from dict.values(thing)
    elif isinstance(thing, (list, tuple, set, frozenset, deque)):
        yield from thing
    elif isinstance(thing, type):
        if thing.__module__ == home:
            yield from vars(thing).values()
    elif isinstance(thing, nn.Module) or type(thing).__module__ == home:
        yield from (type(thing), getattr(thing, "__dict__", None))


def _content(cell: CellType) -> tuple:
    try:
        return (cell.cell_contents,)
    except ValueError:  # it is empty
        return ()


def _way_back(thing: Any, home: str) -> Callable[[], None] | None:
    if isinstance(thing, dict):
        return partial(_refill, thing, dict(thing), dict.clear, dict.update)
    if isinstance(thing, list):
        return partial(_refill, thing, list(thing), list.clear, list.extend)
    if isinstance(thing, set):
        return partial(_refill, thing, set(thing), set.clear, set.update)
    if isinstance(thing, deque):
        return partial(_refill, thing, deque(thing), deque.clear, deque.extend)
    if isinstance(thing, bytearray):
        return partial(_refill, thing, bytearray(thing), bytearray.clear, bytearray.extend)
    if isinstance(thing, CellType):
        return partial(_refill_cell, thing, _content(thing))
    if isinstance(thing, type) and thing.__module__ == home:
        return partial(_refill_class, thing, dict(vars(thing)))
    if isinstance(thing, torch.Tensor) and thing.device.type == "cpu" and thing.numel() <= MOST_NUMBERS:
        return partial(_refill_tensor, thing.detach(), thing.detach().clone())
    if isinstance(thing, np.ndarray) and thing.size <= MOST_NUMBERS and thing.flags.writeable:
        return partial(np.copyto, thing, thing.copy())
    return None


def _refill(thing, before, clear: Callable, fill: Callable) -> None:
    if not _as_before(thing, before):
        clear(thing)
        fill(thing, before)


def _as_before(thing, before) -> bool:
    """Whether the same objects are in it: objects of the notebook may compare as they please."""
    if isinstance(thing, dict):
        if dict.__len__(thing) != len(before):
            return False
        return all(map(is_, dict.values(thing), before.values())) and all(map(is_, dict.keys(thing), before))
    if isinstance(thing, set):
        return set(map(id, thing)) == set(map(id, before))
    if type(thing) is list:
        return len(thing) == len(before) and all(map(is_, thing, before))
    return [id(each) for each in thing] == [id(each) for each in before]


def _refill_cell(cell: CellType, before: tuple) -> None:
    if before:
        cell.cell_contents = before[0]
    elif _content(cell):
        del cell.cell_contents


def _refill_class(kind: type, before: dict) -> None:
    for name, value in before.items():
        if name not in vars(kind) or vars(kind)[name] is not value:
            setattr(kind, name, value)
    for name in [name for name in vars(kind) if name not in before]:
        delattr(kind, name)


def _refill_tensor(tensor: torch.Tensor, before: torch.Tensor) -> None:
    if tensor.shape == before.shape and not torch.equal(tensor, before):
        with torch.no_grad():
            tensor.copy_(before)
