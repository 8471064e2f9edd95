"""What lesson 04's tasks are judged by.

`time_it`: whether the devices were idle whenever the timer read its clock. The clock is made up, and so are the costs:
it goes on by the cost of what was launched, but only when it is read while the devices are really idle. So the right
times are known, and no fact depends on how fast a computer is. `split_times`: the simulator's log of the same pass.
`six_pairs`: such a clock again, with costs that drift.
"""

import math
import statistics

from utils.exercises.facts import Lab, case, need, orders_of

lab = Lab("lesson04", "Measure time")

time_it = lab.exercise(
    "time_it",
    points=0,
    title="Your timer",
    hints=[
        "You need two loops. Which of them fills a list?",
        "A device may still be busy when a timed run begins. What must happen before you read the clock?",
        "What must happen before you read it again? Think of every device in the list.",
        "From the full list, statistics.quantiles returns three numbers. The second is the median.",
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
        need(seen["ran"] == warm_up + repeats, f"work() was called {seen['ran']} times, not {warm_up + repeats}.")
        need(seen["read"], "clock() was never called. Take the time from the clock that time_it is given.")
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
    where = f"the timed runs took {runs} s, so the median is {median:.4g}, but you returned {found[0]:.4g}."
    if not near(found[0], median):
        need(
            not near(found[0], 1.0),
            f"{where} That is only the launch: a device was still working when you read the clock.",
        )
        need(not near(found[0], statistics.fmean(times)), f"{where} That is the mean.")
        need(
            not near(found[0], statistics.median(not_waited)),
            f"{where} The first timed run includes {not_waited[0] - times[0]:g} s of earlier work: a device was still "
            "working when it began.",
        )
        need(not near(found[0], median * 1000), f"{where} Return seconds.")
        need(found[0] > median, f"{where} Had every device finished when you read the clock?")
        need(False, f"{where} Was every device idle when each run began? Did you leave out the warm-up?")
    where = (
        f"the timed runs took {runs} s, so their quartiles, {first:.4g} and {third:.4g}, are {spread:.4g} apart, "
        f"but you returned {found[1]:.4g}."
    )
    if near(found[1], spread):
        return
    need(not near(found[1], statistics.stdev(times)), f"{where} That is the standard deviation.")
    first, _, third = statistics.quantiles(times, n=4)
    need(
        not near(found[1], third - first),
        f'{where} That is what statistics.quantiles gives without method="inclusive".',
    )
    need(False, where)


def near(mine, theirs) -> bool:
    return math.isclose(mine, theirs, rel_tol=1e-6, abs_tol=1e-9)


@time_it.fact("a timed run ends when both devices have finished, whichever finishes last")
def _(student):
    compare_times(student, [10.0, 25.0, 15.0], warm_up=0)
    with case("With device0 finishing last"):
        compare_times(student, [10.0, 25.0, 15.0], warm_up=0, busier=0)


@time_it.fact("a timed run begins when both devices have finished earlier work, such as the warm-up")
def _(student):
    compare_times(student, [40.0, 18.0, 10.0, 25.0, 15.0])
    with case("With device0 finishing last"):
        compare_times(student, [40.0, 10.0, 25.0, 15.0], warm_up=1, busier=0)
    with case("With 50 seconds of earlier work on the devices"):
        compare_times(student, [10.0, 20.0], left_over=50.0, warm_up=0, repeats=2)


@time_it.fact("with an empty list of devices, it does not wait")
def _(student):
    compare_times(student, [10.0, 30.0], warm_up=0, repeats=2, waited_for=())


# --- the parts of a forward pass, by events ------------------------------------------------------------------------

split_times = lab.exercise(
    "split_times",
    points=0,
    title="Time the parts with events",
    hints=[
        "Make five events with gpu.Event(enable_timing=True): three for device0's stream, two for device1's.",
        "gpu.current_stream(device) is a device's stream. stream.record_event(event) records an event in it.",
        "The event that ends part0 also begins the copy. The copy is .to(device1) on part0's output.",
        "Record the event that begins part1 after the copy, because device1's stream waits for the copy.",
    ],
)

LAUNCHES = 0.13  # milliseconds that a part's launches may take where its stream is empty


def use_events(lab, device0, device1, busy_before):
    from utils.exercises.tasks.lesson04.measured import one_pass

    return one_pass(lab.split_times, device0, device1, busy_before)


def compare_parts(student, device0, device1, busy_before=False):
    seen = student.run(use_events, device0, device1, busy_before)
    wanted = "Return a list of three times in milliseconds: part0, the copy and part1."
    need("told" in seen, f"it returned {seen['kind']}. {wanted}")
    told = seen["told"]
    need(len(told) == 3 and all(isinstance(value, float) for value in told), f"it returned {told}. {wanted}")
    need(seen["ran"] == [1, 1], "part0 ran {} times and part1 {} times. Run one forward pass.".format(*seen["ran"]))
    if "copies" not in seen:
        return seen  # real GPUs: their times are not known beforehand
    need(seen["copies"] == 1, f"{seen['copies']} tensors were copied between the devices. Copy one: part0's output.")
    compare_milliseconds(told, seen["right"])
    return seen


def compare_milliseconds(told, right):
    if all(one_near(mine, part) for mine, part in zip(told, right, strict=True)):
        return
    where = f"the three took {in_words(right)} ms, but you returned {in_words(told)}."
    part0, copy, part1 = right
    need(not one_near(told[1] * 1e3, copy), f"{where} elapsed_time returns milliseconds. Do not convert them.")
    need(told[0] >= 0 and told[1] >= 0 and told[2] >= 0, f"{where} A start and an end are swapped.")
    need(
        not one_near(told[1], part0 + copy),
        f"{where} The copy's time includes part0. Record its first event in device0's stream, after part0.",
    )
    need(
        told[2] < copy + part1,
        f"{where} part1's time probably includes the copy. Record its first event after .to(device1).",
    )
    need(
        told[1] > copy / 2,
        f"{where} The copy runs in device0's stream. Are its two events there, just before and after .to(device1)?",
    )
    need(one_near(told[0], part0), f"{where} Are part0's events in device0's stream, just before and after part0?")
    need(False, f"{where} Are part1's events in device1's stream, just before and after part1?")


def one_near(mine, part) -> bool:
    return -1e-3 <= mine - part <= LAUNCHES


def in_words(values) -> str:
    return ", ".join(f"{value:.3g}" for value in values)


@split_times.fact("events time part0, the copy and part1, each in the stream of its device")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            compare_parts(student, device0, device1)


@split_times.fact("the host launches the whole pass before it waits")
def _(student):
    waited = compare_parts(student, *student.devices).get("waited", [])
    need(not waited, f"the host waits after {' and '.join(waited)}. Synchronize after all five events are recorded.")


@split_times.fact("no time includes earlier work")
def _(student):
    with case("With earlier work on both devices"):
        compare_parts(student, *student.devices, busy_before=True)


# --- two programs, in pairs ----------------------------------------------------------------------------------------

six_pairs = lab.exercise(
    "six_pairs",
    points=0,
    title="Six pairs",
    hints=[
        "time_it returns two numbers. You need the first.",
        "Use pair % 2 to choose which of the two runs first.",
        "In each pair, append b - a to a list, whichever ran first. The list's min and max are the interval.",
    ],
)


def use_pairs(lab, device0, device1, cost_a, cost_b, drift):
    """The order of the runs and what six_pairs makes of them. Run n takes its cost and n * n * `drift` seconds.

    The clock goes on by that when it is read while both devices are idle.
    """
    import torch

    from utils.exercises.facts.probes import kind_of
    from utils.observe.devices import is_idle

    devices = [torch.device(device0), torch.device(device1)]
    tall = [torch.zeros(16, 20_000, device=device) for device in devices]
    wide = [torch.zeros(20_000, 16, device=device) for device in devices]
    now, pending, order = 0.0, 0.0, []

    def work(name, cost):
        def run():
            nonlocal pending
            pending += cost + drift * len(order) ** 2
            order.append(name)
            for left, right in zip(tall, wide, strict=True):
                torch.mm(left, right)

        return run

    def clock():
        nonlocal now, pending
        if all([is_idle(device) for device in devices]):
            now, pending = now + pending, 0.0
        return now

    found = lab.six_pairs(work("a", cost_a), work("b", cost_b), list(devices), clock)
    told = {"order": order, "kind": kind_of(found)}
    if isinstance(found, (tuple, list)):
        told["found"] = [float(part) if isinstance(part, (int, float)) else kind_of(part) for part in found]
    return told


def medians_in_order(order, costs, drift):
    """(name, median) of each of the twelve times, from the runs in their order; time_it's warm-up is two of seven."""
    times = [costs[name] + drift * number**2 for number, name in enumerate(order)]
    return [(order[first], statistics.median(times[first + 2 : first + 7])) for first in range(0, len(order), 7)]


def compare_pairs(student, cost_a, cost_b, drift=0.0):
    seen = student.run(use_pairs, *student.devices, cost_a, cost_b, drift)
    order = "".join(seen["order"])
    need(
        len(order) == 84,
        f"the two ran {len(order)} times. Six pairs with time_it's defaults make 2 * 6 * (2 + 5) = 84 runs.",
    )
    need(
        order != 6 * (7 * "a" + 7 * "b"),
        "work_a runs first in each pair, so a drift always favors it. Run work_b first in every other pair.",
    )
    need(
        order == 3 * (7 * "a" + 14 * "b" + 7 * "a"),
        f"the order of the times is {' '.join(order[first] for first in range(0, 84, 7))}. Time work_a and work_b once "
        "in each pair, with work_a first only in pairs 0, 2 and 4.",
    )
    wanted = "Return the smallest and the largest of the six differences."
    need("found" in seen, f"it returned {seen['kind']}. {wanted}")
    found = seen["found"]
    need(len(found) == 2 and all(isinstance(part, float) for part in found), f"it returned {found}. {wanted}")
    times = medians_in_order(order, {"a": cost_a, "b": cost_b}, drift)
    pairs = [dict(times[first : first + 2]) for first in range(0, 12, 2)]
    differences = [pair["b"] - pair["a"] for pair in pairs]
    compare_interval(found, differences)


def compare_interval(found, differences):
    right = min(differences), max(differences)
    if near(found[0], right[0]) and near(found[1], right[1]):
        return
    listed = ", ".join(f"{each:.4g}" for each in differences)
    where = f"the differences b - a are {listed} s, but you returned {found[0]:.4g} and {found[1]:.4g}."
    need(not all(near(part, 0.0) for part in found), f"{where} Do you pass gpus to time_it?")
    need(not near(found[0], -right[1]) or not near(found[1], -right[0]), f"{where} You subtracted b from a.")
    need(found[0] <= found[1], f"{where} Return the smallest first.")
    firsts = [each if pair % 2 == 0 else -each for pair, each in enumerate(differences)]
    swapped = near(found[0], min(firsts)) and near(found[1], max(firsts))
    need(not swapped, f"{where} You subtracted the first from the second, but b runs first in every other pair.")
    inner = sorted(differences)[1:-1]
    need(
        not (near(found[0], inner[0]) and near(found[1], inner[-1])),
        f"{where} With six pairs, the interval reaches from the smallest to the largest difference.",
    )
    need(False, f"{where} Is each difference b's median minus a's?")


@six_pairs.fact("the interval reaches from the smallest to the largest of six differences")
def _(student):
    compare_pairs(student, 10.0, 14.0)
    with case("With work_b faster"):
        compare_pairs(student, 14.0, 10.0)


@six_pairs.fact("the order changes from pair to pair, so a drift does not make equal programs look different")
def _(student):
    with case("With each run slower than the one before"):
        compare_pairs(student, 10.0, 10.0, drift=0.01)
        compare_pairs(student, 10.0, 13.0, drift=0.01)
