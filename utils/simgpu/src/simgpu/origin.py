"""Where a kernel came from: the module whose forward launched it, and whether in forward, backward or optimizer.

Modules that are called and optimizers that step note on their thread that they run (`torch_private.note_what_runs`).
A kernel of a backward pass runs in no module, but PyTorch numbers the operations of a thread as they happen, and a node
of the graph has the number of the operation that made it. So each forward launch notes its number, and a backward
launch looks its node's number up.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import ref

from torch import nn
from torch.optim import Optimizer

from . import torch_private

# Forward operations whose module is remembered.
REMEMBERED = 200_000


# Module, phase and label, the last three fields of a Record. A plain tuple: the garbage collector passes over those,
# and over the log's entries that hold them.
Origin = tuple[str, str, str]

FORWARD, BACKWARD, OPTIMIZER = "forward", "backward", "optimizer"
_NOWHERE: dict[str, Origin] = {phase: ("", phase, "") for phase in (FORWARD, BACKWARD)}
_current_node = torch_private.current_node
_next_number = torch_private.next_sequence_number
_number_of = torch_private.number_of


class _Thread(threading.local):
    def __init__(self):
        self.forward: OrderedDict[int, Origin] = OrderedDict()
        self.running: tuple | None = None
        self.label = ""
        self.backward = False  # also between the nodes of a backward pass, and in what it calls at its end


_thread = _Thread()
_origins: dict[ref, Origin] = {}  # of modules in a forward pass and of optimizers, while they live


def here() -> Origin:
    """The origin of what is launched now."""
    node = _current_node()
    if node is not None or _thread.backward:
        made = None if node is None else _thread.forward.get(_number_of(node))
        if made is None:
            return ("", BACKWARD, _thread.label) if _thread.label else _NOWHERE[BACKWARD]
        return made[0], BACKWARD, made[2] or _thread.label
    running = _thread.running
    origin = _NOWHERE[FORWARD] if running is None else _origins.get(ref(running[0])) or _name(running)
    if _thread.label:
        origin = *origin[:2], _thread.label
    forward = _thread.forward
    # The node of this operation, if it has one, was numbered just before. The first that comes is the operation
    # itself: later ones with the same number have no node.
    forward.setdefault(_next_number() - 1, origin)
    if len(forward) > REMEMBERED:
        forward.popitem(last=False)
    return origin


def around() -> tuple:
    """What is running on this thread and decides about origins: modules, whether a backward pass, and the label."""
    modules, running = [], _thread.running
    while running is not None:
        modules.append(ref(running[0]))
        running = running[1]
    return *modules, _thread.backward, _thread.label


def _name(running) -> Origin:
    """The class of an optimizer; of a module its path from the outermost that runs, or its class if it is that."""
    innermost = running[0]
    if not isinstance(innermost, nn.Module):
        return _keep(innermost, (type(innermost).__name__, OPTIMIZER, ""))
    outermost = innermost
    while running is not None:
        outermost = running[0] if isinstance(running[0], nn.Module) else outermost
        running = running[1]
    for path, inner in outermost.named_modules():
        _keep(inner, (path or type(inner).__name__, FORWARD, ""))
    return _origins.get(ref(innermost)) or _keep(innermost, (type(innermost).__name__, FORWARD, ""))


def _keep(thing, origin: Origin) -> Origin:
    _origins[ref(thing, _origins.pop)] = origin
    return origin


@contextmanager
def backward() -> Iterator[None]:
    """Around a backward pass."""
    before, _thread.backward = _thread.backward, True
    try:
        yield
    finally:
        _thread.backward = before


@contextmanager
def label(text: str) -> Iterator[None]:
    """Inside, what is launched has this label in the log, and so has its backward pass, whenever that runs."""
    before, _thread.label = _thread.label, str(text)
    try:
        yield
    finally:
        _thread.label = before


def stepped_optimizers() -> list[Optimizer]:
    """The optimizers of torch.optim that are in use and have launched kernels in a step while the log was on.

    An optimizer that steps inside another one, as in ZeroRedundancyOptimizer, stands for both.
    """
    return [thing for found in list(_origins) if isinstance(thing := found(), Optimizer)]


def forget() -> None:
    """Forget which forward operation came from where: a new machine begins with a new log."""
    _thread.forward.clear()


def note_what_runs() -> None:
    """From now on modules and optimizers say that they run."""
    torch_private.note_what_runs(_thread)
