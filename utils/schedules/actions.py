"""A schedule is data: for each rank a list of actions, and which rank has which stage."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

KINDS = {
    "F": "the forward pass",
    "B": "the whole backward pass",
    "I": "the half of the backward pass that makes the gradient of the inputs",
    "W": "the half of the backward pass that makes the gradients of the weights",
}
SHORT = re.compile(rf"([{''.join(KINDS)}])(\d+)\.(\d+)")


class Action(NamedTuple):
    """One thing that a rank does: `F0.3` is the forward pass of stage 0 for micro-batch 3."""

    kind: str
    stage: int
    micro_batch: int

    def __str__(self) -> str:
        return f"{self.kind}{self.stage}.{self.micro_batch}"

    __repr__ = __str__

    @classmethod
    def parse(cls, text: str) -> Action:
        """The action of a short form. ValueError, one line, for a text that is none."""
        found = SHORT.fullmatch(text)
        if not found:
            raise ValueError(
                f"{text!r} is not an action. Write F0.3 for the forward pass of stage 0 and micro-batch 3, "
                "or use B, I or W instead of F"
            )
        return cls(found[1], int(found[2]), int(found[3]))


@dataclass(frozen=True)
class Schedule:
    """What each rank does, in its order. `placement` has the rank of each stage. `Schedule.of` makes one from lists."""

    lists: tuple[tuple[Action, ...], ...]
    placement: tuple[int, ...]
    micro_batches: int
    name: str = ""

    @classmethod
    def of(cls, lists, placement: Sequence[int] | None = None, micro_batches: int | None = None, name: str = ""):
        """A schedule from a list for each rank, of actions or their short forms, or from a text with a line for each.

        Stage s is on rank s % ranks unless `placement` says otherwise. There are as many micro-batches as the largest
        number among them says, unless you say how many. A schedule is given back as it is.

        ValueError, one line, for what is no action, or a placement on ranks that have no list.
        """
        if isinstance(lists, cls):
            return lists
        rows = [line.split(":")[-1] for line in lists.strip().splitlines()] if isinstance(lists, str) else lists
        rows = tuple(tuple(map(_action, row.split() if isinstance(row, str) else row)) for row in rows)
        if not any(rows) and (placement is None or micro_batches is None):
            raise ValueError("this schedule has no actions: give lists of actions, or both placement and micro_batches")
        if placement is None:
            placement = looped(len(rows), max(len(rows), 1 + max(action.stage for row in rows for action in row)))
        if micro_batches is None:
            micro_batches = 1 + max(action.micro_batch for row in rows for action in row)
        if max(placement) >= len(rows):
            raise ValueError(
                f"placement={tuple(placement)} has a rank {max(placement)}, but the number of lists is {len(rows)}"
            )
        return cls(rows, tuple(placement), micro_batches, name)

    @property
    def ranks(self) -> int:
        return len(self.lists)

    @property
    def stages(self) -> int:
        return len(self.placement)

    def stages_of(self, rank: int) -> list[int]:
        return [stage for stage, place in enumerate(self.placement) if place == rank]

    def then(self, rank: int, action: Action | str) -> Schedule:
        """The same with one action more at the end of a rank's list."""
        rows = list(self.lists)
        rows[rank] = (*rows[rank], _action(action))
        return replace(self, lists=tuple(rows))

    def __str__(self) -> str:
        """A line for each rank, which `Schedule.of` reads."""
        return "\n".join(f"rank {rank}: {' '.join(map(str, row))}" for rank, row in enumerate(self.lists))


def _action(given) -> Action:
    """An action, or a tuple or a short form of one. Both ways it is checked as its short form."""
    return Action.parse(given if isinstance(given, str) else str(Action(*given)))


def looped(ranks: int, stages: int) -> tuple[int, ...]:
    """Stage s on rank s % ranks: one stage each, or several in turns (interleaved)."""
    return tuple(stage % ranks for stage in range(stages))


def v_shaped(ranks: int) -> tuple[int, ...]:
    """Two stages a rank, down and up again: rank 0 has the first and the last stage."""
    return (*range(ranks), *reversed(range(ranks)))


def number_micro_batches(words: Iterable[tuple[str, int]], micro_batches: int) -> list[Action]:
    """Actions of (kind, stage) in this order, each taking its next micro-batch. Those beyond the last are left out."""
    counts: dict[tuple[str, int], int] = {}
    actions = []
    for word in words:
        number = counts[word] = counts.get(word, -1) + 1
        if number < micro_batches:
            actions.append(Action(*word, number))
    return actions
