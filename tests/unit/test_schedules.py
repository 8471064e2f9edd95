"""Schedules as data: against published formulas, against a dumb scheduler, and with mistakes made on purpose."""

import random
import re
from itertools import pairwise

import pytest

from simgpu.profiles import LinkProfile
from tools.benchmarks.published_zero_bubble import RUNS
from utils.schedules import (
    Action,
    Costs,
    Memory,
    Schedule,
    gpipe,
    interleaved_1f1b,
    looped,
    mistake,
    one_f_one_b,
    play,
    refusal,
    v_shaped,
    zero_bubble_h1,
    zero_bubble_v,
)

ALL = (gpipe, one_f_one_b, interleaved_1f1b, zero_bubble_h1, zero_bubble_v)
SIZES = [(ranks, number) for ranks in (1, 2, 3, 4, 8) for number in sorted({1, ranks - 1, ranks, 2 * ranks, 17} - {0})]


def dumb(schedule, seconds, copy_seconds=0):
    """The start of each action, second by second: who is free and has what it needs starts. None where not all do.

    `seconds(action)` is whole. Written from the description, without a line of ours.
    """
    lists = [list(row) for row in schedule.lists]
    rank_of, stages = schedule.placement, len(schedule.placement)
    start, busy_until, have, ways, way_until = {}, [0] * len(lists), {}, {}, {}
    last_change, now = 0, 0
    while any(lists):
        ended = [each for each in start if start[each] + seconds(each) == now]
        for kind, stage, number in sorted(ended, key=lambda each: each[1]):
            have["did", kind, stage, number] = now
            target = {"F": stage + 1, "B": stage - 1, "I": stage - 1}.get(kind)
            if target is not None and 0 <= target < stages:
                parcel = ("input" if kind == "F" else "gradient", target, number)
                if rank_of[target] == rank_of[stage] or not copy_seconds:
                    have[parcel] = now
                else:
                    ways.setdefault((rank_of[stage], rank_of[target]), []).append(parcel)
        for way, parcels in ways.items():
            if parcels and way_until.get(way, 0) <= now:
                have[parcels.pop(0)] = way_until[way] = now + copy_seconds
        for rank, row in enumerate(lists):
            if row and busy_until[rank] <= now:
                kind, stage, number = row[0]
                wants = {
                    "F": [] if stage == 0 else [("input", stage, number)],
                    "W": [("did", "I", stage, number)],
                }.get(kind, [("did", "F", stage, number)] + [("gradient", stage, number)] * (stage < stages - 1))
                if all(have.get(want, now + 1) <= now for want in wants):
                    busy_until[rank], last_change = now + seconds(row[0]), now
                    start[row.pop(0)] = now
        now += 1
        if now > last_change + 100:
            return None
    return start


def at_random(chance, ranks, number, placement, halves):
    """A legal schedule: any rank does anything that it may do."""
    schedule = Schedule(((),) * ranks, placement, number)
    left = [[] for _ in range(ranks)]
    for stage, rank in enumerate(placement):
        for micro_batch in range(number):
            kinds = "FIW" if halves and chance.random() < 0.7 else "FB"
            left[rank] += [Action(kind, stage, micro_batch) for kind in kinds]
    while any(left):
        rank = chance.choice([rank for rank in range(ranks) if left[rank]])
        action = chance.choice(left[rank])
        if refusal(schedule, rank, action) is None:
            schedule = schedule.then(rank, action)
            left[rank].remove(action)
    return schedule


# --- data ---------------------------------------------------------------------------------------------------------


def test_actions_have_a_short_form():
    assert str(Action("F", 0, 3)) == repr(Action("F", 0, 3)) == "F0.3"
    assert Action.parse("W12.34") == Action("W", 12, 34) == ("W", 12, 34)


@pytest.mark.parametrize("text", ["", "F0", "F0-3", "f0.3", "X0.3", "F0.3.1", "F-1.0", "F0.3 B0.3"])
def test_a_text_that_is_no_action_gets_one_line(text):
    with pytest.raises(ValueError, match=r"is not an action\. Write F0\.3 for") as caught:
        Action.parse(text)
    assert len(str(caught.value).splitlines()) == 1


def test_a_schedule_can_be_written_in_several_ways_and_read_back():
    text = "rank 0: F0.0 F0.1 B0.0 B0.1\nrank 1: F1.0 B1.0 F1.1 B1.1"
    one = Schedule.of(text)
    assert str(one) == text
    assert one == Schedule.of(["F0.0 F0.1 B0.0 B0.1", ["F1.0", ("B", 1, 0), Action("F", 1, 1), "B1.1"]])
    assert (one.placement, one.micro_batches, one.ranks, one.stages) == ((0, 1), 2, 2, 2)
    assert one is Schedule.of(one)
    assert one == Schedule.of(one_f_one_b(2, 2).lists)
    with pytest.raises(ValueError, match="has no actions"):
        Schedule.of([[], []])
    with pytest.raises(ValueError, match=r"placement=\(0, 1\) has a rank 1, but the number of lists is 1"):
        Schedule.of(["F0.0"], (0, 1))


