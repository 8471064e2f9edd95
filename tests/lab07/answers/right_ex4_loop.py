"""Goes through all numbers in a loop and remembers the best."""


def best_micro_batches(rows, parts, row_seconds, launch_seconds, row_bytes, memory):
    best, least = None, float("inf")
    for m in range(1, rows + 1):
        largest = (rows + m - 1) // m
        turns = m + parts - 1
        time = turns * (launch_seconds + largest * row_seconds)
        if largest * row_bytes <= memory and time < least:
            best, least = m, time
    return best
