"""Which stream wrote what, and when: kept once a GPU has several streams.

In a forward pass the order between streams is the user's business, as on CUDA: reading what another stream has not
finished writing gets a warning, which CUDA would not give. In a backward pass PyTorch's engine runs each node on
the stream of its forward operation, and lets it wait for the nodes that it takes gradients from ("Stream semantics
of backward passes" in PyTorch's CUDA notes). So it is here.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import warnings
from pathlib import Path

import torch

from . import torch_private
from .hardware import LOG_LENGTH, machine


class _Thread(threading.local):
    def __init__(self):
        self.streams: dict[int, dict] = {}  # number of a forward operation -> the current queues of that time


_thread = _Thread()


@contextlib.contextmanager
def of(read):
    """Around an operator that reads these (GPU, storage) pairs."""
    node = torch_private.current_node()
    here = machine.here
    if node is None:
        streams = _thread.streams
        streams.setdefault(torch_private.next_sequence_number() - 1, here.queues)
        if len(streams) > LOG_LENGTH:
            streams.pop(next(iter(streams)))
        now = machine.clock.now()
        for gpu, storage in read:
            queue = machine.queue(gpu)
            if storage.written is not None:
                writer, done = storage.written
                if writer is not queue and writer.gpu is gpu and done > max(queue.free, now):
                    _warn_of_race(gpu, writer, queue)
        yield
        return
    kept = here.queues
    here.queues = _thread.streams.get(torch_private.number_of(node), kept)
    try:
        for gpu, storage in read:
            queue = machine.queue(gpu)
            if storage.written is not None and storage.written[0] is not queue:
                queue.wait_until(storage.written[1])
        yield
    finally:
        here.queues = kept


def note(written) -> None:
    """These (GPU, storage) pairs have been written, each by the current stream of its GPU."""
    for gpu, storage in written:
        queue = machine.queue(gpu)
        storage.written = queue, queue.free


def _warn_of_race(gpu, writer, reader) -> None:
    warnings.warn(
        f"On {gpu} stream {reader.number} reads a tensor that stream {writer.number} has not finished writing. "
        "A real GPU may read garbage here, and would not say so. Let one wait for the other: "
        "stream.wait_stream(other) or stream.wait_event(event).",
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
