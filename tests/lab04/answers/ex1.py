# %% wrong: clock_never_restarted
# Reads the start once, so each number has the runs before it in it.

def time_it(work, synchronize, clock, warm_up, repeats):
    for _ in range(warm_up):
        work()
    synchronize()
    begin = clock()
    seconds = []
    for _ in range(repeats):
        work()
        synchronize()
        seconds.append(clock() - begin)
    return seconds


# %% wrong: never_synchronised
# Times the launches: thinks that a function has done its work when it returns.

def time_it(work, synchronize, clock, warm_up, repeats):
    for _ in range(warm_up):
        work()
    seconds = []
    for _ in range(repeats):
        begin = clock()
        work()
        seconds.append(clock() - begin)
    return seconds


# %% wrong: one_average
# Times all runs together and divides.

def time_it(work, synchronize, clock, warm_up, repeats):
    for _ in range(warm_up):
        work()
    synchronize()
    begin = clock()
    for _ in range(repeats):
        work()
    synchronize()
    return [(clock() - begin) / repeats] * repeats


# %% wrong: only_after
# Synchronises before the clock stops, and not before it starts, so the first run has the warm-up in it.

def time_it(work, synchronize, clock, warm_up, repeats):
    for _ in range(warm_up):
        work()
    seconds = []
    for _ in range(repeats):
        begin = clock()
        work()
        synchronize()
        seconds.append(clock() - begin)
    return seconds


# %% wrong: only_before
# Synchronises before each run, and not before the clock stops.

def time_it(work, synchronize, clock, warm_up, repeats):
    for _ in range(warm_up):
        work()
    seconds = []
    for _ in range(repeats):
        synchronize()
        begin = clock()
        work()
        end = clock()
        seconds.append(end - begin)
    return seconds


# %% wrong: own_clock
# Uses time.time() and not the clock that it is given.

import time


def time_it(work, synchronize, clock, warm_up, repeats):
    for _ in range(warm_up):
        work()
    seconds = []
    for _ in range(repeats):
        synchronize()
        begin = time.time()
        work()
        synchronize()
        seconds.append(time.time() - begin)
    return seconds


# %% wrong: prints_only
# Prints the times and returns nothing.

def time_it(work, synchronize, clock, warm_up, repeats):
    for _ in range(warm_up):
        work()
    for _ in range(repeats):
        synchronize()
        begin = clock()
        work()
        synchronize()
        print(clock() - begin)


# %% wrong: returns_the_mean
# Returns one number.

def time_it(work, synchronize, clock, warm_up, repeats):
    for _ in range(warm_up):
        work()
    seconds = []
    for _ in range(repeats):
        synchronize()
        begin = clock()
        work()
        synchronize()
        seconds.append(clock() - begin)
    return sum(seconds) / repeats


# %% wrong: rounded
# Rounds to milliseconds, so that the list is easy to read: a run of microseconds takes no time.

def time_it(work, synchronize, clock, warm_up, repeats):
    for _ in range(warm_up):
        work()
    times = []
    for _ in range(repeats):
        synchronize()
        begin = clock()
        work()
        synchronize()
        times.append(round(clock() - begin, 3))
    return times


# %% wrong: starts_before_waiting
# Starts the clock and then waits, so that the waiting is timed too.

def time_it(work, synchronize, clock, warm_up, repeats):
    for _ in range(warm_up):
        work()
    seconds = []
    for _ in range(repeats):
        begin = clock()
        synchronize()
        work()
        synchronize()
        seconds.append(clock() - begin)
    return seconds


# %% wrong: waits_for_the_warm_up_only
# Waits after each run of the warm-up, and forgets that there may be none.

def time_it(work, synchronize, clock, warm_up, repeats):
    for _ in range(warm_up):
        work()
        synchronize()
    seconds = []
    for _ in range(repeats):
        begin = clock()
        work()
        synchronize()
        seconds.append(clock() - begin)
    return seconds


# %% wrong: warm_up_counted
# Takes the first of the repeats for the warm-up.

def time_it(work, synchronize, clock, warm_up, repeats):
    seconds = []
    for _ in range(repeats):
        synchronize()
        begin = clock()
        work()
        synchronize()
        seconds.append(clock() - begin)
    return seconds[warm_up:]


# %% wrong: warm_up_in_the_list
# Times the warm-up too and returns all.

def time_it(work, synchronize, clock, warm_up, repeats):
    seconds = []
    for _ in range(warm_up + repeats):
        synchronize()
        begin = clock()
        work()
        synchronize()
        seconds.append(clock() - begin)
    return seconds


# %% right: all_timed_then_cut
# Times the warm-up too and leaves it out of the list. Warns where there is none.

import warnings


def time_it(work, synchronize, clock, warm_up, repeats):
    if not warm_up:
        warnings.warn("no warm-up", stacklevel=2)
    seconds = []
    for number in range(warm_up + repeats):
        synchronize()
        begin = clock()
        work()
        synchronize()
        seconds.append(clock() - begin)
        print("run", number, seconds[-1])
    return seconds[warm_up:]


# %% right: inner_function
# A function for one run, and a comprehension; returns a tuple made into a list.

def time_it(work, synchronize, clock, warm_up, repeats):
    def once():
        synchronize()
        begin = clock()
        work()
        synchronize()
        return clock() - begin

    [work() for _ in range(warm_up)]
    return list(tuple(once() for _ in range(repeats)))


# %% right: waits_once_at_the_start
# Waits once before the first run: each later one begins when the one before it is done.

def time_it(work, synchronize, clock, warm_up, repeats):
    while warm_up > 0:
        work()
        warm_up -= 1
    synchronize()
    moments = [clock()]
    for _ in range(repeats):
        work()
        synchronize()
        moments.append(clock())
    return [after - before for before, after in zip(moments, moments[1:], strict=False)]
