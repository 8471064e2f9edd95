# %% wrong: median_beyond_stdev
# Compares the median with the spread of one difference: that does not get narrower with more pairs, and two pairs do.


def faster(work_a, work_b, gpus, clock, repeats):
    def seconds(work):
        for gpu in gpus:
            synchronize(gpu)
        begin = clock()
        work()
        for gpu in gpus:
            synchronize(gpu)
        return clock() - begin

    work_a()
    work_b()
    differences = []
    for pair in range(repeats):
        if pair % 2 == 0:
            a, b = seconds(work_a), seconds(work_b)
        else:
            b, a = seconds(work_b), seconds(work_a)
        differences.append(b - a)
    middle, spread = statistics.median(differences), statistics.stdev(differences) if repeats > 1 else float("inf")
    if abs(middle) <= spread:
        return "cannot tell"
    return "a" if middle > 0 else "b"


# %% wrong: median_beyond_pstdev
# Compares the median with the spread of the numbers themselves, which is smaller still for a few.


def faster(work_a, work_b, gpus, clock, repeats):
    def seconds(work):
        for gpu in gpus:
            synchronize(gpu)
        begin = clock()
        work()
        for gpu in gpus:
            synchronize(gpu)
        return clock() - begin

    work_a()
    work_b()
    differences = []
    for pair in range(repeats):
        if pair % 2 == 0:
            a, b = seconds(work_a), seconds(work_b)
        else:
            b, a = seconds(work_b), seconds(work_a)
        differences.append(b - a)
    middle, spread = statistics.median(differences), statistics.pstdev(differences)
    if abs(middle) <= spread:
        return "cannot tell"
    return "a" if middle > 0 else "b"


# %% wrong: mean_and_standard_error
# Takes the mean and twice its standard error, which one slow run moves far.


def faster(work_a, work_b, gpus, clock, repeats):
    def seconds(work):
        for gpu in gpus:
            synchronize(gpu)
        begin = clock()
        work()
        for gpu in gpus:
            synchronize(gpu)
        return clock() - begin

    work_a()
    work_b()
    differences = []
    for pair in range(repeats):
        if pair % 2 == 0:
            a, b = seconds(work_a), seconds(work_b)
        else:
            b, a = seconds(work_b), seconds(work_a)
        differences.append(b - a)
    if repeats < 6:
        return "cannot tell"
    middle, error = statistics.mean(differences), statistics.stdev(differences) / math.sqrt(repeats)
    if abs(middle) <= 1.96 * error:
        return "cannot tell"
    return "a" if middle > 0 else "b"


# %% wrong: no_guard_for_few_pairs
# Takes the smallest and the largest where there are too few pairs for an interval.


def faster(work_a, work_b, gpus, clock, repeats):
    def seconds(work):
        for gpu in gpus:
            synchronize(gpu)
        begin = clock()
        work()
        for gpu in gpus:
            synchronize(gpu)
        return clock() - begin

    work_a()
    work_b()
    differences = []
    for pair in range(repeats):
        if pair % 2 == 0:
            a, b = seconds(work_a), seconds(work_b)
        else:
            b, a = seconds(work_b), seconds(work_a)
        differences.append(b - a)
    k = 0
    while 2 * sum(math.comb(repeats, i) for i in range(k + 1)) <= 0.05 * 2**repeats:
        k += 1
    k = max(k, 1)
    differences.sort()
    if k and differences[k - 1] > 0:
        return "a"
    if k and differences[-k] < 0:
        return "b"
    return "cannot tell"


# %% wrong: from_smallest_to_largest
# Looks at all the differences, however many: one slow run and it can never tell.


def faster(work_a, work_b, gpus, clock, repeats):
    def seconds(work):
        for gpu in gpus:
            synchronize(gpu)
        begin = clock()
        work()
        for gpu in gpus:
            synchronize(gpu)
        return clock() - begin

    work_a()
    work_b()
    differences = []
    for pair in range(repeats):
        if pair % 2 == 0:
            a, b = seconds(work_a), seconds(work_b)
        else:
            b, a = seconds(work_b), seconds(work_a)
        differences.append(b - a)
    if repeats >= 6 and min(differences) > 0:
        return "a"
    if repeats >= 6 and max(differences) < 0:
        return "b"
    return "cannot tell"


