"""Ranks that wait for each other, and what they are told when that cannot end well.

A collective begins with all ranks saying what they are about to do. Where that is not the same, all of them raise an
error that says who does what. Where a rank does not come at all, none can say so from inside the wait. So each rank
has a thread that shows in the group's store that it is alive, and when it has waited for some seconds, for what. When
each rank of the world waits, or has ended, or shows no sign of life, then this will not change any more: the wait is
broken off, and the error has the state of every rank in it.
"""

from __future__ import annotations

import atexit
import contextlib
import datetime
import json
import os
import re
import threading
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from . import flight, torch_private
from .hardware import DEVICE_TYPE

PATIENCE = 3.0  # seconds of waiting before others are told what for
LOOK = 1.0  # seconds between two looks at the others; what two looks in a row have seen is believed
NEWS = 600.0  # seconds of waiting for words in a store, which the guard ends when they will not come
SLOW = 60.0  # seconds in which ranks that all wait in the same call are taken for slow: they have come
FAREWELL = 5.0  # seconds that a rank which ends gives its guard to come out of the store
DEAD = 20.0  # seconds without a sign of life
ENDED = "has ended"


class Mismatch(RuntimeError):
    """The ranks of a group are not about to do the same."""


class RanksMissing(RuntimeError):
    """A rank has waited for others that will not come. `waited_in` says what it was doing."""

    def __init__(self, rank: int, waited_in: str, reason: str):
        super().__init__(f"rank {rank} waited in {waited_in}, which {reason}")
        self.waited_in, self.reason = waited_in, reason


class _Lost(RuntimeError):
    """The store that ranks talk through is not there any more."""


def _is_lost(error: BaseException | None) -> bool:
    """Whether this says that a connection has broken. What gloo says of a call that makes no sense is no such thing."""
    return isinstance(error, (_Lost, torch.distributed.DistError)) or "gloo/transport" in str(error)


def _seconds_waited(error: BaseException | None) -> float | None:
    """After how many seconds gloo has given up a wait; None if that is not the error."""
    found = re.search(r"Timed out waiting (\d+)ms", str(error))
    return None if found is None else int(found[1]) / 1000


def named(ranks: list[int]) -> str:
    """`rank 3`, `ranks 0 and 2`, `ranks 0, 2 and 3`."""
    *first, last = map(str, ranks)
    return f"ranks {', '.join(first)} and {last}" if first else f"rank {last}"


def _ended(ranks: list[int]) -> str:
    return f"{named(ranks)} {ENDED if len(ranks) == 1 else 'have ended'}"


def _told(states: dict[int, str]) -> str:
    """What the others do. Where all have ended it is said as `why_broken` says it, who may come first."""
    if set(states.values()) == {ENDED}:
        return _ended(list(states))
    return "; ".join(f"rank {rank} {state}" for rank, state in states.items())


@dataclass
class _State:
    """What a rank shows of itself: how often it has shown it, how many waits it has begun, and what it waits for.

    A rank that waited in vain, and has ended with that, still shows its wait: it ended because of others.
    """

    beat: int = 0
    number: int = 0
    what: str = ""
    over: bool = False

    def told(self) -> str:
        return f"waits in {self.what} (its wait {self.number})"


