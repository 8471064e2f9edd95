# %% wrong: one_after_the_other
# Times all runs of a, and then all runs of b, so that a drift looks like a difference.

def faster(work_a, work_b, gpus, clock, repeats):
    def times(work):
        work()
        found = []
        for _ in range(repeats):
            for gpu in gpus:
                synchronize(gpu)
            begin = clock()
            work()
            for gpu in gpus:
                synchronize(gpu)
            found.append(clock() - begin)
        return found

    a, b = times(work_a), times(work_b)
    differences = [second - first for first, second in zip(a, b)]
    middle = statistics.median(differences)
    if abs(middle) <= statistics.stdev(differences):
        return "cannot tell"
    return "a" if middle > 0 else "b"


# %% wrong: compares_medians
# Says who has the smaller median, and never that it cannot tell.

def faster(work_a, work_b, gpus, clock, repeats):
    a, _ = time_it(work_a, gpus, clock, warm_up=1, repeats=repeats)
    b, _ = time_it(work_b, gpus, clock, warm_up=1, repeats=repeats)
    return "a" if a < b else "b"


# %% wrong: spreads_of_each
# Takes turns, but compares the medians with the spread of each, which has the drift in it.

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
    a, b = [], []
    for _ in range(repeats):
        a.append(seconds(work_a))
        b.append(seconds(work_b))
    difference = statistics.median(b) - statistics.median(a)
    if abs(difference) <= max(statistics.stdev(a), statistics.stdev(b)):
        return "cannot tell"
    return "a" if difference > 0 else "b"


# %% wrong: never_waits
# Times the launches.

def faster(work_a, work_b, gpus, clock, repeats):
    work_a(), work_b()
    differences = []
    for _ in range(repeats):
        t0 = clock()
        work_a()
        t1 = clock()
        work_b()
        t2 = clock()
        differences.append((t2 - t1) - (t1 - t0))
    middle = statistics.median(differences)
    if abs(middle) <= statistics.stdev(differences):
        return "cannot tell"
    return "a" if middle > 0 else "b"


# %% wrong: only_after_b
# Waits once for each pair, so that the time of b has most of a in it.

def faster(work_a, work_b, gpus, clock, repeats):
    def wait():
        for gpu in gpus:
            synchronize(gpu)

    work_a()
    work_b()
    differences = []
    for _ in range(repeats):
        wait()
        t0 = clock()
        work_a()
        t1 = clock()
        work_b()
        wait()
        t2 = clock()
        differences.append((t2 - t1) - (t1 - t0))
    middle = statistics.median(differences)
    if abs(middle) <= statistics.stdev(differences):
        return "cannot tell"
    return "a" if middle > 0 else "b"


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
    for _ in range(repeats):
        first = seconds(work_a)
        differences.append(seconds(work_b) - first)
    middle, spread = statistics.median(differences), statistics.stdev(differences)
    if middle > spread:
        return "b"
    return "a" if middle < -spread else "cannot tell"


# %% wrong: mean_for_median
# Takes the mean of the differences, which one disturbed run moves.

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
        first = seconds(work_a)
        differences.append(seconds(work_b) - first)
    middle, spread = statistics.mean(differences), statistics.stdev(differences)
    if abs(middle) <= spread:
        return "cannot tell"
    return "a" if middle > 0 else "b"


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
    for _ in range(repeats):
        first = seconds(work_a)
        differences.append(seconds(work_b) - first)
    middle, spread = statistics.median(differences), statistics.stdev(differences)
    if abs(middle) <= spread:
        return "cannot tell"
    return "a" if middle > 0 else "b"


# %% wrong: sign_forgotten
# Compares the difference itself with the spread, so that b is never the faster one.

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
        first = seconds(work_a)
        differences.append(seconds(work_b) - first)
    if statistics.median(differences) > statistics.stdev(differences):
        return "a"
    return "cannot tell"


# %% right: three_cases
# Three cases at the end; a function that waits and reads the clock.

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
    differences = []
    for _ in range(repeats):
        a = seconds(work_a)
        b = seconds(work_b)
        differences.append(b - a)
    middle, spread = statistics.median(differences), statistics.stdev(differences)
    if middle > spread:
        return "a"
    if middle < -spread:
        return "b"
    return "cannot tell"


# %% right: numpy
# Three readings for each pair; numpy; the warm-up is timed, too, and thrown away.

import numpy as np


def faster(work_a, work_b, gpus, clock, repeats):
    def wait():
        for gpu in gpus:
            torch.get_device_module(gpu).synchronize(gpu)

    rows = []
    for _ in range(repeats + 1):
        wait()
        t0 = clock()
        work_a()
        wait()
        t1 = clock()
        work_b()
        wait()
        t2 = clock()
        rows.append((t1 - t0, t2 - t1))
    a, b = np.array(rows[1:]).T
    difference = b - a
    middle, spread = np.median(difference), np.std(difference, ddof=1)
    print(f"difference {middle} +- {spread}")
    return "cannot tell" if abs(middle) <= spread else ["b", "a"][int(middle > 0)]


# %% right: two_lists
# Two lists that are zipped at the end.

def faster(work_a, work_b, gpus, clock, repeats):
    times = {"a": [], "b": []}
    works = {"a": work_a, "b": work_b}
    work_a()
    work_b()
    for _ in range(repeats):
        for name in "ab":
            for gpu in gpus:
                synchronize(gpu)
            begin = clock()
            works[name]()
            for gpu in gpus:
                synchronize(gpu)
            times[name].append(clock() - begin)
    d = [b - a for a, b in zip(times["a"], times["b"], strict=True)]
    if abs(statistics.median(d)) > statistics.stdev(d):
        return "a" if statistics.median(d) > 0 else "b"
    return "cannot tell"
