"""Counts m turns, without the turns that fill and empty the pipeline."""


def best_micro_batches(rows, parts, row_seconds, launch_seconds, row_bytes, memory):
    def largest(m):
        return -(-rows // m)

    fitting = [m for m in range(1, rows + 1) if largest(m) * row_bytes <= memory]
    return min(fitting, key=lambda m: m * (launch_seconds + largest(m) * row_seconds), default=None)
