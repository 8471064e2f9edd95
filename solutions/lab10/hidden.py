"""Lab 10's hidden facts, judged by the grader after the visible ones. Students do not get this file.

They ask what a right answer does anyway and a lucky one does not: more ranks, uneven stages, other lists.
"""

import random

from utils.exercises.facts import orders_of, visible
from utils.schedules import Action, Schedule, gpipe, interleaved_1f1b, one_f_one_b, v_shaped

seen = visible("lab10")
lab = seen.lab


@seen.ex1.fact("backward passes may run in another order than the forward passes, on either device")
def _(student):
    for device in student.devices:
        seen.compare_stage(student, device, seen.MIDDLE, (4, 3, 5, 2), (2, 0, 3, 1), seed=7)
        seen.compare_stage(student, device, seen.LAST, (3, 1, 2), (2, 1, 0), last=True, seed=8)
    seen.compare_stage(student, student.devices[1], seen.WORDS, (2, 5, 1), (1, 2, 0), seed=9)


def capped(rank: int, ranks: int, micro_batches: int, cap: int) -> str:
    """1F1B's list of a rank, made by warm-up, steady state and drain."""
    warm = min(ranks - rank, cap, micro_batches) - 1
    forward, backward = ([f"{kind}{rank}.{number}" for number in range(micro_batches)] for kind in "FB")
    steady = [each for pair in zip(forward[warm:], backward, strict=False) for each in pair]
    return " ".join([*forward[:warm], *steady, *backward[micro_batches - warm :]])


