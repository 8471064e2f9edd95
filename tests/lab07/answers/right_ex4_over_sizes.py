"""Goes through the sizes of a micro-batch, not through their number."""


def best_micro_batches(rows, parts, row_seconds, launch_seconds, row_bytes, memory):
    times = {}
    for size in range(1, rows + 1):
        if size * row_bytes <= memory:
            m = len(range(0, rows, size))
            times[m] = min(times.get(m, float("inf")), (m + parts - 1) * (launch_seconds + -(-rows // m) * row_seconds))
    return min(times, key=times.get) if times else None