# %% wrong: one_sided
# Forgets the 2: each end of the interval is wrong in 5% of cases, both in 10%.


def faster(work_a, work_b, gpus, clock, repeats):
    def seconds(work):
        for gpu in gpus:
            synchronize(gpu)
        begin = clock()
        work()
        for gpu in gpus:
            synchronize(gpu)
        return clock() - begin

    work_a()
    work_b()
    differences = []
    for pair in range(repeats):
        if pair % 2 == 0:
            a, b = seconds(work_a), seconds(work_b)
        else:
            b, a = seconds(work_b), seconds(work_a)
        differences.append(b - a)
    k = 0
    while sum(math.comb(repeats, i) for i in range(k + 1)) <= 0.05 * 2**repeats:
        k += 1
    differences.sort()
    if k and differences[k - 1] > 0:
        return "a"
    if k and differences[-k] < 0:
        return "b"
    return "cannot tell"


# %% wrong: quartiles
# Takes the middle half of the differences for the interval: it is as wide with many pairs as with few.


def faster(work_a, work_b, gpus, clock, repeats):
    def seconds(work):
        for gpu in gpus:
            synchronize(gpu)
        begin = clock()
        work()
        for gpu in gpus:
            synchronize(gpu)
        return clock() - begin

    work_a()
    work_b()
    differences = []
    for pair in range(repeats):
        if pair % 2 == 0:
            a, b = seconds(work_a), seconds(work_b)
        else:
            b, a = seconds(work_b), seconds(work_a)
        differences.append(b - a)
    if repeats < 6:
        return "cannot tell"
    low, _, high = statistics.quantiles(differences, n=4)
    return "a" if low > 0 else "b" if high < 0 else "cannot tell"


# %% wrong: one_rank_further_in
# Begins to count the sorted differences at 0, so that the interval is too narrow at both ends.


def faster(work_a, work_b, gpus, clock, repeats):
    def seconds(work):
        for gpu in gpus:
            synchronize(gpu)
        begin = clock()
        work()
        for gpu in gpus:
            synchronize(gpu)
        return clock() - begin

    work_a()
    work_b()
    differences = []
    for pair in range(repeats):
        if pair % 2 == 0:
            a, b = seconds(work_a), seconds(work_b)
        else:
            b, a = seconds(work_b), seconds(work_a)
        differences.append(b - a)
    k = 0
    while 2 * sum(math.comb(repeats, i) for i in range(k + 1)) <= 0.05 * 2**repeats:
        k += 1
    differences.sort()
    if k and differences[min(k, repeats - 1)] > 0:
        return "a"
    if k and differences[max(-k - 1, -repeats)] < 0:
        return "b"
    return "cannot tell"


# %% wrong: formula_for_many_pairs
# Computes k with the approximation for many pairs by a bell curve, which is too careful for a few.


def faster(work_a, work_b, gpus, clock, repeats):
    def seconds(work):
        for gpu in gpus:
            synchronize(gpu)
        begin = clock()
        work()
        for gpu in gpus:
            synchronize(gpu)
        return clock() - begin

    work_a()
    work_b()
    differences = []
    for pair in range(repeats):
        if pair % 2 == 0:
            a, b = seconds(work_a), seconds(work_b)
        else:
            b, a = seconds(work_b), seconds(work_a)
        differences.append(b - a)
    k = max(0, math.floor((repeats - 1.96 * math.sqrt(repeats)) / 2))
    differences.sort()
    if k and differences[k - 1] > 0:
        return "a"
    if k and differences[-k] < 0:
        return "b"
    return "cannot tell"


# %% wrong: not_sorted
# Takes the k-th difference in the order of the pairs.


