"""Streams and events, as `torch.cuda` has them: `torch.simgpu.Stream`, `torch.simgpu.Event`."""

from __future__ import annotations

import torch

from . import torch_private
from .clock import Queue
from .hardware import Gpu, machine
from .priorities import Kernel


class Stream:
    """A queue of kernels and copies on one GPU. Each GPU begins with one, number 0, the default.

    What is launched inside `with torch.simgpu.stream(s):` (or `with s:`) goes to it. Streams of one GPU share its
    engines: one for kernels, one for copies in and one for copies out; what uses different engines runs at the
    same time. As on CUDA a kernel of lower `priority` (-1 before 0, the default) goes before those that have not begun.
    """

    def __init__(self, device=None, priority: int = 0):
        self._queue = machine.add_queue(machine.gpu(device), priority)
        self._before: list[tuple[int, dict]] = []

    @property
    def device(self) -> torch.device:
        return self._queue.gpu.device

    @property
    def priority(self) -> int:
        return self._queue.priority

    @property
    def stream_id(self) -> int:
        return self._queue.number

    @property
    def cuda_stream(self) -> int:
        """What CUDA code hands to other libraries. Here it is the stream's number, 0 for the default one, as there."""
        return self._queue.number

    @property
    def device_index(self) -> int:
        return self._queue.gpu.index

    @property
    def device_type(self) -> int:
        """The number of PyTorch's device type, as `torch.Stream` has it."""
        return torch_private.NUMBER_OF_DEVICE_TYPE

    def query(self) -> bool:
        """Whether everything given to this stream is done. A no costs the host what a launch costs it."""
        return is_past(self._queue.free, self._queue.gpu)

    def is_capturing(self) -> bool:
        """Whether what this thread gives to it becomes part of a graph (`torch.simgpu.graph`)."""
        return is_captured(self._queue.gpu)

    def synchronize(self) -> None:
        """The host waits until everything given to this stream is done."""
        machine.wait_until(queue_of(self).free)

    def wait_stream(self, stream: Stream) -> None:
        """What is given to this stream from now on waits for what `stream` was given until now."""
        queue, other = queue_of(self), queue_of(stream)
        if queue is not other:
            queue.wait_until(machine.told(other))

    def wait_event(self, event: Event) -> None:
        """What is given to this stream from now on waits for `event`."""
        event.wait(self)

    def record_event(self, event: Event | None = None) -> Event:
        """Mark this point of the stream, with a new event if none is given."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        before = machine.here.gpu, machine.here.queues
        make_current(self)
        self._before.append(before)
        return self

    def __exit__(self, *exception) -> None:
        machine.here.gpu, machine.here.queues = self._before.pop()

    def __eq__(self, other) -> bool:
        return isinstance(other, Stream) and other._queue is self._queue

    def __hash__(self) -> int:
        return hash(self._queue)

    def __repr__(self) -> str:
        return f"<torch.simgpu.Stream device={self.device} stream={self.stream_id}>"


def make_current(stream: Stream) -> None:
    """Launch on this stream from now on, in this thread; its GPU becomes the current one."""
    here, queue = machine.here, queue_of(stream)
    here.gpu, here.queues = queue.gpu.index, {**here.queues, queue.gpu: queue}


def is_captured(gpu: Gpu) -> bool:
    """Whether what this thread gives to a GPU is captured."""
    capture = machine.capture
    return capture is not None and capture.here and capture.gpu is gpu


def is_past(moment: float, gpu: Gpu) -> bool:
    if is_captured(gpu):
        machine.capture.refuse_waiting()
    if moment <= machine.clock.now():
        machine.know_done(moment)
        return True
    # Without a cost, a loop that asks until the answer is yes would never end on the virtual clock.
    machine.clock.pay(gpu.profile.launch, gpu.index)
    return False


def stream_of(queue: Queue) -> Stream:
    """The stream for a queue that is there already."""
    stream = object.__new__(Stream)
    stream._queue, stream._before = queue, []
    return stream


def queue_of(stream: Stream | torch.Stream) -> Queue:
    """The queue of a stream. RuntimeError if it went with an earlier machine.

    A `torch.Stream`, which PyTorch makes without asking, is the default stream of the current GPU.
    """
    if not isinstance(stream, Stream):
        return machine.gpu(None).queues[0]
    if stream._queue.gpu.retired:
        raise RuntimeError(
            f"This stream was made on {stream.device} before simgpu.enable() changed the simulated machine, "
            "and went with it. Make a new one."
        )
    return stream._queue


class Event:
    """A point in a stream: `record` it, then wait for it, or measure the time between two of them."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False):
        self._timing = enable_timing
        self._recorded: float | None = None
        self._queue: Queue | None = None
        self._after: Kernel | None = None  # where streams have priorities: what it happens after may be delayed

    @property
    def device(self) -> torch.device | None:
        """Of the stream that recorded it; None before."""
        return None if self._queue is None else self._queue.gpu.device

    def record(self, stream: Stream | None = None) -> None:
        """Happen when all that `stream` (default: the current one) was given until now is done.

        Raises RuntimeError where another device's stream recorded it before, as CUDA's events do.
        """
        queue = machine.queue(machine.gpu(None)) if stream is None else queue_of(stream)
        if self._queue is not None and not self._queue.gpu.retired and queue.gpu is not self._queue.gpu:
            raise RuntimeError(
                f"Event device {self._queue.gpu.index} does not match recording stream's device {queue.gpu.index}."
            )
        self._queue, self._after = queue, queue.last
        self._recorded = max(queue.free, machine.clock.now())

    @property
    def _moment(self) -> float | None:
        """When it happens, as it is known now."""
        recorded, after = self._recorded, self._after
        return recorded if recorded is None or after is None else max(recorded, after.end)

    def wait(self, stream: Stream | None = None) -> None:
        """What `stream` (default: the current one) is given from now on waits for this event."""
        queue = machine.queue(machine.gpu(None)) if stream is None else queue_of(stream)
        moment, recorder = self._moment, self._queue
        if moment is not None and recorder is not None and queue is not recorder:
            machine.settle(recorder.gpu, moment)
            queue.wait_until(moment)

    def query(self) -> bool:
        """Whether it has happened. One that was never recorded has. A no costs the host what a launch costs it."""
        moment, recorder = self._moment, self._queue
        return moment is None or recorder is None or is_past(moment, recorder.gpu)

    def synchronize(self) -> None:
        """The host waits until it has happened."""
        if self._moment is not None:
            machine.wait_until(self._moment)

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to `end_event`.

        As on CUDA (c10/cuda/CUDAEvent.h), raises ValueError without `enable_timing=True` or where one was not recorded,
        RuntimeError where one has not happened, or where they are of two devices (CUDA C++ Programming Guide, "Stream
        and Event Behavior").
        """
        if not (self._timing and end_event._timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._moment is None or end_event._moment is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if self.device != end_event.device:
            raise RuntimeError(
                f"simgpu error: invalid resource handle: one event was recorded on {self.device}, the other on "
                f"{end_event.device}. Time between events is measured on one device: record both in its streams."
            )
        if max(self._moment, end_event._moment) > machine.clock.now():
            raise RuntimeError(
                "Both events must be completed before calculating elapsed time: call end_event.synchronize() first."
            )
        return (end_event._moment - self._moment) * 1e3

    def __repr__(self) -> str:
        return "<torch.simgpu.Event>" if self._moment is None else f"<torch.simgpu.Event at {self._moment:.6f} s>"
