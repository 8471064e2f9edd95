"""Rounds the rows of the largest micro-batch down."""


def best_micro_batches(rows, parts, row_seconds, launch_seconds, row_bytes, memory):
    fitting = [m for m in range(1, rows + 1) if rows // m * row_bytes <= memory]
    return min(fitting, key=lambda m: (m + parts - 1) * (launch_seconds + rows // m * row_seconds), default=None)