def faster(work_a, work_b, gpus, clock, repeats):
    def seconds(work):
        for gpu in gpus:
            synchronize(gpu)
        begin = clock()
        work()
        for gpu in gpus:
            synchronize(gpu)
        return clock() - begin

    work_a()
    work_b()
    differences = []
    for pair in range(repeats):
        if pair % 2 == 0:
            a, b = seconds(work_a), seconds(work_b)
        else:
            b, a = seconds(work_b), seconds(work_a)
        differences.append(b - a)
    k = 0
    while 2 * sum(math.comb(repeats, i) for i in range(k + 1)) <= 0.05 * 2**repeats:
        k += 1
    if k and differences[k - 1] > 0:
        return "a"
    if k and differences[-k] < 0:
        return "b"
    return "cannot tell"


# %% wrong: difference_of_the_medians
# Subtracts the medians of the two: which run was in a pair with which is lost.


def faster(work_a, work_b, gpus, clock, repeats):
    def seconds(work):
        for gpu in gpus:
            synchronize(gpu)
        begin = clock()
        work()
        for gpu in gpus:
            synchronize(gpu)
        return clock() - begin

    work_a()
    work_b()
    differences, all_a, all_b = [], [], []
    for pair in range(repeats):
        if pair % 2 == 0:
            a, b = seconds(work_a), seconds(work_b)
        else:
            b, a = seconds(work_b), seconds(work_a)
        differences.append(b - a)
        all_a.append(a)
        all_b.append(b)
    k = 0
    while 2 * sum(math.comb(repeats, i) for i in range(k + 1)) <= 0.05 * 2**repeats:
        k += 1
    middle = statistics.median(all_b) - statistics.median(all_a)
    if not k or abs(middle) <= statistics.stdev(differences) / math.sqrt(repeats):
        return "cannot tell"
    return "a" if middle > 0 else "b"


# %% wrong: a_always_first
# Times a first in every pair, so that a drift looks like a difference.


def faster(work_a, work_b, gpus, clock, repeats):
    def seconds(work):
        for gpu in gpus:
            synchronize(gpu)
        begin = clock()
        work()
        for gpu in gpus:
            synchronize(gpu)
        return clock() - begin

    work_a()
    work_b()
    differences = []
    for _ in range(repeats):
        a = seconds(work_a)
        b = seconds(work_b)
        differences.append(b - a)
    k = 0
    while 2 * sum(math.comb(repeats, i) for i in range(k + 1)) <= 0.05 * 2**repeats:
        k += 1
    differences.sort()
    if k and differences[k - 1] > 0:
        return "a"
    if k and differences[-k] < 0:
        return "b"
    return "cannot tell"


# %% wrong: one_after_the_other
# Times all runs of a, and then all runs of b.


def faster(work_a, work_b, gpus, clock, repeats):
    def seconds(work):
        for gpu in gpus:
            synchronize(gpu)
        begin = clock()
        work()
        for gpu in gpus:
            synchronize(gpu)
        return clock() - begin

    work_a()
    all_a = [seconds(work_a) for _ in range(repeats)]
    work_b()
    all_b = [seconds(work_b) for _ in range(repeats)]
    differences = [b - a for a, b in zip(all_a, all_b)]
    k = 0
    while 2 * sum(math.comb(repeats, i) for i in range(k + 1)) <= 0.05 * 2**repeats:
        k += 1
    differences.sort()
    if k and differences[k - 1] > 0:
        return "a"
    if k and differences[-k] < 0:
        return "b"
    return "cannot tell"


# %% wrong: compares_medians
# Says which has the smaller median, and never that it cannot tell.


def faster(work_a, work_b, gpus, clock, repeats):
    a, _ = time_it(work_a, gpus, clock, warm_up=1, repeats=repeats)
    b, _ = time_it(work_b, gpus, clock, warm_up=1, repeats=repeats)
    return "a" if a < b else "b"


# %% wrong: sign_of_the_order
# Subtracts the first time of a pair from the second, whichever work that was.


