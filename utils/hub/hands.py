"""Who asked for help, the first to ask first. Kept in memory, as all of the instructor's page."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

MOST_CHARACTERS = 80


@dataclass(frozen=True)
class Hand:
    """A raised hand. `at` is where the student is, in their words; `since` in seconds, by the clock of Hands."""

    student: str
    at: str
    since: float


class Hands:
    """`clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self.clock = clock
        self._raised: dict[str, Hand] = {}

    def put_up(self, student: str, at: str) -> int:
        """Returns how many are before this student. Who asks again keeps their place."""
        before = self._raised.get(student)
        since = before.since if before else self.clock()
        self._raised[student] = Hand(student, at[:MOST_CHARACTERS], since)
        return list(self._raised).index(student)

    def put_down(self, student: str) -> bool:
        """Whether it was up."""
        return self._raised.pop(student, None) is not None

    def waiting(self) -> list[tuple[Hand, float]]:
        """The raised hands and how many seconds each has waited, the longest first."""
        return [(hand, self.clock() - hand.since) for hand in self._raised.values()]
