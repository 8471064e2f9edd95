"""Lab 04's visible facts: what `check("ex1")` tells the learner, and the first part of the grade.

No fact depends on how fast a computer is. Stopwatches are tried on pretended devices, whose clocks move when the
probe says so; loops and copies are judged by what was launched, and in which order.
"""

from __future__ import annotations

import math
import statistics
from itertools import accumulate

import numpy as np
import torch
from torch import nn
from torch.nn.utils import skip_init

from utils.facts import Lab, case, need, orders_of

lab = Lab("lab04", "Measure time")

CLOSE = {"rtol": 1e-4, "atol": 1e-5}  # a real GPU adds up in another order than a CPU


def listed(numbers) -> str:
    return "[" + ", ".join(f"{number:g}" if isinstance(number, float) else str(number) for number in numbers) + "]"


def near(mine, theirs) -> bool:
    return isinstance(mine, float) and math.isclose(mine, theirs, rel_tol=1e-6, abs_tol=1e-9)


def all_near(mine, theirs) -> bool:
    return len(mine) == len(theirs) and all(map(near, mine, theirs))


def times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


# --- ex1: a stopwatch -----------------------------------------------------------------------------------------

ex1 = lab.exercise(
    "ex1",
    points=2,
    title="A stopwatch for devices that work while the host goes on",
    hints=[
        "work() comes back as soon as it has launched. What has to be called before you look at the clock again?",
        "A run that begins while the GPU is still busy with something else also times the something else.",
        "Two loops, one after the other: one for the warm-up, which times nothing, and one that fills a list.",
        "In the second loop there are five things to do in each turn, and one of them comes twice.",
    ],
)


def use_stopwatch(lab, costs, launch, left_over, warm_up, repeats):
    """The pretended GPU needs costs[n] seconds for the n-th piece of work, and at first `left_over` for an old one."""
    from utils.facts.probes import kind_of

    now, done, log = 0.0, float(left_over), []

    def work():
        nonlocal now, done
        turn = log.count("work")
        log.append("work")
        now += launch
        done = max(done, now) + costs[min(turn, len(costs) - 1)]

    def synchronize():
        nonlocal now
        log.append("synchronize")
        now = max(now, done)

    def clock():
        log.append("clock")
        return now

    found = lab.time_it(work, synchronize, clock, warm_up, repeats)
    if not isinstance(found, (list, tuple)):
        return {"kind": kind_of(found), "log": log}
    numbers = (int, float)
    seconds = [float(value) if isinstance(value, numbers) else kind_of(value) for value in found]
    return {"kind": "list", "seconds": seconds, "log": log}


def timed_by_the_clock(log, warm_up) -> bool:
    """Whether the clock was read before each timed run and, once the GPU was done, after it."""
    parts = [[]]  # what was called before the first work, between each two, and after the last
    for call in log:
        if call == "work":
            parts.append([])
        else:
            parts[-1].append(call)
    after = [part[part.index("synchronize") :] if "synchronize" in part else [] for part in parts[warm_up + 1 :]]
    return "clock" in parts[warm_up] and all("clock" in part for part in after)


def compare_stopwatch(student, costs, launch=1.0, left_over=0.0, warm_up=2, repeats=3):
    with case(f"With warm_up={warm_up} and repeats={repeats}"):
        seen = student.run(use_stopwatch, costs, launch, left_over, warm_up, repeats)
        need("seconds" in seen, f"it returned {seen['kind']}. Return the list.")
        found, log = seen["seconds"], seen["log"]
        need(all(isinstance(value, float) for value in found), f"its list is {listed(found)}. Numbers are wanted.")
        need(log.count("work") == warm_up + repeats, f"work() was called {times(log.count('work'))}.")
        need(
            len(found) == repeats, f"the list has {len(found)} number(s), and not one for each of {repeats} timed runs."
        )
        timed = [costs[min(number, len(costs) - 1)] for number in range(warm_up, warm_up + repeats)]
        right = [launch + cost for cost in timed]
        if all_near(found, right):
            measured = timed_by_the_clock(log, warm_up)
            need(measured, "the numbers are right, but not every run was timed with the clock, before and after it.")
            return
        need(
            "clock" in log, "clock() was never called. The time has to come from the clock that the function is given."
        )
        need(
            not all_near(found, [round(seconds, 3) for seconds in right]),
            f"it says {listed(found)}, and {listed(right)} is right. The times are rounded, so short ones are lost.",
        )
        need(
            not all_near(found, [launch] * repeats),
            f"it says {listed(found)}: what the *launches* took. The GPU was still at work when your clock stopped.",
        )
        need(
            not all_near(found[1:], right[1:]) or found[0] < right[0],
            f"the first number is {found[0]:g} and should be {right[0]:g}. "
            "What was the GPU still doing when that run began?",
        )
        need(
            repeats == 1 or not all_near(found, list(accumulate(right))),
            f"it says {listed(found)}, and {listed(right)} is right. Each number has the runs before it in it, too.",
        )
        need(
            False,
            f"it says {listed(found)}, and {listed(right)} is right: each launch took {launch:g} s, and the GPU then "
            f"worked for {listed(timed)} s. Is the GPU idle when each run begins, and done when it ends?",
        )


