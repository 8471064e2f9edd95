"""What ranks are sent: functions and classes of a notebook as their code, with the values that they use."""

from __future__ import annotations

import copyreg
import pickle
from collections.abc import Callable
from functools import reduce
from typing import Any

import cloudpickle
import torch


def sendable(what: object) -> bytes:
    """What a process needs to have the same. Raises TypeError for what cannot be sent."""
    try:
        return cloudpickle.dumps(what)
    except (TypeError, pickle.PicklingError) as error:
        raise TypeError(
            f"This cannot be sent to other processes: {error}. Create it on each rank, inside the function."
        ) from None


def _operator(name: str) -> Any:
    """torch.ops itself for "", or what it has by this name, such as aten.mm.default."""
    return reduce(getattr, name.split(".") if name else [], torch.ops)


def _by_name(name: str) -> tuple[Callable, tuple[str]]:
    return _operator, (name,)


copyreg.pickle(type(torch.ops), lambda ops: _by_name(""))
copyreg.pickle(type(torch.ops.aten), lambda namespace: _by_name(namespace.name))
for _kind in (type(torch.ops.aten.mm), type(torch.ops.aten.mm.default)):
    copyreg.pickle(_kind, lambda operator: _by_name(str(operator)))
