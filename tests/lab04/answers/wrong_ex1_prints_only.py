"""Prints the times and returns nothing."""


def time_it(work, synchronize, clock, warm_up, repeats):
    for _ in range(warm_up):
        work()
    for _ in range(repeats):
        synchronize()
        begin = clock()
        work()
        synchronize()
        print(clock() - begin)
