"""What lesson 05 states, asked in the lesson's own kernel after its last cell, on a machine with other things to do."""

# ruff: noqa: F821  (the names are the lesson's)

compared = predictions()
results = {q._key: q.result for q in (*compared.surprises, *compared.others)}
assert results["05/1"] > 60, results
assert results["05/2"] == round(milliseconds[0], 1), (results, milliseconds)
assert max(milliseconds) < 1.1 * min(milliseconds), milliseconds
assert min(percent.values()) > 60, percent
assert products["all_at_once"] > 2.5 * products["one_by_one"], products
assert in_turn < 1.1 < 1.5 < at_once < 2.1, (in_turn, at_once)
most, less, _ = uneven.imbalance()
assert most[0] == "simgpu:0", most
assert 2 < most[1] / less[1] < 6, (most, less)
for monitor in (even, serving):
    most, less, _ = monitor.imbalance()
    assert 25 < less[1] <= most[1] < 75, (most, less)
assert 3.9 < held / W < 4.1, held
assert 4.9 < peak / W < 5.1, peak
assert memory.phases[memory.fullest(device0)] == "optimizer"
