"""Reads the start once, so each number has the runs before it in it."""


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
