"""What an action needs, whether lists are legal, and the first thing that is wrong with them, in a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from .actions import KINDS, Action, Schedule
from .memory import Memory

Need = tuple[Action, ...]  # any of these will do


class Mistake(NamedTuple):
    """The first mistake of a schedule: on which rank, at which place of its list (from 0), why, and against what rule.

    `rule` is one word for who counts mistakes: number, rank, twice, halves, forgotten, order, circle or memory.
    """

    rank: int
    position: int
    reason: str
    rule: str


@cache
def needs(action: Action, stages: int) -> tuple[Need, ...]:
    """What has to be done before an action, on whatever rank."""
    kind, stage, number = action
    if kind == "F":
        return ((Action("F", stage - 1, number),),) if stage else ()
    if kind == "W":
        return ((Action("I", stage, number),),)
    own = ((Action("F", stage, number),),)
    return own if stage == stages - 1 else (*own, (Action("B", stage + 1, number), Action("I", stage + 1, number)))


def receiver(action: Action, stages: int) -> int | None:
    """The stage that an action's result goes to: the next one for an output, the one before for a gradient."""
    stage = {"F": action.stage + 1, "B": action.stage - 1, "I": action.stage - 1}.get(action.kind, -1)
    return stage if 0 <= stage < stages else None


def ticks(schedule: Schedule, in_turns: bool = True) -> tuple[list[list[tuple[int, Action]]], list[int]]:
    """An order in which one host can launch a schedule, and how far each rank comes.

    At each tick every rank does its next action, if what that needs was done at earlier ticks. Within a tick, who comes
    earlier on the way of a micro-batch, forward and back, is first. If not `in_turns`, a rank goes on alone until it
    has to wait, and then the first that need not. A rank that does not come to the end of its list waits for something
    that never happens.
    """
    done: set[Action] = set()
    positions, found = [0] * schedule.ranks, []
    while tick := [each for each in _next(schedule, positions) if _missing(each[1], schedule.stages, done) is None]:
        if not in_turns:
            last = found[-1][0][0] if found else 0
            tick = [each for each in tick if each[0] == last] or tick[:1]
        tick.sort(key=lambda each: _depth(each[1], schedule.stages))
        found.append(tick)
        for rank, action in tick:
            done.add(action)
            positions[rank] += 1
    return found, positions


def launches(schedule) -> list[Action]:
    """The actions of a schedule (or of plain lists) in an order in which one host can launch them: each rank in turns.

    ValueError with its first mistake for one that is illegal.
    """
    schedule = Schedule.of(schedule)
    if wrong := mistake(schedule):
        raise ValueError(wrong.reason)
    return [action for tick in ticks(schedule)[0] for _, action in tick]


def _next(schedule: Schedule, positions: list[int]) -> Iterator[tuple[int, Action]]:
    for rank, (row, position) in enumerate(zip(schedule.lists, positions, strict=True)):
        if position < len(row):
            yield rank, row[position]


def _depth(action: Action, stages: int) -> int:
    return action.stage if action.kind == "F" else 2 * stages - 1 - action.stage


def _missing(action: Action, stages: int, done: set[Action]) -> Need | None:
    """The first need of an action that is not done."""
    return next((need for need in needs(action, stages) if done.isdisjoint(need)), None)


# --- mistakes -----------------------------------------------------------------------------------------------------


def mistake(
    schedule, memory_cap: float | None = None, memory: Memory | None = None, *, unfinished: bool = False
) -> Mistake | None:
    """The first mistake of a schedule (or of plain lists), None for a legal one.

    First each action by itself, in reading order; then what is missing, unless the schedule may be `unfinished`; then
    whether the lists can be done together; then, with a `memory_cap`, what each rank holds (by default micro-batches).
    """
    schedule = Schedule.of(schedule)
    missing = None if unfinished else _forgotten
    for look in (_impossible, missing, _waiting):
        if look and (found := look(schedule)):
            return found
    return _too_much(schedule, memory_cap, memory or Memory())


def refusal(schedule, rank: int, action: Action, memory_cap: float | None = None) -> str | None:
    """Why a rank cannot do an action next, after what all ranks have in their lists; None if it can.

    For lists that grow: who asks before each action never makes an illegal schedule.
    """
    schedule = Schedule.of(schedule)
    done = {each for row in schedule.lists for each in row}
    row, missing = schedule.lists[rank], None
    reason = _wrong(schedule, rank, action, done)
    if not reason and (missing := _missing(action, schedule.stages, done)):
        place = schedule.placement[missing[0].stage]
        where = "it has not done" if place == rank else f"rank {place} has not done"
        reason = f"{_wants(action, missing)}, which {where} yet"
    if not reason and memory_cap is not None and (held := Memory().held((*row, action), schedule)[-1]) > memory_cap:
        reason = _over(held, memory_cap, Memory())
    return reason and f"rank {rank} cannot do {action} as its {_ordinal(len(row))} action: {reason}"


def _impossible(schedule: Schedule) -> Mistake | None:
    """An action that cannot be right, whatever the others are."""
    seen: set[Action] = set()
    for rank, row in enumerate(schedule.lists):
        for position, action in enumerate(row):
            if reason := _wrong(schedule, rank, action, seen):
                return Mistake(rank, position, f"{_place(rank, position, action)}: {reason}", reason.rule)
            seen.add(action)
    return None


