"""Uses math.ceil and a list of pairs."""


def best_micro_batches(rows, parts, row_seconds, launch_seconds, row_bytes, memory):
    import math

    pairs = []
    for m in range(1, rows + 1):
        largest = math.ceil(rows / m)
        if largest * row_bytes <= memory:
            pairs.append(((m + parts - 1) * (launch_seconds + largest * row_seconds), m))
    return min(pairs)[1] if pairs else None
