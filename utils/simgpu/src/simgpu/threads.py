"""Ranks without processes, each with a simulated GPU of its own: a cluster in one process.

    def main(rank):
        ...                         # torch.distributed as on any rank, and the GPU f"simgpu:{rank}"

    simgpu.enable(count=8, nodes=2)
    results = on_gpus(main, ranks=8)

Times, bytes and numbers are those that ranks as processes have. Each rank is a thread, and one works at
a time, until it has to wait for another. So a run is the same every time, and it is known at once when no rank can go
on. All GPUs are in this process, and so in one timeline. What processes would have of their own is shared: global
variables, and the CPU's random numbers.
"""

from __future__ import annotations

import _thread
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from queue import SimpleQueue
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import HashStore  # pyright: ignore[reportPrivateImportUsage]  # it is documented there

from .distributed.in_threads import Host, here, keep_host, swap_host
from .hardware import DEVICE_TYPE
from .torch_private import each_thread_has_its_groups, new_world, swap_world
from .torch_private.sharding import ranks_share_propagation
from .waiting import RanksMissing, named

JOIN = 5.0  # the most seconds to wait for all ranks' threads to end
Ask = Callable[[str, Any], Any]


def on_gpus(main: Callable[[int], Any], ranks: int) -> list:
    """What `main(rank)` returns on each of so many ranks of the machine that `simgpu.enable` made, on its clock.

    What a rank raises is raised here, with a note that says which it was, and ends the others. Raises RanksMissing
    where no rank can go on.
    """
    asked, answers = ([SimpleQueue() for _ in range(ranks)] for _ in range(2))
    worlds, hosts = [new_world() for _ in range(ranks)], [Host() for _ in range(ranks)]
    store, post, waits = HashStore(), _Post(), {}
    results: list = [None] * ranks
    ended: set[int] = set()
    failure: BaseException | None = None

    def can_go_on(rank: int) -> bool:
        return rank not in ended and (failure is not None or rank not in waits or post.has(waits[rank]))

    before, hook, outside = swap_world(worlds[0]), sys.excepthook, Host()
    each_thread_has_its_groups(True)
    joins: list[Callable[[float], object]] = []
    until_the_end = ExitStack()
    try:
        until_the_end.enter_context(ranks_share_propagation())
        for rank in range(ranks):
            joins.append(start_rank(_work, (main, rank, ranks, store), asked[rank], answers[rank]))
        rank = 0
        while True:
            swap_world(worlds[rank])
            swap_host(hosts[rank])
            answer = post.taken(waits.pop(rank)) if failure is None and rank in waits else None
            answers[rank].put((None if failure is None else Stopped(), answer))
            answer = None
            what, thing = asked[rank].get()
            keep_host(hosts[rank])
            if what in ("return", "raise"):
                ended.add(rank)
            if what == "return":
                results[rank] = thing
            elif what == "raise" and failure is None:
                thing.add_note(f"This is rank {rank}'s.")
                failure = thing
            elif what == "leave":
                post.leave(*thing)
            elif what == "wait":
                waits[rank] = post.awaited(rank, thing)
            if len(ended) == ranks:
                break
            # A rank works until it has to wait. Then the next one that can goes on, counted from this one.
            order = [(rank + n) % ranks for n in range(ranks)]
            if not any(map(can_go_on, order)):
                failure = _stuck(waits, ended)
            rank = next(filter(can_go_on, order))
    finally:
        latest = time.monotonic() + JOIN
        for rank, join in enumerate(joins):
            if rank not in ended:  # this thread was interrupted
                answers[rank].put((Stopped(), None))
            join(max(0.0, latest - time.monotonic()))
        until_the_end.close()
        outside.clock.host = max(host.clock.now() for host in hosts)
        swap_host(outside)
        each_thread_has_its_groups(False)
        swap_world(before)
        sys.excepthook = hook  # each process group replaces it, to name its rank
    if failure is not None:
        raise failure
    return results


