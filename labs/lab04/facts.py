"""Lab 04's visible facts: what `check("ex1")` tells the learner, and the first part of the grade.

No fact depends on how fast a computer is. Times are judged on simulated devices with the virtual clock, whose numbers
are known; or with a clock that is made up and goes on by what was launched, but only when the devices are idle.
"""

from __future__ import annotations

import math
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.utils import skip_init

from utils.exercises.facts import Lab, StudentError, case, need, orders_of

lab = Lab("lab04", "Measure time")

CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}  # a real GPU adds up in another order than a CPU


def listed(numbers) -> str:
    return "[" + ", ".join(f"{number:g}" if isinstance(number, float) else str(number) for number in numbers) + "]"


def times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def micro(*seconds: float) -> str:
    return f"{', '.join(f'{one * 1e6:.0f}' for one in seconds)} microseconds"


# --- ex1: the parts of a training step ------------------------------------------------------------------------

ex1 = lab.exercise(
    "ex1",
    points=3,
    title="The parts of a training step",
    hints=[
        "Measure all four times in the same way. Write a small function that takes the work as an argument and "
        "times it.",
        "Synchronize every device in gpus before each reading of the clock, even between the forward and the "
        "backward pass.",
        "backward() needs the loss from the forward pass, so the timing function must also return the work's result.",
        'For "whole", time another step without waits inside. Read the clock only before and after that step.',
    ],
)

PARTS = ("forward", "backward", "update", "whole")


def run_steps(lab, device0, device1, width, x, y, optimizer, repeats, busy_before, disturbed, alone):
    """What time_step returns, and what the clock says for the same steps of a twin.

    `disturbed`: in which calls of the model the first device has more to do. `alone`: the model and the list of devices
    have the second device only, and each call of the model gives the first one other work.
    """
    import torch
    from torch import nn

    import simgpu
    from utils.exercises.facts.probes import fill, kind_of
    from utils.observe.devices import is_simulated, synchronize

    class TwoParts(nn.Module):
        def __init__(self):
            super().__init__()
            self.part0 = nn.Sequential(nn.Linear(len(x[0]), width), nn.ReLU()).to(gpus[0])
            self.part1 = nn.Linear(width, len(y[0])).to(gpus[-1])

        def forward(self, batch):
            if alone or len(forwards) in disturbed:
                keep_busy(device0)
            return self.part1(self.part0(batch).to(gpus[-1]))

    def keep_busy(gpu):
        # One number of a very long sum: two milliseconds for the simulated GPU, and as long for the computer.
        torch.mm(torch.zeros(1, 200_000, device=gpu), torch.zeros(200_000, 1, device=gpu))

    gpus = [torch.device(gpu) for gpu in ([device1] if alone else [device0, device1])]
    inputs, targets = torch.from_numpy(x).to(gpus[0]), torch.from_numpy(y).to(gpus[-1])
    readings, forwards, steps = [], [], []

    def clock():
        readings.append(simgpu.now() if exact else float(len(readings)))
        return readings[-1]

    def made():
        model = TwoParts()
        fill(model, 4)
        return model, getattr(torch.optim, optimizer)(model.parameters(), lr=1e-3)

    exact = is_simulated(device0) and is_simulated(device1)
    model, chosen = made()
    model.register_forward_hook(lambda *_: forwards.append(1))
    chosen.register_step_post_hook(lambda *_: steps.append(1))
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 1000.0)
    if busy_before:
        for gpu in 4 * gpus:  # enough for the step that warms up to begin and end behind it
            keep_busy(gpu)
    found = lab.time_step(model, nn.MSELoss(), chosen, inputs, targets, list(gpus), clock, repeats)
    seen = {"kind": kind_of(found), "forwards": len(forwards), "steps": len(steps), "exact": exact}
    seen["parameters"] = [p.detach().cpu().numpy().ravel()[:1000] for p in model.parameters()]
    if not isinstance(found, dict):
        return seen

    def plain(value):
        return float(value) if isinstance(value, (int, float)) else kind_of(value)

    seen["told"] = {str(name): plain(value) for name, value in found.items()}
    seen["readings"] = readings[:200]
    if not exact:
        return seen

    # The twin, by a timer of the grader's own.
    def now():
        for gpu in gpus:
            synchronize(gpu)
        return simgpu.now()

    twin, chosen = made()
    loss_fn = nn.MSELoss()

    def step():
        twin.zero_grad()
        loss_fn(twin(inputs), targets).backward()
        chosen.step()

    step()
    twin.zero_grad()
    moments = [now()]
    loss = loss_fn(twin(inputs), targets)
    moments.append(now())
    loss.backward()
    moments.append(now())
    chosen.step()
    moments.append(now())
    step()
    moments.append(now())
    seen["right"] = [moments[number + 1] - moments[number] for number in range(4)]
    twin.zero_grad()
    output = twin(inputs)
    begin = now()
    loss_fn(output, targets).backward()
    seen["loss and backward"] = now() - begin
    return seen


def step_batch(rows, features, results, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(rows, count, generator=generator).numpy() for count in (features, results)]


def trained_alone(width, x, y, optimizer, steps):
    """The parameters after so many steps on one device."""
    from utils.exercises.facts.probes import fill

    first, second = skip_init(nn.Linear, x.shape[1], width), skip_init(nn.Linear, width, y.shape[1])
    model = nn.Sequential(first, nn.ReLU(), second)
    fill(model, 4)
    chosen = getattr(torch.optim, optimizer)(model.parameters(), lr=1e-3)
    for _ in range(steps):
        chosen.zero_grad()
        nn.functional.mse_loss(model(torch.from_numpy(x)), torch.from_numpy(y)).backward()
        chosen.step()
    return [p.detach().numpy().ravel()[:1000] for p in model.parameters()]