def faster(work_a, work_b, gpus, clock, repeats):
    def seconds(work):
        for gpu in gpus:
            synchronize(gpu)
        begin = clock()
        work()
        for gpu in gpus:
            synchronize(gpu)
        return clock() - begin

    work_a()
    work_b()
    differences = []
    for pair in range(repeats):
        works = (work_a, work_b) if pair % 2 == 0 else (work_b, work_a)
        first, second = (seconds(work) for work in works)
        differences.append(second - first)
    k = 0
    while 2 * sum(math.comb(repeats, i) for i in range(k + 1)) <= 0.05 * 2**repeats:
        k += 1
    differences.sort()
    if k and differences[k - 1] > 0:
        return "a"
    if k and differences[-k] < 0:
        return "b"
    return "cannot tell"


# %% wrong: never_waits
# Times the launches.


def faster(work_a, work_b, gpus, clock, repeats):
    def seconds(work):
        begin = clock()
        work()
        return clock() - begin

    work_a()
    work_b()
    differences = []
    for pair in range(repeats):
        if pair % 2 == 0:
            a, b = seconds(work_a), seconds(work_b)
        else:
            b, a = seconds(work_b), seconds(work_a)
        differences.append(b - a)
    k = 0
    while 2 * sum(math.comb(repeats, i) for i in range(k + 1)) <= 0.05 * 2**repeats:
        k += 1
    differences.sort()
    if k and differences[k - 1] > 0:
        return "a"
    if k and differences[-k] < 0:
        return "b"
    return "cannot tell"


# %% wrong: waits_only_after
# Trusts that nothing is left of the warm-up when the first timed run begins.


def faster(work_a, work_b, gpus, clock, repeats):
    def seconds(work):
        begin = clock()
        work()
        for gpu in gpus:
            synchronize(gpu)
        return clock() - begin

    work_a()
    work_b()
    differences = []
    for pair in range(repeats):
        if pair % 2 == 0:
            a, b = seconds(work_a), seconds(work_b)
        else:
            b, a = seconds(work_b), seconds(work_a)
        differences.append(b - a)
    k = 0
    while 2 * sum(math.comb(repeats, i) for i in range(k + 1)) <= 0.05 * 2**repeats:
        k += 1
    differences.sort()
    if k and differences[k - 1] > 0:
        return "a"
    if k and differences[-k] < 0:
        return "b"
    return "cannot tell"


# %% wrong: the_other_way_round
# Returns the slower one.


def faster(work_a, work_b, gpus, clock, repeats):
    def seconds(work):
        for gpu in gpus:
            synchronize(gpu)
        begin = clock()
        work()
        for gpu in gpus:
            synchronize(gpu)
        return clock() - begin

    work_a()
    work_b()
    differences = []
    for pair in range(repeats):
        if pair % 2 == 0:
            a, b = seconds(work_a), seconds(work_b)
        else:
            b, a = seconds(work_b), seconds(work_a)
        differences.append(b - a)
    k = 0
    while 2 * sum(math.comb(repeats, i) for i in range(k + 1)) <= 0.05 * 2**repeats:
        k += 1
    differences.sort()
    if k and differences[k - 1] > 0:
        return "b"
    if k and differences[-k] < 0:
        return "a"
    return "cannot tell"


# %% wrong: no_warm_up
# Counts the first pair, too.


def faster(work_a, work_b, gpus, clock, repeats):
    def seconds(work):
        for gpu in gpus:
            synchronize(gpu)
        begin = clock()
        work()
        for gpu in gpus:
            synchronize(gpu)
        return clock() - begin

    differences = []
    for pair in range(repeats):
        if pair % 2 == 0:
            a, b = seconds(work_a), seconds(work_b)
        else:
            b, a = seconds(work_b), seconds(work_a)
        differences.append(b - a)
    k = 0
    while 2 * sum(math.comb(repeats, i) for i in range(k + 1)) <= 0.05 * 2**repeats:
        k += 1
    differences.sort()
    if k and differences[k - 1] > 0:
        return "a"
    if k and differences[-k] < 0:
        return "b"
    return "cannot tell"


# %% wrong: b_is_never_faster
# Looks at the lower end of the interval only.


