"""Where a kernel came from: the module whose forward launched it, and whether in forward, backward or optimizer.

Nothing is hooked or patched: the Python frames above a launch say it. For a kernel of a backward pass there is
no such frame, but PyTorch numbers the operations of a thread as they happen, and a node of the graph has the
number of the operation that made it. So each forward launch notes its number, and a backward launch looks its
node's number up.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from torch import nn

from . import torch_private

# Frames looked at above a launch, and forward operations whose module is remembered.
DEPTH = 18
REMEMBERED = 200_000


class Origin(NamedTuple):
    module: str
    phase: str  # forward, backward or optimizer
    label: str = ""  # what the user called this part of the work


FORWARD, BACKWARD, OPTIMIZER = "forward", "backward", "optimizer"
_NOWHERE = {phase: Origin("", phase) for phase in (FORWARD, BACKWARD)}
_CALL = torch_private.code_of_a_module_call()
_STEP = torch_private.code_of_an_optimizer_step()
_current_node = torch_private.current_node
_next_number = torch_private.next_sequence_number
_number_of = torch_private.number_of


class _Thread(threading.local):
    def __init__(self):
        self.forward: OrderedDict[int, Origin] = OrderedDict()
        self.label = ""
        self.backward = False  # also between the nodes of a backward pass, and in what it calls at its end


_thread = _Thread()
_origins: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # module -> its Origin in a forward pass


def here() -> Origin:
    """The origin of what is launched now. The two callers above are simgpu's own."""
    node = _current_node()
    if node is not None or _thread.backward:
        made = None if node is None else _thread.forward.get(_number_of(node))
        if made is None:
            return Origin("", BACKWARD, _thread.label) if _thread.label else _NOWHERE[BACKWARD]
        return Origin(made.module, BACKWARD, made.label or _thread.label)
    origin = _from_frames(sys._getframe(2))
    if _thread.label:
        origin = Origin(origin.module, origin.phase, _thread.label)
    forward = _thread.forward
    # The node of this operation, if it has one, was numbered just before. The first that comes is the operation
    # itself: later ones with the same number have no node.
    forward.setdefault(_next_number() - 1, origin)
    if len(forward) > REMEMBERED:
        forward.popitem(last=False)
    return origin


def _from_frames(frame) -> Origin:
    for _ in range(DEPTH):
        if frame is None:
            break
        code = frame.f_code
        if code is _CALL:
            module = frame.f_locals["self"]
            return _origins.get(module) or _name(module, frame)
        if code is _STEP:
            return Origin(type(frame.f_locals["args"][0]).__name__, OPTIMIZER)
        frame = frame.f_back
    return _NOWHERE[FORWARD]


def _name(module: nn.Module, frame) -> Origin:
    """The path of a module from the outermost module that is running: `layer1.0.conv1`, or its class if it is that."""
    outermost = module
    while frame is not None:
        if frame.f_code is _CALL:
            outermost = frame.f_locals["self"]
        frame = frame.f_back
    for path, inner in outermost.named_modules():
        _origins[inner] = Origin(path or type(inner).__name__, FORWARD)
    return _origins.setdefault(module, Origin(type(module).__name__, FORWARD))


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


def forget() -> None:
    """Forget which forward operation came from where: a new machine begins with a new log."""
    _thread.forward.clear()
