"""Memory snapshots: what lies on each simulated GPU, which line of a program made it, and what came and went before.

    torch.cuda.memory._record_memory_history(max_entries=100_000)      # torch.simgpu.memory has the same names
    ...
    torch.cuda.memory._dump_snapshot("snapshot.pickle")

The file is what https://pytorch.org/memory_viz and `python -m torch.cuda._memory_viz` read. Format and names are those
of PyTorch's caching allocator (torch/csrc/cuda/memory_snapshot.cpp). simgpu has none, so each live storage is a segment
of its own with one block, as if each had its own cudaMalloc and cudaFree; there are no free blocks, and the segments
add up to `memory_allocated` and not to `memory_reserved`. Sizes are in bytes, rounded up to the allocator's blocks of
512: what was asked for is not kept. Times are the host's on the machine's clock, in microseconds since `enable`.

While nothing is recorded, a storage costs one comparison more when it comes and when it goes.
"""

from __future__ import annotations

import atexit
import gc
import inspect
import pickle
import sys
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from .frames import call_stack, frames_of
from .hardware import Gpu, machine
from .memory import Memory, Storage

MOST_FRAMES = 100  # of each call, the innermost
LARGE = 2**20  # bytes above which PyTorch takes a block from its pool of large ones
POOL = (0, 0)  # the one that is no program's own
PROTOCOL = 4  # the newest of pickle's that the page reads
# What a snapshot tells of what happens to a storage, in order.
ENTRIES = {
    "alloc": ("segment_alloc", "alloc"),
    "free": ("free_requested", "free_completed", "segment_free"),
    "oom": ("oom",),
}
ACTIONS = {action for actions in ENTRIES.values() for action in actions} | {"snapshot"}
NO_STACK, OF_LIVING, OF_ALLOCATIONS, OF_ALL = range(4)  # whose call stacks are kept
CONTEXTS = {None: NO_STACK, "state": OF_LIVING, "alloc": OF_ALLOCATIONS, "all": OF_ALL}


class _Asked(NamedTuple):
    """What is to be recorded: so many entries for each GPU, call stacks, and the entries of each kind of event."""

    most: int
    stacks: int
    entries: dict[str, tuple[str, ...]]


class MemoryHistory:
    """What is recorded of one GPU: the newest events, and of each storage that lives its stream and call stack.

    There is no lock: a storage may go at any time, also while another is noted.
    """

    __slots__ = ("_asked", "_gpu", "_living", "events")

    def __init__(self, gpu: Gpu, asked: _Asked):
        self._gpu = gpu
        self._living: dict[int, tuple[int, tuple]] = {}  # by address
        self.events: deque[tuple] = deque()
        self.ask(asked)

    def ask(self, asked: _Asked) -> None:
        """Go on with what is asked for now."""
        self._asked = asked
        self.events = deque(self.events, maxlen=asked.most)

    def made(self, address: int) -> tuple[int, tuple]:
        """The stream and the call stack of what made the storage there; 0 and none where that was not recorded."""
        return self._living.get(address, (0, ()))

    def taken(self, storage: Storage) -> None:
        if storage.size:
            stack = self._stack(OF_LIVING)
            stream = machine.queue(self._gpu).number
            self._living[storage.address] = stream, stack
            stack = stack if self._asked.stacks >= OF_ALLOCATIONS else ()
            self._note("alloc", storage.address, storage.size, stream, stack)

    def given(self, storage: Storage) -> None:
        if storage.size:
            stream, _ = self._living.pop(storage.address, (0, ()))
            self._note("free", storage.address, storage.size, stream, self._stack(OF_ALL))

    def refused(self, size: int) -> None:
        stream, stack = machine.queue(self._gpu).number, self._stack(OF_ALLOCATIONS)
        self._note("oom", self._gpu.memory.free, size, stream, stack)

    def _stack(self, wanted_from: int) -> tuple:
        return call_stack(MOST_FRAMES) if self._asked.stacks >= wanted_from else ()

    def _note(self, event: str, place: int, size: int, stream: int, stack: tuple) -> None:
        actions = self._asked.entries[event]
        if actions:
            self.events.append((actions, place, size, stream, machine.clock.now(), stack))

    def trace(self) -> list[dict[str, Any]]:
        """The newest entries, oldest first, in PyTorch's format."""
        entries = [entry for event in list(self.events) for entry in _entries(*event)]
        return entries[-self._asked.most :] if self._asked.most else []


