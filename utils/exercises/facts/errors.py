"""Saying that a fact does not hold, and of which call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Unmet(Exception):
    """A fact does not hold. The message says in plain words what was found instead."""


class StudentError(Unmet):
    """The student's code raised, or is not there, or did not answer."""


def need(condition: object, otherwise: str) -> None:
    """Raise Unmet, with `otherwise` as its words, unless `condition` holds."""
    if not condition:
        raise Unmet(otherwise)


@contextmanager
def case(description: str) -> Iterator[None]:
    """Put `description` before the words of whatever is unmet inside: which of several calls it was."""
    try:
        yield
    except Unmet as unmet:
        raise type(unmet)(f"{description}: {unmet}") from None
