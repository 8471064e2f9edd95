"""Searches the best schedules of all levels: `python -m utils.widgets.game.search` writes best.json."""

from __future__ import annotations

import json
from dataclasses import replace

from utils.schedules import Action, Costs, Schedule, greedy

from .levels import BEST, LEVELS, Level

MOVES = 3000  # of single actions to other places: 400 are not enough for the last level
WHOLE = Costs(forward=1, inputs=2, weights=0)  # a W that takes no time costs none right after its I: that is a B


def main() -> None:
    """Search all levels."""
    found = {level.title: [" ".join(map(str, row)) for row in best(level).lists] for level in LEVELS}
    BEST.write_text(json.dumps(found, indent=1) + "\n")


def best(level: Level, moves: int = MOVES) -> Schedule:
    """What `greedy` finds for a level."""
    whole, empty = "W" not in level.kinds, level.empty
    cap = level.micro_batches if level.cap is None else level.cap
    costs = WHOLE if whole else Costs()
    found = greedy(empty.ranks, level.micro_batches, costs, cap, placement=level.placement, moves=moves)
    return _in_one_piece(found) if whole else found


def _in_one_piece(schedule: Schedule) -> Schedule:
    """B in the place of each I, and no W."""
    rows = [[Action("B", *each[1:]) if each.kind == "I" else each for each in row] for row in schedule.lists]
    return replace(schedule, lists=tuple(tuple(each for each in row if each.kind != "W") for row in rows))


if __name__ == "__main__":
    main()
