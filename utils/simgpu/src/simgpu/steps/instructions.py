"""What a machine was told in a step: instructions in order, and doing them once more.

An instruction is a tuple that begins with its kind. It says who has to do what, and what a kernel costs, never when:
the times come from the functions of the machine, which a replay calls as the operators did.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, NamedTuple
from weakref import ref

from .. import ordering
from ..hardware import HostCopy, machine
from ..layout import Layout
from ..memory import Storage
from ..streams import Event
from ..tensor import SimTensor, wrap_planned

KERNEL = "kernel"  # gpu, what a launch costs the host, number of the gpu, seconds, name, bytes, FLOPs, queue, origin
TAKE, GIVE = "take", "give"  # memory, bytes
MAKE = "make"  # gpu, bytes, place among the results: memory of a tensor that the step returns
COPY = "copy"  # gpu, ((queue, engine), ...), seconds, kind, bytes, other end, origin, what the host does then
PAY = "pay"  # seconds, number of the gpu
BACKWARD, END_OF_BACKWARD = "backward", "end of backward"
HOST_WAITS_FOR_GPU, HOST_WAITS_FOR_QUEUE = "host waits for gpu", "host waits for queue"
QUEUE_WAITS = "queue waits"  # stream, for another one
RECORD, WAIT, HOST_WAITS_FOR_EVENT = "record", "wait", "host waits for event"  # event, stream
HEED, WRITTEN = "heed", "written"  # place of a storage, queue, and more: the order between streams
COLLECTIVE = "collective"  # group, what is called, queue, origin
WAIT_FOR_COLLECTIVE = "wait for collective"  # queue, how many collectives came before in the step
CALL = "call"  # object, name of a method without arguments

GO_ON, WAIT_FOR_COPY, NOT_WAITED_FOR = "go on", "wait for it", "not waited for"


class Outside(NamedTuple):
    """What the flight recorder keeps of a tensor."""

    shape: Any
    dtype: Any


class ReturnedTensor(NamedTuple):
    """A tensor that a step returns: its GPU, and its outside."""

    gpu: Any
    layout: Layout


class StepPlan(NamedTuple):
    """What two steps in a row have told the machine. It holds no memory of theirs.

    `events` are those that outlive the step, None for those that do not. Storages that instructions name are
    ("argument", its number), ("result", its number), ("new", its number) or ("old", a weak reference); `living` has
    weak references to new ones that outlive the step. `most` is how many bytes more than before it each memory holds at
    the most.
    """

    instructions: list[tuple]
    events: list[Event | None]
    storages: list[tuple]
    living: dict[int, ref[Storage]]
    results: list[ReturnedTensor]
    most: dict[Any, int]

    def same_as(self, other: StepPlan) -> bool:
        """Whether the step is to be replayed after both."""
        return (
            self.instructions == other.instructions
            and [*map(id, self.events)] == [*map(id, other.events)]
            and self.storages == other.storages
            and self.results == other.results
        )

    @property
    def fits(self) -> bool:
        """Whether every GPU has the room that the step takes."""
        return all(memory.allocated + most <= memory.limit for memory, most in self.most.items())


class _Place:
    """In place of a storage that is gone when a step has ended: which queue has written there."""

    written: tuple | None = None


def do_again(plan: StepPlan, arguments: list[Storage]) -> list[SimTensor]:
    """Tell the machine once more what it was told in a step; returns the tensors that the step would return.

    `arguments` is the memory of the tensors that the step is given.
    """
    __tracebackhide__ = True
    clock, launch = machine.clock, machine.launch
    made: list[Any] = [None] * len(plan.results)
    events = [Event() if event is None else event for event in plan.events]
    places = [_place(plan, which, arguments) for which in plan.storages]
    ends: list[float] = []  # of collectives
    with ExitStack() as backward:
        for instruction in plan.instructions:
            kind = instruction[0]
            if kind is KERNEL:
                _, gpu, cost, index, seconds, name, moved, flops, queue, whence = instruction
                launch(gpu, seconds, name, moved, flops, queue, (clock.pay(cost, index), whence))
            elif kind is TAKE:
                instruction[1].take(instruction[2])
            elif kind is GIVE:
                instruction[1].give(instruction[2])
            elif kind is HEED:
                _, place, queue, in_backward, reads, copies = instruction
                written = places[place].written
                if written is not None and written[0] is not queue:
                    ordering.heed(written, queue, in_backward, reads=reads, copies=copies)
            elif kind is WRITTEN:
                _, place, queue, copied = instruction
                places[place].written = queue, queue.free, copied
            elif kind is MAKE:
                _, gpu, size, number = instruction
                made[number] = Storage(gpu.memory, size)
                for place, which in enumerate(plan.storages):
                    if which == ("result", number):
                        places[place] = made[number]
            elif kind is COPY:
                _copy(*instruction[1:])
            elif kind is BACKWARD:
                backward.enter_context(clock.backward())
            elif kind is END_OF_BACKWARD:
                backward.close()
            else:
                _do(kind, instruction, events, ends)
    return [
        wrap_planned(None, result.gpu, storage, result.layout)
        for result, storage in zip(plan.results, made, strict=True)
    ]


def _place(plan: StepPlan, which: tuple, arguments: list[Storage]):
    kind, number = which
    if kind == "argument":
        return arguments[number]
    living = number() if kind == "old" else plan.living[number]() if number in plan.living else None
    return _Place() if living is None else living


def _copy(gpu, ends, seconds, kind, size, other, whence, then) -> None:
    launched = machine.clock.pay(gpu.profile.launch, gpu.index)
    end = machine._copy(gpu, ends, seconds, kind, size, other, (launched, whence))
    if then is WAIT_FOR_COPY:
        machine.wait_until(end)
    elif then is NOT_WAITED_FOR:
        machine.unwaited.append(HostCopy(gpu.index, size, machine.clock.now(), end))


def _do(kind: str, instruction: tuple, events: list[Event], ends: list[float]) -> None:
    """The rare ones."""
    if kind is PAY:
        machine.clock.pay(*instruction[1:])
    elif kind is HOST_WAITS_FOR_GPU:
        machine.wait_for(instruction[1])
    elif kind is HOST_WAITS_FOR_QUEUE:
        machine.wait_until(instruction[1].free)
    elif kind is QUEUE_WAITS:
        _, stream, other = instruction
        stream.wait_stream(other)
    elif kind is RECORD:
        events[instruction[1]].record(instruction[2])
    elif kind is WAIT:
        events[instruction[1]].wait(instruction[2])
    elif kind is HOST_WAITS_FOR_EVENT:
        events[instruction[1]].synchronize()
    elif kind is COLLECTIVE:
        _, group, called, queue, whence = instruction
        ends.append(group.run(called, queue, whence))
    elif kind is WAIT_FOR_COLLECTIVE:
        _, queue, number = instruction
        queue.wait_until(ends[number])
    elif kind is CALL:
        getattr(*instruction[1:])()
    else:
        raise AssertionError(kind)
