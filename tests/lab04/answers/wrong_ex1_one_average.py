"""Times all runs together and divides."""


def time_it(work, synchronize, clock, warm_up, repeats):
    for _ in range(warm_up):
        work()
    synchronize()
    begin = clock()
    for _ in range(repeats):
        work()
    synchronize()
    return [(clock() - begin) / repeats] * repeats
