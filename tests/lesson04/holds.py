"""What lesson 04 states, asked in the lesson's own kernel after its last cell, on a machine with other things to do."""

# ruff: noqa: F821  (the names are the lesson's)

assert none < 0.3 * both, (none, both)
assert none < one < 0.9 * both, (none, one, both)
assert first_call > statistics.median(runs), (first_call, runs)
# Beside a load the runs themselves may differ tenfold. The slow one still never takes the median beyond the others.
assert statistics.median(disturbed) <= max(runs), (runs, disturbed)
assert statistics.mean(disturbed) > 1.4 * runs[-1] + statistics.mean(runs), (runs, disturbed)
assert low <= high, (low, high)
assert sum(took[line] > 200e-6 for line in lines) == 5, took
assert between < 0.9 * complete, (between, complete)
assert abs(sum(parts) - complete) < 0.05 * complete, (parts, complete)
launches, forward = curves.values()
assert len(set(launches)) == 1, launches
assert forward[3] < 1.05 * forward[0], "host-bound up to 64"
assert 3 < forward[6] / forward[5] < 4, "four times the rows, nearly four times as long"
