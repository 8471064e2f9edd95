"""Noting what one thread tells the machine in a step: the machine is told as ever, and the notes become a plan."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from weakref import ref

from .. import origin
from ..clock import Queue
from ..distributed.group import CollectiveCall, Group
from ..faults import Jitter, SlowAdapter, SlowGpu
from ..hardware import Gpu, machine
from ..memory import Memory, Storage
from ..streams import Event, Stream, queue_of, stream_of
from .instructions import (
    BACKWARD,
    CALL,
    COLLECTIVE,
    COPY,
    END_OF_BACKWARD,
    GIVE,
    GO_ON,
    HEED,
    HOST_WAITS_FOR_EVENT,
    HOST_WAITS_FOR_GPU,
    HOST_WAITS_FOR_QUEUE,
    KERNEL,
    MAKE,
    NOT_WAITED_FOR,
    PAY,
    QUEUE_WAITS,
    RECORD,
    TAKE,
    WAIT,
    WAIT_FOR_COLLECTIVE,
    WAIT_FOR_COPY,
    WRITTEN,
    Outside,
    ReturnedTensor,
    StepPlan,
)

SLOW = (Jitter, SlowAdapter, SlowGpu)  # faults that change how long something takes, and nothing else


class StepNotes:
    """The notes of one step, which is given tensors with this memory.

    `within` is above 0 while the machine does what has been noted as a whole. `why` says what cannot be replayed.
    """

    def __init__(self, arguments: list[Storage]):
        self.within = 0
        self.resizing = False  # whether memory comes and goes because a storage becomes larger or smaller
        self.why = ""
        self.given: dict[int, Storage] = {}  # memory of the operator's arguments that runs now, by id
        self._instructions: list[tuple] = []
        self._arguments = {id(storage): number for number, storage in enumerate(arguments)}
        self._events: dict[int, tuple[int, Event]] = {}  # by id: its number, and what keeps the id
        self._recorded_first: list[bool] = []
        self._storages: dict[int, int] = {}  # by id: its place among those that instructions name
        self._named: list[tuple] = []
        self._new: dict[int, tuple[int, int, ref[Storage]]] = {}  # by id, what lives: its number, instruction, itself
        self._made = 0
        self._ends: dict[int, tuple[int, float]] = {}  # of collectives, by id of the end: its number, and itself

    def refuse(self, why: str) -> None:
        """This step cannot be replayed."""
        self.why = self.why or why

    def add(self, *instruction) -> None:
        self._instructions.append(instruction)

    # --- kernels, copies and the host ------------------------------------------------------------------------------

    def kernel(self, gpu: Gpu, seconds: float, name: str, moved: int, flops: int, queue=None, replayed=None) -> None:
        if gpu.within:
            return
        if replayed is not None:
            self.refuse("it replays a CUDA graph")
        queue = queue or machine.queue(gpu)
        cost = gpu.profile.launch
        self.add(KERNEL, gpu, cost, gpu.index, seconds, name, moved, flops, queue, origin.here())

    def copy_with_host(self, gpu: Gpu, size: int, *, to_host: bool, pinned=False, wait=True, replayed=None) -> None:
        if replayed is not None:
            self.refuse("it replays a CUDA graph")
        seconds = machine.known_settings.host_link.seconds(size, pageable=not pinned)
        end = machine.queue(gpu), gpu.copy_out if to_host else gpu.copy_in
        then = WAIT_FOR_COPY if wait else NOT_WAITED_FOR if to_host else GO_ON
        self.add(COPY, gpu, (end,), seconds, "d2h" if to_host else "h2d", size, "cpu", origin.here(), then)

    def copy_between(self, source: Gpu, target: Gpu, size: int) -> None:
        ends = (machine.queue(source), source.copy_out), (machine.queue(target), target.copy_in)
        seconds = machine.link_between(source, target).seconds(size)
        self.add(COPY, source, ends, seconds, "d2d", size, target.index, origin.here(), GO_ON)

    def pay(self, _clock, seconds: float, gpu: int) -> None:
        self.add(PAY, seconds, gpu)

    def backward_begins(self) -> None:
        self.add(BACKWARD)

    def backward_ends(self) -> None:
        self.add(END_OF_BACKWARD)

    def host_waits_for_gpu(self, gpu: Gpu) -> None:
        self.add(HOST_WAITS_FOR_GPU, gpu)

    def host_waits_for_current(self, gpu: Gpu) -> None:
        self.add(HOST_WAITS_FOR_QUEUE, machine.queue(gpu))

    # --- streams and events ----------------------------------------------------------------------------------------

    def host_waits_for_stream(self, stream: Stream) -> None:
        self.add(HOST_WAITS_FOR_QUEUE, queue_of(stream))

    def stream_waits(self, stream: Stream, other: Stream) -> None:
        self.add(QUEUE_WAITS, *(stream_of(queue_of(each)) for each in (stream, other)))

    def event_is_recorded(self, event: Event, stream: Stream | None = None) -> None:
        self.add(RECORD, self._number_of(event, recorded=True), _stream(stream))

    def stream_waits_for_event(self, event: Event, stream: Stream | None = None) -> None:
        self.add(WAIT, self._number_of(event), _stream(stream))

    def host_waits_for_event(self, event: Event) -> None:
        self.add(HOST_WAITS_FOR_EVENT, self._number_of(event))

    def _number_of(self, event: Event, recorded: bool = False) -> int:
        if id(event) not in self._events:
            self._events[id(event)] = len(self._events), event
            self._recorded_first.append(recorded)
        return self._events[id(event)][0]

    # --- collectives -----------------------------------------------------------------------------------------------

    def collective(self, group: Group, called: CollectiveCall) -> None:
        tensors = ([Outside(each.shape, each.dtype) for each in some] for some in (called.inputs, called.outputs))
        inputs, outputs = tensors
        called = called._replace(inputs=inputs, outputs=outputs)
        self.add(COLLECTIVE, group, called, machine.queue(called.gpu), origin.here())

    def collective_ends(self, end: float) -> None:
        self._ends[id(end)] = len(self._ends), end

    def queue_waits(self, queue: Queue, moment: float) -> None:
        """For a collective: its work, and the tensors that it makes, have its end itself, and not one as large."""
        known = self._ends.get(id(moment))
        if known is None:
            self.refuse("a stream waits for a moment that nothing in the step tells")
        else:
            self.add(WAIT_FOR_COLLECTIVE, queue, known[0])

    def faults_of_collectives(self, group: Group) -> None:
        if not all(isinstance(fault, SLOW) for fault in machine.known_settings.faults):
            self.refuse("the machine has faults at collectives, which are counted")

    # --- the order between streams ---------------------------------------------------------------------------------

    def heed(self, written: tuple, queue, backward: bool, *, reads: bool = True, copies: bool = False) -> None:
        storage = next((each for each in self.given.values() if each.written is written), None)
        if storage is None:
            self.refuse("a stream waits for what wrote to a tensor, which none of the operator's tensors is")
            return
        self.add(HEED, self._place_of(storage), queue, backward, reads, copies)

    def written(self, storage: Storage) -> None:
        """An operator has written there."""
        if storage.written is None:
            return
        queue, moment, copied = storage.written
        if moment != queue.free:
            self.refuse("a tensor was written at a time that its stream does not tell")
        self.add(WRITTEN, self._place_of(storage), queue, copied)

    def _place_of(self, storage: Storage) -> int:
        place = self._storages.get(id(storage))
        if place is None:
            place = self._storages[id(storage)] = len(self._named)
            if id(storage) in self._new:
                self._named.append(("new", self._new[id(storage)][0]))
            elif id(storage) in self._arguments:
                self._named.append(("argument", self._arguments[id(storage)]))
            else:
                self._named.append(("old", ref(storage)))
        return place

    # --- memory ----------------------------------------------------------------------------------------------------

    def taken(self, storage: Storage) -> None:
        self._new[id(storage)] = self._made, len(self._instructions), ref(storage)
        self._made += 1
        self.add(TAKE, storage.memory, storage.size)

    def given_back(self, storage: Storage) -> None:
        self._new.pop(id(storage), None)
        self._storages.pop(id(storage), None)  # another may be there next
        self.add(GIVE, storage.memory, storage.size)

    def resized(self, storage: Storage, size: int) -> None:
        more = size - storage.size
        self.add(*((TAKE, storage.memory, more) if more > 0 else (GIVE, storage.memory, -more)))

    def peak_is_reset(self, memory: Memory) -> None:
        self.add(CALL, memory, "reset_peak")

    def cache_is_emptied(self, memory: Memory) -> None:
        self.add(CALL, memory, "empty_cache")

    # --- what comes of it ------------------------------------------------------------------------------------------

    def plan(self, results: list[tuple[Gpu, Storage, ReturnedTensor]]) -> StepPlan | None:
        """The plan of this step, which returns tensors with this memory; None where it cannot be replayed (`why`)."""
        instructions, named, numbers = self._instructions, self._named, {}
        for number, (gpu, storage, _) in enumerate(results):
            new = self._new.pop(id(storage), None)
            if new is None:
                self.refuse("it returns a tensor that was there before, or the same one twice: return a copy")
                return None
            made, position, _ = new
            if instructions[position][2] != storage.size:
                self.refuse("it returns a tensor whose memory was resized: return a copy")
            numbers[made] = number
            instructions[position] = MAKE, gpu, storage.size, number
        returned = {("new", made): ("result", number) for made, number in numbers.items()}
        named = [returned.get(which, which) for which in named]
        instructions = [each for run in _runs(instructions) for each in run]
        most = self._most()
        events, self._events = [event for _, event in self._events.values()], {}
        living = [ref(event) for event in events]
        events.clear()
        kept = [event() for event in living]
        if any(event is None and not first for event, first in zip(kept, self._recorded_first, strict=True)):
            self.refuse("it waits for an event of an earlier step that is gone now")
        new = {number: itself for number, _, itself in self._new.values()}
        if self.why:
            return None
        return StepPlan(instructions, kept, named, new, [each for *_, each in results], most)

    def _most(self) -> dict[Memory, int]:
        """The most bytes that each memory held above what it held before."""
        now: dict[Memory, int] = {}
        most: dict[Memory, int] = {}
        returned: dict[Memory, int] = {}
        for kind, *rest in self._instructions:
            if kind in (TAKE, GIVE, MAKE):
                memory, size = (rest[0].memory if kind == MAKE else rest[0]), rest[1]
                now[memory] = now.get(memory, 0) + (-size if kind == GIVE else size)
                most[memory] = max(most.get(memory, 0), now[memory])
                if kind == MAKE:
                    returned[memory] = returned.get(memory, 0) + size
        for memory, more in now.items():
            more -= returned.get(memory, 0)
            if more:
                self.refuse(
                    f"GPU {memory.name} holds {more:+,} bytes after it, aside from what it returns: make room in the "
                    "step for what it keeps (optimizer.zero_grad() belongs into it, and a list of losses does not)"
                )
        return most


def _runs(instructions: list[tuple]) -> Iterator[list[tuple]]:
    """The same, with memory that goes one after another by its GPU and size: which goes first is chance, by C++."""
    for gives, grouped in groupby(instructions, key=lambda instruction: instruction[0] is GIVE):
        run = list(grouped)
        yield sorted(run, key=lambda give: (give[1].name, give[2])) if gives else run


def _stream(stream: Stream | None) -> Stream:
    return stream_of(machine.queue(machine.gpu(None)) if stream is None else queue_of(stream))