@seen.ex2.fact("the lists are right for more ranks, few and many micro-batches, and small and large caps")
def _(student):
    for ranks in (1, 2, 5, 8):
        for micro_batches in (1, ranks, 3 * ranks + 1):
            for cap in (1, 2, ranks, ranks + 3):
                for rank in {0, ranks // 2, ranks - 1}:
                    row = capped(rank, ranks, micro_batches, cap)
                    seen.compare_list(student, rank, ranks, micro_batches, cap, row)


def mistake_of(rows, placement, cap):
    """The first mistake by the lab's three steps."""
    rows = [[Action.parse(text) for text in row.split()] for row in rows]
    everywhere, done = set(), set()
    for rank, row in enumerate(rows):
        for position, action in enumerate(row):
            if placement[action.stage] != rank or action in everywhere:
                return rank, position, "twice" if placement[action.stage] == rank else "rank"
            everywhere.add(action)
    places = [0] * len(rows)
    moved = True
    while moved:
        moved = False
        for rank, row in enumerate(rows):
            if places[rank] < len(row) and not _missing(row[places[rank]], placement, done):
                done.add(row[places[rank]])
                places[rank] += 1
                moved = True
    stuck = [rank for rank, row in enumerate(rows) if places[rank] < len(row)]
    for rank in stuck:
        missing = _missing(rows[rank][places[rank]], placement, done)
        if any(need not in everywhere or need in rows[rank] for need in missing):
            return rank, places[rank], "dependency"
    if stuck:
        return stuck[0], places[stuck[0]], "deadlock"
    for rank, row in enumerate(rows):
        held = 0
        for position, action in enumerate(row):
            held += 1 if action.kind == "F" else -1
            if held > cap:
                return rank, position, "memory"
    return None


def _missing(action, placement, done):
    kind, stage, number = action
    before = [Action("F", stage - 1, number)] if kind == "F" else [Action("F", stage, number)]
    after = [] if kind == "F" else [Action("B", stage + 1, number)]
    return [need for need in before + after if 0 <= need.stage < len(placement) and need not in done]


def spoilt(schedule, chance):
    """The lists of a schedule after one or two slips."""
    rows = [list(map(str, row)) for row in schedule.lists]
    for _ in range(chance.choice((1, 1, 2))):
        row = chance.choice([row for row in rows if row])
        place = chance.randrange(len(row))
        action = row.pop(place)
        slip = chance.choice(("moved", "moved", "moved", "lost", "doubled", "strayed"))
        if slip in ("moved", "doubled"):
            row.insert(chance.randrange(len(row) + 1), action)
        if slip == "doubled":
            row.insert(chance.randrange(len(row) + 1), action)
        if slip == "strayed":
            chance.choice(rows).append(action)
    return [" ".join(row) for row in rows]


@seen.ex3.fact("the first mistake is found with more ranks, with mistakes of all kinds, and in chains of waiting ranks")
def _(student):
    chance = random.Random(3)
    for number in range(80):
        schedule = chance.choice((gpipe, one_f_one_b, interleaved_1f1b))(chance.choice((2, 3, 4)), 2 + number % 4)
        rows, cap = spoilt(schedule, chance), chance.choice((2, 4, 8))
        seen.compare_mistake(student, rows, schedule.placement, cap, mistake_of(rows, schedule.placement, cap))
    rows = ["F0.0 F0.1 B0.1 B0.0", "F1.0 F1.1 B1.1 B1.0", "F2.0 B2.0 F2.1 B2.1"]
    seen.compare_mistake(student, rows, range(3), 4, mistake_of(rows, range(3), 4))
    rows = ["F0.0 B0.0 F0.1 B0.1", "F1.0 F1.1 B1.0 B1.1", "F2.0 F2.1 B2.0 B2.1", "F3.1 F3.0 B3.0 B3.1"]
    seen.compare_mistake(student, rows, range(4), 4, mistake_of(rows, range(4), 4))


IN_A_V = Schedule.of(
    """F0.0 F0.1 F3.0 B3.0 B0.0 F3.1 B3.1 F0.2 B0.1 F3.2 B3.2 B0.2
    F1.0 F2.0 F1.1 B2.0 B1.0 F2.1 B2.1 F1.2 B1.1 F2.2 B2.2 B1.2""",
    v_shaped(2),
    name="a V-shaped schedule",
)
NOT_IN_TURN = Schedule.of(
    "F0.1 F0.0 B0.0 F0.2 B0.1 B0.2\nF1.1 F1.0 B1.0 B1.1 F1.2 B1.2", name="micro-batches out of order"
)


@seen.ex4.fact("the step is right with uneven stages, more ranks than devices, other placements, and swapped devices")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            two = [device0, device1]
            seen.compare_lists_run(student, two, one_f_one_b(2, 5), (3, 30, 2), 11, seed=1)
            seen.compare_lists_run(student, two, IN_A_V, (5, 8, 20, 3, 2), 9, seed=2)
            seen.compare_lists_run(student, two, NOT_IN_TURN, (5, 8, 2), 9, seed=3)
    seen.compare_lists_run(student, [*two, *two], one_f_one_b(4, 3), (4, 5, 9, 6, 2), 10, seed=4)
    seen.compare_lists_run(student, [device0, device0], gpipe(2, 3), (4, 5, 2), 6, seed=5)
    seen.compare_lists_run(student, two, interleaved_1f1b(2, 3, 3), (4, 5, 6, 7, 5, 3, 2), 7, seed=6)
    seen.compare_lists_run(student, [device1], gpipe(1, 3), (4, 2), 6, seed=7)


@seen.ex4.fact("only micro-batches in flight take memory, for other lists and with the devices swapped", part="memory")
def _(student):
    device0, device1 = student.devices
    seen.need_memory(student, [device0, device1], interleaved_1f1b(2, 6))
    seen.need_memory(student, [device1, device0], one_f_one_b(2, 12))


@seen.ex4.fact(
    "other lists run without races and reach the required share of the bound, also with the devices swapped",
    part="streams",
)
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            two = [device0, device1]
            seen.need_no_races(student, two, one_f_one_b(2, 5), (3, 30, 2), 11, seed=1)
            seen.need_no_races(student, two, IN_A_V, (5, 8, 20, 3, 2), 9, seed=2)
            seen.need_no_races(student, two, NOT_IN_TURN, (5, 8, 2), 9, seed=3)
    seen.need_no_races(student, [*two, *two], one_f_one_b(4, 3), (4, 5, 9, 6, 2), 10, seed=4)
    seen.need_no_races(student, two, interleaved_1f1b(2, 3, 3), (4, 5, 6, 7, 5, 3, 2), 7, seed=6)
    device0, device1 = student.devices
    seen.need_share(student, [device1, device0], gpipe(2, 4), 48)


@seen.ex5.fact("the gradients are right for other sizes, on either device")
def _(student):
    for device in student.devices:
        seen.compare_later(student, device, (33, 17), (9, 1, 6, 5), seed=5)
        seen.compare_later(student, device, (8, 64), (3, 4), wants=False, seed=6)