def faster(work_a, work_b, gpus, clock, repeats):
    def seconds(work):
        for gpu in gpus:
            synchronize(gpu)
        begin = clock()
        work()
        for gpu in gpus:
            synchronize(gpu)
        return clock() - begin

    work_a()
    work_b()
    differences = []
    for pair in range(repeats):
        if pair % 2 == 0:
            a, b = seconds(work_a), seconds(work_b)
        else:
            b, a = seconds(work_b), seconds(work_a)
        differences.append(b - a)
    k = 0
    while 2 * sum(math.comb(repeats, i) for i in range(k + 1)) <= 0.05 * 2**repeats:
        k += 1
    differences.sort()
    if k and differences[k - 1] > 0:
        return "a"
    return "cannot tell"


# %% right: a_count_of_signs
# Counts the differences on each side of 0, and asks how seldom a coin shows so few: the same answer.


def faster(work_a, work_b, gpus, clock, repeats):
    def now():
        for gpu in gpus:
            synchronize(gpu)
        return clock()

    def seconds(work):
        begin = now()
        work()
        return now() - begin

    for work in (work_a, work_b):
        work()
    slower, quicker = 0, 0
    for pair in range(repeats):
        times = {}
        for work in (work_a, work_b) if pair % 2 == 0 else (work_b, work_a):
            times[work] = seconds(work)
        slower += times[work_b] > times[work_a]
        quicker += times[work_b] < times[work_a]

    def seldom(fewer):
        return 2 * sum(math.comb(repeats, i) for i in range(fewer + 1)) / 2**repeats <= 0.05

    if seldom(repeats - slower):
        return "a"
    return "b" if seldom(repeats - quicker) else "cannot tell"


# %% right: numpy
# Five readings for two pairs; numpy; the warm-up is timed, too, and thrown away.

import numpy as np


def faster(work_a, work_b, gpus, clock, repeats):
    def wait():
        for gpu in gpus:
            torch.get_device_module(gpu).synchronize(gpu)

    def both(first, second):
        marks = []
        for work in (first, second):
            wait()
            marks.append(clock())
            work()
        wait()
        return np.diff([*marks, clock()])

    both(work_a, work_b)
    rows = [both(work_a, work_b) if n % 2 == 0 else both(work_b, work_a)[::-1] for n in range(repeats)]
    difference = np.sort([b - a for a, b in rows])
    chances = 2 * np.cumsum([math.comb(repeats, i) for i in range(repeats)]) / 2.0**repeats
    k = int((chances <= 0.05).sum())
    if k == 0:
        return "cannot tell"
    low, high = difference[k - 1], difference[repeats - k]
    print(f"the difference is between {low} and {high}")
    return "a" if low > 0 else "b" if high < 0 else "cannot tell"


# %% right: largest_k_first
# Tries k from above; two dicts; a function for the interval.