def _entries(actions: Iterable[str], place: int, size: int, stream: int, moment: float, stack: tuple):
    frames = frames_of(stack)
    for action in actions:
        yield {
            "action": action,
            "device_free" if action == "oom" else "addr": place,
            "size": size,
            "stream": stream,
            "time_us": round(moment * 1e6),
            "frames": frames,
            "pool_id": POOL,
        }


class _Recorder:
    """Whether this process records, and what it has recorded."""

    def __init__(self):
        self.asked: _Asked | None = None
        self.histories: dict[Memory, MemoryHistory] = {}

    def begin(self, asked: _Asked, clear: bool = False) -> None:
        if self.asked is None:
            atexit.register(self.detach)  # at the end Python takes modules apart while tensors still go
        self.asked = asked
        for gpu in machine.gpus:
            history = self.histories.setdefault(gpu.memory, MemoryHistory(gpu, asked))
            if clear:
                history.events.clear()
            history.ask(asked)
            gpu.memory.history = history

    def detach(self) -> None:
        """Record nothing more, and keep what there is."""
        for memory in self.histories:
            memory.history = None

    def forget(self) -> None:
        self.detach()
        self.histories.clear()

    def end(self) -> None:
        self.forget()
        self.asked = None
        atexit.unregister(self.detach)


_recorder = _Recorder()


def history_follows_machine() -> None:
    """On a new machine begin again with an empty history, and go on recording where this process did."""
    _recorder.forget()
    if _recorder.asked is not None:
        _recorder.begin(_recorder.asked)


def record_history(
    enabled: str | None = "all",
    context: str | None = "all",
    stacks: str = "all",
    max_entries: int = sys.maxsize,
    device: object = None,
    clear_history: bool = False,
    compile_context: bool = False,
    global_record_annotations: bool = False,
    skip_actions: Iterable[str] | None = None,
    record_pinned_host_memory: bool = False,
    record_cuda: bool = True,
) -> None:
    """Record what comes and goes in the memory of all simulated GPUs. None stops it and forgets what was recorded.

    With `enabled` "all" a snapshot has a trace of each GPU: its newest `max_entries`, five for each storage that came
    and went. With "state" it tells only of what lives where that was made. `context` says whose call stacks are kept:
    of what lives ("state"), in the trace of what comes, too ("alloc"), and of what goes ("all"), or none (None).
    Stacks are Python's, up to 100 frames without simgpu's own, whatever `stacks` says. `skip_actions` are left out of
    the trace, `clear_history` empties it first. The other arguments change nothing here.

    Raises RuntimeError for a value that makes no sense, and where memory of the host is to be recorded.
    """
    _require(enabled in ("state", "all", None), f"enabled={enabled!r}: expected 'state', 'all', or None")
    _require(context in (*CONTEXTS,), f"context={context!r}: expected 'state', 'alloc', 'all', or None")
    _require(stacks in ("python", "all"), f"stacks={stacks!r}: expected 'python', or 'all'")
    is_number = isinstance(max_entries, int) and not isinstance(max_entries, bool) and max_entries >= 0
    _require(is_number, f"max_entries={max_entries!r}: expected a whole number from 0 on")
    skipped = set(() if skip_actions is None else skip_actions)
    _require(skipped <= ACTIONS, f"skip_actions={skip_actions!r}: expected some of {', '.join(sorted(ACTIONS))}")
    _require(not record_pinned_host_memory, "record_pinned_host_memory=True: simgpu counts no memory of the host")
    if enabled is None or not record_cuda:
        _recorder.end()
    else:
        entries = {event: tuple(a for a in actions if a not in skipped) for event, actions in ENTRIES.items()}
        most = min(max_entries, sys.maxsize) if enabled == "all" else 0
        _recorder.begin(_Asked(most, CONTEXTS[context], entries), clear_history)


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise RuntimeError(f"_record_memory_history({problem})")


