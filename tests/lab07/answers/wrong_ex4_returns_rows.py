"""Returns how many rows a micro-batch has, not how many micro-batches there are."""


def best_micro_batches(rows, parts, row_seconds, launch_seconds, row_bytes, memory):
    def largest(m):
        return -(-rows // m)

    def seconds(m):
        return (m + parts - 1) * (launch_seconds + largest(m) * row_seconds)

    fitting = [m for m in range(1, rows + 1) if largest(m) * row_bytes <= memory]
    return largest(min(fitting, key=seconds)) if fitting else None
