"""Lesson 18's sealed runs have one cause each, and its tasks' working versions find it."""

import pytest

from tests.support.tiers import THOROUGH
from utils.exercises.tasks.lesson18.worked import first_mismatch, straggler, unequal
from utils.kits.broken_runs import broken_run


def starts_of(timeline):
    lanes = [[e.start for e in timeline.events if e.kind == "comm" and e.device == d] for d in timeline.devices]
    return list(zip(*lanes, strict=True))


def waited(run):
    return sum(max(ranks) - start for ranks in starts_of(run.timeline) for start in ranks)


def test_a_slow_gpu_comes_last_in_every_step():
    healthy, slow = broken_run("healthy"), broken_run("A")
    rank, seconds = straggler(starts_of(slow.timeline))
    assert rank == 5
    assert seconds == pytest.approx(slow.timeline.waited_for()["rank 5"].sum() / 1e3, rel=1e-3)
    assert seconds > 0.99 * waited(slow) > 100 * waited(healthy)
    assert slow.mfu == pytest.approx(0.34, abs=0.005)
    assert healthy.mfu == pytest.approx(0.59, abs=0.005)


@THOROUGH  # lesson 18 makes this run, and that of each fault below, in its cells
def test_a_slow_adapter_makes_no_rank_late():
    two, four = broken_run("B", nodes=2, data=4), broken_run("B")
    assert 1.8 < four.timeline.span / two.timeline.span < 2.1
    assert waited(four) < 1e-3 * four.timeline.span


@THOROUGH  # lesson 18 makes this run
def test_norms_left_out_are_all_that_differs_and_their_sum_is_right():
    alone, split = broken_run("C", tensor=1), broken_run("C")
    right = broken_run("C", norms_left_out=False)
    assert split.losses[0][0] == pytest.approx(alone.losses[0][0], abs=1e-5)
    assert right.losses[0] == pytest.approx(alone.losses[0], abs=1e-4)
    found = unequal(split.gradients[:2], split.sharded)
    assert found
    assert all("norm" in name for name in found)
    assert unequal(right.gradients[:2], right.sharded) == []
    for name in found:
        both = split.gradients[0][name] + split.gradients[1][name]
        assert both.allclose(alone.gradients[0][name], atol=1e-6)


@THOROUGH
def test_a_norm_that_counts_replicas_is_too_large():
    right, twice = (broken_run("C", norms_left_out=False, replicas_counted=counted) for counted in (False, True))
    assert twice.losses[0][0] == right.losses[0][0]
    assert twice.norms[0][0] > 1.2 * right.norms[0][0]


@THOROUGH  # lesson 18 makes this run
def test_a_replica_with_fewer_batches_differs_first():
    hung = broken_run("D")
    assert hung.error
    assert len(hung.dumps) == 8
    number, ranks = first_mismatch(hung.dumps)
    assert ranks == [6]
    assert {entry["state"] for dump in hung.dumps for entry in dump["entries"][: number - 1]} == {"completed"}


@THOROUGH
def test_kept_validation_losses_fill_the_memory_and_training_losses_do_not():
    full = broken_run("E")
    assert "out of memory" in full.error
    grown = [after - before for before, after in zip(full.memory[0], full.memory[0][1:], strict=False)]
    assert {step % 5 for step, more in enumerate(grown, 1) if more > 1e6} == {4}
    assert broken_run("E", losses_kept=False, steps=12).error == ""