class _Post:
    """What ranks have for each other. An awaited thing is (its key, how often it is taken, what the rank is doing)."""

    def __init__(self):
        self._left: dict[Any, Any] = {}
        self._taken: dict[Any, int] = defaultdict(int)
        self._numbers: dict[Any, int] = defaultdict(int)  # of a group's gatherings, by rank

    def leave(self, key: Any, value: Any) -> None:
        self._left[key] = value

    def awaited(self, rank: int, thing: tuple) -> tuple:
        """What a rank has begun to wait for: one thing, or what all members of a group give."""
        kind, key, more, *value, what = thing
        if kind == "find":
            return [key], 0 if more else 1, what
        number = self._numbers[key, rank]
        self._numbers[key, rank] += 1
        self.leave((key, number, rank), value[0])
        return [(key, number, member) for member in more], len(more), what

    def has(self, awaited: tuple) -> bool:
        return all(key in self._left for key in awaited[0])

    def taken(self, awaited: tuple) -> list:
        keys, times, _ = awaited
        values = [self._left[key] for key in keys]
        for key in keys:
            self._taken[key] += 1
            if self._taken[key] == times:
                del self._left[key], self._taken[key]
        return values


def _stuck(waits: dict[int, tuple], ended: set[int]) -> RanksMissing:
    """Who waits in what, where none can go on."""
    (first, (_, _, what)), *others = sorted(waits.items())
    states = [f"rank {rank} waits in {what}" for rank, (_, _, what) in others]
    if ended:
        states.append(f"{named(sorted(ended))} {'has' if len(ended) == 1 else 'have'} ended")
    return RanksMissing(first, what, f"can never complete: {'; '.join(states)}")


class _Meeting:
    """A rank's way to the others, as `simgpu.distributed.in_threads` wants it."""

    def __init__(self, ask: Ask):
        self._ask = ask

    def gather(self, group: tuple, members: list[int], value: Any, what: str) -> list:
        return self._ask("wait", ("gather", group, members, value, what))

    def leave(self, key: tuple, value: Any) -> None:
        self._ask("leave", (key, value))

    def find(self, key: tuple, keep: bool, what: str) -> Any:
        return self._ask("wait", ("find", key, keep, what))[0]


def _work(ask: Ask, main: Callable, rank: int, ranks: int, store) -> object:
    here.meeting = _Meeting(ask)
    torch.get_device_module(DEVICE_TYPE).set_device(rank)
    device = torch.device(DEVICE_TYPE, rank)
    dist.init_process_group("simccl", store=store, rank=rank, world_size=ranks, device_id=device)
    return main(rank)


# --- threads that take turns -------------------------------------------------------------------------------------


class Stopped(BaseException):
    """Ends a rank where another one has failed."""


def start_rank(work: Callable, arguments: tuple, asked: SimpleQueue, answers: SimpleQueue) -> Callable[[float], object]:
    """Begin a rank's thread, and return what waits for its end, for so many seconds at most.

    It calls `work(ask, *arguments)` when it is first answered, and asks "return" or "raise" when that has ended.
    `ask(what, thing)` gives its turn away, and returns the answer.

    A thread that still ends while Python does can abort the process. One of `threading` would show to the others what
    it was given.
    """
    if sys.version_info >= (3, 13):
        return _thread.start_joinable_thread(lambda: _run(work, arguments, asked, answers), daemon=True).join
    begun = SimpleQueue()
    _thread.start_new_thread(_begin, (begun, work, arguments, asked, answers))
    held_until_the_end = begun.get()
    return lambda seconds: held_until_the_end.acquire(timeout=seconds)


def _begin(begun: SimpleQueue, *given: Any) -> None:
    # As threading does before Python 3.13: a lock that Python releases when the thread is gone.
    until_the_end = _thread._set_sentinel()  # pyright: ignore[reportAttributeAccessIssue]
    until_the_end.acquire()
    begun.put(until_the_end)
    _run(*given)


def _run(work: Callable, arguments: tuple, asked: SimpleQueue, answers: SimpleQueue) -> None:
    """What a rank's thread does."""

    def ask(what: str, thing: object = None) -> object:
        asked.put((what, thing))
        stop, answer = answers.get()
        if stop is not None:
            raise stop
        return answer

    stop, _ = answers.get()
    what, thing = "return", None
    try:
        if stop is None:
            thing = work(ask, *arguments)
    except Stopped:
        pass
    except BaseException as error:
        what, thing = "raise", error
    asked.put((what, thing))
