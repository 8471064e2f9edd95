"""What lesson 04's task is judged by: whether the devices were idle whenever the timer read its clock.

The clock is made up, and so are the costs: it goes on by the cost of what was launched, but only when it is read while
the devices are really idle. So the right times are known, and no fact depends on how fast a computer is.
"""

import math
import statistics

from utils.exercises.facts import Lab, case, need

lab = Lab("lesson04", "Measure time")

time_it = lab.exercise(
    "time_it",
    points=0,
    title="An honest timer",
    hints=[
        "There are two loops, one after the other. Which of them fills a list?",
        "A device may still be busy when a timed run begins. What has to happen before you read the clock?",
        "And what has to happen before you read it again? Each device of the list counts.",
        "When the list is full, statistics.quantiles gives three numbers: the second is the median.",
    ],
)


def use_timer(lab, device0, device1, device_seconds, left_over, warm_up, repeats, waited_for, busier):
    """Each launch costs a second of the host, and the n-th then device_seconds[n] of the devices.

    `left_over` is what they still have to do at first. `busier` is the device that has three times as much to do.
    """
    import torch

    from utils.exercises.facts.probes import kind_of
    from utils.observe.devices import is_idle

    devices = [torch.device(device0), torch.device(device1)]
    tall = [torch.zeros(16, 20_000, device=device) for device in devices]
    wide = [torch.zeros(20_000, 16, device=device) for device in devices]
    waits_for = [devices[number] for number in waited_for]
    now, pending, ran, read = 0.0, float(left_over), 0, 0

    def keep_busy():
        for number in range(2):
            for _ in range(3 if number == busier else 1):
                torch.mm(tall[number], wide[number])

    def work():
        nonlocal now, pending, ran
        now += 1.0
        pending += device_seconds[min(ran, len(device_seconds) - 1)]
        ran += 1
        keep_busy()

    def clock():
        nonlocal now, pending, read
        read += 1
        if waits_for and all([is_idle(device) for device in devices]):
            now, pending = now + pending, 0.0
        return now

    if left_over:
        keep_busy()
    found = lab.time_it(work, list(waits_for), clock, warm_up, repeats)
    told = {"ran": ran, "read": read, "kind": kind_of(found)}
    if isinstance(found, (tuple, list)):
        told["found"] = [float(part) if isinstance(part, (int, float)) else kind_of(part) for part in found]
    return told


def compare_times(student, device_seconds, left_over=0.0, warm_up=2, repeats=3, waited_for=(0, 1), busier=1):
    with case(f"With warm_up={warm_up} and repeats={repeats}"):
        asked = (device_seconds, left_over, warm_up, repeats, list(waited_for), busier)
        seen = student.run(use_timer, *student.devices, *asked)
        need(seen["ran"] == warm_up + repeats, f"work() was called {seen['ran']} times.")
        need(seen["read"], "clock() was never called. The time has to come from the clock that time_it is given.")
        need(
            "found" in seen, f"it returned {seen['kind']}. Return two numbers: the median and the interquartile range."
        )
        found = seen["found"]
        need(
            len(found) == 2 and all(isinstance(part, float) for part in found),
            f"it returned {found}. Return two numbers: the median and the interquartile range.",
        )
        costs = [device_seconds[min(n, len(device_seconds) - 1)] for n in range(warm_up, warm_up + repeats)]
        times = [1.0 + (cost if waited_for else 0.0) for cost in costs]
        earlier = left_over + sum(device_seconds[:warm_up])
        compare_two(found, times, [times[0] + earlier, *times[1:]])


def compare_two(found, times, not_waited):
    """`not_waited`: the times with the devices' earlier work in the first of them."""
    first, median, third = statistics.quantiles(times, n=4, method="inclusive")
    spread = third - first
    runs = ", ".join(f"{seconds:g}" for seconds in times)
    where = f"the timed runs took {runs} s, so the median is {median:.4g}, and yours is {found[0]:.4g}."
    if not near(found[0], median):
        need(not near(found[0], 1.0), f"{where} That is the launch alone: a device was still at work when you read.")
        need(not near(found[0], statistics.fmean(times)), f"{where} That is the mean.")
        need(
            not near(found[0], statistics.median(not_waited)),
            f"{where} The first timed run has {not_waited[0] - times[0]:g} s of earlier work in it: a device was still "
            "at work when it began.",
        )
        need(not near(found[0], median * 1000), f"{where} Seconds are wanted.")
        need(found[0] > median, f"{where} Was every device done when you read the clock?")
        need(False, f"{where} Was every device idle when each run began? Is the warm-up in no number?")
    where = (
        f"the timed runs took {runs} s, so their quartiles are {first:.4g} and {third:.4g}, {spread:.4g} apart, and "
        f"yours says {found[1]:.4g}."
    )
    if near(found[1], spread):
        return
    need(not near(found[1], statistics.stdev(times)), f"{where} That is the standard deviation.")
    first, _, third = statistics.quantiles(times, n=4)
    need(not near(found[1], third - first), f'{where} That is what statistics.quantiles gives without "inclusive".')
    need(False, where)


def near(mine, theirs) -> bool:
    return math.isclose(mine, theirs, rel_tol=1e-6, abs_tol=1e-9)


@time_it.fact("a timed run ends when both devices are done, whichever is done last")
def _(student):
    compare_times(student, [10.0, 25.0, 15.0], warm_up=0)
    with case("Now device0 is done last"):
        compare_times(student, [10.0, 25.0, 15.0], warm_up=0, busier=0)


@time_it.fact("a timed run begins when both devices are done with earlier work, the warm-up for one")
def _(student):
    compare_times(student, [40.0, 18.0, 10.0, 25.0, 15.0])
    with case("Now device0 is done last"):
        compare_times(student, [40.0, 10.0, 25.0, 15.0], warm_up=1, busier=0)
    with case("Before the call, the devices were given 50 seconds of other work"):
        compare_times(student, [10.0, 20.0], left_over=50.0, warm_up=0, repeats=2)


@time_it.fact("with an empty list of devices it does not wait")
def _(student):
    compare_times(student, [10.0, 30.0], warm_up=0, repeats=2, waited_for=())