def test_where_stages_are():
    assert looped(2, 4) == (0, 1, 0, 1)
    assert v_shaped(3) == (0, 1, 2, 2, 1, 0)
    assert zero_bubble_v(3, 2).stages_of(0) == [0, 5]
    assert interleaved_1f1b(3, 2).stages_of(1) == [1, 4]


# --- what papers say ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("published", RUNS[:7:3], ids=lambda each: f"{each.model}, m = {each.micro_batches}")
def test_with_the_times_of_the_zero_bubble_paper_come_its_bubble_rates(published):
    in_turns, interleaved, h1 = [published.played(schedule) for schedule in published.schedules()]
    assert round(in_turns.bubble_rate, 4) == published.rates[0]
    assert round(h1.bubble_rate, 4) == published.rates[2]
    less = interleaved.work / (1 - interleaved.bubble_rate) - published.ranks * published.message * 1e-3
    assert 1 - interleaved.work / less == pytest.approx(published.rates[1], abs=1e-4)  # p messages fewer


@pytest.mark.parametrize(("ranks", "number"), SIZES)
@pytest.mark.parametrize("make", ALL)
def test_each_is_legal_and_complete_for_any_number_of_micro_batches(make, ranks, number):
    schedule = make(ranks, number)
    assert mistake(schedule) is None
    assert dumb(schedule, lambda action: 1) is not None
    per_stage = 2 if "B" in {action.kind for row in schedule.lists for action in row} else 3
    assert sum(map(len, schedule.lists)) == per_stage * number * schedule.stages


@pytest.mark.parametrize(("ranks", "number"), SIZES)
def test_gpipe_and_1f1b_have_the_same_bubble_and_hold_what_is_published(ranks, number):
    for make in (gpipe, one_f_one_b):
        played = play(make(ranks, number))
        assert played.timeline.bubble_fraction() == pytest.approx((ranks - 1) / (number + ranks - 1))
        assert played.bubble == pytest.approx([(ranks - 1) / (number + ranks - 1)] * ranks)
    assert play(gpipe(ranks, number)).peak == (number,) * ranks
    assert played.peak == tuple(min(ranks - rank, number) for rank in range(ranks))


@pytest.mark.parametrize("chunks", [1, 2, 3, 4])
@pytest.mark.parametrize(("ranks", "rounds"), [(2, 1), (2, 4), (4, 2), (8, 4)])
def test_interleaving_divides_the_bubble_by_the_chunks(ranks, rounds, chunks):
    """Of the ideal time (p-1) / (m v): arXiv 2104.04473, 2.2. Its first rank holds 1 + (p-1) / (p v) times as much as
    1F1B's: Korthikanti et al., 2022, arXiv 2205.05198, 4.2.3."""
    number = ranks * rounds
    played = play(interleaved_1f1b(ranks, number, chunks), Costs(1 / chunks))
    ideal = 3 * number
    assert (played.span - ideal) / ideal == pytest.approx((ranks - 1) / (number * chunks))
    if chunks > 1 and rounds > 1:
        assert played.peak[0] == pytest.approx(ranks * (1 + (ranks - 1) / (ranks * chunks)))


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize(("forward", "inputs", "weights"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (5, 6, 5)])
def test_zb_h1_has_the_bubble_and_the_memory_of_its_paper(ranks, forward, inputs, weights):
    """(p-1) (F + I - W) where 1F1B has (p-1) (F + I + W): arXiv 2401.10241, table 2. Memory of p micro-batches."""
    costs = Costs(forward, inputs=inputs, weights=weights)
    number = 3 * ranks
    ideal = number * (forward + inputs + weights)
    played = play(zero_bubble_h1(ranks, number), costs)
    assert played.span - ideal == pytest.approx((ranks - 1) * (forward + inputs - weights))
    assert played.peak == (ranks,) * ranks
    assert play(one_f_one_b(ranks, number), costs).span - ideal == (ranks - 1) * (forward + inputs + weights)


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_zb_v_has_no_bubble_where_all_take_as_long_and_the_memory_of_1f1b(ranks):
    """arXiv 2401.10241, section 6, and arXiv 2405.15362, table 1: bubble 0, memory p."""
    for number in (2 * ranks - 1, 2 * ranks, 4 * ranks):
        played = play(zero_bubble_v(ranks, number))
        assert played.bubble_rate == pytest.approx(0)
        assert played.peak == (ranks,) * ranks
        assert played.span == played.work + ranks - 1  # the last rank waits for the first input
    assert play(zero_bubble_v(ranks, 2 * ranks - 2)).bubble_rate > 0


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("wrong", [{"ranks": 0}, {"micro_batches": 0}, {"ranks": 2.0}, {"micro_batches": True}])
def test_no_ranks_or_micro_batches_get_one_line(make, wrong):
    with pytest.raises(ValueError, match=rf"{next(iter(wrong))}=.*whole number, 1 or more"):
        make(**{"ranks": 2, "micro_batches": 2} | wrong)


