# %% wrong: always_a_first
# Thinks that the order makes no difference.

from utils.exercises.tasks.lesson04.worked import time_it


def six_pairs(work_a, work_b, gpus, clock):
    differences = []
    for pair in range(6):
        a = time_it(work_a, gpus, clock)[0]
        b = time_it(work_b, gpus, clock)[0]
        differences.append(b - a)
    return min(differences), max(differences)


# %% wrong: a_minus_b
# Subtracts the other way round.

from utils.exercises.tasks.lesson04.worked import time_it


def six_pairs(work_a, work_b, gpus, clock):
    differences = []
    for pair in range(6):
        if pair % 2 == 0:
            a = time_it(work_a, gpus, clock)[0]
            b = time_it(work_b, gpus, clock)[0]
        else:
            b = time_it(work_b, gpus, clock)[0]
            a = time_it(work_a, gpus, clock)[0]
        differences.append(a - b)
    return min(differences), max(differences)


# %% wrong: waits_for_nothing
# Passes no devices to time_it.

from utils.exercises.tasks.lesson04.worked import time_it


def six_pairs(work_a, work_b, gpus, clock):
    differences = []
    for pair in range(6):
        if pair % 2 == 0:
            a = time_it(work_a, [], clock)[0]
            b = time_it(work_b, [], clock)[0]
        else:
            b = time_it(work_b, [], clock)[0]
            a = time_it(work_a, [], clock)[0]
        differences.append(b - a)
    return min(differences), max(differences)


# %% wrong: median_alone
# Returns one number, which says nothing about noise.

import statistics

from utils.exercises.tasks.lesson04.worked import time_it


def six_pairs(work_a, work_b, gpus, clock):
    differences = []
    for pair in range(6):
        if pair % 2 == 0:
            a = time_it(work_a, gpus, clock)[0]
            b = time_it(work_b, gpus, clock)[0]
        else:
            b = time_it(work_b, gpus, clock)[0]
            a = time_it(work_a, gpus, clock)[0]
        differences.append(b - a)
    return statistics.median(differences)


# %% wrong: all_in_a_row
# Times one program six times, and then the other.

from utils.exercises.tasks.lesson04.worked import time_it


def six_pairs(work_a, work_b, gpus, clock):
    a = [time_it(work_a, gpus, clock)[0] for _ in range(6)]
    b = [time_it(work_b, gpus, clock)[0] for _ in range(6)]
    differences = [y - x for x, y in zip(a, b)]
    return min(differences), max(differences)


# %% wrong: second_minus_first
# Subtracts in the order of the runs.

from utils.exercises.tasks.lesson04.worked import time_it


def six_pairs(work_a, work_b, gpus, clock):
    differences, works = [], [work_a, work_b]
    for _ in range(6):
        first, second = (time_it(work, gpus, clock)[0] for work in works)
        differences.append(second - first)
        works.reverse()
    return min(differences), max(differences)


# %% wrong: without_outliers
# Leaves out the smallest and the largest.

from utils.exercises.tasks.lesson04.worked import time_it


def six_pairs(work_a, work_b, gpus, clock):
    differences = []
    for pair in range(6):
        if pair % 2 == 0:
            a = time_it(work_a, gpus, clock)[0]
            b = time_it(work_b, gpus, clock)[0]
        else:
            b = time_it(work_b, gpus, clock)[0]
            a = time_it(work_a, gpus, clock)[0]
        differences.append(b - a)
    return sorted(differences)[1], sorted(differences)[-2]


# %% right: by_a_list
# Reverses the two for every other pair.

from utils.exercises.tasks.lesson04.worked import time_it


def six_pairs(work_a, work_b, gpus, clock):
    differences, works = [], [(1, work_b), (-1, work_a)]
    for _ in range(6):
        works.reverse()
        differences.append(sum(sign * time_it(work, gpus, clock)[0] for sign, work in works))
    differences.sort()
    return [differences[0], differences[-1]]
