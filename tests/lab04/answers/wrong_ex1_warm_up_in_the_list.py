"""Times the warm-up too and returns all."""


def time_it(work, synchronize, clock, warm_up, repeats):
    seconds = []
    for _ in range(warm_up + repeats):
        synchronize()
        begin = clock()
        work()
        synchronize()
        seconds.append(clock() - begin)
    return seconds
