"""Ranks that wait for each other, and what they are told when that cannot end well.

A collective begins with all ranks saying what they are about to do. Where that is not the same, all of them raise an
error that says who does what. Where somebody does not come at all, nobody can say so from inside the wait. So a rank
that has waited for some seconds leaves a note in the group's store, and a thread looks at everybody's notes: when each
rank of the world waits, none for what another gives, or has ended, then this will not change any more. The wait is
broken off, and the error has everybody's note in it.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import threading
import time
import zlib

import torch

from . import torch_private

PATIENCE = 3.0  # seconds of waiting before a note is left
LOOK = 1.0  # seconds between two looks at the notes; what two looks in a row have seen is believed
ENDED = "has ended"


class Mismatch(RuntimeError):
    """The ranks of a group are not about to do the same."""


class Waiting:
    """The waiting of one rank of a group: `with waiting("all_reduce(float32[4])"): ...` around what may block."""

    def __init__(self, store, members: list[int], group_rank: int, gloo):
        self._members, self._rank = members, group_rank
        self._me = members[group_rank]
        self._gloo = gloo
        self._what: list[str] = []
        self._reason = ""
        self._guard = _guard_of(torch_private.root_store(store), self._me)

    def __call__(self, what: str) -> Waiting:
        self._what.append(what)
        return self

    def __enter__(self) -> None:
        self._guard.begin(self, self._what[-1])

    def __exit__(self, kind, error, trace) -> None:
        what = self._what.pop()
        self._guard.end(self)
        if isinstance(error, RuntimeError) and not isinstance(error, Mismatch):
            reason = self._reason or self._guard.why_broken(self._members)
            raise RuntimeError(f"rank {self._me} waited in {what}, and {reason}") from error

    def agreed(self, ready: float, what: str) -> float:
        """The latest `ready` of all ranks. Raises Mismatch where they are not about to do the same."""
        mine = torch.tensor([ready, float(zlib.crc32(what.encode()))], dtype=torch.float64)
        all_of_them = [torch.empty_like(mine) for _ in self._members]
        self._gloo.allgather([all_of_them], [mine]).wait()
        said = torch.stack(all_of_them)
        if bool((said[:, 1] != said[0, 1]).any()):
            raise Mismatch(self._told(what))
        return said[:, 0].max().item()

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
        lines = "; ".join(f"rank {' and '.join(map(str, ranks))}: {each}" for each, ranks in by_what.items())
        return f"the ranks of a group have to call the same collectives in the same order, and did not. {lines}"

    def broken_off(self, reason: str) -> None:
        self._reason = reason
        self._gloo.abort()


class _Guard:
    """The notes of one rank, and the thread that reads everybody's."""

    def __init__(self, store, rank: int):
        self._store, self._rank = store, rank
        self._lock = threading.Lock()
        self._waits: tuple[Waiting, str, float, int] | None = None
        self._number = 0
        self._noted = False
        self._seen: dict[int, list] = {}
        threading.Thread(target=self._watch, name="simgpu-waiting", daemon=True).start()
        atexit.register(self._leave, ENDED)

    def begin(self, waiting: Waiting, what: str) -> None:
        with self._lock:
            self._number += 1
            self._waits = waiting, what, time.monotonic(), self._number

    def end(self, waiting: Waiting) -> None:
        with self._lock:
            self._waits, self._seen = None, {}
            if self._noted:
                self._leave("")

    def why_broken(self, members: list[int]) -> str:
        """What has become of a rank whose connection broke, as far as the notes tell."""
        time.sleep(LOOK)  # whoever ends says so a moment before or after
        ended, silent = [], []
        for rank in set(members) - {self._rank}:
            note = self._note(rank)
            if note is None:
                silent.append(f"rank {rank}")
            elif note[1] == ENDED:
                ended.append(f"rank {rank}")
        if ended:
            return f"the connection broke, because {' and '.join(ended)} {ENDED}"
        return f"the connection broke: {' or '.join(silent) or 'a rank'} has died"

    def _note(self, rank: int) -> list | None:
        """The note that a rank has left, None where there is none."""
        key = f"simgpu/waits/{rank}"
        with contextlib.suppress(RuntimeError):  # the store went with the rank that held it
            if self._store.check([key]):
                note = json.loads(self._store.get(key))
                return note if note[1] else None
        return None

    def _leave(self, what: str) -> None:
        self._noted = bool(what)
        with contextlib.suppress(RuntimeError):  # the store went with the rank that held it
            self._store.set(f"simgpu/waits/{self._rank}", json.dumps([self._number, what]))

    def _watch(self) -> None:
        while True:
            time.sleep(LOOK)
            with self._lock:
                if self._waits is None or time.monotonic() - self._waits[2] < PATIENCE:
                    continue
                waiting, what, _, number = self._waits
                if not self._noted:
                    self._leave(what)
            notes = self._notes()
            with self._lock:
                if self._waits is None or self._waits[3] != number:
                    continue
                settled, self._seen = notes is not None and notes == self._seen, notes or {}
            if settled:
                others = "; ".join(
                    f"rank {rank} {note[1] if note[1] == ENDED else f'waits in {note[1]}'}"
                    for rank, note in notes.items()
                    if rank != self._rank
                )
                waiting.broken_off(f"nobody will come: {others}")
                return

    def _notes(self) -> dict[int, list] | None:
        """Everybody's note; None as long as somebody has left none and may still come."""
        found = {rank: self._note(rank) for rank in range(torch_private.world_size())}
        return None if None in found.values() else found


_guards: dict[int, _Guard] = {}


def _guard_of(store, rank: int) -> _Guard:
    """The guard of this rank: one for all its groups, made anew where the store is another (a new rendezvous)."""
    guard = _guards.get(id(store))
    if guard is None:
        guard = _guards[id(store)] = _Guard(store, rank)
        guard.kept = store
    return guard
