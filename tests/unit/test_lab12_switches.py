"""Lab 12's exercise 1 counts what FSDP2 receives and holds, whatever the switches."""

import pytest

from tests.support.tiers import THOROUGH
from utils.exercises.facts import visible
from utils.exercises.tasks.lesson12.sizes import in_turn
from utils.kits.switches import step_with_switches
from utils.ranks import ranks

facts = visible("lab12")
HIDDEN = 192


@THOROUGH  # cheaper ones: what FSDP2 receives and holds in lesson 12, and in lab 12's exercises 2 to 4
@pytest.mark.parametrize(
    ("count", "layers", "micro_batches"),
    [(2, 8, 2), (3, 10, 4), (4, 12, 3)],
)
def test_combinations_receive_what_the_exercise_counts_and_the_best_hold_it(count, layers, micro_batches):
    setting = (layers * HIDDEN**2, layers, count, micro_batches)
    trials = [(layers, HIDDEN, micro_batches, *way) for way in facts.ALL_WAYS]
    found = ranks(count, compute=False).run(in_turn, step_with_switches, *trials)[0]
    # At 2 micro-batches, a combination that is never the best holds two layers less than counted.
    chosen = {facts.best_way(setting, facts.expected_counts(setting, way)[1]) for way in facts.ALL_WAYS}
    assert len(chosen) >= 3
    for way, (received, held) in zip(facts.ALL_WAYS, found, strict=True):
        right, most = facts.expected_counts(setting, way)
        assert received == pytest.approx(right, rel=1e-9), way
        assert way not in chosen or abs(held - most) <= 4 * HIDDEN**2 * 1.1, way  # a layer, and small activations
