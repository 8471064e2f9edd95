"""Lab 04's rule for two noisy times holds at any number of repeats; tools/benchmarks/is_it_faster.py has the table."""

import pytest

from tools.benchmarks.is_it_faster import REPEATS, false_alarms, model_answer, old_rule, power

TRIALS = 1000  # the standard error of a share of 5% is 0.7 points


@pytest.fixture(scope="module")
def faster():
    return model_answer()


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("repeats", [*REPEATS, 6, 20])
def test_noise_is_called_a_difference_in_one_of_twenty_cases_at_most(faster, repeats, slow):
    assert false_alarms(faster, repeats, slow=slow, trials=TRIALS) < 0.065


def test_more_pairs_find_more_with_and_without_a_slow_run(faster):
    for slow in (False, True):
        found = [power(faster, repeats, slow=slow, trials=TRIALS) for repeats in (5, 10, 20, 50)]
        assert found == sorted(found), found
        assert found[0] == 0.0, "five pairs are too few"
        assert found[-1] > 0.9, found


def test_the_rule_before_it_was_wrong_on_noise_and_found_less_with_more_pairs():
    assert false_alarms(old_rule, 2, slow=False, trials=TRIALS) > 0.3
    found = [power(old_rule, repeats, slow=False, trials=TRIALS) for repeats in REPEATS]
    assert found == sorted(found, reverse=True), found
