"""Waits after each run of the warm-up, and forgets that there may be none."""


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
