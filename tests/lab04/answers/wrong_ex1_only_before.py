"""Synchronises before each run, and not before the clock stops."""


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
