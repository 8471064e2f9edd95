"""Where notes of a step are taken: in front of the machine's functions, only while some thread takes them.

So a program that replays nothing runs through none of this.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import get_ident
from unittest import mock

from .. import ordering
from ..clock import Queue, VirtualClock
from ..distributed.backend import SimBackend
from ..distributed.group import CollectiveCall, Group
from ..graphs import CUDAGraph
from ..hardware import machine
from ..memory import Memory, Storage
from ..streams import Event, Stream
from ..tensor import SimTensor, tensors_among
from .notes import StepNotes

_notes: dict[int, StepNotes] = {}  # by thread
_installed = ExitStack()
_lock = threading.Lock()

MESSAGE = "it calls send, recv, barrier or several collectives as one, which are not replayed yet"
CLOCK = "it reads the clock, or asks whether a stream or an event is done"


def _refusing(why: str) -> Callable:
    return lambda notes, *args, **kwargs: notes.refuse(why)


IN_FRONT_OF = (
    (machine, "launch", StepNotes.kernel),
    (machine, "copy_with_host", StepNotes.copy_with_host),
    (machine, "copy_between", StepNotes.copy_between),
    (machine, "communicate", _refusing(MESSAGE)),
    (machine, "wait_for", StepNotes.host_waits_for_gpu),
    (machine, "wait_for_current", StepNotes.host_waits_for_current),
    (machine, "wait_until", _refusing("the host waits for a moment that no stream and no event tells")),
    (machine, "add_queue", _refusing("it makes a stream: make it before")),
    (machine, "settle", _refusing("it reads the log")),
    (machine, "configure", _refusing("it makes another machine")),
    (VirtualClock, "pay", StepNotes.pay),
    (VirtualClock, "now", _refusing(CLOCK)),
    (Stream, "synchronize", StepNotes.host_waits_for_stream),
    (Stream, "wait_stream", StepNotes.stream_waits),
    (Event, "record", StepNotes.event_is_recorded),
    (Event, "wait", StepNotes.stream_waits_for_event),
    (Event, "synchronize", StepNotes.host_waits_for_event),
    (Memory, "reset_peak", StepNotes.peak_is_reset),
    (Memory, "empty_cache", StepNotes.cache_is_emptied),
    (ordering, "heed", StepNotes.heed),
    (CUDAGraph, "replay", _refusing("it replays a CUDA graph")),
    (CUDAGraph, "capture_begin", _refusing("it captures a CUDA graph")),
    *((SimBackend, name, _refusing(MESSAGE)) for name in ("start_coalescing", "barrier", "send", "recv")),
    (Group, "fault", StepNotes.faults_of_collectives),
    (Queue, "wait_until", StepNotes.queue_waits),
)


def takes_notes() -> bool:
    """Whether this thread takes notes of a step."""
    return get_ident() in _notes


def memory_is_watched() -> bool:
    """Whether another recorder is told of what memory comes and goes."""
    return any(not isinstance(gpu.memory.history, (_Watcher, type(None))) for gpu in machine.gpus)


@contextmanager
def taking(notes: StepNotes) -> Iterator[None]:
    """Within, what this thread tells the machine is noted."""
    with _lock:
        if not _notes:
            _install()
        _notes[get_ident()] = notes
    try:
        yield
    finally:
        with _lock:
            del _notes[get_ident()]
            if not _notes:
                _installed.close()


def _install() -> None:
    for owner, name, note in IN_FRONT_OF:
        _installed.enter_context(mock.patch.object(owner, name, _noted(getattr(owner, name), note)))
    _installed.enter_context(mock.patch.object(VirtualClock, "backward", _noted_backward(VirtualClock.backward)))
    _installed.enter_context(mock.patch.object(Storage, "_hold", _noted_resizing(Storage._hold)))
    _installed.enter_context(mock.patch.object(Group, "run", _noted_collective(Group.run)))
    dispatch = SimTensor.__torch_dispatch__
    noted = classmethod(lambda cls, func, types, args=(), kwargs=None: _dispatch(dispatch, func, types, args, kwargs))
    _installed.enter_context(mock.patch.object(SimTensor, "__torch_dispatch__", noted))
    for gpu in machine.gpus:
        watcher = _Watcher()
        gpu.memory.history = watcher
        _installed.callback(_watch_no_longer, gpu.memory, watcher)


def _noted(real: Callable, note: Callable) -> Callable:
    """`real`, which this thread's notes are told of before, but for what it does itself."""

    def call(*args, **kwargs):
        __tracebackhide__ = True
        notes = _notes.get(get_ident())
        if notes is None or notes.within:
            return real(*args, **kwargs)
        note(notes, *args, **kwargs)
        notes.within += 1
        try:
            return real(*args, **kwargs)
        finally:
            notes.within -= 1

    return call


def _noted_backward(real: Callable) -> Callable:
    @contextmanager
    def backward(clock) -> Iterator[None]:
        notes, inside = _notes.get(get_ident()), real(clock)
        if notes is None or notes.within:
            with inside:
                yield
            return
        notes.backward_begins()
        inside.__enter__()
        try:
            yield
        finally:
            notes.within += 1
            inside.__exit__(None, None, None)
            notes.within -= 1
            notes.backward_ends()

    return backward


def _noted_collective(real: Callable) -> Callable:
    noted = _noted(real, StepNotes.collective)

    def run(group: Group, called: CollectiveCall, *args) -> float:
        __tracebackhide__ = True
        end = noted(group, called, *args)
        notes = _notes.get(get_ident())
        if notes is not None and not notes.within:
            notes.collective_ends(end)
        return end

    return run


def _noted_resizing(real: Callable) -> Callable:
    def hold(storage: Storage, size: int) -> None:
        notes = _notes.get(get_ident())
        if notes is None:
            real(storage, size)
            return
        notes.resized(storage, size)
        notes.resizing = True
        try:
            real(storage, size)
        finally:
            notes.resizing = False

    return hold


def _dispatch(real: Callable, func, types, args, kwargs):
    """An operator: what it has written, and what it was given, matters for the order between streams."""
    __tracebackhide__ = True
    notes = _notes.get(get_ident())
    if notes is None or not machine.several_streams:
        return real(func, types, args, kwargs)
    given = {id(storage): storage for storage in _storages((args, kwargs or {}))}
    before = {number: storage.written for number, storage in given.items()}
    outer, notes.given = notes.given, given
    try:
        out = real(func, types, args, kwargs)
    finally:
        notes.given = outer
    for number, storage in (given | {id(storage): storage for storage in _storages((out,))}).items():
        if storage.written is not before.get(number):
            notes.written(storage)
    return out


def _storages(args) -> Iterator[Storage]:
    return (tensor._storage for tensor in tensors_among(args) if type(tensor) is SimTensor)


class _Watcher:
    """What the memory of a GPU tells of each storage that comes and goes."""

    def taken(self, storage: Storage) -> None:
        notes = _notes.get(get_ident())
        if notes is not None and not notes.resizing:
            notes.taken(storage)

    def given(self, storage: Storage) -> None:
        notes = _notes.get(get_ident())
        if notes is not None and not notes.resizing:
            notes.given_back(storage)

    def refused(self, size: int) -> None:
        """Nothing: the step ends with an error."""


def _watch_no_longer(memory: Memory, watcher: _Watcher) -> None:
    if memory.history is watcher:
        memory.history = None
