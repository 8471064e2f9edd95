"""Schedules that are searched, against the best of all; and those of PyTorch, against the papers' as we write them."""

from itertools import product

import pytest
from torch.distributed.pipelining import ScheduleGPipe

from simgpu.profiles import LinkProfile
from utils.schedules import (
    Action,
    Costs,
    Memory,
    Schedule,
    from_pytorch,
    gpipe,
    greedy,
    interleaved_1f1b,
    mistake,
    one_f_one_b,
    play,
    v_shaped,
    zero_bubble_h1,
    zero_bubble_v,
)
from utils.schedules.search import span

SEVERAL = [
    Costs(),
    Costs(1, inputs=1.4, weights=0.8),
    Costs([2, 1, 1, 1], inputs=[2, 1, 1, 1], weights=[1, 3, 1, 1]),
    Costs(3, inputs=1, weights=5),
]


def all_lists(rank, number):
    """Every list of a rank in which each kind takes the micro-batches in turns."""
    lists = [((), (0, 0, 0))]
    for _ in range(3 * number):
        lists = [
            ((*row, Action("FIW"[kind], rank, done[kind])), (*done[:kind], done[kind] + 1, *done[kind + 1 :]))
            for row, done in lists
            for kind in range(3)
            if done[kind] < (number, done[0], done[1])[kind]
        ]
    return [row for row, _ in lists]


@pytest.mark.parametrize("costs", SEVERAL)
def test_what_is_searched_is_the_best_that_there_is(costs):
    everything = [Schedule(lists, (0, 1), 3) for lists in product(all_lists(0, 3), all_lists(1, 3))]
    assert len(everything) == 42 * 42
    for cap in (1, 2):
        best = min(span(each, costs) for each in everything if max(Memory().peak(each)) <= cap)
        found = greedy(2, 3, costs, cap)
        assert mistake(found, memory_cap=cap) is None
        assert span(found, costs) == pytest.approx(best)


@pytest.mark.parametrize("costs", SEVERAL)
@pytest.mark.parametrize("cap", [1, 2, 3, 4, 8])
def test_a_cap_is_kept_and_1f1b_never_better(costs, cap):
    found = greedy(4, 8, costs, cap, moves=20)
    assert mistake(found, memory_cap=cap) is None
    assert found == greedy(4, 8, costs, cap, moves=20), "the same each time"
    for make in (one_f_one_b, zero_bubble_h1):
        if cap >= 4:
            assert play(found, costs).span <= play(make(4, 8), costs).span


def test_a_v_needs_less_memory():
    half = greedy(4, 8, Costs(0.5), 3, placement=v_shaped(4), moves=0)
    assert mistake(half, memory_cap=3) is None
    assert play(half, Costs(0.5)).span <= play(zero_bubble_h1(4, 8)).span
    assert max(play(half).peak) == 3 < max(play(zero_bubble_h1(4, 8)).peak)
    whole = greedy(4, 8, Costs(0.5), 4, placement=v_shaped(4), moves=0)
    assert play(whole, Costs(0.5)).span <= play(zero_bubble_v(4, 8), Costs(0.5)).span


def test_copies_are_counted_where_there_is_a_link():
    link = LinkProfile("slow", float("inf"), "for a test", latency=0.5)
    found = greedy(4, 8, link=link, moves=0)
    assert play(found, link=link).span <= play(one_f_one_b(4, 8), link=link).span


@pytest.mark.parametrize("cap", [0, 0.5])
def test_less_than_one_micro_batch_gets_one_line(cap):
    with pytest.raises(ValueError, match=rf"memory_cap={cap}: each rank must be able to hold at least one"):
        greedy(2, 2, memory_cap=cap)


# --- PyTorch's ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ranks", "number"), [(2, 4), (3, 6), (4, 12)])
def test_lists_of_pytorch_are_those_of_the_papers(ranks, number):
    assert from_pytorch(ScheduleGPipe, ranks, number).lists == gpipe(ranks, number, newest_first=False).lists
    for chunks in (2, 3):
        theirs = from_pytorch("Interleaved1F1B", ranks, number, chunks)
        ours = interleaved_1f1b(ranks, number, chunks)
        assert (theirs.lists, theirs.placement) == (ours.lists, ours.placement)
    theirs = from_pytorch("ZBVZeroBubble", ranks, number)
    assert (theirs.lists, theirs.placement) == (zero_bubble_v(ranks, number).lists, v_shaped(ranks))
    for name in ("LoopedBFS", "InterleavedZeroBubble", "DualPipeV"):
        assert mistake(from_pytorch(name, ranks, number)) is None
    assert "".join(action.kind for action in from_pytorch("DualPipeV", ranks, number).lists[0]).count("B")


def test_the_last_rank_of_pytorchs_1f1b_is_wrong():
    """PyTorch 2.15 shows a list that it does not run: tests/process_groups sees what it does run."""
    theirs = from_pytorch("1F1B", 4, 8)
    assert theirs.lists[:-1] == one_f_one_b(4, 8).lists[:-1]
    assert [action.micro_batch for action in theirs.lists[-1] if action.kind == "F"] == [*range(1, 9)]
    found = mistake(theirs)
    assert found.reason == "rank 3 cannot do F3.8 as its 15th action: there is no micro-batch 8; the last is 7"