def stepped(
    student,
    devices,
    *,
    width=30_000,
    optimizer="Adam",
    repeats=2,
    busy_before=False,
    disturbed=(),
    alone=False,
    rows=8,
    seed=0,
):
    x, y = step_batch(rows, 8, 16, seed)
    seen = student.run(run_steps, *devices, width, x, y, optimizer, repeats, busy_before, list(disturbed), alone)
    need("told" in seen, f"time_step returned {seen['kind']}. Return a dict.")
    missing = [part for part in PARTS if part not in seen["told"]]
    need(
        not missing, f'The dict has no key "{missing[0] if missing else ""}". Its keys are: {", ".join(seen["told"])}.'
    )
    strange = [seen["told"][part] for part in PARTS if not isinstance(seen["told"][part], float)]
    need(
        not strange,
        f"One value in the dict is {strange[0] if strange else ''}. Return each time as a number of seconds.",
    )
    return seen, x, y


def compare_steps(student, devices, *, width, repeats=3, optimizer="Adam", rows=8):
    """Whether these were real training steps, as many as there should be."""
    seen, x, y = stepped(student, devices, width=width, optimizer=optimizer, repeats=repeats, rows=rows, seed=2)
    forwards, steps = seen["forwards"], seen["steps"]
    need(
        forwards == steps,
        f"The model ran {times(forwards)}, but the optimizer stepped {times(steps)}. Every training step, timed or "
        "not, runs the model once and steps the optimizer once.",
    )
    least = 1 + 2 * repeats
    need(
        steps >= least,
        f"With repeats={repeats}, {least} training steps are needed, but time_step ran {steps}. Run 1 as a warm-up, "
        f"time {repeats} in parts and time {repeats} as a whole.",
    )
    right = trained_alone(width, x, y, optimizer, steps)
    same = [np.allclose(mine, one, rtol=1e-3, atol=1e-5) for mine, one in zip(seen["parameters"], right, strict=True)]
    need(
        all(same),
        f"After {steps} steps, the parameters differ from those of {steps} correct training steps. Does every step, "
        "even the first, clear the gradients before backward()?",
    )


def is_mean_of(intervals, value, count) -> bool:
    """Whether so many of the intervals that differ have this mean."""
    some = [one for one in combinations(intervals, count) if max(one) - min(one) > 1e-9]
    return any(math.isclose(sum(one) / count, value, abs_tol=1e-9) for one in some)


def compare_step_times(student, devices, disturbed_but=None, **how):
    """`disturbed_but`: each call of the model takes far longer, but for this one."""
    if disturbed_but is not None:
        how["disturbed"] = [number for number in range(50) if number != disturbed_but]
    seen, _, _ = stepped(student, devices, **how)
    if not seen["exact"]:
        return  # no fact depends on how fast a real GPU is
    told, readings = seen["told"], seen["readings"]
    intervals = [later - earlier for earlier, later in pairwise(readings)]
    right = dict(zip(PARTS, seen["right"], strict=True))
    need(
        len(readings) > 1,
        f"clock() was called {times(len(readings))}. Read the start and end times from the clock that is passed to "
        "time_step.",
    )
    for part in PARTS:
        found, wanted = told[part], right[part]
        # A whole step may have kernels that write zeros into the gradients; its parts have none to differ by.
        near = math.isclose(found, wanted, rel_tol=0.1 if part == "whole" else 0.04)
        where = f'"{part}" took {micro(wanted)}, but time_step returned {micro(found)}.'
        if part == "whole":
            together = sum(right[one] for one in PARTS[:3])
            need(
                near or not math.isclose(found, together, rel_tol=0.02),
                f"{where} That is the sum of the three parts. Time another step without a wait between its parts.",
            )
            need(
                near or not wanted < found < together,
                f"{where} Does the host wait inside the step (item(), if, print), or was a device still busy when the "
                "step began?",
            )
        for unit, factor in (("milliseconds", 1e3), ("microseconds", 1e6)):
            need(
                near or not math.isclose(found, factor * wanted, rel_tol=0.1),
                f"{where} That is {factor:g} times the right value. Return seconds, not {unit}.",
            )
        need(
            near or part != "backward" or not math.isclose(found, seen["loss and backward"], rel_tol=0.01),
            f'{where} That is the time of loss_fn and backward() together, but loss_fn belongs to "forward".',
        )
        repeats = how.get("repeats", 2)
        need(
            near or repeats == 1 or not math.isclose(found, repeats * wanted, rel_tol=0.02),
            f"{where} That is the sum over all {repeats} repeats. Return the median.",
        )
        need(
            near or repeats != 3 or not is_mean_of(intervals, found, 3),
            f"{where} That is the mean of your three times. A single slow step changes a mean, so return the median.",
        )
        if disturbed_but is not None:
            need(near or found > wanted, f"{where} That is the shortest of your times. Return the median.")
        if how.get("alone"):
            need(near or found < wanted, f"{where} Did you wait for {devices[0]}, which is not in gpus?")
        need(
            near or found < wanted,
            f"{where} The returned time is too long. Before you start the clock, wait for every device in gpus, "
            "including after the warm-up.",
        )
        need(
            near,
            f"{where} The returned time is too short: a device was still busy when you read the clock. Call "
            "synchronize(gpu) for each gpu in gpus.",
        )
        read = any(
            math.isclose(later - earlier, found, abs_tol=1e-9)
            for number, earlier in enumerate(readings)
            for later in readings[number + 1 :]
        )
        need(
            read, f"{where} No two readings of clock() are that far apart. Return the difference between two readings."
        )