class Waiting:
    """The waiting of one rank of a group: `with waiting("all_reduce(float32[4])"): ...` around what may block."""

    def __init__(self, store, members: list[int], group_rank: int):
        self._members = members
        self._me = members[group_rank]
        self._gloo: Any = None
        self._store = store
        self._what = ""
        self._reason = ""
        self._awaited = ""  # the key of the words that are waited for
        self._woken = threading.Event()
        self._guard = _guard_of(torch_private.root_store(store), self._me)

    def __call__(self, what: str) -> Waiting:
        self._what = what if len(self._members) == torch_private.world_size() else f"{what} of {named(self._members)}"
        return self

    def __enter__(self) -> None:
        self._guard.begin(self, self._what)

    def __exit__(self, kind, error, trace) -> None:
        self._guard.end()
        self._explain(error)

    @contextlib.contextmanager
    def moving(self, what: str) -> Iterator[None]:
        """Around the moving of numbers on which all have agreed.

        It may take many seconds, and is no waiting for somebody: the guard is not told. A rank that dies meanwhile is
        noticed by gloo.
        """
        self(what)
        try:
            yield
        except RuntimeError as error:
            self._explain(error)
            raise

    def _explain(self, error: BaseException | None) -> None:
        """Raise in this rank's words what a wait ended with, and save what the flight recorder has."""
        if self._reason or _is_lost(error):
            reason = self._reason or self._guard.why_broken(self._members, _seconds_waited(error))
            self._guard.give_up(self._what)
            self._guard.save_flights()
            raise RanksMissing(self._me, self._what, reason) from error
        if isinstance(error, RuntimeError):
            self._guard.save_flights()
        if isinstance(error, RuntimeError) and not isinstance(error, Mismatch):
            raise RuntimeError(f"rank {self._me}, in {self._what}: {error}") from error

    def connect(self, ranks: int, timeout):
        """Gloo between the members of the group, when all of them have come to make it.

        Raises Mismatch where one of them makes another group: gloo would wait for it, or for who is not in it.
        """
        if torch_private.world_size():  # the first group of all has everybody
            with self("new_group()"):
                self._refuse_another_group()
        place = self._members.index(self._me)
        self._gloo = torch_private.gloo(self._store, place, ranks, timeout)
        # Gloo is there on one rank while others still connect: if that rank ended now, they would fail in gloo's words.
        self._store.set(f"connected, {place}", "")
        self._store.wait([f"connected, {place}" for place in range(ranks)], timeout)
        return self._gloo

    def _refuse_another_group(self) -> None:
        self.leave(f"members, {self._me}", self._members)
        for rank in self._members:
            if rank != self._me and (its := self.find(f"members, {rank}", keep=True)) != self._members:
                raise Mismatch(
                    f"new_group was given {self._members} on rank {self._me}, and {its} on rank {rank}: "
                    "all ranks have to make the same groups in the same order"
                )

    def agreed(self, ready: float, what: str, place: int) -> float:
        """The latest `ready` of all ranks. Raises Mismatch where they are not about to do the same.

        `place` is another number for each rank that may take part: two ranks in one place are a mistake, below 0 none.
        """
        mine = torch.tensor([ready, float(zlib.crc32(what.encode())), place], dtype=torch.float64)
        said = self.exchanged(mine)
        if bool((said[:, 1] != said[0, 1]).any()):
            raise Mismatch(self._told(what))
        self._refuse_one_place(said[:, 2].tolist(), what)
        return said[:, 0].max().item()

    def exchanged(self, mine: torch.Tensor) -> torch.Tensor:
        """A row of each rank."""
        all_of_them = [torch.empty_like(mine) for _ in self._members]
        self._woken.clear()
        work = self._gloo.allgather([all_of_them], [mine])
        work.get_future().add_done_callback(lambda _: self._woken.set())
        self._woken.wait()
        self._go_on_or_raise()
        work.wait()
        return torch.stack(all_of_them)

    def _refuse_one_place(self, places: list[float], what: str) -> None:
        for place in sorted({place for place in places if place >= 0 and places.count(place) > 1}):
            who = named([rank for rank, its in zip(self._members, places, strict=True) if its == place])
            raise Mismatch(
                f"{who} all gave {what} tensors on the same GPU, {DEVICE_TYPE}:{place:.0f}. Each rank "
                f"has one of its own: torch.{DEVICE_TYPE}.set_device(int(os.environ['LOCAL_RANK']))."
            )

    def _told(self, what: str) -> str:
        """Who is about to do what, in one line for each different thing."""
        text = torch.zeros(400, dtype=torch.uint8)
        written = what.encode()[:400]
        text[: len(written)] = torch.tensor(list(written), dtype=torch.uint8)
        texts = [torch.empty_like(text) for _ in self._members]
        self._gloo.allgather([texts], [text]).wait()
        by_what: dict[str, list[int]] = {}
        for rank, each in zip(self._members, texts, strict=True):
            by_what.setdefault(bytes(each.tolist()).rstrip(b"\0").decode(), []).append(rank)
        lines = "; ".join(f"{named(ranks)}: {each}" for each, ranks in by_what.items())
        return f"the ranks of a group have to call the same collectives in the same order, and did not. {lines}"

    # --- words from one rank to another, which need no listener --------------------------------------------

    def leave(self, key: str, words: list) -> None:
        """Leave words for other ranks."""
        self._store.set(key, json.dumps(words))

    def find(self, key: str, keep: bool = False) -> list:
        """The words that another rank leaves under this key, when it does. `keep` them for others to find."""
        self._awaited = key
        try:
            self._store.wait([key], datetime.timedelta(seconds=NEWS))
            words = json.loads(self._store.get(key))
            if not keep:
                self._store.delete_key(key)
        except RuntimeError as error:  # the store went with the rank that held it, or it took too long
            raise _Lost from error
        finally:
            self._awaited = ""
        self._go_on_or_raise()
        return words

    def broken_off(self, reason: str) -> None:
        """Let the wait end with an error, from the guard's thread."""
        self._reason = reason
        self._woken.set()
        if key := self._awaited:
            self._store.clone().set(key, "[]")  # a connection of its own: the waiting thread holds the other

    def _go_on_or_raise(self) -> None:
        if self._reason:
            torch_private.never_free(self._gloo)  # which would wait for the ranks that do not come
            raise RuntimeError(self._reason)