def _record_memory_history(enabled: Any = "all", *args, **kwargs) -> None:
    if isinstance(enabled, bool):
        _record_as_in_pytorch_2_0(enabled, *args, **kwargs)
    else:
        record_history(enabled, *args, **kwargs)


_record_memory_history.__doc__ = record_history.__doc__
vars(_record_memory_history)["__signature__"] = inspect.signature(record_history)


def _record_as_in_pytorch_2_0(
    enabled: bool,
    record_context: bool = True,
    trace_alloc_max_entries: int = 1,
    trace_alloc_record_context: bool = False,
    device: object = None,
    record_context_cpp: bool = False,
    clear_history: bool = False,
    *args,
    **kwargs,
) -> None:
    """With True and False, which PyTorch still takes: its arguments were others then."""
    context = "alloc" if trace_alloc_record_context else "state" if record_context else None
    record_history("all" if enabled else None, context, "all", trace_alloc_max_entries, device, clear_history)


def take_snapshot(device: object = None, augment_with_fx_traces: bool = False) -> dict[str, Any]:
    """What lies on all simulated GPUs now (`segments`) and the recorded trace of each (`device_traces`), as PyTorch's.

    Each live storage is a segment with one block, since simgpu has no caching allocator. Its `address` is what
    `tensor.untyped_storage().data_ptr()` is. Without history there are segments without `frames`, and empty traces.
    To find what lives, all objects of Python's garbage collector are gone through: some 20 ms for 100,000.
    """
    traces = []
    for gpu in machine.gpus:
        history = _recorder.histories.get(gpu.memory)
        traces.append([] if history is None else history.trace())
    return {"segments": segments(), "device_traces": traces, "allocator_settings": {}, "external_annotations": []}


def dump_snapshot(filename="dump_snapshot.pickle", augment_with_fx_traces: bool = False) -> None:
    """Save `take_snapshot()` to a file, for https://pytorch.org/memory_viz. OSError where it cannot be written."""
    Path(filename).write_bytes(pickle.dumps(take_snapshot(), protocol=PROTOCOL))


def segments() -> list[dict[str, Any]]:
    """The segments of all simulated GPUs, by GPU and address: one for each live storage."""
    gpus = {gpu.memory: gpu for gpu in machine.gpus}
    storages = [each for each in gc.get_objects() if type(each) is Storage and getattr(each, "size", 0)]
    living = [storage for storage in storages if storage.memory in gpus]
    living.sort(key=lambda storage: (gpus[storage.memory].index, storage.address))
    return [_segment(gpus[storage.memory], storage) for storage in living]


def _segment(gpu: Gpu, storage: Storage) -> dict[str, Any]:
    history = _recorder.histories.get(gpu.memory)
    stream, stack = (0, ()) if history is None else history.made(storage.address)
    size, frames = storage.size, frames_of(stack)
    place = {"address": storage.address, "requested_size": size, "frames": frames}
    return {
        "device": gpu.index,
        **place,
        **dict.fromkeys(("total_size", "allocated_size", "active_size"), size),
        "stream": stream,
        "segment_type": "large" if size > LARGE else "small",
        "segment_pool_id": POOL,
        "is_expandable": False,
        "blocks": [place | {"size": size, "state": "active_allocated"}],
    }


def allocation_traceback(data_ptr: int) -> list[dict[str, Any]] | None:
    """The frames of the call that made the live storage at this address; None where none was recorded."""
    stacks = (history.made(data_ptr)[1] for history in _recorder.histories.values())
    return next((frames_of(stack) for stack in stacks if stack), None)


# Under the names of `torch.cuda.memory`.
HISTORY = {
    "_record_memory_history": _record_memory_history,
    "_snapshot": take_snapshot,
    "_dump_snapshot": dump_snapshot,
    "_allocation_traceback": allocation_traceback,
}