@ex1.fact(
    "time_step runs one step as a warm-up, then, for each repeat, one step timed in parts and one step timed as a whole"
)
def _(student):
    compare_steps(student, student.devices, width=50)


@ex1.fact("each of the four measurements ends when all devices have finished")
def _(student):
    compare_step_times(student, student.devices)


@ex1.fact("before each reading of the clock, time_step waits for both devices, including work from before the call")
def _(student):
    compare_step_times(student, student.devices, width=6_000, optimizer="SGD", rows=512, repeats=1)
    with case("With both devices busy with other work before the call"):
        compare_step_times(student, student.devices, repeats=1, busy_before=True)


@ex1.fact('the host does not wait inside a step that is timed as "whole"')
def _(student):
    with case("With extra work for the first device in each forward pass, during which the host can launch ahead"):
        compare_step_times(student, student.devices, width=50, disturbed=range(50))


@ex1.fact("time_step returns medians, so that one slow or one fast step does not change the times")
def _(student):
    # The second timed step is one in parts, or a whole one, in whatever order they are taken.
    with case("With repeats=3 and a much longer forward pass in the second timed step"):
        compare_step_times(student, student.devices, width=50, repeats=3, disturbed=[2])
    with case("With repeats=3 and a much shorter forward pass in the second timed step"):
        compare_step_times(student, student.devices, width=50, repeats=3, disturbed_but=2)


@ex1.fact("time_step waits for the devices in gpus and for no others")
def _(student):
    other, given = student.devices
    with case(f"With a model and gpus that use only {given}, while {other} is busy with other work"):
        compare_step_times(student, (other, given), width=50, repeats=1, alone=True)


# --- ex2: is it faster? ---------------------------------------------------------------------------------------

ex2 = lab.exercise(
    "ex2",
    star=True,
    title="Is it really faster?",
    hints=[
        "Take one pair at a time: time a, time b, and subtract.",
        "pair % 2 tells you which of the two runs first. In every pair, the difference is b's time minus a's.",
        "Start with k = 0 and add 1 as long as the formula holds for k + 1. With five pairs, k stays 0.",
        "At which index of a sorted list is the k-th smallest? And the k-th largest? With k = 0, neither exists.",
    ],
)


def take_turns(lab, device0, device1, costs_a, costs_b, left_over, drift):
    """The n-th run of a costs the devices costs_a[n] seconds, of b costs_b[n]; each launch costs the host one.

    Each run costs `drift` more than the run before it. The clock goes on by what was launched, but only when it is read
    while the devices are really idle.
    """
    import torch

    from utils.exercises.facts.probes import kind_of
    from utils.observe.devices import is_idle

    gpus = [torch.device(device0), torch.device(device1)]
    tall = [torch.zeros(16, 20_000, device=gpu) for gpu in gpus]
    wide = [torch.zeros(20_000, 16, device=gpu) for gpu in gpus]
    now, pending, log = 0.0, float(left_over), []

    def launch(name, costs):
        nonlocal now, pending
        now += 1.0
        before = [log.count(one) for one in "ab"]
        pending += costs[min(log.count(name), len(costs) - 1)] + drift * sum(before)
        log.append(name)
        keep_busy()

    def keep_busy():
        # device0 has more to do in every second run, and device1 in the others.
        for number in range(2):
            for _ in range(3 if len(log) % 2 == number else 1):
                torch.mm(tall[number], wide[number])

    def clock():
        nonlocal now, pending
        idle = all([is_idle(gpu) for gpu in gpus])
        if idle:
            now, pending = now + pending, 0.0
        log.append("idle" if idle else "busy")
        return now

    if left_over:
        keep_busy()
    found = lab.faster(
        lambda: launch("a", costs_a),
        lambda: launch("b", costs_b),
        list(gpus),
        clock,
        min(len(costs_a), len(costs_b)) - 1,
    )
    return {"found": found if isinstance(found, str) else kind_of(found), "log": log}


def rank(count: int) -> int:
    """Which of so many sorted differences the interval begins with: 1 is the smallest. 0: there is no interval."""
    k = 0
    while 2 * sum(math.comb(count, i) for i in range(k + 1)) <= 0.05 * 2**count:
        k += 1
    return k


def verdict(differences) -> tuple[str, str]:
    """The answer, and why."""
    ordered, k = sorted(differences), rank(len(differences))
    told = f"The sorted differences b - a are {listed(round(one, 4) for one in ordered)}"
    if not k:
        return "cannot tell", f"{told}. Here k is 0, so there is no interval"
    low, high = ordered[k - 1], ordered[-k]
    answer = "a" if low > 0 else "b" if high < 0 else "cannot tell"
    side = {"a": "above 0", "b": "below 0"}.get(answer, "not entirely on one side of 0")
    return answer, f"{told}. Here k is {k}, so the interval runs from {low:.4g} to {high:.4g}, which is {side}"