# --- played -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_times_are_those_of_a_dumb_scheduler(seed):
    chance = random.Random(seed)
    ranks, number = chance.randint(1, 4), chance.randint(1, 4)
    placement = chance.choice([looped(ranks, ranks), looped(ranks, 2 * ranks), v_shaped(ranks)])
    schedule = at_random(chance, ranks, number, placement, halves=seed % 2)
    assert mistake(schedule) is None
    times = [[chance.randint(1, 5) for _ in placement] for _ in "FBIW"]
    costs = Costs(*times)
    for latency in (0, 2):
        link = LinkProfile("even", float("inf"), "for a test", latency=float(latency))
        played = play(schedule, costs, link)
        assert {action: start for action, (start, _) in played.times.items()} == dumb(schedule, costs.seconds, latency)


def test_a_timeline_is_as_that_of_a_recording():
    link = LinkProfile("slow", 4.0, "for a test", latency=1.0)
    played = play(zero_bubble_h1(2, 2), Costs(output=4), link, devices=["simgpu:0", "simgpu:1"])
    line = played.timeline
    assert line.devices == ("simgpu:0", "simgpu:1")
    assert line.moved() == {("simgpu:0", "simgpu:1"): 8, ("simgpu:1", "simgpu:0"): 8}
    assert [line.busy(device) for device in line.devices] == list(played.busy) == [6, 6]
    assert {event.phase for event in line.events} == {"forward", "backward"}
    assert {event.name for event in line.events if event.device == "simgpu:1" and event.is_kernel} == {
        "stage 1", "stage 1, for its inputs", "stage 1, for its weights",
    }  # fmt: skip
    assert "not run" in line.source


def test_costs_that_are_left_out_follow_from_the_rest():
    def seconds(**costs):
        return [Costs(**costs).seconds(Action(kind, 1, 0)) for kind in "FBIW"]

    assert seconds() == [1, 2, 1, 1]
    assert seconds(forward=[9, 2]) == [2, 4, 2, 2]
    assert seconds(inputs=3, weights=[0, 1]) == [1, 4, 3, 1]
    assert seconds(backward=5) == [1, 5, 2.5, 2.5]
    assert seconds(backward=5, inputs=2) == [1, 5, 2, 3]
    assert seconds(backward=5, weights=1) == [1, 5, 4, 1]


def test_memory_is_counted_in_what_it_is_given_in():
    played = play("F0.0 F0.1 I0.0 I0.1 W0.0 W0.1", memory=Memory([100], kept=0.25, unit="MiB"))
    assert (played.peak, played.unit) == ((200,), "MiB")
    assert play("F0.0 I0.0 F0.1 I0.1 W0.0 W0.1", memory=Memory(100, kept=0.25)).peak == (125,)
    assert play("F0.0 I0.0 F0.1 I0.1 W0.0 W0.1").peak == (2,)


def test_what_is_said_of_a_schedule():
    assert str(play(one_f_one_b(4, 8))) == (
        "1F1B: 33 s, the busiest rank works 72.7% of it, 27.3% idle overall, "
        "at most 4 micro-batches in flight on a rank"
    )


# --- mistakes -----------------------------------------------------------------------------------------------------

RIGHT = ["F0.0 F0.1 B0.0 B0.1", "F1.0 B1.0 F1.1 B1.1"]


