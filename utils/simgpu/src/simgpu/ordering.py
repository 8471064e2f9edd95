"""Which stream wrote what, and when: kept once a GPU has several streams.

In a forward pass the order between streams is the user's business, as on CUDA: reading what another stream has not
finished writing gets a warning, which CUDA would not give. In a backward pass PyTorch's engine runs each node on
the stream of its forward operation, and lets it wait for the nodes that it takes gradients from ("Stream semantics
of backward passes" in PyTorch's CUDA notes). So it is here, but for one thing: of a copy between two devices CUDA's
engine restores the stream of the device that received, and here the streams of both are restored. What a hook does on
a stream that it has made current itself is the user's business again.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

import torch

from . import torch_private
from .hardware import LOG_LENGTH, machine

_current_node = torch_private.current_node
_next_number = torch_private.next_sequence_number
_number_of = torch_private.number_of


class _Thread(threading.local):
    def __init__(self):
        # Number of a forward operation -> the current queues of that time.
        self.streams: OrderedDict[int, dict] = OrderedDict()


_thread = _Thread()


def queues() -> tuple[dict, bool]:
    """The queues that are current for the operation that runs now, and whether PyTorch's engine sees to their order.

    It does in a backward pass, but for what a hook, or the backward of a Function, does on a stream that it has chosen.
    """
    node, current, streams = _current_node(), machine.here.queues, _thread.streams
    if node is not None:
        of_forward = streams.get(_number_of(node))
        if current is machine.here.around_backward or current is of_forward:
            return (current if of_forward is None else of_forward), True
        return current, False
    streams.setdefault(_next_number() - 1, current)
    if len(streams) > LOG_LENGTH:
        streams.popitem(last=False)
    return current, False


def heed(written, queue, backward: bool, *, reads: bool = True, copies: bool = False) -> None:
    """Before `queue` works on what another queue wrote: in a backward pass it waits, else a reader is warned.

    `reads`: whether it looks at the values, which what makes a view does not. `copies`: whether it is a copy.
    """
    writer, done, copied = written
    if backward:
        queue.wait_until(_now(writer, done))
    elif reads and writer.gpu is queue.gpu and _now(writer, done) > max(queue.free, machine.clock.now()):
        _warn_of_race(queue.gpu, _worker(queue, copies), _worker(writer, copied))


def _now(writer, done: float) -> float:
    """When a writer has done what it was to have done by `done`; from here on it keeps that time."""
    done = writer.as_it_is_now(done)
    machine.settle(writer.gpu, done)
    return done


@contextlib.contextmanager
def of(given, *, reads: bool = True, copies: bool = False):
    """Around an operator that is given these (GPU, storage) pairs."""
    here = machine.here
    kept = here.queues
    here.queues, backward = queues()
    try:
        for gpu, storage in given:
            queue = machine.queue(gpu)
            if storage.written is not None and storage.written[0] is not queue:
                heed(storage.written, queue, backward, reads=reads, copies=copies)
        yield
    finally:
        here.queues = kept


def note(written, *, copies: bool = False) -> None:
    """These (GPU, storage) pairs have been written, each by the current stream of its GPU."""
    for gpu, storage in written:
        queue = machine.queue(gpu)
        storage.written = queue, queue.free, copies


@contextlib.contextmanager
def unfinished_reads() -> Iterator[list[str]]:
    """A list that fills, while the block runs, with a line for each read of what another stream had not finished.

    The same lines are warnings, which a program may ignore.
    """
    found: list[str] = []
    _audit("simgpu.listening", found, True)
    _lists.append(found)
    try:
        yield found
    finally:
        _audit("simgpu.listening", found, False)
        _lists[:] = [each for each in _lists if each is not found]


_lists: list[list[str]] = []
_audit = sys.audit


def _worker(queue, copies: bool) -> str:
    """Who it is, by what it does, because the number of a stream tells little."""
    stream = "the default stream" if queue.number == 0 else f"stream {queue.number}"
    return f"a {'copy' if copies else 'kernel'} on {stream}"


def _warn_of_race(gpu, reader: str, writer: str) -> None:
    words = (
        f"On {gpu} {reader} reads a tensor that {writer} has not finished writing. "
        "A real GPU may read garbage here, and would not say so. Let one wait for the other: "
        "stream.wait_stream(other) or stream.wait_event(event)."
    )
    for found in _lists:
        found.append(words)
    _audit("simgpu.unfinished", words)
    warnings.warn(
        words,
        RuntimeWarning,
        stacklevel=_level_of_the_user(),
    )


# Code between the user's line and the warning.
INSIDE = (str(Path(torch.__file__).parent), str(Path(__file__).parent), contextlib.__file__)


def _level_of_the_user() -> int:
    """The `stacklevel` at which the caller finds the first frame that is neither PyTorch's nor simgpu's."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(INSIDE):
        frame, level = frame.f_back, level + 1
    return level