@ex1.fact("it returns a list with the seconds of each timed run, and no others")
def _(student):
    seen = student.run(use_stopwatch, [10.0], 1.0, 0.0, 2, 3)
    need("seconds" in seen, f"It returned {seen['kind']}. Return the list.")
    need(len(seen["seconds"]) == 3, f"With warm_up=2 and repeats=3 its list has {len(seen['seconds'])} numbers.")


@ex1.fact("a timed run is over when the GPU has done it, and the warm-up is in no number")
def _(student):
    compare_stopwatch(student, [40.0, 30.0, 10.0, 20.0, 15.0])


@ex1.fact("what the GPU was still busy with at the beginning is in no number either")
def _(student):
    with case("Before the call, the GPU was given 50 seconds of other work"):
        compare_stopwatch(student, [10.0, 20.0, 15.0], left_over=50.0, warm_up=0)


# --- ex2: summary ---------------------------------------------------------------------------------------------

ex2 = lab.exercise(
    "ex2",
    points=1,
    title="Median, mean and spread",
    hints=[
        "Python comes with a module for this: dir(statistics) shows what it has.",
        "It has two standard deviations. Which one divides by the count less one? help() says it.",
        "And what does that one say to a list with a single number? That case is yours to catch.",
    ],
)

PARTS = ("median", "mean", "spread")


def summarise(lab, seconds, as_tuple):
    from utils.facts.probes import kind_of

    given = tuple(seconds) if as_tuple else list(seconds)
    found = lab.summary(given)
    if not isinstance(found, dict):
        return {"kind": kind_of(found)}
    told = {}
    for name, value in found.items():
        try:
            told[str(name)] = float(value)
        except (TypeError, ValueError):
            told[str(name)] = kind_of(value)
    return {"kind": "dict", "told": told, "after": list(given)}


def compare_summary(student, seconds, parts=PARTS, *, as_tuple=False):
    right = {
        "median": statistics.median(seconds),
        "mean": statistics.fmean(seconds),
        "spread": statistics.stdev(seconds) if len(seconds) > 1 else 0.0,
    }
    with case(f"For {tuple(seconds) if as_tuple else list(seconds)}"):
        seen = student.run(summarise, seconds, as_tuple)
        need("told" in seen, f"summary returned {seen['kind']}. Return a dict.")
        for part in parts:
            need(part in seen["told"], f'there is no "{part}" in it. It has: {", ".join(seen["told"]) or "nothing"}.')
            found = seen["told"][part]
            text = f"{found:.6g}" if isinstance(found, float) else found
            need(near(found, right[part]), f"the {part} is {right[part]:.6g}, and summary says {text}.")
        need(seen["after"] == list(seconds), f"afterwards the list was {seen['after']}. Leave it as it was.")


@ex2.fact("summary tells the median, also where the times are in no order and their count is even")
def _(student):
    compare_summary(student, [5.0, 1.0, 3.0], ["median"])
    compare_summary(student, [4.0, 1.0, 10.0, 3.0], ["median"])


@ex2.fact("summary tells the mean and the spread")
def _(student):
    compare_summary(student, [4.0, 1.0, 10.0, 3.0])


# --- ex3: events ----------------------------------------------------------------------------------------------

ex3 = lab.exercise(
    "ex3",
    points=1,
    title="Events on the device",
    hints=[
        "You need two events: one before the work, one after it. Which argument lets an event keep the time?",
        "record() puts an event into the device's queue, and returns at once. When may you read the time between two?",
        "An event that has not happened yet can be waited for. In which unit is elapsed_time? The lesson says it.",
    ],
)


