"""Threads that are ranks, of which one works at a time: each asks through one queue and is answered through another."""

from __future__ import annotations

import _thread
import sys
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

JOIN = 5.0  # the most seconds to wait for all ranks' threads to end
Ask = Callable[[str, Any], Any]


class Stopped(BaseException):
    """Ends a rank where another one has failed."""


def start(work: Callable, arguments: tuple, asked: SimpleQueue, answers: SimpleQueue) -> Callable[[float], object]:
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
