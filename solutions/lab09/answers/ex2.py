# %% wrong: always_two_parts
# Knows the bubble of two stages only.

def best_micro_batches(samples, stages, sample_seconds, launch_seconds, sample_bytes, memory):
    def largest(m):
        return -(-samples // m)

    fitting = [m for m in range(1, samples + 1) if largest(m) * sample_bytes <= memory]
    return min(fitting, key=lambda m: (m + 1) * (launch_seconds + largest(m) * sample_seconds), default=None)


# %% wrong: divisors_only
# Tries only numbers that divide the batch.

def best_micro_batches(samples, stages, sample_seconds, launch_seconds, sample_bytes, memory):
    def largest(m):
        return -(-samples // m)

    def seconds(m):
        return (m + stages - 1) * (launch_seconds + largest(m) * sample_seconds)

    fitting = [m for m in range(1, samples + 1) if samples % m == 0 and largest(m) * sample_bytes <= memory]
    return min(fitting, key=seconds, default=None)


# %% wrong: full_does_not_fit
# Thinks that memory may not be filled to the last byte.

def best_micro_batches(samples, stages, sample_seconds, launch_seconds, sample_bytes, memory):
    def largest(m):
        return -(-samples // m)

    def seconds(m):
        return (m + stages - 1) * (launch_seconds + largest(m) * sample_seconds)

    fitting = [m for m in range(1, samples + 1) if largest(m) * sample_bytes < memory]
    return min(fitting, key=seconds, default=None)


# %% wrong: last_forgotten
# Thinks that range includes its end, so one sample each is never tried.

def best_micro_batches(samples, stages, sample_seconds, launch_seconds, sample_bytes, memory):
    def largest(m):
        return -(-samples // m)

    def seconds(m):
        return (m + stages - 1) * (launch_seconds + largest(m) * sample_seconds)

    fitting = [m for m in range(1, samples) if largest(m) * sample_bytes <= memory]
    return min(fitting, key=seconds, default=None)


# %% wrong: launches_ignored
# Thinks that smaller is always better, because the bubble is smaller.

def best_micro_batches(samples, stages, sample_seconds, launch_seconds, sample_bytes, memory):
    return samples if sample_bytes <= memory else None


# %% wrong: longer_than_any_step
# Begins with a time that is longer than any step can be, as it thinks: where steps are longer, none fits.

from math import ceil


def best_micro_batches(samples, stages, sample_seconds, launch_seconds, sample_bytes, memory):
    best, best_time = None, 1000.0
    for m in range(1, samples + 1):
        largest = ceil(samples / m)
        if largest * sample_bytes > memory:
            continue
        time = (m + stages - 1) * (launch_seconds + largest * sample_seconds)
        if time < best_time:
            best, best_time = m, time
    return best


# %% wrong: memory_ignored
# Takes the fastest number, whether it fits or not.

def best_micro_batches(samples, stages, sample_seconds, launch_seconds, sample_bytes, memory):
    def largest(m):
        return -(-samples // m)

    def seconds(m):
        return (m + stages - 1) * (launch_seconds + largest(m) * sample_seconds)

    return min(range(1, samples + 1), key=seconds)


# %% wrong: no_bubble
# Counts m turns, without the turns that fill and empty the pipeline.

def best_micro_batches(samples, stages, sample_seconds, launch_seconds, sample_bytes, memory):
    def largest(m):
        return -(-samples // m)

    fitting = [m for m in range(1, samples + 1) if largest(m) * sample_bytes <= memory]
    return min(fitting, key=lambda m: m * (launch_seconds + largest(m) * sample_seconds), default=None)


# %% wrong: nothing_fits
# Does not think of a memory in which not even one sample fits.

def best_micro_batches(samples, stages, sample_seconds, launch_seconds, sample_bytes, memory):
    def largest(m):
        return -(-samples // m)

    def seconds(m):
        return (m + stages - 1) * (launch_seconds + largest(m) * sample_seconds)

    return min((m for m in range(1, samples + 1) if largest(m) * sample_bytes <= memory), key=seconds)


# %% wrong: returns_rows
# Returns how many samples a micro-batch has, not how many micro-batches there are.

def best_micro_batches(samples, stages, sample_seconds, launch_seconds, sample_bytes, memory):
    def largest(m):
        return -(-samples // m)

    def seconds(m):
        return (m + stages - 1) * (launch_seconds + largest(m) * sample_seconds)

    fitting = [m for m in range(1, samples + 1) if largest(m) * sample_bytes <= memory]
    return largest(min(fitting, key=seconds)) if fitting else None


# %% wrong: rounds_down
# Rounds the samples of the largest micro-batch down.

def best_micro_batches(samples, stages, sample_seconds, launch_seconds, sample_bytes, memory):
    fitting = [m for m in range(1, samples + 1) if samples // m * sample_bytes <= memory]
    return min(fitting, key=lambda m: (m + stages - 1) * (launch_seconds + samples // m * sample_seconds), default=None)


# %% wrong: zero_for_none
# Returns 0 where nothing fits.

def best_micro_batches(samples, stages, sample_seconds, launch_seconds, sample_bytes, memory):
    best, least = 0, float("inf")
    for m in range(1, samples + 1):
        largest = -(-samples // m)
        seconds = (m + stages - 1) * (launch_seconds + largest * sample_seconds)
        if largest * sample_bytes <= memory and seconds < least:
            best, least = m, seconds
    return best


# %% right: loop
# Goes through all numbers in a loop and remembers the best.

def best_micro_batches(samples, stages, sample_seconds, launch_seconds, sample_bytes, memory):
    best, least = None, float("inf")
    for m in range(1, samples + 1):
        largest = (samples + m - 1) // m
        turns = m + stages - 1
        time = turns * (launch_seconds + largest * sample_seconds)
        if largest * sample_bytes <= memory and time < least:
            best, least = m, time
    return best


# %% right: math_ceil
# Uses math.ceil and a list of pairs.

def best_micro_batches(samples, stages, sample_seconds, launch_seconds, sample_bytes, memory):
    import math

    pairs = []
    for m in range(1, samples + 1):
        largest = math.ceil(samples / m)
        if largest * sample_bytes <= memory:
            pairs.append(((m + stages - 1) * (launch_seconds + largest * sample_seconds), m))
    return min(pairs)[1] if pairs else None


# %% right: over_sizes
# Goes through the sizes of a micro-batch, not through their number.

def best_micro_batches(samples, stages, sample_seconds, launch_seconds, sample_bytes, memory):
    times = {}
    for size in range(1, samples + 1):
        if size * sample_bytes <= memory:
            m = len(range(0, samples, size))
            times[m] = min(times.get(m, float("inf")), (m + stages - 1) * (launch_seconds + -(-samples // m) * sample_seconds))
    return min(times, key=times.get) if times else None
