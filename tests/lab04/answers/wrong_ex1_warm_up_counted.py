"""Takes the first of the repeats for the warm-up."""


def time_it(work, synchronize, clock, warm_up, repeats):
    seconds = []
    for _ in range(repeats):
        synchronize()
        begin = clock()
        work()
        synchronize()
        seconds.append(clock() - begin)
    return seconds[warm_up:]
