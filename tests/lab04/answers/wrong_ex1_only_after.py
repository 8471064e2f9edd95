"""Synchronises before the clock stops, and not before it starts, so the first run has the warm-up in it."""


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