def likely_mistake(found: str, right: str, differences: list[float], drift: float) -> str:
    """What to look at where `faster` returned `found`."""
    ordered, k = sorted(differences), rank(len(differences))
    if drift:
        return "Subtract the two times of the same pair."
    if {found, right} == {"a", "b"}:
        return "Return the one that takes less time. Is each difference b - a, even when b runs first?"
    if found == "cannot tell":
        return "Is your k too small? Do you compare both ends of the interval with 0? Is each difference b - a?"
    if not k:
        return 'Compare your k with the formula, and return "cannot tell" when k is 0.'
    if 0 in (ordered[k - 1], ordered[-k]):
        return "An end at exactly 0 is on neither side. Keep differences of 0 in the sorted list."
    return "Is your k too large, or does your rule use something other than the interval's two ends?"


def compare_turns(student, costs_a, costs_b, left_over=0.0, drift=0.0):
    """`costs[0]` is that of the run that warms up."""
    told = f"With {len(costs_a) - 1} pair{'s' if len(costs_a) > 2 else ''}"
    if drift:
        told += f", where every run takes {drift:g} s longer than the previous run"
    elif len(set(costs_a[1:])) > 1:
        told += f", where a takes {listed(costs_a[1:])} s and b takes {listed(costs_b[1:])} s"
    with case(told):
        seen = student.run(take_turns, *student.devices, costs_a, costs_b, left_over, drift)
        found, log, repeats = seen["found"], seen["log"], len(costs_a) - 1
        ran = [name for name in log if name in "ab"]
        for name in "ab":
            count = ran.count(name)
            need(
                count == repeats + 1,
                f"work_{name}() ran {times(count)}, but {repeats + 1} runs are needed: 1 warm-up and {repeats} timed.",
            )
        need(
            found in ("a", "b", "cannot tell"),
            f'faster returned {found!r}. Return "a", "b" or "cannot tell".',
        )
        order = [name for pair in range(repeats) for name in ("ab", "ba")[pair % 2]]
        need(
            ran[2:] == order,
            f"After the warm-up, the runs were in the order {' '.join(ran[2:])}. The order must alternate from pair to "
            f"pair: {' '.join(order)}.",
        )
        need("idle" in log or "busy" in log, "clock() was never called.")
        need(
            well_read(log),
            "Before or after at least one timed run, the clock was not read with all devices idle. Synchronize every "
            "device in gpus before each of these readings, including the one after the warm-up.",
        )
        sooner = [1 if pair % 2 == 0 else -1 for pair in range(repeats)]  # whether b is the later one
        pairs = zip(costs_a[1:], costs_b[1:], sooner, strict=True)
        differences = [b - a + drift * later for a, b, later in pairs]
        right, why = verdict(differences)
        likely = likely_mistake(found, right, differences, drift)
        need(found == right, f'{why}. The right answer is "{right}", but faster returned "{found}". {likely}')


def compare_differences(student, differences, sign=1, **how):
    """a takes 100 s in each run, and b so much more."""
    costs = [100.0] * (len(differences) + 1)
    compare_turns(student, costs, [100.0] + [100.0 + sign * one for one in differences], **how)


def well_read(log) -> bool:
    """Whether between any two timed runs, before the first and after the last, all was idle at a reading."""
    parts = [[]]
    for entry in log:
        if entry in ("a", "b"):
            parts.append([])
        else:
            parts[-1].append(entry)
    return all("idle" in part for part in parts[2:])


@ex2.fact("faster names the faster of the two, and all devices have finished before and after each timed run")
def _(student):
    a, b = [90.0, 10.0, 11.0, 10.5, 10.0, 12.0, 10.5], [20.0, 14.0, 15.5, 15.0, 14.0, 14.5, 15.0]
    compare_turns(student, a, b)
    compare_turns(student, b, a)


@ex2.fact('with five or fewer pairs, faster returns "cannot tell", however large the difference is')
def _(student):
    compare_differences(student, [50.0, 51.0])
    compare_differences(student, [50.0, 51.0, 52.0, 50.0, 51.0])


@ex2.fact('where noise can explain the difference, faster returns "cannot tell"')
def _(student):
    compare_differences(student, [5.0, 6.0, -1.0, 5.0, 7.0, 6.0, 5.0, 6.0])
    compare_differences(student, [4.0, -2.0, 6.0, 5.0, -3.0, 4.0, 5.0, 6.0, -1.0, 5.0, 4.0, 3.0], sign=-1)


@ex2.fact("a single unusual pair among ten does not decide the answer")
def _(student):
    compare_differences(student, [12.0, 13.0, 12.0, -90.0, 12.0, 11.0, 12.0, 13.0, 11.0, 12.0])


@ex2.fact("with many pairs, faster finds a difference that is smaller than the noise of one pair")
def _(student):
    differences = [3.0, 9.0, -5.0, 2.0, 12.0, 4.0, -8.0, 6.0, 1.0, 15.0, 3.0, -6.0, 8.0, 2.0, 5.0, -3.0, 7.0, 4.0]
    compare_differences(student, [*differences, 11.0, -9.0])


@ex2.fact("a steady slowdown of the GPU does not count as a difference between a and b")
def _(student):
    compare_turns(student, [10.0] * 9, [10.0] * 9, drift=2.0)


# --- ex3: events ----------------------------------------------------------------------------------------------