class _Guard:
    """What this rank shows of itself, and the thread that looks at the others."""

    def __init__(self, store, rank: int):
        self._store, self._rank = store.clone(), rank  # a connection of its own, for when the other is waited on
        self._lock = threading.Lock()
        self._mine = _State()
        self._waits: tuple[Waiting, str, float] | None = None
        self._others: dict[int, tuple[_State | None, float]] = {}  # what each has shown, and when that was new
        self._seen: dict[int, str] = {}
        self._given_up = ""  # what this rank waited for in vain, last of all
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="simgpu-waiting", daemon=True)
        self._thread.start()
        atexit.register(self._end)

    def begin(self, waiting: Waiting, what: str) -> None:
        with self._lock:
            self._mine.number += 1
            self._given_up = ""
            self._waits = waiting, what, time.monotonic()

    def end(self) -> None:
        with self._lock:
            self._waits, self._mine.what, self._seen = None, "", {}

    def give_up(self, what: str) -> None:
        with self._lock:
            self._given_up = what

    def why_broken(self, members: list[int], waited: float | None) -> str:
        """What has become of a rank whose connection broke, as far as it has said.

        `waited`: the seconds after which gloo has given up, if it did so because they were over.
        """
        time.sleep(LOOK)  # a rank that ends says so a moment before or after
        others = [rank for rank in members if rank != self._rank]
        states = {rank: state for rank in others if (state := self._state(rank))}
        if ended := [rank for rank, state in states.items() if state.what == ENDED]:
            return f"can never complete: {_ended(ended)}"
        if gave_up := {rank: state.told() for rank, state in states.items() if state.over}:
            return f"can never complete: {_told(gave_up)}"
        waiting = [rank for rank, state in states.items() if state.what]
        if waited is not None:
            late = named([rank for rank in others if rank not in waiting] or others)
            return f"did not complete within its timeout of {waited:g} s, because {late} did not come"
        died = [f"rank {rank}" for rank in others if rank not in waiting or len(others) == 1]
        return f"can never complete: {' or '.join(died) or 'a rank'} has died"

    def save_flights(self) -> None:
        """What the flight recorder has of this rank, and of those that have ended, goes into files if asked for.

        Ranks that end later save theirs themselves.
        """
        if not flight.files_are_asked_for():
            return
        flight.write(self._rank, flight.packed())
        with contextlib.suppress(RuntimeError):  # the store went with the rank that held it
            self._store.set(of_this_life("flights are asked for"), "")
            for rank in range(torch_private.world_size()):
                if rank != self._rank and self._store.check([of_this_life(f"flight/{rank}")]):
                    flight.write(rank, self._store.get(of_this_life(f"flight/{rank}")))

    def _leave_flight(self) -> None:
        if not flight.files_are_asked_for():
            return
        records = flight.packed()
        with contextlib.suppress(RuntimeError):
            self._store.set(of_this_life(f"flight/{self._rank}"), records)
            if self._store.check([of_this_life("flights are asked for")]):
                flight.write(self._rank, records)

    def _end(self) -> None:
        self._leave_flight()
        with self._lock:
            self._mine.what, self._mine.over = self._given_up or ENDED, True
            self._show()
        self._ended.set()
        # Python ends a thread that is still in the store's C++ then, and that aborts the process.
        self._thread.join(FAREWELL)

    def _show(self) -> None:
        self._mine.beat += 1
        with contextlib.suppress(RuntimeError):  # the store went with the rank that held it
            self._store.set(of_this_life(f"rank/{self._rank}"), json.dumps(vars(self._mine)))

    def _state(self, rank: int) -> _State | None:
        key = of_this_life(f"rank/{rank}")
        with contextlib.suppress(RuntimeError):
            if self._store.check([key]):
                return _State(**json.loads(self._store.get(key)))
        return None

    def _watch(self) -> None:
        while not self._ended.wait(LOOK):
            with self._lock:
                if self._mine.over:
                    return
                waits = self._waits
                patient = waits is None or time.monotonic() - waits[2] < PATIENCE
                self._mine.what = "" if patient else waits[1]
                self._show()
            states = None if patient else self._look()
            with self._lock:
                if self._waits is not waits:
                    continue
                settled, self._seen = bool(states) and states == self._seen, states or {}
                alike = set((states or {}).values()) == {self._mine.told()}
                settled &= not alike or time.monotonic() - waits[2] > SLOW
            if settled:
                waits[0].broken_off(f"can never complete: {_told(states)}")

    def _look(self) -> dict[int, str] | None:
        """What all others wait for, or why they never will again; None as long as one may still come."""
        found = {}
        for rank in range(torch_private.world_size()):
            if rank == self._rank:
                continue
            state, now = self._state(rank), time.monotonic()
            last, since = self._others.get(rank, (None, now))
            if state != last:
                since = now
            self._others[rank] = state, since
            if state is not None and state.what:
                found[rank] = ENDED if state.what == ENDED else state.told()
            elif now - since > DEAD:
                found[rank] = f"has shown no sign of life for {DEAD:.0f} s"
            else:
                return None
        return found


def of_this_life(key: str) -> str:
    """A key in a store that torchrun keeps when it restarts workers: what they have left there is not for these.

    Nodes count their restarts each for itself, so that only the ranks of one node know a number for all.
    """
    alone = os.environ.get("LOCAL_WORLD_SIZE") == os.environ.get("WORLD_SIZE")
    return f"simgpu/{os.environ.get('TORCHELASTIC_RESTART_COUNT', 0) if alone else 'nodes'}/{key}"


_guards: dict[int, tuple[object, _Guard]] = {}  # by the id of a store, which is kept


def _guard_of(store, rank: int) -> _Guard:
    """The guard of this rank: one for all its groups, made again where the store is another (a new rendezvous)."""
    if id(store) not in _guards:
        _guards[id(store)] = store, _Guard(store, rank)
    return _guards[id(store)][1]
