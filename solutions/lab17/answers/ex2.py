"""Answers to exercise 2 that the grader is tested with. tests/support/answers.py says how to read them."""


# %% wrong: bandwidth_only
# Compares the bytes over a link alone: the ring sends fewer, so it is always faster.

def crossover(fabric):
    ranks, latency = fabric["ranks"], fabric["latency"]
    bandwidth = fabric["gigabits"] * 1e9 / 8
    levels = (ranks - 1).bit_length()
    return 0.0


# %% wrong: bits_for_bytes
# Takes the gigabits for gigabytes.

def crossover(fabric):
    ranks, latency = fabric["ranks"], fabric["latency"]
    bandwidth = fabric["gigabits"] * 1e9
    levels = (ranks - 1).bit_length()
    return ranks * bandwidth * latency * (ranks - 1 - levels)


# %% wrong: times_eight
# Multiplies by 8 to get from bits to bytes.

def crossover(fabric):
    ranks, latency = fabric["ranks"], fabric["latency"]
    bandwidth = fabric["gigabits"] * 1e9 * 8
    levels = (ranks - 1).bit_length()
    return ranks * bandwidth * latency * (ranks - 1 - levels)


# %% wrong: binary_giga
# Thinks that a gigabit is 2^30 bits.

def crossover(fabric):
    ranks, latency = fabric["ranks"], fabric["latency"]
    bandwidth = fabric["gigabits"] * 2**30 / 8
    levels = (ranks - 1).bit_length()
    return ranks * bandwidth * latency * (ranks - 1 - levels)


# %% wrong: as_many_steps_as_ranks
# Thinks that a ring of P ranks has P steps in each round.

def crossover(fabric):
    ranks, latency = fabric["ranks"], fabric["latency"]
    bandwidth = fabric["gigabits"] * 1e9 / 8
    levels = (ranks - 1).bit_length()
    return ranks * bandwidth * latency * (ranks - levels)


# %% wrong: log_not_rounded
# Takes log2 of the ranks as the number of levels, whole or not.

def crossover(fabric):
    ranks, latency = fabric["ranks"], fabric["latency"]
    bandwidth = fabric["gigabits"] * 1e9 / 8
    import math

    levels = math.log2(ranks)
    return ranks * bandwidth * latency * (ranks - 1 - levels)


# %% wrong: log_rounded_down
# Rounds the number of levels down.

def crossover(fabric):
    ranks, latency = fabric["ranks"], fabric["latency"]
    bandwidth = fabric["gigabits"] * 1e9 / 8
    levels = ranks.bit_length() - 1
    return ranks * bandwidth * latency * (ranks - 1 - levels)


# %% wrong: log_rounded_to_the_nearest
# Rounds log2 to the nearest whole number.

def crossover(fabric):
    ranks, latency = fabric["ranks"], fabric["latency"]
    bandwidth = fabric["gigabits"] * 1e9 / 8
    import math

    levels = round(math.log2(ranks))
    return ranks * bandwidth * latency * (ranks - 1 - levels)


# %% wrong: ring_of_both_tree_of_one
# Counts both rounds of the ring, and for the tree only the way up.

def crossover(fabric):
    ranks, latency = fabric["ranks"], fabric["latency"]
    bandwidth = fabric["gigabits"] * 1e9 / 8
    levels = (ranks - 1).bit_length()
    return ranks * bandwidth * latency * (2 * (ranks - 1) - levels)


# %% wrong: half_the_latency
# Counts the steps of one round, and the bytes of both.

def crossover(fabric):
    ranks, latency = fabric["ranks"], fabric["latency"]
    bandwidth = fabric["gigabits"] * 1e9 / 8
    levels = (ranks - 1).bit_length()
    return 0.5 * ranks * bandwidth * latency * (ranks - 1 - levels)


# %% wrong: whole_tensor_in_each_step
# Lets each step of the ring pass on all bytes, and each level of the tree, too.

def crossover(fabric):
    ranks, latency = fabric["ranks"], fabric["latency"]
    bandwidth = fabric["gigabits"] * 1e9 / 8
    levels = (ranks - 1).bit_length()
    difference = ranks - 1 - levels
    return abs(bandwidth * latency * difference)


# %% wrong: levels_send_everything_again
# Lets the tree pay for all bytes once more at each level, as without pieces.

def crossover(fabric):
    ranks, latency = fabric["ranks"], fabric["latency"]
    bandwidth = fabric["gigabits"] * 1e9 / 8
    levels = (ranks - 1).bit_length()
    more = levels - (ranks - 1) / ranks
    return bandwidth * latency * (ranks - 1 - levels) / more if more else 0.0


# %% wrong: none_for_few_ranks
# Returns None where the tree is never faster.

def crossover(fabric):
    ranks, latency = fabric["ranks"], fabric["latency"]
    bandwidth = fabric["gigabits"] * 1e9 / 8
    levels = (ranks - 1).bit_length()
    if ranks < 4:
        return None
    return ranks * bandwidth * latency * (ranks - 1 - levels)


# %% wrong: nothing_up_to_four
# Thinks that with four ranks, too, the tree is never faster.

import math


def crossover(fabric):
    P, L, B = fabric["ranks"], fabric["latency"], fabric["gigabits"] * 1e9 / 8
    k = math.ceil(math.log2(P))
    return P * B * L * (P - 1 - k) if P > 4 else 0


# %% wrong: megabytes
# Returns megabytes.

import math


def crossover(fabric):
    P, L, B = fabric["ranks"], fabric["latency"], fabric["gigabits"] * 1e9 / 8
    k = math.ceil(math.log2(P))
    return P * B * L * (P - 1 - k) / 1e6


# %% right: solved_by_numbers
# Halves an interval until both times are the same.

def crossover(fabric):
    ranks, latency, bandwidth = fabric["ranks"], fabric["latency"], fabric["gigabits"] / 8 * 1e9
    levels, left = 0, ranks
    while left > 1:
        left = (left + 1) // 2
        levels += 1

    def tree_is_faster(size):
        ring = 2 * (ranks - 1) * (latency + size / ranks / bandwidth)
        tree = 2 * levels * latency + 2 * size / bandwidth
        return tree < ring

    low, high = 0.0, 1.0
    if not tree_is_faster(1e-9):
        return 0
    while tree_is_faster(high):
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if tree_is_faster(middle):
            low = middle
        else:
            high = middle
    return high


# %% right: two_lines
# Two straight lines, latency and seconds for a byte, and where they meet.

import math


def crossover(fabric):
    P = fabric["ranks"]
    seconds_a_byte = 8 / (fabric["gigabits"] * 10**9)
    ring = 2 * (P - 1) * fabric["latency"], 2 * (P - 1) / P * seconds_a_byte
    tree = 2 * math.ceil(math.log2(P)) * fabric["latency"], 2 * seconds_a_byte
    return max(0, (ring[0] - tree[0]) / (tree[1] - ring[1]))
