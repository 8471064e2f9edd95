"""Waits once before the first run: each later one begins when the one before it is done."""


def time_it(work, synchronize, clock, warm_up, repeats):
    while warm_up > 0:
        work()
        warm_up -= 1
    synchronize()
    moments = [clock()]
    for _ in range(repeats):
        work()
        synchronize()
        moments.append(clock())
    return [after - before for before, after in zip(moments, moments[1:], strict=False)]