def interval(values):
    n = len(values)
    for k in range(n // 2, 0, -1):
        if sum(math.comb(n, i) for i in range(k)) * 40 <= 2**n:
            return sorted(values)[k - 1], sorted(values, reverse=True)[k - 1]
    return float("-inf"), float("inf")


def faster(work_a, work_b, gpus, clock, repeats):
    works, times = {"a": work_a, "b": work_b}, {"a": [], "b": []}
    for work in works.values():
        work()
    for pair in range(repeats):
        for name in "ab" if pair % 2 == 0 else "ba":
            for gpu in gpus:
                synchronize(gpu)
            begin = clock()
            works[name]()
            for gpu in gpus:
                synchronize(gpu)
            times[name].append(clock() - begin)
    low, high = interval([b - a for a, b in zip(times["a"], times["b"], strict=True)])
    if low > 0:
        return "a"
    return "b" if high < 0 else "cannot tell"


# %% wrong: k_of_the_examples
# Takes k from the first examples, 1 from 6 pairs on and 2 from 9 on, so that more pairs do not help.

def faster(work_a, work_b, gpus, clock, repeats):
    def wait():
        for gpu in gpus:
            synchronize(gpu)

    def seconds(work):
        wait()
        begin = clock()
        work()
        wait()
        return clock() - begin

    work_a()
    work_b()
    differences = []
    for pair in range(repeats):
        if pair % 2 == 0:
            a = seconds(work_a)
            b = seconds(work_b)
        else:
            b = seconds(work_b)
            a = seconds(work_a)
        differences.append(b - a)

    differences.sort()
    k = 0 if repeats < 6 else 1 if repeats < 9 else 2
    if k and differences[k - 1] > 0:
        return "a"
    if k and differences[-k] < 0:
        return "b"
    return "cannot tell"


# %% wrong: latest_a
# Compares each time of b with the latest of a that is known: where b runs first, that is the one of the pair before.

def faster(work_a, work_b, gpus, clock, repeats):
    def wait():
        for gpu in gpus:
            synchronize(gpu)

    def seconds(work):
        wait()
        begin = clock()
        work()
        wait()
        return clock() - begin

    work_a()
    work_b()
    differences = []
    for pair in range(repeats):
        if pair % 2 == 0:
            a = seconds(work_a)
            b = seconds(work_b)
            differences.append(b - a)
        else:
            b = seconds(work_b)
            differences.append(b - a)
            seconds(work_a)

    differences.sort()
    k = 0
    while 2 * sum(math.comb(repeats, i) for i in range(k + 1)) <= 0.05 * 2**repeats:
        k += 1
    if k and differences[k - 1] > 0:
        return "a"
    if k and differences[-k] < 0:
        return "b"
    return "cannot tell"


# %% wrong: zero_is_above_zero
# Thinks that an interval which begins at 0 is above 0.

def faster(work_a, work_b, gpus, clock, repeats):
    def wait():
        for gpu in gpus:
            synchronize(gpu)

    def seconds(work):
        wait()
        begin = clock()
        work()
        wait()
        return clock() - begin

    work_a()
    work_b()
    differences = []
    for pair in range(repeats):
        if pair % 2 == 0:
            a = seconds(work_a)
            b = seconds(work_b)
        else:
            b = seconds(work_b)
            a = seconds(work_a)
        differences.append(b - a)

    differences.sort()
    k = 0
    while 2 * sum(math.comb(repeats, i) for i in range(k + 1)) <= 0.05 * 2**repeats:
        k += 1
    if k and differences[k - 1] >= 0:
        return "a"
    if k and differences[-k] <= 0:
        return "b"
    return "cannot tell"


# %% wrong: normal_approximation
# Takes k from the usual approximation by a normal distribution, which is one too small for some numbers of pairs.

def faster(work_a, work_b, gpus, clock, repeats):
    def wait():
        for gpu in gpus:
            synchronize(gpu)

    def seconds(work):
        wait()
        begin = clock()
        work()
        wait()
        return clock() - begin

    work_a()
    work_b()
    differences = []
    for pair in range(repeats):
        if pair % 2 == 0:
            a = seconds(work_a)
            b = seconds(work_b)
        else:
            b = seconds(work_b)
            a = seconds(work_a)
        differences.append(b - a)

    differences.sort()
    k = max(0, round(repeats / 2 - 0.98 * math.sqrt(repeats)))
    if k and differences[k - 1] > 0:
        return "a"
    if k and differences[-k] < 0:
        return "b"
    return "cannot tell"


# %% wrong: ties_are_dropped
# Drops the pairs without a difference, as some tests do, and takes k for those that are left.

def faster(work_a, work_b, gpus, clock, repeats):
    def wait():
        for gpu in gpus:
            synchronize(gpu)

    def seconds(work):
        wait()
        begin = clock()
        work()
        wait()
        return clock() - begin

    work_a()
    work_b()
    differences = []
    for pair in range(repeats):
        if pair % 2 == 0:
            a = seconds(work_a)
            b = seconds(work_b)
        else:
            b = seconds(work_b)
            a = seconds(work_a)
        differences.append(b - a)

    differences = sorted(one for one in differences if one != 0)
    repeats = len(differences)
    k = 0
    while 2 * sum(math.comb(repeats, i) for i in range(k + 1)) <= 0.05 * 2**repeats:
        k += 1
    if k and differences[k - 1] > 0:
        return "a"
    if k and differences[-k] < 0:
        return "b"
    return "cannot tell"
