"""Does not think of a memory in which not even one row fits."""


def best_micro_batches(rows, parts, row_seconds, launch_seconds, row_bytes, memory):
    def largest(m):
        return -(-rows // m)

    def seconds(m):
        return (m + parts - 1) * (launch_seconds + largest(m) * row_seconds)

    return min((m for m in range(1, rows + 1) if largest(m) * row_bytes <= memory), key=seconds)