ex3 = lab.exercise(
    "ex3",
    points=3,
    title="Each part by its own device's clock",
    hints=[
        "Each part needs two events and two hooks. How does each hook get its own event?",
        "record() without an argument uses the *current* device's stream. Pass it the stream of the part's device.",
        "All functions made in a loop share the loop's variables. A default argument or functools.partial keeps the "
        "current value.",
        "After model(x) has returned, wait for each part's end event. Which unit does elapsed_time use?",
    ],
)


def use_events(lab, places, widths, order, rounds, busy_before, start):
    """by_events on a chain of parts, part n on places[n], asked for in `order`; what a recording says of the parts.

    Each part has two hooks that are not by_events'. The input is on `start`, and the first part moves it itself.
    """
    import torch
    from torch import nn

    from utils.exercises.facts.probes import kind_of
    from utils.observe.devices import is_idle, is_simulated, synchronize
    from utils.observe.trace import record

    class Part(nn.Sequential):
        def forward(self, input):
            return super().forward(input.to(self[0].weight.device))

    class Chain(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList(
                [
                    Part(nn.Linear(16, width), nn.Linear(width, 16)).to(place)
                    for place, width in zip(places, widths, strict=True)
                ]
            )

        def forward(self, x):
            for number, (place, part) in enumerate(zip(places, self.parts, strict=True)):
                x = part(x.to(place) if number else x)
                idle.append(is_idle(place))
                if number and places[number - 1] != place:  # one part later it still computes
                    idle[-2] = idle[-2] or is_idle(places[number - 1])
            return x

    exact = all([is_simulated(place) for place in places])
    model, ran, idle = Chain(), [], []
    parts = [part for part in model.parts]
    for part in parts:
        part.register_forward_pre_hook(lambda *_: None)
        part.register_forward_hook(lambda *_: None)
    model.register_forward_hook(lambda *_: ran.append(1))
    x = torch.ones(8, 16).to(start)
    told = []
    for _ in range(rounds):
        if busy_before:
            for place in set(places):
                torch.mm(torch.zeros(16, 90_000, device=place), torch.zeros(90_000, 16, device=place))
        found = lab.by_events(model, [parts[number] for number in order], x)
        if not isinstance(found, (list, tuple)):
            return {"kind": kind_of(found)}
        told.append([float(value) if isinstance(value, (int, float)) else kind_of(value) for value in found])
    seen = {"kind": "list", "told": told, "ran": len(ran), "exact": exact, "waited": sum(idle) if exact else 0}
    seen["hooks"] = sum([len(part._forward_hooks) + len(part._forward_pre_hooks) for part in parts])
    # The same pass once more, recorded: between copies each part keeps its device busy without a gap.
    for place in places:
        synchronize(place)
    with record(*sorted(set(places))) as timeline:
        model(x)
    seen["busy"] = {place: timeline.busy_times(place) for place in places}
    return seen


LAUNCH = 45e-6  # seconds between two kernels of a part at most, where its device is idle
LAUNCHES = 150e-6  # seconds that a part's first launches may take where its device is idle


def compare_events(
    student, places, widths=(60_000, 90_000, 40_000), order=None, rounds=1, busy_before=False, start=None
):
    widths = list(widths[: len(places)])
    order = list(range(len(places))) if order is None else order
    try:
        seen = student.run(use_events, list(places), widths, order, rounds, busy_before, start or places[0])
    except StudentError as error:
        raise StudentError(f"{error}{why_it_raised(str(error))}") from None
    need("told" in seen, f"by_events returned {seen['kind']}. Return a list.")
    need(
        seen["ran"] == rounds,
        f"by_events was called {times(rounds)}, but the model ran {times(seen['ran'])}. Run the model once in each "
        "call: one pass calls the hooks of all parts.",
    )
    left = seen["hooks"] - 2 * len(places)  # two in each part were there before
    need(
        left <= 0,
        f"by_events did not remove all its hooks (remaining: {left}). Keep the handle that registering a hook returns, "
        "and call its remove().",
    )
    need(
        left == 0,
        f"by_events removed hooks that it had not added (removed: {-left}). Remove only your own, by their handles.",
    )
    for told in seen["told"]:
        need(
            len(told) == len(order),
            f"`parts` has length {len(order)}, but the returned list has length {len(told)}. Return one time per part.",
        )
        strange = [value for value in told if not isinstance(value, float)]
        need(
            not strange, f"The list contains {strange[0] if strange else ''}. Return each time as a number of seconds."
        )
        if seen["exact"]:
            compare_part_times(told, [part_seconds(seen["busy"], places, number) for number in order])
    waited = seen["waited"]  # a part's kernels take longer than their launches: its device is busy behind it
    need(
        not waited,
        f"The host waited for {waited} of {rounds * len(places)} parts while the model ran. In the hooks, only record "
        "events. Wait for them after model(x) has returned.",
    )


def why_it_raised(words: str) -> str:
    """The likeliest mistake behind an error in by_events, to be put behind it; empty where none is known."""
    if "Both events must be recorded" in words:
        return "\nAn event was never recorded. Do all hooks that your loop created use the last pair of events?"
    if "Event" in words and ("stands where a tensor" in words or "no attribute" in words):
        return "\nA hook returned an event, which replaced the part's input or output. Hooks must return nothing."
    if "but got: cpu" in words:
        return "\nTake a part's device from its parameters. The part's input may come from another device."
    return ""


def part_seconds(busy, places, number) -> float:
    """How long part `number` of a chain kept its device busy: the chain's parts on a device are apart in time."""
    place = places[number]
    parts = [[]]
    for start, end in busy[place]:
        if parts[-1] and start - parts[-1][-1][1] > LAUNCH:
            parts.append([])
        parts[-1].append((start, end))
    return sum(end - start for start, end in parts[sum(one == place for one in places[:number])])


def compare_part_times(told, right):
    if all_near(told, right):
        return
    where = f"The parts took {micro(*right)}, but by_events returned {micro(*told)}."
    need(
        not all_near([mine / 1000 for mine in told], right),
        f"{where} elapsed_time gives milliseconds. Return seconds.",
    )
    need(
        not all_near(sorted(told), sorted(right)),
        f"{where} The order is wrong. Return the times in the order of `parts`.",
    )
    need(
        min(told) > -1e-6,
        f"{where} One time is negative. The end event was recorded before the start event, or on another device. Give "
        "each part two events of its own, in the stream of its own device.",
    )
    need(
        min(told) > 1e-6,
        f"{where} Are the events of each part recorded in the stream of its own device? record() without an argument "
        "uses the current device's stream.",
    )
    need(
        max(told) > LAUNCHES,
        f"{where} That is the time to launch a part, not to run it. The host's clock shows only the launch. Use "
        "events.",
    )
    need(
        len({round(one, 9) for one in told}) == len(told),
        f"{where} Two parts have the same time. Give each part two events of its own.",
    )
    need(
        False,
        f"{where} Record both events in the stream of the part's own device, right before its first kernel and right "
        "after its last.",
    )


def all_near(told, right) -> bool:
    return all(-1e-6 <= mine - part <= LAUNCHES for mine, part in zip(told, right, strict=True))


@ex3.fact("by_events runs the model once and times each part in seconds, with events on the part's own device")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            compare_events(student, [device0, device1])
    with case("With both devices busy with other work before the call"):
        compare_events(student, student.devices, busy_before=True)


@ex3.fact("the times are in the order of `parts`, even if the parts run in another order")
def _(student):
    compare_events(student, student.devices, order=[1, 0])


# --- ex4: one move --------------------------------------------------------------------------------------------

ex4 = lab.exercise(
    "ex4",
    points=2,
    title="One large move instead of many small ones",
    hints=[
        "One copy moves one tensor. How do tensors of different shapes become one tensor with one dimension?",
        "After the move, split the joined tensor again. How many elements belong to each piece? Look at the given "
        "tensors.",
        "x.split([6, 5, 8]) splits a tensor of 19 elements into three. Each piece then needs its old shape.",
        "Split and reshape on the new device. Does any step in between cut the autograd graph?",
    ],
)


def move_and_look(lab, arrays, source, target):
    import torch

    from utils.exercises.facts.probes import kind_of
    from utils.observe.trace import record

    leaves = [torch.from_numpy(array).to(source).requires_grad_() for array in arrays]
    with record(source, target) as timeline:
        moved = lab.move_together(list(leaves), torch.device(target))
    copies = [[event.kind, event.bytes] for event in timeline.events if not event.is_kernel]
    if not isinstance(moved, (list, tuple)):
        return {"kind": kind_of(moved)}
    if not all(isinstance(tensor, torch.Tensor) for tensor in moved):
        return {"kind": "a list in which not every element is a tensor"}
    seen = {
        "kind": "tensors",
        "devices": [str(tensor.device) for tensor in moved],
        "shapes": [list(tensor.shape) for tensor in moved],
        "dtypes": [str(tensor.dtype) for tensor in moved],
        "values": [tensor.detach().cpu().numpy() for tensor in moved],
        "copies": copies,
        "gradients": None,
    }
    if moved and all(tensor.requires_grad for tensor in moved):
        # Tensor n counts n + 1 times, so that a mixed-up order shows in the gradients.
        sum((number + 1) * tensor.sum() for number, tensor in enumerate(moved)).backward()
        seen["gradients"] = [None if leaf.grad is None else leaf.grad.cpu().numpy() for leaf in leaves]
    return seen


def look_at_move(student, shapes, device0, device1, dtype=torch.float32):
    generator = torch.Generator().manual_seed(len(shapes))
    arrays = [torch.randn(shape, generator=generator, dtype=dtype).numpy() for shape in shapes]
    seen = student.run(move_and_look, arrays, device0, device1)
    need(seen["kind"] == "tensors", f"move_together returned {seen['kind']}. Return a list of tensors.")
    return arrays, seen


def compare_moved(seen, arrays, device):
    found, right = [tuple(shape) for shape in seen["shapes"]], [array.shape for array in arrays]
    where = f"The returned shapes are {found}, but they should be {right}."
    need(len(found) == len(right), f"{where} Return one tensor for each given tensor, even for an empty one.")
    sizes = [math.prod(shape) for shape in found] == [math.prod(shape) for shape in right]
    need(found == right or not sizes, f"{where} Give each piece the shape of its original tensor.")
    need(found == right, f"{where} Split by the number of elements of each original tensor.")
    dtype, dtypes = f"torch.{arrays[0].dtype}", " and ".join(sorted(set(seen["dtypes"])))
    need(
        dtypes == dtype,
        f"The given tensors have dtype {dtype}, but the returned tensors have {dtypes}. Keep the dtype.",
    )
    devices = " and ".join(sorted(set(seen["devices"])))
    need(
        devices == device,
        f"The returned tensors are on {devices}, not on {device}. Use the tensor that .to(device) returns: the "
        "original does not move.",
    )
    wrong = [
        number for number, pair in enumerate(zip(seen["values"], arrays, strict=True)) if not np.array_equal(*pair)
    ]
    need(
        not wrong,
        f"The shapes are right, but tensor {wrong[0] if wrong else ''} has different values than before. Does each "
        "piece start where the previous piece ends?",
    )


def compare_copies(seen):
    kinds = [kind for kind, _ in seen["copies"]]
    made = f"For a list of length {len(seen['shapes'])}, move_together made {len(kinds) or 'no'} copies"
    need(
        len(kinds) == 1 or "d2h" not in kinds,
        f"{made}, and the data went through the CPU. Move one tensor from device to device with .to(device).",
    )
    need(len(kinds) <= 1, f"{made}. Join the tensors before the move, and split the result after the move.")
    need(kinds, f"{made} between the devices. Use .to(device).")


def compare_move_gradients(seen, arrays):
    need(
        seen["gradients"] is not None,
        "Not every returned tensor requires a gradient. detach(), .data and no_grad() cut the autograd graph.",
    )
    for number, (array, gradient) in enumerate(zip(arrays, seen["gradients"], strict=True)):
        right = gradient is not None and gradient.shape == array.shape and np.all(gradient == number + 1)
        need(
            right,
            f"After backward(), the gradient of tensor {number} differs from the one that .to(device) would give.",
        )


SHAPES = [[2, 3], [5], [1, 4, 2], [3, 3]]


@ex4.fact("every tensor is returned on the device, with its own shape and its own values")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            arrays, seen = look_at_move(student, SHAPES, device0, device1)
            compare_moved(seen, arrays, device1)


@ex4.fact("an empty tensor is also returned, at its position in the list")
def _(student):
    with case("With a tensor of shape (0, 3) in the list"):
        arrays, seen = look_at_move(student, [[2, 3], [0, 3], [4]], *student.devices)
        compare_moved(seen, arrays, student.devices[1])


@ex4.fact("the tensors keep their dtype")
def _(student):
    with case("With torch.float64 tensors"):
        arrays, seen = look_at_move(student, SHAPES, *student.devices, torch.float64)
        compare_moved(seen, arrays, student.devices[1])


@ex4.fact("move_together makes only one copy between devices")
def _(student):
    compare_copies(look_at_move(student, SHAPES, *student.devices)[1])


@ex4.fact("gradients flow back to the given tensors")
def _(student):
    arrays, seen = look_at_move(student, SHAPES, *student.devices)
    compare_move_gradients(seen, arrays)


# --- ex5: a loop that never waits -----------------------------------------------------------------------------

ex5 = lab.exercise(
    "ex5",
    points=2,
    title="A loop that never waits",
    hints=[
        "Four lines of the loop need a value that is still on the device. Which lines?",
        "A loss is a tensor. You can append it to a list before the device has computed its value.",
        "An `if` needs True or False, so the host waits. Can you find the smallest loss after the loop?",
        "After the loop, the host may wait. torch.stack makes one tensor out of a list of tensors.",
    ],
)


def run_training(lab, device0, device1, sizes, batches, optimizer, left_over):
    import torch
    from torch import nn

    import simgpu
    from utils.exercises.facts.probes import fill, kind_of
    from utils.observe.devices import is_simulated
    from utils.observe.trace import record

    class TwoParts(nn.Module):
        def __init__(self):
            super().__init__()
            self.part0 = nn.Sequential(nn.Linear(sizes[0], sizes[1]), nn.ReLU()).to(device0)
            self.part1 = nn.Linear(sizes[1], sizes[2]).to(device1)

        def forward(self, x):
            return self.part1(self.part0(x).to(device1))

    simulated = is_simulated(device0) and is_simulated(device1)
    model = TwoParts()
    fill(model, 4)
    given = [(torch.from_numpy(x).to(device0), torch.from_numpy(y).to(device1)) for x, y in batches]
    chosen = getattr(torch.optim, optimizer)(model.parameters(), lr=1e-5)
    for parameter in model.parameters() if left_over else ():
        parameter.grad = torch.full_like(parameter, left_over)
    with record(device0, device1) as timeline:
        answer = lab.train(model, nn.MSELoss(), chosen, given)
        returned = simgpu.now() if simulated else 0.0
    if not isinstance(answer, (list, tuple)):
        return {"kind": kind_of(answer)}
    if len(answer) != 2:
        return {"kind": f"{kind_of(answer)} of length {len(answer)}"}
    losses, best = answer
    if not isinstance(losses, (list, tuple)):
        return {"kind": f"{kind_of(losses)} instead of the list of losses"}

    def plain(value):
        return value if isinstance(value, float) else kind_of(value)

    return {
        "kind": "losses and best",
        "losses": [plain(value) for value in losses],
        "best": plain(best),
        "parameters": [p.detach().cpu().numpy().ravel()[:1000] for p in model.parameters()],
        "events": [[e.kind, e.phase, e.launched, bool(e.module)] for e in timeline.events if e.launched is not None],
        "bytes to the host": sum(event.bytes for event in timeline.events if event.kind == "d2h"),
        "exact": "virtual clock" in timeline.source,
        "on their way": sum(e.kind == "d2h" and e.end > returned for e in timeline.events) if simulated else 0,
    }


def expected_training(sizes, batches, optimizer):
    """The loop as it was given, on one device."""
    from utils.exercises.facts.probes import fill

    first, second = skip_init(nn.Linear, sizes[0], sizes[1]), skip_init(nn.Linear, sizes[1], sizes[2])
    model = nn.Sequential(first, nn.ReLU(), second)
    fill(model, 4)
    chosen = getattr(torch.optim, optimizer)(model.parameters(), lr=1e-5)
    losses = []
    for x, y in batches:
        chosen.zero_grad()
        loss = nn.functional.mse_loss(model(torch.from_numpy(x)), torch.from_numpy(y))
        loss.backward()
        chosen.step()
        losses.append(loss.item())
    return losses, [p.detach().numpy().ravel()[:1000] for p in model.parameters()]


def made_batches(sizes, count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [
        [
            torch.randn(16, sizes[0], generator=generator).numpy(),
            torch.randn(16, sizes[-1], generator=generator).numpy(),
        ]
        for _ in range(count)
    ]


def in_short(losses) -> str:
    return listed(round(loss, 4) for loss in losses)


def trained(student, devices, sizes, batches, optimizer="SGD", left_over=0.0):
    seen = student.run(run_training, *devices, sizes, batches, optimizer, left_over)
    need("losses" in seen, f"train returned {seen['kind']}. Return two values: losses and best.")
    return seen


def compare_training(seen, sizes, batches, optimizer="SGD"):
    losses, parameters = expected_training(sizes, batches, optimizer)
    found = seen["losses"]
    need(len(found) == len(losses), f"For {len(losses)} batches, the list of losses has length {len(found)}.")
    strange = [value for value in (*found, seen["best"]) if not isinstance(value, float)]
    need(
        not strange,
        f"One of the losses, or the smallest loss, is {strange[0] if strange else ''}. Return Python floats.",
    )
    where = f"The losses should be {in_short(losses)}, but train returned {in_short(found)}."
    right = np.allclose(found, losses, **CLOSE)
    rounded = any(found == [round(loss, digits) for loss in losses] for digits in range(7))
    need(right or not rounded, f"{where} Your losses are rounded. Return them unrounded.")
    need(np.allclose(found[:1], losses[:1], **CLOSE), f"{where} Even the first loss is wrong.")
    need(
        right,
        f"{where} The first loss is right, so the updates are wrong. Each step must call zero_grad(), backward() and "
        "step(), in this order.",
    )
    last = " That is the last loss." if seen["best"] == found[-1] else ""
    need(
        math.isclose(seen["best"], min(losses), rel_tol=1e-4),
        f"The smallest loss is {min(losses):.4f}, but train returned {seen['best']:.4f} as best.{last}",
    )
    same = [np.allclose(mine, right, **CLOSE) for mine, right in zip(seen["parameters"], parameters, strict=True)]
    need(all(same), "The losses are right, but the final parameters are wrong. Is step() called for the last batch?")


SHORTEST_WAIT = 1e-6  # seconds: a copy to the host takes at least two microseconds, and the host waits for its end


def waits_inside(seen) -> int:
    """How often the host waited between the first kernel of the model and the last launch of the optimizer.

    On the virtual clock the host spends the same time on each launch, and more only where it waits. Elsewhere the
    copies to the CPU are counted.
    """
    events = sorted(seen["events"], key=lambda event: event[2])
    last = max(number for number, event in enumerate(events) if event[1] == "optimizer")
    if not seen["exact"]:
        return sum(kind == "d2h" for kind, *_ in events[:last])
    first = next((number for number, event in enumerate(events) if event[3]), 0)
    gaps = np.diff([event[2] for event in events[first : last + 1]])
    gaps = gaps[gaps > 1e-9]  # in a backward pass two threads launch, maybe at the same moment
    return int(np.sum(gaps > gaps.min() + SHORTEST_WAIT)) if len(gaps) else 0


def compare_waiting(seen, batches):
    need(any(event[1] == "optimizer" for event in seen["events"]), "optimizer.step() was never called.")
    count = waits_inside(seen)  # a wait after the last step could be one after the loop: it is not counted
    need(
        not count,
        f"In a loop of {len(batches)} steps, the host waited {times(count)}. Which line of the loop needs a value from "
        "a device (item, float, print, if, min), copies data to or from the CPU, or synchronizes?",
    )
    late = seen["on their way"]
    need(
        not late,
        f"When train returned, copies to the host were unfinished ({late} in all), so the values read on the host can "
        "be wrong. After the loop, wait until each copy with non_blocking=True has finished before you read its "
        "result.",
    )
    needed, came = 4 * len(batches), seen["bytes to the host"]
    need(
        came >= needed,
        f"{len(batches)} losses take {needed} bytes, but only {came} bytes were copied from the devices to the host. "
        "Read each loss from its device.",
    )


# A sum of very many numbers for very few results is slow on a GPU and quick here: while the loop runs, the simulated
# devices always have work left, so a loop that needs a number has to wait.
SIZES = [2, 60_000, 2]


@ex5.fact("train returns the same values as the given loop and leaves the model with the same parameters")
def _(student):
    batches = made_batches(SIZES, 4)
    compare_training(trained(student, student.devices, SIZES, batches), SIZES, batches)


@ex5.fact("gradients from before the call have no effect")
def _(student):
    sizes = [4, 6, 3]
    batches = made_batches(sizes, 2, seed=7)
    with case("With an old gradient on every parameter before the call"):
        compare_training(trained(student, student.devices, sizes, batches, left_over=100.0), sizes, batches)


@ex5.fact("inside the loop, the host does not wait for a device in any step")
def _(student):
    batches = made_batches(SIZES, 12)
    compare_waiting(trained(student, student.devices, SIZES, batches), batches)
