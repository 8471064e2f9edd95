"""Times the warm-up too and leaves it out of the list. Warns where there is none."""

import warnings


def time_it(work, synchronize, clock, warm_up, repeats):
    if not warm_up:
        warnings.warn("no warm-up", stacklevel=2)
    seconds = []
    for number in range(warm_up + repeats):
        synchronize()
        begin = clock()
        work()
        synchronize()
        seconds.append(clock() - begin)
        print("run", number, seconds[-1])
    return seconds[warm_up:]
