"""Returns one number."""


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
