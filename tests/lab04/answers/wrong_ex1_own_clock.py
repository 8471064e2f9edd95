"""Uses time.time() and not the clock that it is given."""

import time


def time_it(work, synchronize, clock, warm_up, repeats):
    for _ in range(warm_up):
        work()
    seconds = []
    for _ in range(repeats):
        synchronize()
        begin = time.time()
        work()
        synchronize()
        seconds.append(time.time() - begin)
    return seconds
