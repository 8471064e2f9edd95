"""Thinks that smaller is always better, because the bubble is smaller."""


def best_micro_batches(rows, parts, row_seconds, launch_seconds, row_bytes, memory):
    return rows if row_bytes <= memory else None
