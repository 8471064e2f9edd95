"""Lists that code may add to and not reach: notes of what a function did that somebody else has written."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator


def adding_to(found: list) -> Callable[[object], None]:
    """A function that adds what it is given to `found`.

    A closure shows what it holds, and the frame of a generator does not while a notebook is graded. So this can be in
    the hands of a submission: it adds, and changes nothing that stands there. The auditing event "course.noted" tells
    the observer of a sealed kernel what was added: a list that has anything else in it then is no answer.
    """
    notes = _notes(found, sys.audit)
    next(notes)
    return notes.send


def _notes(found: list, audit: Callable) -> Iterator[None]:
    while True:
        one = yield
        found.append(one)
        audit("course.noted", found, one)
