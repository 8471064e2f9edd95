"""Starts the clock and then waits, so that the waiting is timed too."""


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