def use_events(lab, cost, left_over, rounds):
    """Runs by_events on a pretended GPU that needs `cost` seconds for the work, and has `left_over` to do before."""
    from utils.facts.probes import kind_of

    now, done, log, made = 0.0, float(left_over), [], []

    class Event:
        def __init__(self, enable_timing=False, blocking=False, interprocess=False):
            self.timing, self.moment = enable_timing, None
            made.append(self)

        def record(self, stream=None):
            log.append("record")
            self.moment = max(now, done)

        def query(self):
            nonlocal now
            now += 0.001
            return self.moment is None or self.moment <= now

        def synchronize(self):
            nonlocal now
            now = max(now, self.moment or 0.0)

        def elapsed_time(self, end_event):
            if not (self.timing and end_event.timing):
                raise ValueError("Both events must be created with argument 'enable_timing=True'.")
            if self.moment is None or end_event.moment is None:
                raise RuntimeError("Both events must be recorded before calculating elapsed time.")
            if max(self.moment, end_event.moment) > now:
                raise RuntimeError("Both events must be completed before calculating elapsed time.")
            log.append("elapsed_time")
            return (end_event.moment - self.moment) * 1000

    class Gpu:
        def __init__(self):
            self.Event = Event

        def synchronize(self, device=None):
            nonlocal now
            now = max(now, done)

        def current_stream(self, device=None):
            return None

        def current_device(self):
            return 0

    def work():
        nonlocal done
        log.append("work")
        done = max(now, done) + cost

    found = [lab.by_events(work, Gpu()) for _ in range(rounds)]
    told = [float(value) if isinstance(value, (int, float)) else kind_of(value) for value in found]
    return {"told": told, "log": log, "events": len(made)}


def compare_events(student, cost, left_over=0.0, rounds=1):
    seen = student.run(use_events, cost, left_over, rounds)
    log = seen["log"]
    ran = log.count("work")
    need(ran == rounds, f"In {rounds} call(s) of by_events, work() ran {times(ran)}.")
    for found in seen["told"]:
        need(isinstance(found, float), f"It returned {found}. Return the number.")
        need(seen["events"], "No gpu.Event was made. The time has to come from two of them.")
        where = f"The device needed {cost:g} seconds, and by_events says {found:g}."
        need(not near(found, cost * 1000), f"{where} In which unit is elapsed_time?")
        need(not near(found, -cost), f"{where} Which of the two events has to be asked?")
        need(not near(found, 0.0), f"{where} Is the work between the two record()s?")
        need(near(found, cost), where)
    asked = [log.count(call) for call in ("record", "elapsed_time")]
    need(
        asked[0] >= 2 * rounds and asked[1] >= rounds,
        f"The number is right, but in {rounds} call(s) record() was called {times(asked[0])} and elapsed_time() "
        f"{times(asked[1])}. The time has to come from two events.",
    )


@ex3.fact("by_events runs the work once and returns the seconds that the device needed for it")
def _(student):
    compare_events(student, 0.25)


@ex3.fact("what the device was still doing before is not in them")
def _(student):
    with case("Before the call, the device was given 5 seconds of other work"):
        compare_events(student, 0.5, left_over=5.0)


# --- ex4: busy ------------------------------------------------------------------------------------------------

ex4 = lab.exercise(
    "ex4",
    points=2,
    title="How long was a device busy?",
    hints=[
        "First throw away what does not count. What is left: a list of (start, end).",
        "If you look at them in order of their start, you never have to look back.",
        "Keep one number: until when the device has been busy so far. What of the next kernel lies after it?",
        "A kernel that lies inside another adds nothing, and must not move that number back.",
    ],
)


def count_busy(lab, events, device):
    from utils.facts.probes import kind_of

    given = [tuple(event) for event in events]
    found = lab.busy_seconds(list(given), device)
    return float(found) if isinstance(found, (int, float)) else kind_of(found)


