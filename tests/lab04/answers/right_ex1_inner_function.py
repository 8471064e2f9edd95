"""A function for one run, and a comprehension; returns a tuple made into a list."""


def time_it(work, synchronize, clock, warm_up, repeats):
    def once():
        synchronize()
        begin = clock()
        work()
        synchronize()
        return clock() - begin

    [work() for _ in range(warm_up)]
    return list(tuple(once() for _ in range(repeats)))