class _Reason(str):
    """A sentence that knows its rule."""

    rule: str

    def __new__(cls, text: str, rule: str):
        self = super().__new__(cls, text)
        self.rule = rule
        return self


def _wrong(schedule: Schedule, rank: int, action: Action, seen: set[Action]) -> _Reason | None:
    kind, stage, number = action
    if stage >= schedule.stages:
        return _Reason(f"there is no stage {stage}; the last is {schedule.stages - 1}", "number")
    if number >= schedule.micro_batches:
        return _Reason(f"there is no micro-batch {number}; the last is {schedule.micro_batches - 1}", "number")
    if (place := schedule.placement[stage]) != rank:
        return _Reason(f"stage {stage} is on rank {place}", "rank")
    if action in seen:
        return _Reason("it is already in the schedule", "twice")
    for other in {"B": "IW", "I": "B", "W": "B"}.get(kind, ""):
        if (before := Action(other, stage, number)) in seen:
            whole, half = (action, before) if kind == "B" else (before, action)
            return _Reason(f"{whole} is the whole backward pass, so {half} would repeat part of it", "halves")
    return None


def _forgotten(schedule: Schedule) -> Mistake | None:
    """A forward pass, a backward pass or a half of one that no rank does."""
    there = {action for row in schedule.lists for action in row}
    for number in range(schedule.micro_batches):
        for stage, rank in enumerate(schedule.placement):
            f, b, i, w = (Action(kind, stage, number) for kind in KINDS)
            if f not in there:
                missing = f"{f}, {KINDS['F']} of stage {stage} for micro-batch {number}"
            elif b in there or {i, w} <= there:
                continue
            elif i in there or w in there:
                here, other = (i, w) if i in there else (w, i)
                missing = f"{other}: {here} is only half of that backward pass"
            else:
                missing = f"{b}, {KINDS['B']} of stage {stage} for micro-batch {number} (or its halves, {i} and {w})"
            return Mistake(rank, len(schedule.lists[rank]), f"rank {rank} never does {missing}", "forgotten")
    return None


def _waiting(schedule: Schedule) -> Mistake | None:
    """What the first rank that does not come to its end waits for, and so on from rank to rank."""
    _, positions = ticks(schedule)
    stuck = [rank for rank, row in enumerate(schedule.lists) if positions[rank] < len(row)]
    if not stuck:
        return None
    done = {action for row, end in zip(schedule.lists, positions, strict=True) for action in row[:end]}
    rank, links = stuck[0], {}
    while rank not in links:
        action = schedule.lists[rank][positions[rank]]
        need = _missing(action, schedule.stages, done)
        assert need is not None, "a rank that could go on is not stuck"
        other = schedule.placement[need[0].stage]
        there = set(need).intersection(schedule.lists[other])
        if other == rank or not there:
            where = "comes later in its list" if there else f"rank {other} never does"
            reason = f"{_place(rank, positions[rank], action)}: {_wants(action, need)}, which {where}"
            return Mistake(rank, positions[rank], reason, "order")
        links[rank] = other, action, there.pop()
        rank = other
    return _circle(schedule, positions, rank, links)


def _circle(schedule: Schedule, positions: list[int], first: int, links: dict) -> Mistake:
    """The ranks that wait for each other, from `first` on until it is its turn again."""
    said, rank = [], first
    while not said or rank != first:
        other, action, need = links[rank]
        behind = schedule.lists[other][positions[other]]
        said.append(f"{action} on rank {rank} waits for {need}, which comes after {behind} on rank {other}")
        rank = other
    place = _place(first, positions[first], links[first][1])
    return Mistake(
        first, positions[first], f"{place}: the ranks wait for each other in a circle: {', and '.join(said)}", "circle"
    )


def _too_much(schedule: Schedule, cap: float | None, memory: Memory) -> Mistake | None:
    if cap is None:
        return None
    for rank, row in enumerate(schedule.lists):
        for position, held in enumerate(memory.held(row, schedule)):
            if held > cap:
                reason = f"{_place(rank, position, row[position])}: {_over(held, cap, memory)}"
                return Mistake(rank, position, reason, "memory")
    return None


def _over(held: float, cap: float, memory: Memory) -> str:
    return f"it would hold {held:g} {memory.unit}, but the cap is {cap:g}"


def _wants(action: Action, need: Need) -> str:
    """What an action wants of what it needs."""
    names = " or ".join(map(str, need))
    if action.kind == "W":
        return f"it needs the result of {names}"
    if action.kind == "F":
        return f"its input comes from {names}"
    return f"it needs its forward pass, {names}" if need[0].kind == "F" else f"its gradient comes from {names}"


def _place(rank: int, position: int, action: Action) -> str:
    return f"rank {rank} cannot do {action} as its {_ordinal(position)} action"


def _ordinal(position: int) -> str:
    """first, second, third, 4th for the places 0, 1, 2, 3."""
    number = position + 1
    words = {1: "first", 2: "second", 3: "third"}
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return words.get(number, f"{number}{ending}")