def compare_busy(student, events, right, device="gpu0"):
    """`events` as (start, end) for a kernel of gpu0, or whole."""
    events = [event if len(event) == 4 else ("gpu0", "kernel", *event) for event in events]
    told = ", ".join(f"({where} {kind} {start:g} to {end:g})" for where, kind, start, end in events) or "no events"
    with case(f"For {told}"):
        found = student.run(count_busy, events, device)
        need(isinstance(found, float), f"busy_seconds returned {found}. Return a number.")
        need(math.isclose(found, right, abs_tol=1e-9), f"{device} was busy for {right:g} s, and yours says {found:g}.")


@ex4.fact("kernels that are apart add up")
def _(student):
    compare_busy(student, [(0.0, 2.0), (3.0, 4.5)], 3.5)


@ex4.fact("copies do not count, nor what another device does")
def _(student):
    events = [(0.0, 2.0), ("gpu0", "d2d", 2.0, 3.0), ("gpu1", "kernel", 3.0, 9.0), ("gpu0", "h2d", 5.0, 6.0)]
    compare_busy(student, events, 2.0)
    compare_busy(student, events, 6.0, device="gpu1")


@ex4.fact("where kernels overlap, the time counts once")
def _(student):
    compare_busy(student, [(0.0, 3.0), (1.0, 4.0), (6.0, 7.0)], 5.0)


@ex4.fact("the events may come in any order")
def _(student):
    compare_busy(student, [(6.0, 7.0), (1.0, 4.0), (0.0, 3.0)], 5.0)


# --- ex5: one move --------------------------------------------------------------------------------------------

ex5 = lab.exercise(
    "ex5",
    points=2,
    title="One large move instead of many small ones",
    hints=[
        "One copy moves one tensor. How do tensors of different shapes become one long tensor of one dimension?",
        "After the move you have to cut it again. How many numbers belong to each? The given tensors know it.",
        "x.split([6, 5, 8]) cuts a tensor of 19 numbers into three. Each piece then needs its old shape.",
        "All the cutting happens after the move, on the new device. Does anything between lose the gradient?",
    ],
)


def move_and_look(lab, arrays, source, target):
    import torch

    from utils.facts.probes import kind_of
    from utils.trace import record

    leaves = [torch.from_numpy(array).to(source).requires_grad_() for array in arrays]
    with record(source, target) as timeline:
        moved = lab.move_together(list(leaves), torch.device(target))
    copies = [[event.kind, event.bytes] for event in timeline.events if not event.is_kernel]
    if not isinstance(moved, (list, tuple)):
        return {"kind": kind_of(moved)}
    if not all(isinstance(tensor, torch.Tensor) for tensor in moved):
        return {"kind": "a list with something in it that is no tensor"}
    seen = {
        "kind": "tensors",
        "devices": [str(tensor.device) for tensor in moved],
        "shapes": [list(tensor.shape) for tensor in moved],
        "values": [tensor.detach().cpu().numpy() for tensor in moved],
        "copies": copies,
        "gradients": None,
    }
    if moved and all(tensor.requires_grad for tensor in moved):
        # Tensor n counts n + 1 times, so that a mixed-up order shows in the gradients.
        sum((number + 1) * tensor.sum() for number, tensor in enumerate(moved)).backward()
        seen["gradients"] = [None if leaf.grad is None else leaf.grad.cpu().numpy() for leaf in leaves]
    return seen


def look_at_move(student, shapes, device0, device1):
    generator = torch.Generator().manual_seed(len(shapes))
    arrays = [torch.randn(shape, generator=generator).numpy() for shape in shapes]
    seen = student.run(move_and_look, arrays, device0, device1)
    need(seen["kind"] == "tensors", f"move_together returned {seen['kind']}. Return the list of tensors.")
    return arrays, seen


def compare_moved(seen, arrays, device):
    found, right = [tuple(shape) for shape in seen["shapes"]], [array.shape for array in arrays]
    need(found == right, f"The shapes that came back are {found}. They should be {right}.")
    need(set(seen["devices"]) == {device}, f"They are on {' and '.join(sorted(set(seen['devices'])))}, not {device}.")
    need(
        all(map(np.array_equal, seen["values"], arrays)),
        "The shapes are right, but the numbers are not those of the tensors that went in.",
    )


def compare_copies(seen):
    kinds = [kind for kind, _ in seen["copies"]]
    way = " They go through the CPU." if "d2h" in kinds else ""
    need(len(kinds) == 1, f"For {len(seen['shapes'])} tensors it made {len(kinds) or 'no'} copies.{way}")


