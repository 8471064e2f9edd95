"""Ranks that are threads of one process, each with a simulated GPU of its own, and only one at work at a time.

Times and numbers are those of ranks that are processes: only their way from one rank to another differs. It is what
`here.meeting` has, an object of whoever lets the threads take turns:

    meeting.gather(group, members, value, what)    # the values of all members, by their places in the group
    meeting.leave(key, value)                      # for `find`, on any rank
    meeting.find(key, keep, what)                  # waits for it
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import contextmanager
from functools import reduce
from typing import Any

import torch

from .. import torch_private
from ..clock import VirtualClock
from ..hardware import machine
from ..waiting import Waiting

ReduceOp = torch_private.ReduceOp


class _Here(threading.local):
    """The meeting of the rank that this thread is, None where it is none, and how often it has made each group."""

    def __init__(self):
        self.meeting: Any = None
        self.groups: dict[tuple[int, ...], int] = defaultdict(int)


here = _Here()


class Host:
    """What a rank has as a process of its own: the time of its host, and how many collectives it has begun."""

    def __init__(self):
        self.clock = VirtualClock()
        self.clock.host = machine.clock.now()
        self.collectives = 0


def swap_host(host: Host) -> None:
    """Let this rank's host be the machine's from now on."""
    machine.clock, machine.collectives = host.clock, host.collectives


def keep_host(host: Host) -> None:
    """Remember what the rank at work has done until now."""
    host.collectives = machine.collectives


class WaitingInThread(Waiting):
    """`Waiting` of a rank that is a thread: who waits in vain is known at once, by who lets them take turns."""

    def __init__(self, members: list[int], group_rank: int):
        self._members, self._me, self._what, self._reason = members, members[group_rank], "", ""
        self._guard: Any = _NoGuard()
        self._meeting = here.meeting
        made = here.groups[tuple(members)]
        here.groups[tuple(members)] += 1
        self._name = tuple(members), made

    @contextmanager
    def moving(self, what: str):
        self(what)
        yield

    def connect(self, ranks: int, timeout) -> GlooOfThreads:
        self._gloo = GlooOfThreads(self, self._members.index(self._me))
        return self._gloo

    def gathered(self, mine: Any) -> list:
        """What each rank gives, by its place in the group."""
        return self._meeting.gather(self._name, self._members, mine, self._what)

    def exchanged(self, mine: torch.Tensor) -> torch.Tensor:
        return torch.stack(self.gathered(mine))

    def leave(self, key: str, words: Any) -> None:
        self._meeting.leave((self._name, key), words)

    def find(self, key: str, keep: bool = False) -> Any:
        return self._meeting.find((self._name, key), keep, self._what)


class _NoGuard:
    """Nothing to guard: threads of one process come, or have ended."""

    def begin(self, *_: object) -> None: ...

    end = give_up = save_flights = begin


class _Work:
    def __init__(self, finish: Callable[[], object] = lambda: None):
        self._finish = finish

    def wait(self) -> None:
        self._finish()


REDUCE = {
    ReduceOp.SUM: torch.add,
    ReduceOp.PRODUCT: torch.mul,
    ReduceOp.MIN: torch.minimum,
    ReduceOp.MAX: torch.maximum,
}


class GlooOfThreads:
    """What simgpu asks of gloo, by way of the meeting. Sums are added up in the order of the ranks."""

    def __init__(self, waiting: WaitingInThread, place: int):
        self._waiting, self._place = waiting, place
        self._messages: dict[tuple, int] = defaultdict(int)

    def allreduce(self, tensors, options) -> _Work:
        how = next(function for op, function in REDUCE.items() if options.reduceOp == op)
        for tensor in tensors:
            tensor.copy_(reduce(how, self._waiting.gathered(tensor.clone())))
        return _Work()

    def allgather(self, outputs, inputs) -> _Work:
        for parts, own in zip(outputs, inputs, strict=True):
            for part, got in zip(parts, self._waiting.gathered(own.clone()), strict=True):
                part.copy_(got)
        return _Work()

    def broadcast(self, tensors, options) -> _Work:
        for tensor in tensors:
            tensor.copy_(self._waiting.gathered(tensor.clone())[options.rootRank])
        return _Work()

    def scatter(self, outputs, inputs, options) -> _Work:
        given = [part.clone() for part in inputs[0]] if inputs else []
        outputs[0].copy_(self._waiting.gathered(given)[options.rootRank][self._place])
        return _Work()

    def all_to_all_single(self, output, input, output_sizes, input_sizes) -> _Work:
        ranks = len(self._waiting._members)
        parts = input.clone().split(list(input_sizes)) if input_sizes else input.clone().chunk(ranks)
        output.copy_(torch.cat([given[self._place] for given in self._waiting.gathered(parts)]))
        return _Work()

    def send(self, tensors, to: int, tag: int) -> _Work:
        self._waiting.leave(self._next(self._place, to, tag), tensors[0])
        return _Work()

    def recv(self, tensors, source: int, tag: int) -> _Work:
        key = self._next(source, self._place, tag)
        return _Work(lambda: tensors[0].copy_(self._waiting.find(key)))

    def _next(self, *message: int) -> str:
        self._messages[message] += 1
        return f"numbers of {message}, {self._messages[message]}"
