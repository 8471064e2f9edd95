"""What lesson 05 states, asked in the lesson's own kernel after its last cell, on a machine with other things to do."""

# ruff: noqa: F821  (the names are the lesson's)

compared = predictions()
results = {q._key: q.result for q in (*compared.surprises, *compared.others)}
assert [results[f"05/{number}"] for number in (1, 3, 5, 6)] == [50, "hardly ever", "no", 5.0], results
assert max(milliseconds.values()) < 1.1 * min(milliseconds.values()), milliseconds
assert min(percent.values()) > 60, percent
assert products["all at once"] > 2.5 * products["one by one"], products
assert in_turn < 0.1 < 0.5 < at_once, (in_turn, at_once)
busy, less, _ = uneven.imbalance()
assert busy[0] == "simgpu:0", busy
assert 2 < busy[1] / less[1] < 6, (busy, less)
busy, less, _ = serving.imbalance()
assert 25 < less[1] <= busy[1] < 75, (busy, less)
assert 3.9 < held / on_device0 < 4.1, held
assert 4.9 < peak / on_device0 < 5.1, peak
assert memory.phases[memory.fullest(device0)] == "optimizer"