def compare_move_gradients(seen, arrays):
    need(seen["gradients"] is not None, "What came back needs no gradient any more. What cut the way back?")
    for number, (array, gradient) in enumerate(zip(arrays, seen["gradients"], strict=True)):
        right = gradient is not None and gradient.shape == array.shape and np.all(gradient == number + 1)
        need(right, f"After backward() the gradient of tensor {number} is not what .to(device) would give.")


SHAPES = [[2, 3], [5], [1, 4, 2], [3, 3]]


@ex5.fact("every tensor comes back on the device, in its own shape and with its own numbers")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            arrays, seen = look_at_move(student, SHAPES, device0, device1)
            compare_moved(seen, arrays, device1)


@ex5.fact("there is only one copy between devices")
def _(student):
    compare_copies(look_at_move(student, SHAPES, *student.devices)[1])


@ex5.fact("gradients find their way back")
def _(student):
    arrays, seen = look_at_move(student, SHAPES, *student.devices)
    compare_move_gradients(seen, arrays)


# --- ex6: a loop that never waits -----------------------------------------------------------------------------

ex6 = lab.exercise(
    "ex6",
    points=2,
    title="A loop that never waits",
    hints=[
        "Three lines of the loop ask for a number that only the device knows. Which?",
        "A loss is a tensor, and a tensor can wait in a list without anybody knowing its value.",
        "if needs a yes or no, so it has to wait. Can the smallest loss be found later, when all are known?",
        "After the loop you may wait. torch.stack makes one tensor of a list of tensors.",
    ],
)


def run_training(lab, device0, device1, sizes, batches, optimizer, left_over):
    import torch
    from torch import nn

    from utils import simgpu
    from utils.devices import is_simulated
    from utils.facts.probes import fill, kind_of
    from utils.trace import record

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
        return {"kind": f"{kind_of(answer)} of {len(answer)}"}
    losses, best = answer
    if not isinstance(losses, (list, tuple)):
        return {"kind": f"{kind_of(losses)} in the place of the list of losses"}

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
    from utils.facts.probes import fill

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
    need("losses" in seen, f"train returned {seen['kind']}. Return two things: losses, best")
    return seen


def compare_training(seen, sizes, batches, optimizer="SGD"):
    losses, parameters = expected_training(sizes, batches, optimizer)
    found = seen["losses"]
    need(len(found) == len(losses), f"For {len(losses)} batches it returned {len(found)} losses.")
    strange = [value for value in (*found, seen["best"]) if not isinstance(value, float)]
    need(
        not strange,
        f"Among the losses and the best one there is {strange[0] if strange else ''}. Floats are wanted.",
    )
    need(
        np.allclose(found, losses, **CLOSE),
        f"The losses should be {in_short(losses)}, and yours are {in_short(found)}.",
    )
    need(
        math.isclose(seen["best"], min(losses), rel_tol=1e-4),
        f"The smallest loss is {min(losses):.4f}, and yours says {seen['best']:.4f}.",
    )
    same = [np.allclose(mine, right, **CLOSE) for mine, right in zip(seen["parameters"], parameters, strict=True)]
    need(all(same), "The losses agree, but afterwards the parameters differ.")


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
        f"In a loop of {len(batches)} steps the host waited {times(count)} before the last step was launched. "
        "Which lines want to know a number, or print one?",
    )
    late = seen["on their way"]
    need(
        not late,
        f"when train returned, {late} of its copies to the host had not arrived. What it read there could be anything: "
        "a copy with non_blocking=True has to be waited for.",
    )
    needed, came = 4 * len(batches), seen["bytes to the host"]
    need(came >= needed, f"{len(batches)} losses are {needed} bytes, and {came} came from the devices to the host.")


# A sum of very many numbers for very few results is slow on a GPU and quick here: while the loop runs, the simulated
# devices have always something left to do, so that whoever asks for a number has to wait.
SIZES = [8, 60_000, 16]


@ex6.fact("train returns what the given loop returns, and leaves the model with the same parameters")
def _(student):
    batches = made_batches(SIZES, 4)
    compare_training(trained(student, student.devices, SIZES, batches), SIZES, batches)


@ex6.fact("inside the loop the host never waits for a device")
def _(student):
    batches = made_batches(SIZES, 4)
    compare_waiting(trained(student, student.devices, SIZES, batches), batches)