@pytest.mark.parametrize(
    ("lists", "rank", "position", "rule", "reason"),
    [
        (["F0.0 F0.0", "F1.0"], 0, 1, "twice", "rank 0 cannot do F0.0 as its second action: it is already in"),
        (["F0.0 F1.0", ""], 0, 1, "rank", "rank 0 cannot do F1.0 as its second action: stage 1 is on rank 1"),
        (["F0.0 B0.0 I0.0", "F1.0"], 0, 2, "halves", "B0.0 is the whole backward pass, so I0.0 would repeat part"),
        (["F0.0 W0.0 B0.0", "F1.0"], 0, 2, "halves", "B0.0 is the whole backward pass, so W0.0 would repeat part"),
        (["F0.0 F0.1 B0.0 B0.1", "F1.0 B1.0 F1.1"], 1, 3, "forgotten", "rank 1 never does B1.1, the whole backward"),
        (["F0.0 B0.0", "F1.0 I1.0"], 1, 2, "forgotten", "rank 1 never does W1.0: I1.0 is only half of that backward"),
        (["F0.0 F0.1 B0.0 B0.1", "F1.0 B1.0 B1.1"], 1, 3, "forgotten", "rank 1 never does F1.1, the forward pass"),
        (["B0.0 F0.0", "F1.0 B1.0"], 0, 0, "order", "it needs its forward pass, F0.0, which comes later in its list"),
        (["F0.0 B0.0", "F1.0 W1.0 I1.0"], 1, 1, "order", "it needs the result of I1.0, which comes later in"),
        (
            ["F0.0 B0.0 F0.1 B0.1", "F1.0 F1.1 B1.0 B1.1"], 0, 1, "circle",
            "rank 0 cannot do B0.0 as its second action: the ranks wait for each other in a circle: B0.0 on rank 0 "
            "waits for B1.0, which comes after F1.1 on rank 1, and F1.1 on rank 1 waits for F0.1, which comes after "
            "B0.0 on rank 0",
        ),
    ],
)  # fmt: skip
def test_the_first_mistake_and_its_reason(lists, rank, position, rule, reason):
    found = mistake(lists)
    assert (found.rank, found.position, found.rule) == (rank, position, rule)
    assert reason in found.reason
    assert len(found.reason.splitlines()) == 1
    with pytest.raises(ValueError, match=re.escape(found.reason)):
        play(lists)


def test_numbers_that_there_are_not():
    assert "there is no micro-batch 2; the last is 1" in mistake(Schedule.of(["F0.2"], micro_batches=2)).reason
    assert "there is no stage 1; the last is 0" in mistake(Schedule.of(["F1.0"], (0,))).reason


def test_a_cap_of_memory():
    assert mistake(gpipe(2, 4), memory_cap=4) is None
    found = mistake(gpipe(2, 4), memory_cap=3)
    assert (found.rank, found.position, found.rule) == (0, 3, "memory")
    assert found.reason == "rank 0 cannot do F0.3 as its 4th action: it would hold 4 micro-batches, but the cap is 3"


def test_what_is_unfinished_can_be_played_as_far_as_it_goes():
    lists = Schedule.of(["F0.0 F0.1", "F1.0"])
    assert play(lists, unfinished=True).span == 2
    assert mistake(lists).rule == "forgotten"
    assert (
        "its input comes from F0.1, which rank 0 never does" in mistake(["F0.0", "F1.0 F1.1"], unfinished=True).reason
    )


def test_who_asks_first_is_told_why_not():
    empty = Schedule(((), ()), (0, 1), 4)
    assert refusal(empty, 1, Action("F", 1, 0)) == (
        "rank 1 cannot do F1.0 as its first action: its input comes from F0.0, which rank 0 has not done yet"
    )
    one = empty.then(0, "F0.0")
    assert refusal(one, 1, Action("F", 1, 0)) is None
    assert "its gradient comes from B1.0 or I1.0, which rank 1 has not" in refusal(one, 0, Action("B", 0, 0))
    assert "it would hold 2 micro-batches, but the cap is 1" in refusal(one, 0, Action("F", 0, 1), memory_cap=1)
    assert "stage 1 is on rank 1" in refusal(one, 0, Action("F", 1, 0))


@pytest.mark.parametrize("seed", range(150))
def test_what_is_changed_at_random_is_legal_where_a_dumb_scheduler_comes_to_its_end(seed):
    chance = random.Random(seed)
    schedule = chance.choice(ALL)(chance.randint(1, 4), chance.randint(1, 4))
    rows = [list(row) for row in schedule.lists]
    for _ in range(chance.randint(1, 2)):
        row = chance.choice([row for row in rows if row])
        place, other = chance.randrange(len(row)), chance.randrange(len(row))
        row[place], row[other] = row[other], row[place]
        if chance.random() < 0.2:
            chance.choice(rows).append(chance.choice(row))
        if chance.random() < 0.2:
            row.pop(place)
    changed = Schedule(tuple(map(tuple, rows)), schedule.placement, schedule.micro_batches)
    same_work = [sorted(row) for row in changed.lists] == [sorted(row) for row in schedule.lists]
    legal = same_work and dumb(changed, lambda action: 1) is not None
    assert (mistake(changed) is None) == legal, mistake(changed)


def test_steps_of_one_rank_never_overlap():
    played = play(interleaved_1f1b(3, 7, 3), Costs([1, 3, 2, 1, 1, 4, 2, 1, 1]))
    for row in played.schedule.lists:
        assert all(played.times[one][1] <= played.times[two][0] for one, two in pairwise(row))
