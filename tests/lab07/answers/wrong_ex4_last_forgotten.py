"""Thinks that range includes its end, so one row each is never tried."""


def best_micro_batches(rows, parts, row_seconds, launch_seconds, row_bytes, memory):
    def largest(m):
        return -(-rows // m)

    def seconds(m):
        return (m + parts - 1) * (launch_seconds + largest(m) * row_seconds)

    fitting = [m for m in range(1, rows) if largest(m) * row_bytes <= memory]
    return min(fitting, key=seconds, default=None)
