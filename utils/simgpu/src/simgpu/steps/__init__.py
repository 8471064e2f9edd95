"""A step of training that is the same each time: noted twice, and then told to the machine without PyTorch.

    step = simgpu.replayed(train_step)
    for batch in batches:
        step(batch)

On a machine of shapes (`enable(compute=False)`) nothing that a step tells the machine depends on numbers. Its first
calls run operator by operator and are noted (`hooks`, `notes`). Once two in a row have told the machine the same, the
next calls tell it that again (`instructions`), through the same functions of the clock, the streams, the memory and
the log, so that all times, records and peaks are what they would be, to the last digit. `calls` says by what a call is
known again.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakSet

from ..hardware import machine
from ..memory import Storage
from .calls import (
    NotKnownAgain,
    alike_to,
    held,
    key_of_arguments,
    key_of_surroundings,
    references_in,
    results_in,
    with_results,
)
from .hooks import memory_is_watched, takes_notes, taking
from .instructions import StepPlan, do_again
from .notes import StepNotes

__all__ = ["Replayed", "replayed"]

MOST_KEPT = 16  # kinds of calls
TRIES = 8  # calls that were noted in vain before a warning says so


class _Noted(NamedTuple):
    """What came of the last call of a kind: its plan, what it returned, and whether the call before told the same."""

    plan: StepPlan
    returns: Any
    is_sure: bool


def replayed(step: Callable) -> Replayed:
    """`step`, which is replayed once two calls in a row have told the machine the same: for shapes without values.

    A replay tells the clock, the streams, the memory and the log what the operators told them, and starts no operator:
    times (s), records and peaks (bytes) are equal to the last digit. Python in the step does not run then, nor do
    hooks. What it returns is made again: tensors on a GPU, without gradients, and plain values as they were noted.

    Runs operator by operator, always or until it is the same again, and says in `why` what the cause is:

    * a machine with values, or on the wall clock (`clock="paced"`), or one whose memory history is recorded
    * arguments, streams or modes that are others than before; memory held outside the step that is more or less than
      before, but for its arguments and for what earlier calls returned; too little room (the error is the step's own)
    * a step that reads the clock or the log, asks whether a stream is done, makes a stream, replays a CUDA graph, calls
      send, recv, barrier or several collectives as one, keeps more memory each time, keeps what it returns, or returns
      what cannot be made again

    Not noticed is what Python alone decides: a counter in the step, `model.eval()` in between, numbers of a CPU tensor.
    Call `forget()` after such a change. Counters of Python's, schedulers and an optimizer's count of steps stand still
    in a replay, and so do generators.

        >>> step = simgpu.replayed(train_step)
        >>> for batch in batches:
        ...     loss = step(batch)
        >>> step.replays, step.why
        (97, '')
    """
    return Replayed(step)


class Replayed:
    """A step that is replayed where it can be: see `replayed`.

    `replays` counts the calls that were, and `why` is empty after one of them.
    """

    def __init__(self, step: Callable):
        self._step = step
        self.replays = 0
        self.why = ""
        self._in_vain = 0
        self._noted: OrderedDict[tuple, _Noted] = OrderedDict()
        self._returned: WeakSet[Storage] = WeakSet()

    def forget(self) -> None:
        """Note the next two calls again: after a change that only Python knows of."""
        self._noted.clear()
        self._in_vain = 0

    def __call__(self, *args, **kwargs):
        __tracebackhide__ = True
        arguments: list[Storage] = []
        key = self._key(args, kwargs, arguments)
        if key is None:
            return self._step(*args, **kwargs)
        noted = self._noted.get(key)
        if noted is None or not noted.is_sure:
            return self._note(key, noted, arguments, args, kwargs)
        if not noted.plan.fits:
            self.why = "the GPUs have too little room for it now"
            return self._step(*args, **kwargs)
        self.why = ""
        made = do_again(noted.plan, arguments)
        self.replays += 1
        self._returned.update(tensor._storage for tensor in made)
        return with_results(noted.returns, made)

    def _key(self, args, kwargs, arguments: list[Storage]) -> tuple | None:
        """By what this call is known again, or None, and then `why`. The memory it is given goes into `arguments`."""
        self.why = _why_not_now()
        if self.why:
            return None
        try:
            key = key_of_arguments((args, kwargs), arguments), key_of_surroundings()
            hash(key)
        except (NotKnownAgain, TypeError) as error:
            self.why = str(error)
            return None
        return *key, held(arguments, self._returned)

    def _note(self, key: tuple, before: _Noted | None, arguments: list[Storage], args, kwargs):
        """Run the step operator by operator, and note it."""
        __tracebackhide__ = True
        notes, here, found = StepNotes(arguments), machine.here, []
        current = here.gpu, here.queues
        self._noted.pop(key, None)
        with taking(notes):
            out = self._step(*args, **kwargs)
        alike = alike_to(out)  # before anything else refers to what is in `out`
        is_kept = references_in(out) != references_in(alike)
        if (here.gpu, here.queues) != current:
            notes.refuse("it leaves another GPU or stream the current one")
        plan = returns = None
        try:
            returns = results_in(out, found)
        except NotKnownAgain as error:
            notes.refuse(str(error))
        else:
            plan = notes.plan(found)
            self._returned.update(storage for _, storage, _ in found)
        if plan is not None and is_kept:
            plan = None
            notes.refuse("something else keeps a tensor that it returns: return a copy")
        if plan is None:
            self.why = notes.why
        else:
            is_sure = before is not None and plan.same_as(before.plan) and returns == before.returns
            self._noted[key] = _Noted(plan, returns, is_sure)
            if len(self._noted) > MOST_KEPT:
                self._noted.popitem(last=False)
            self.why = "" if is_sure else "it has not done the same twice in a row"
        self._count_in_vain()
        return out

    def _count_in_vain(self) -> None:
        self._in_vain = self._in_vain + 1 if self.why else 0
        if self._in_vain == TRIES:
            warnings.warn(
                f"simgpu.replayed: {TRIES} calls in a row ran operator by operator: {self.why}.",
                RuntimeWarning,
                stacklevel=4,
            )


def _why_not_now() -> str:
    """What forbids to replay or to note any step now."""
    if machine.compute:
        return "the machine has values: simgpu.enable(compute=False) keeps shapes only"
    if machine.clock.name != "virtual":
        return 'the clock is the wall clock: simgpu.enable(clock="virtual") has one of its own'
    if takes_notes():
        return "it is part of a step that is noted"
    if machine.capture is not None:
        return "a CUDA graph is being captured"
    if machine.here.around_backward is not None:
        return "it is called in a backward pass"
    if memory_is_watched():
        return "the memory's history is recorded"
    return ""
