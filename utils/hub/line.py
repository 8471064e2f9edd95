"""Where the machine's memory is full, servers wait in line, and their students see how many are before them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable

import psutil
from jupyterhub.spawner import SimpleLocalProcessSpawner
from jupyterhub.utils import maybe_future

A_START = 300 * 2**20  # bytes that a server and its first kernel take
TAKEN_WITHIN = 60.0  # seconds
LOOKS_EACH = 1.0  # second


class Line:
    """First come, first served. A server starts where `reserve` bytes stay free beside it.

    `available` gives the bytes that are free, `clock` seconds.
    """

    def __init__(
        self,
        reserve: float,
        available: Callable[[], float] = lambda: psutil.virtual_memory().available,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._reserve, self._available, self._clock = reserve, available, clock
        self._waiting: list[str] = []
        self._started: list[float] = []  # when: what they take may not be taken yet

    async def wait(self, student: str) -> None:
        """Return when it is this student's turn, and there is room."""
        self._waiting.append(student)
        try:
            while self._waiting[0] != student or not self._has_room():
                await asyncio.sleep(LOOKS_EACH)
            self._started.append(self._clock())
        finally:
            self._waiting.remove(student)

    def before(self, student: str) -> int | None:
        """How many are before a student, who waits; None for one who does not."""
        return self._waiting.index(student) if student in self._waiting else None

    def _has_room(self) -> bool:
        self._started = [at for at in self._started if self._clock() - at < TAKEN_WITHIN]
        return self._available() >= self._reserve + A_START * (1 + len(self._started))


class SpawnerInLine(SimpleLocalProcessSpawner):
    """JupyterHub's, after a wait in line. The wait is no part of the seconds that a server may take to start."""

    line = Line(0)  # the class's: configure.py sets it

    async def run_pre_spawn_hook(self) -> None:
        await self.line.wait(self.user.name)
        await maybe_future(super().run_pre_spawn_hook())

    async def progress(self) -> AsyncGenerator[dict, None]:
        told = None
        while (before := self.line.before(self.user.name)) is not None:
            if before != told:
                yield {"progress": 5, "message": words(before)}
                told = before
            await asyncio.sleep(LOOKS_EACH)
        async for event in super().progress():
            yield event


def words(before: int) -> str:
    """What a student in line is told."""
    who = {0: "You are next.", 1: "1 student is before you."}.get(before, f"{before} students are before you.")
    return f"This machine's memory is full, so your server waits. {who} Keep this page open: it starts by itself."
