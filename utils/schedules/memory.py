"""What a rank holds while it works through its list: the activations of the micro-batches that are in flight."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from .actions import Action, Schedule


class Memory(NamedTuple):
    """What each stage holds for one micro-batch, from F to B, or to W where the backward pass comes in halves.

    `stage` is a number for all stages or one for each, in `unit`. Without it a rank counts micro-batches: each of its v
    stages holds 1/v of one. After I only the share `kept` is held until W: 1 where nothing is given back early.
    """

    stage: float | Sequence[float] | None = None
    kept: float = 1.0
    unit: str = "micro-batches"

    def held(self, row: Sequence[Action], schedule: Schedule) -> list[float]:
        """What a rank holds after each action of its list."""
        held = accumulate(self._change(action, schedule) for action in row)
        return [round(each, 9) for each in held]  # thirds of a micro-batch add up to whole ones

    def peak(self, schedule: Schedule) -> tuple[float, ...]:
        """The most that each rank holds."""
        return tuple(max(self.held(row, schedule), default=0.0) for row in schedule.lists)

    def _change(self, action: Action, schedule: Schedule) -> float:
        share = {"F": 1.0, "B": -1.0, "I": self.kept - 1.0, "W": -self.kept}[action.kind]
        return share * self._of(action.stage, schedule)

    def _of(self, stage: int, schedule: Schedule) -> float:
        if self.stage is None:
            return 1 / schedule.placement.count(schedule.placement[stage])
        return self.stage[stage] if isinstance(self.stage, Sequence) else self.stage
