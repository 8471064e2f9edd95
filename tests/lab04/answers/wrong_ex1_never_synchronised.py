"""Times the launches: thinks that a function has done its work when it returns."""


def time_it(work, synchronize, clock, warm_up, repeats):
    for _ in range(warm_up):
        work()
    seconds = []
    for _ in range(repeats):
        begin = clock()
        work()
        seconds.append(clock() - begin)
    return seconds
