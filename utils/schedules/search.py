"""Searches the lists of a schedule under a cap of memory: first by rules of thumb, then by moving actions about."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations, product

from .actions import Action, Schedule, looped
from .clock import Costs, clock
from .memory import Memory
from .published import interleaved_1f1b, one_f_one_b, zero_bubble_h1, zero_bubble_v
from .rules import mistake, needs


def greedy(
    ranks: int,
    micro_batches: int,
    costs: Costs | None = None,
    memory_cap: float | None = None,
    *,
    link=None,
    placement: Sequence[int] | None = None,
    moves: int = 400,
) -> Schedule:
    """A short schedule that never holds more than `memory_cap` micro-batches on a rank; `ranks`, as 1F1B, unless told.

    Each rule of thumb fills the lists in the order of time: a rank that is free does what it can do at once, in an
    order of preference, and a weight's half where it would wait. The best of these, or of the published schedules that
    keep to the cap, is improved by `moves` tries of moving one action within its list. It is never worse than those,
    and the same each time. `placement` is one stage a rank unless told; `v_shaped(ranks)` makes better use of memory.

    ValueError, one line, for a cap that not even one micro-batch fits under.
    """
    costs = costs or Costs()
    placement = tuple(placement or looped(ranks, ranks))
    cap = float(ranks if memory_cap is None else memory_cap)
    if cap < 1:
        raise ValueError(f"memory_cap={memory_cap!r}: each rank must be able to hold at least one micro-batch")
    empty = Schedule(((),) * ranks, placement, micro_batches, f"greedy under {cap:g}")
    found = [_Filling(empty, costs, cap, *taste).fill() for taste in product(permutations("FIW"), (True, False))]
    for make in (one_f_one_b, zero_bubble_h1, zero_bubble_v, interleaved_1f1b):
        known = make(ranks, micro_batches)
        if known.placement == placement and not mistake(known, cap):
            found.append(replace(known, name=empty.name))
    best = min(found, key=lambda schedule: span(schedule, costs, link))
    return _improved(best, costs, link, cap, moves)


def span(schedule: Schedule, costs: Costs, link=None) -> float:
    """Seconds from the first start to the last end; infinite where the ranks do not come to their ends."""
    done = [step.end for step in clock(schedule, costs, link) if step.taker is None]
    return max(done) if len(done) == sum(map(len, schedule.lists)) else float("inf")


class _Filling:
    """Lists that grow in the order of time, by one taste: which kind first, and which stage of a rank."""

    def __init__(self, empty: Schedule, costs: Costs, cap: float, kinds: Sequence[str], last_stage_first: bool):
        self.empty, self.costs, self.cap = empty, costs, cap
        self.kinds, self.way = kinds, -1 if last_stage_first else 1
        self.rows: list[list[Action]] = [[] for _ in empty.lists]
        self.free = [0.0] * empty.ranks
        self.ends: dict[Action, float] = {}
        self.next = {(kind, stage): 0 for kind in kinds for stage in range(empty.stages)}

    def fill(self) -> Schedule:
        while options := [option for key in self.next if (option := self._option(*key))]:
            start, *_, action = min(options)
            rank = self.empty.placement[action.stage]
            self.rows[rank].append(action)
            self.free[rank] = self.ends[action] = start + self.costs.seconds(action)
            self.next[action[:2]] += 1
        return replace(self.empty, lists=tuple(map(tuple, self.rows)))

    def _option(self, kind: str, stage: int) -> tuple | None:
        """When the next action of a kind on a stage can start, how much it is liked, and which it is."""
        action = Action(kind, stage, self.next[kind, stage])
        made = [[self.ends[each] for each in need if each in self.ends] for need in needs(action, self.empty.stages)]
        if (
            action.micro_batch >= self.empty.micro_batches
            or not all(made)
            or (kind == "F" and not self._has_room(stage))
        ):
            return None
        start = max(self.free[self.empty.placement[stage]], *map(min, made), 0.0)
        return start, self.kinds.index(kind), self.way * stage, action

    def _has_room(self, stage: int) -> bool:
        """Whether a rank can hold one more, and still one of each of its later stages: else it could wait for ever."""
        rank = self.empty.placement[stage]
        stages = self.empty.stages_of(rank)
        held = sum(self.next["F", own] - self.next["W", own] for own in stages)
        later = sum(own > stage for own in stages)
        return held + 1 + later <= self.cap * len(stages)


def _improved(schedule: Schedule, costs: Costs, link, cap: float, moves: int) -> Schedule:
    """The same with single actions moved to other places of their lists, where that makes nothing longer."""
    chance, best = random.Random(0), span(schedule, costs, link)
    for _ in range(moves):
        moved = _moved(schedule, chance)
        if max(Memory().peak(moved)) <= cap and (seconds := span(moved, costs, link)) <= best:
            schedule, best = moved, seconds
    return schedule


def _moved(schedule: Schedule, chance: random.Random) -> Schedule:
    rows = list(schedule.lists)
    rank = chance.randrange(len(rows))
    row = list(rows[rank])
    action = row.pop(place := chance.randrange(len(row)))
    row.insert(max(0, place + chance.choice((-3, -2, -1, 1, 2, 3))), action)
    rows[rank] = tuple(row)
    return replace(schedule, lists=tuple(rows))
