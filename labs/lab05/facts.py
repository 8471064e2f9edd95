"""Lab 05's visible facts: what `check("ex1")` tells the learner, and the first part of the grade.

A probe runs next to the student's code and returns plain data; the fact judges it here.
"""

from itertools import accumulate, count
from typing import Any

import numpy as np
import torch
from torch import nn

from utils.exercises.facts import Lab, case, need, orders_of
from utils.exercises.facts.probes import build, forward_and_backward, tensors_of

lab = Lab("lab05", "Watch the idle GPU")

CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}  # a real GPU adds up in another order than a CPU


# --- ex1: watch your own model train --------------------------------------------------------------------------------

ex1 = lab.exercise(
    "ex1",
    points=2,
    title="Watch your own split model train",
    hints=[
        "A training step has five lines, as in lab 03. On which device is the loss computed?",
        "You need the step twice: once by itself, then once inside a `with record(...)` block.",
        "timeline.utilization() gives each device's share of the time, from 0 to 1. A percentage is 100 times that.",
        "timeline.busy_times(device) returns a list of pairs (start, end). How long does a pair of device0 overlap "
        "with a pair of device1? timeline.span is the recorded time.",
    ],
)
NEAR = {"both": 0.5}  # points of percent
NEAR_BUSY = 2  # a loss may be computed in more than one way, with more kernels
NEAR_UPDATE = 8  # with few rows a kernel more of the loss is a launch more of the step


def watch_a_model(lab, kind, width, rows, devices, seed, adam):
    from contextlib import nullcontext

    import torch
    from torch import nn

    from utils.exercises.facts.probes import array, kind_of
    from utils.observe.devices import is_simulated
    from utils.observe.intervals import common, length
    from utils.observe.trace import record

    device0, device1 = (torch.device(name) for name in devices)
    place0, place1 = (device1, device0) if kind == "back" else (device0, device1)

    class Cold(nn.Module):
        def __init__(self):
            super().__init__()
            self.part0 = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width)).to(place0)
            self.part1 = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 8)).to(place1)
            self.passes = []

        def forward(self, x):
            first = x.to(place0)
            if not self.passes:  # the first pass does more, as where a library is loaded
                for _ in range(0 if adam else 40):
                    torch.mm(self.part0[0].weight.detach(), self.part0[0].weight.detach())
            self.passes.append(1)
            if kind != "branches":
                return self.part1(self.part0(first).to(place1))
            other = self.part1(x.to(place1))
            return self.part0(first).mean().to(place1) + other

    def made():
        torch.manual_seed(seed)
        model = Cold()
        if adam:
            return model, torch.optim.Adam(model.parameters(), lr=0.001)
        return model, torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)

    def step(model, optimizer, update=True):
        for parameter in model.parameters():
            parameter.grad = None
        output = model(x)
        nn.functional.mse_loss(output, y.to(output.device)).backward()
        if update:
            optimizer.step()

    def percentages(timeline):
        found = {name: 100 * timeline.busy(name) / timeline.span for name in devices}
        both = common(timeline.busy_times(devices[0]), timeline.busy_times(devices[1]))
        return found | {"both": 100 * length(both) / timeline.span}

    def mistaken():
        # The percentages of other recordings that are taken for the second step alone.
        found, names = {}, ("the first step", "both steps together", "the second step without optimizer.step()")
        for name in names:
            model, optimizer = made()
            if name == names[2]:
                step(model, optimizer)
            with record(*devices) as timeline:
                step(model, optimizer, update=name != names[2])
                if name == names[1]:
                    step(model, optimizer)
            found[name] = percentages(timeline)
        return found

    x, y = torch.randn(rows, width), torch.randn(rows, 8)  # a target that is moved in no time
    model, optimizer = made()
    step(model, optimizer)
    with record(*devices) as timeline:
        step(model, optimizer)
    right = percentages(timeline)

    theirs, their_optimizer = made()
    steps = []
    their_optimizer.register_step_post_hook(lambda *_: steps.append(1))
    simulated = is_simulated(device0) and is_simulated(device1)
    with record(*devices) if simulated else nullcontext() as everything:
        found = lab.watch(theirs, their_optimizer, x, y, device0, device1)
    to_the_host = [event.bytes for event in everything.events if event.kind == "d2h"] if simulated else []
    told = kind_of(found)
    if isinstance(found, dict):
        told = {
            key if isinstance(key, str) else kind_of(key): float(value)
            if isinstance(value, (int, float)) and not isinstance(value, bool)
            else kind_of(value)
            for key, value in found.items()
        }
    weights = [[array(p).ravel()[:2000] for p in each.parameters()] for each in (model, theirs)]
    return {
        "found": told,
        "right": right,
        "mistaken": mistaken() if simulated else {},
        "steps": len(steps),
        "passes": len(theirs.passes),
        "weights": weights,
        "to the host": max(to_the_host, default=0),
        "output": rows * 8 * 4,
    }


def compare_watch(student, kind, width, rows, devices, seed=1, adam=False):
    run = student.run(watch_a_model, kind, width, rows, list(devices), seed, adam)
    found = run["found"]
    need(isinstance(found, dict), f"watch returned {found}. Return a dict.")
    for key, percent in run["right"].items():
        need(
            key in found,
            f"The key {key!r} is missing: the dict has {', '.join(found) or 'none'}. Use str(device0) as a key.",
        )
        need(not isinstance(found[key], str), f"The value of {key!r} is {found[key]}. Return a number, the percentage.")
        near = abs(found[key] - percent) < (NEAR_UPDATE if adam else NEAR.get(key, NEAR_BUSY))
        need(
            near or percent < 1 or abs(100 * found[key] - percent) > NEAR_BUSY,
            f"The value of {key!r} is {found[key]:.4g}, a share from 0 to 1. Return a percentage: {percent:.1f}.",
        )
        need(
            near,
            f"{'Both devices' if key == 'both' else key} computed in {percent:.1f}% of the second step, but watch "
            f"returned {found[key]:.1f}. {likely_percentage(key, found[key], run, devices)}",
        )
    extra = [key for key in found if key not in run["right"]]
    need(not extra, f"The dict also has {', '.join(map(repr, extra))}. Return only the three percentages.")
    return run


def likely_percentage(key, found, run, devices) -> str:
    """What a wrong percentage is the percentage of, and what to do; `run` is what `watch_a_model` tells."""
    right, known = run["right"], []
    one, other = (right[name] for name in devices)
    if key == "both":
        overlap = "Add up the time in which a kernel of one overlaps with a kernel of the other."
        busy = max(one + other - right["both"], 1e-9)
        known = [
            (100 * right["both"] / busy, "That is a percentage of the busy time. Divide by timeline.span."),
            (one * other / 100, f"That is the product of the two devices' percentages. {overlap}"),
            (min(one, other), f"That is the smaller of the two devices' percentages. {overlap}"),
            (0, overlap),
        ]
    else:
        known = [
            (100 - right[key], "That is how long it is idle, not how long it computes."),
            (one + other - right[key], "That is the other device's percentage."),
        ]
    known += [
        (percents[key], f"That is the percentage of {name}. Record the whole second step and nothing else.")
        for name, percents in run["mistaken"].items()
    ]
    likely = [words for percent, words in known if abs(percent - found) < 0.3]
    return likely[0] if likely else "Record the whole second step and nothing else, and divide by timeline.span."


def compare_trained(student, kind):
    run = student.run(watch_a_model, kind, 64, 32, list(student.devices), 3, False)
    need(
        run["steps"] == 2 and run["passes"] == 2,
        f"The model ran {run['passes']} times, and optimizer.step() {run['steps']} times. Each must run twice: in the "
        "warm-up step and in the recorded one.",
    )
    same_weights = all(map(same, *run["weights"]))
    need(same_weights, "The weights differ from those after two training steps. Does each step clear the gradients?")
    need(
        run["to the host"] < run["output"],
        f"You copied {run['to the host']} bytes from a device to the CPU; the output has {run['output']} bytes. "
        "Move y to the output's device, and leave the output where it is.",
    )


@ex1.fact("it trains for two whole steps")
def _(student):
    compare_trained(student, "split")


@ex1.fact("for a split model, it returns each device's percentage of only the second step")
def _(student):
    compare_watch(student, "split", 512, 512, student.devices)


@ex1.fact("the update is in the recording: with few samples and Adam it takes much of a step")
def _(student):
    compare_watch(student, "split", 2048, 16, student.devices, adam=True)


@ex1.fact("y moves to the output's device, which may be device0")
def _(student):
    with case("For a model whose output is on device0"):
        compare_trained(student, "back")


@ex1.fact("for a model with a branch on each device, it returns the percentage of the time in which both compute")
def _(student):
    compare_watch(student, "branches", 512, 512, student.devices)


# --- ex2: where the time goes ---------------------------------------------------------------------------------------

ex2 = lab.exercise(
    "ex2",
    points=3,
    title="Where does the time go?",
    hints=[
        "Draw both devices and the copies as bars along a time axis. At which moments can the answer change?",
        "Cut the time at all these moments. Nothing changes within a piece, so look at its middle.",
        "Ask in this order: how many devices compute? If none, does a copy run? If not, the devices wait for the host.",
        "timeline.begin and timeline.end are such moments, too.",
    ],
)
PARTS = ("both", "one", "copy", "host")


def ask_where(lab, devices, rows, begin, end):
    import torch

    from utils.exercises.facts.probes import kind_of
    from utils.observe.trace import Event, Timeline

    events = []
    for where, stream, kind, start, stop, other in rows:
        events.append(Event(where, stream, kind, kind, "forward", start, stop, None, 0, 0, other))
    timeline = Timeline(devices=tuple(devices), events=tuple(events), begin=begin, end=end)
    found = lab.where_time_goes(timeline, torch.device(devices[0]), torch.device(devices[1]))
    if not isinstance(found, dict):
        return kind_of(found)
    return {
        key if isinstance(key, str) else kind_of(key): float(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool)
        else kind_of(value)
        for key, value in found.items()
    }


def compare_where(student, rows, begin, end, **right):
    """`rows` have a device's number, "kernel" or a copy's other end, start and end, and perhaps the stream."""
    devices, events = list(student.devices), []
    for number, what, start, stop, *stream in rows:
        other = {"kernel": None, "cpu": "cpu"}.get(what, devices[1 - number])
        kind = {"kernel": "kernel", "cpu": "h2d"}.get(what, "d2d")
        events.append([devices[number], stream[0] if stream else 0, kind, start, stop, other])
    told = "; ".join(
        f"device{number} computes {start}-{stop}"
        if what == "kernel"
        else f"a copy between device{number} and {'the CPU' if what == 'cpu' else f'device{1 - number}'} {start}-{stop}"
        for number, what, start, stop, *_ in rows
    )
    seen = max((row[3] for row in rows), default=end) - min((row[2] for row in rows), default=begin)
    with case(f"From {begin} to {end} s, {told or 'nothing runs'}"):
        found = student.run(ask_where, devices, events, begin, end)
        need(not isinstance(found, str), f"where_time_goes returned {found}. Return a dict.")
        keys = ", ".join(map(repr, found)) or "none"
        need(set(found) == set(PARTS), f"The keys are {keys}. Return the keys {', '.join(map(repr, PARTS))}.")
        for part in PARTS:
            value, share = found[part], right.get(part, 0.0)
            need(not isinstance(value, str), f"{part!r} is {value}. Return a number from 0 to 1.")
            need(
                abs(value - share) < 1e-6,
                f"{part!r} is {value:.4g}, but should be {share:.4g}. "
                + likely_share(part, found, share, end - begin, seen),
            )


def likely_share(part, found, share, span, seen) -> str:
    """What to look at where the share of `part` is wrong in what was found for a timeline of `span` seconds.

    `seen`: the seconds from its first event to its last.
    """
    numbers = [value for value in found.values() if isinstance(value, float)]
    if share and abs(found[part] - share * span) < 1e-6:
        return "Those are seconds: divide by timeline.end - timeline.begin."
    if share and abs(found[part] - 100 * share) < 1e-6:
        return "That is in percent: return a number from 0 to 1."
    if share and abs(found[part] - share * span / seen) < 1e-6:
        return "Divide by the whole time, timeline.end - timeline.begin, not by that from the first event to the last."
    if 0 < abs(found[part] - share) < 0.01:
        return "Sampling is not exact: cut the time where a kernel or copy starts or ends."
    total = f"Your four shares add up to {sum(numbers):.4g}, not 1"
    if sum(numbers) < 1 - 1e-6:
        return f"{total}. Count all the time from timeline.begin to timeline.end, and divide by it."
    more = found[part] > share
    looks = {
        "both": ("Do you count an overlap twice?", "Compare each kernel of device0 with each of device1."),
        "one": (
            "Count only time in which a kernel runs on exactly one device.",
            "A copy during a kernel changes nothing: that time counts.",
        ),
        "copy": ("Do you count a copy twice, or while a kernel runs?", "A copy to or from either device counts."),
        "host": (
            "Does a kernel or copy run during some of it?",
            "Count the time before the first event and after the last.",
        ),
    }
    return looks[part][0 if more else 1] + (f" {total}." if sum(numbers) > 1 + 1e-6 else "")


@ex2.fact("it distinguishes time in which both devices compute from time in which one does")
def _(student):
    compare_where(student, [(0, "kernel", 0, 4), (1, "kernel", 3, 8)], 0, 8, both=1 / 8, one=7 / 8)


@ex2.fact('while no device computes, the time is "copy" if a copy runs and "host" if not')
def _(student):
    rows = [(0, "cpu", 1, 2), (0, "kernel", 2, 5), (0, "other", 5, 6), (1, "kernel", 6, 8)]
    compare_where(student, rows, 0, 10, one=0.5, copy=0.2, host=0.3)


@ex2.fact("while a kernel runs, a copy does not count")
def _(student):
    rows = [(0, "kernel", 0, 4), (0, "other", 2, 5, 1), (1, "kernel", 4.5, 8)]
    compare_where(student, rows, 0, 8, one=7.5 / 8, copy=0.5 / 8)


@ex2.fact("a copy between the CPU and device1 counts, and the time need not begin at 0")
def _(student):
    rows = [(0, "kernel", 2, 4), (1, "cpu", 4, 6), (1, "kernel", 6, 9)]
    compare_where(student, rows, 2, 10, one=5 / 8, copy=2 / 8, host=1 / 8)


@ex2.fact("any kernel of one device may overlap with any kernel of the other")
def _(student):
    rows = [(0, "kernel", 0, 1), (0, "kernel", 4, 6), (1, "kernel", 5, 7)]
    compare_where(student, rows, 0, 8, both=1 / 8, one=3 / 8, host=4 / 8)


# --- ex3: bytes of training -----------------------------------------------------------------------------------------

ex3 = lab.exercise(
    "ex3",
    points=2,
    title="Peak training memory, by device",
    hints=[
        "How many numbers does a parameter have, and how many bytes does each take?",
        "How many tensors of its size exist at the peak? The parameter, its gradient, and which others?",
        "A frozen parameter counts once: it has no gradient, and the optimizer keeps nothing for it.",
        "model.parameters() has a shared weight once and no buffers. model.state_dict() has it twice, and buffers.",
    ],
)

STATES = {"sgd": 0, "momentum": 1, "adam": 3}  # tensors of a parameter's size that the optimizer has at its peak


def ask_training_memory(lab, kind, devices, optimizer):
    import torch
    from torch import nn

    from utils.exercises.facts.probes import kind_of

    model = nn.Module()
    model.first = nn.Linear(30, 50).to(devices[0])
    model.second = nn.Linear(50, 20).to(devices[1])
    if kind == "frozen":
        model.first.requires_grad_(False)
    if kind == "shared":
        model.third = nn.Linear(50, 20).to(devices[1])
        model.third.weight = model.second.weight
    if kind == "buffers":
        model.norm = nn.BatchNorm1d(50).to(devices[0])
    if kind == "float64 and bfloat16":
        model.first.double()
        model.second.to(torch.bfloat16)
    found = lab.training_memory(model, optimizer)
    if not isinstance(found, dict):
        return kind_of(found)
    plain = {}
    for device, value in found.items():
        name = device if isinstance(device, str) else kind_of(device)
        number = hasattr(value, "__float__") and not isinstance(value, (bool, str))
        plain[name] = float(value) if number else kind_of(value)
    return plain


def expected_memory(kind, devices, optimizer):
    """Bytes by device, counted from the sizes that `ask_training_memory` gives its layers."""
    first, second = 30 * 50 + 50, 50 * 20 + 20
    trained = 2 + STATES[optimizer]
    sizes = {"float64 and bfloat16": (8, 2)}.get(kind, (4, 4))
    bytes0 = first * sizes[0] * (1 if kind == "frozen" else trained)
    bytes1 = second * sizes[1] * trained
    if kind == "shared":
        bytes1 += 20 * 4 * trained  # the third layer's bias; its weight is the second's
    if kind == "buffers":
        bytes0 += 2 * 50 * 4 * trained
    total = {}
    for device, size in zip(devices, (bytes0, bytes1), strict=True):
        total[device] = total.get(device, 0) + size
    return total


def compare_training_memory(student, kind, devices, optimizer):
    words = {
        "plain": "Two linear layers",
        "frozen": "A frozen first layer (requires_grad=False)",
        "shared": "A weight that two layers share",
        "buffers": "A model with buffers (BatchNorm)",
    }.get(kind, f"A model in {kind}")
    with case(f"{words}, {optimizer!r}"):
        found = student.run(ask_training_memory, kind, devices, optimizer)
        need(not isinstance(found, str), f"training_memory returned {found}. Return a dict.")
        right = expected_memory(kind, devices, optimizer)
        for device, size in right.items():
            need(
                device in found,
                f"The key {device!r} is missing: the dict has {', '.join(found) or 'none'}. Use str(parameter.device).",
            )
            need(not isinstance(found[device], str), f"{device} has {found[device]}. Return a number of bytes.")
            need(
                found[device] == size,
                f"For {device} it returned {found[device]:.0f} bytes instead of {size}. "
                f"{likely_count(kind, optimizer, found[device], size, sum(right.values()))}",
            )
        extra = [device for device in found if device not in right]
        need(not extra, f"The dict has {', '.join(map(repr, extra))}, but the model has no parameters there.")


def likely_count(kind, optimizer, found, size, total) -> str:
    """What a wrong number of bytes counts, and what to do."""
    if found == total:
        return "That is the total of all devices. Count each parameter for its own device."
    if kind == "plain" and 4 * found == size:
        return "That is the count of numbers, not of bytes."
    if kind == "plain":
        copies = found / (size / (2 + STATES[optimizer]))
        return (
            f"That is {copies:.3g} times the size of the parameters. Which tensors of this size exist at the peak of a "
            "step?"
        )
    return {
        "frozen": "Count a frozen parameter, but no gradient and no optimizer tensors for it.",
        "shared": "Count a shared weight once: model.parameters() has it once.",
        "buffers": "Leave out the buffers: only parameters count.",
    }.get(kind, "Use each parameter's own bytes per number, also for its gradient and optimizer tensors.")


@ex3.fact("with plain SGD: a parameter and its gradient, on each device")
def _(student):
    compare_training_memory(student, "plain", student.devices, "sgd")


@ex3.fact("with momentum and with Adam: the optimizer's tensors, too")
def _(student):
    for optimizer in ("momentum", "adam"):
        compare_training_memory(student, "plain", student.devices, optimizer)


@ex3.fact("a frozen parameter has no gradient and no optimizer tensors")
def _(student):
    compare_training_memory(student, "frozen", student.devices, "adam")


@ex3.fact("a weight that two layers share counts once")
def _(student):
    compare_training_memory(student, "shared", student.devices, "sgd")


@ex3.fact("each number takes the bytes of its dtype, and buffers do not count")
def _(student):
    compare_training_memory(student, "float64 and bfloat16", student.devices, "sgd")
    compare_training_memory(student, "buffers", student.devices, "adam")


# --- ex4: Adam in less memory ----------------------------------------------------------------------------------------

ex4 = lab.exercise(
    "ex4",
    star=True,
    title="Adam in less than four times the weights",
    hints=[
        "The hook gets its parameter and nothing else. How can it update this parameter and no other?",
        "An optimizer may have a single parameter. It keeps its state from step to step, so when must you create it?",
        "After the update, is the gradient still in .grad when your hook returns?",
        "PyTorch refuses such a hook on a parameter that gets no gradient.",
    ],
)
FEWEST = 3.75  # times the weights: an answer that keeps all gradients until the update holds four and more


def train_lean(lab, layers, width, cut, devices, frozen, steps, seed):
    import torch
    from torch import nn

    from utils.exercises.facts.probes import array, kind_of

    def made():
        torch.manual_seed(seed)
        stack = [nn.Linear(width, width).to(devices[0] if n < cut else devices[1]) for n in range(layers)]
        for layer in stack[:frozen]:
            layer.requires_grad_(False)
        return nn.ModuleList(stack)

    def loss_of(model, x):
        for layer in model:
            x = layer(x.to(layer.weight.device))
        return x.square().mean()

    simulated = devices[0].startswith("simgpu")
    counter = torch.get_device_module("simgpu") if simulated else None
    before = {name: counter.memory_allocated(name) for name in devices} if simulated else {}
    lean = made()
    weights = {name: counter.memory_allocated(name) - before[name] for name in before}
    generator = torch.Generator().manual_seed(seed)
    batches = [torch.randn(4, width, generator=generator) for _ in range(steps)]
    step, peaks, kept, first = lab.lean_step(lean, 0.01), {}, [], []
    if not callable(step):
        return kind_of(step)
    trained = [parameter for parameter in lean.parameters() if parameter.requires_grad]
    for parameter in trained:  # behind the hooks that lean_step has registered
        parameter.register_post_accumulate_grad_hook(lambda p: kept.append(p.grad is not None))
    for x in batches:
        for name in before:
            counter.reset_peak_memory_stats(name)
        loss = loss_of(lean, x)
        step(loss)
        first = first or [array(p) for p in lean.parameters()]
        del loss
        for name in before:
            peaks[name] = (counter.max_memory_allocated(name) - before[name]) / weights[name]

    plain, plain_first = made(), []
    optimizer = torch.optim.Adam(plain.parameters(), lr=0.01)
    for x in batches:
        for parameter in plain.parameters():
            parameter.grad = None
        loss_of(plain, x).backward()
        optimizer.step()
        plain_first = plain_first or [array(p) for p in plain.parameters()]
    found = [[array(p) for p in model.parameters()] for model in (lean, plain, made())]
    return {
        "weights": found,
        "first": [first, plain_first],
        "peaks": peaks,
        "kept": sum(kept[-len(trained) :]),
        "trained": len(trained),
    }


def mistaken_updates(layers, width, frozen, steps, seed):
    """The weights after as many steps of updates that are taken for Adam's, by the words for each."""

    def trained(update):
        """`update` is given a parameter, whose gradient is there, and what it keeps for this parameter."""
        torch.manual_seed(seed)
        stack = [nn.Linear(width, width) for _ in range(layers)]
        for layer in stack[:frozen]:
            layer.requires_grad_(False)
        model, generator = nn.Sequential(*stack), torch.Generator().manual_seed(seed)
        kept = {p: {} for p in model.parameters() if p.requires_grad}
        for p in kept:
            p.register_post_accumulate_grad_hook(lambda p: update(p, kept[p]))
        for _ in range(steps):
            model(torch.randn(4, width, generator=generator)).square().mean().backward()
        return [p.detach().numpy() for p in model.parameters()]

    def adam(p, kept, lr=0.01, kind=torch.optim.Adam):
        kept.setdefault("adam", kind([p], lr=lr)).step()

    def clearing(update):
        def cleared(p, kept):
            update(p, kept)
            p.grad = None

        return cleared

    def by_hand(p, kept, step):
        kept["m"] = 0.9 * kept.get("m", 0) + 0.1 * p.grad
        kept["v"] = 0.999 * kept.get("v", 0) + 0.001 * p.grad**2
        down = [1 - beta**step if step else 1 for beta in (0.9, 0.999)]
        p.data -= 0.01 * (kept["m"] / down[0]) / ((kept["v"] / down[1]).sqrt() + 1e-8)

    def late(p, kept):
        now, p.grad = p.grad, kept.get("gradient")
        kept["gradient"] = now
        adam(p, kept)

    def more_each_time(p, kept):
        kept["steps"] = kept.get("steps", 0) + 1
        for _ in range(kept["steps"]):
            adam(p, kept)
            p.grad = torch.zeros_like(p)

    numbers = count(1)

    def counts_all(p, kept):
        by_hand(p, kept, next(numbers))

    updates = {
        "Adam with gradients that add up. Set .grad to None after each update.": adam,
        "a new Adam in every step. Create each Adam once: it keeps its state from step to step.": lambda p, _: adam(
            p, {}
        ),
        "AdamW, which also decays the weights. Use torch.optim.Adam.": lambda p, kept: adam(
            p, kept, kind=torch.optim.AdamW
        ),
        "SGD with this lr. Use torch.optim.Adam.": lambda p, _: torch.optim.SGD([p], lr=0.01).step(),
        "Adam with PyTorch's default lr, 0.001. Pass lr to it.": lambda p, kept: adam(p, kept, 0.001),
        "Adam without its bias correction, 1 - beta ** step.": lambda p, kept: by_hand(p, kept, 0),
        "Adam with the bias correction of step 1 in every step.": lambda p, kept: by_hand(p, kept, 1),
        "Adam with one step count for all parameters. Count the steps of each parameter.": counts_all,
        "Adam with the previous step's gradient. A register_hook function runs before the gradient is in .grad.": late,
        "more updates in each step than before. Register the hooks once, not in every step.": more_each_time,
    }
    # Only the first keeps its gradients.
    return {said: trained(one if one is adam else clearing(one)) for said, one in updates.items()}


def compare_lean(student, devices, *, layers=12, width=128, cut=6, frozen=0, seed=2):
    run = student.run(train_lean, layers, width, cut, list(devices), frozen, 3, seed)
    need(not isinstance(run, str), f"lean_step returned {run}. Return a function step(loss).")
    lean, plain, fresh = run["weights"]
    moved = [not np.array_equal(mine, start) for mine, start in zip(lean, fresh, strict=True)]
    need(
        not any(moved[: 2 * frozen]),
        "A frozen parameter (requires_grad=False) has changed. Skip it, and leave its requires_grad as it is.",
    )
    need(
        all(moved[2 * frozen :]),
        "After three steps, a parameter has not changed. Does each one have a hook? Hooks made in a loop share the "
        "loop's variable, which is then the last parameter: use the one that the hook is given.",
    )
    if not all(map(same, lean, plain)):
        # Rounding grows from step to step, and the first may tell what three do not.
        for steps, when, mine in ((3, "three steps", lean), (1, "the first step", run["first"][0])):
            for said, other in mistaken_updates(layers, width, frozen, steps, seed).items():
                taken = all(map(same, mine, other)) and not all(map(same, mine, run["first"][1]))
                need(not taken, f"After {when}, the weights are those of {said}")
        kept = "The first step is right. Does each optimizer keep its state from one step to the next?"
        changed = kept if all(map(same, *run["first"])) else "They already differ after the first step."
        need(False, f"After three steps, the weights differ from those of torch.optim.Adam. {changed}")
    return run


def compare_peaks(run):
    kept = "No gradient was left in .grad after your hooks. Which other tensors of the weights' size do you keep?"
    if run["kept"]:
        kept = (
            f"{run['kept']} of {run['trained']} gradients were still in .grad after their hooks. Update each weight in "
            "its hook, and then set its .grad to None."
        )
    for name, peak in run["peaks"].items():
        need(peak <= FEWEST, f"At its peak, {name} holds {peak:.2f} times its weights. {kept}")


@ex4.fact("three steps give the weights that torch.optim.Adam gives")
def _(student):
    compare_lean(student, student.devices)


@ex4.fact(f"no device ever holds more than {FEWEST} times its weights")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            compare_peaks(compare_lean(student, (device0, device1)))


@ex4.fact("a frozen layer stays as it is, without optimizer tensors")
def _(student):
    compare_peaks(compare_lean(student, student.devices, frozen=1, seed=3))


@ex4.scored(par=336, unit="% of the weights at the peak; less is better")
def _(student):
    peaks = compare_lean(student, student.devices)["peaks"]
    return 100 * max(peaks.values(), default=float("nan"))


# --- ex5: fit a model into memory ---------------------------------------------------------------------------------

ex5 = lab.exercise(
    "ex5",
    points=3,
    title="Fit a model that one device cannot hold",
    hints=[
        "How many bytes does one layer take at the peak of a step with Adam? Count its tensors, as in exercise 3.",
        "Go through the layers from the front and add up their bytes. When do you stop?",
        "Before you add a layer, test whether the sum with this layer is at most memory0.",
        "Your loop finds the cut. layers[:cut] and layers[cut:] are the two parts; .to(device) moves a part.",
    ],
    likely={
        "shapes cannot be multiplied": "Do the layers run in order? The first that does not fit and all after it "
        "belong on device1.",
    },
)

LINEAR = ["Linear", 128, 128]  # sizes that fill whole blocks of memory, so that what is counted is what is taken
SIX = [layer for _ in range(6) for layer in (LINEAR, ["Tanh"])]
ONE = 5 * 4 * (128 * 128 + 128)  # bytes of one LINEAR at the peak of a step with Adam
RESERVE = 16 * 1024  # for the activations of four rows


def fit_and_train(lab, stack, memory0, device0, device1, state, x, frozen, tied):
    import torch

    from utils.exercises.facts.probes import build, forward_and_backward, tensors_of

    layers = build(stack).to(torch.from_numpy(x).dtype)
    layers.load_state_dict({name: torch.from_numpy(values) for name, values in state.items()})
    for number, layer in enumerate(layers):
        if number in frozen:
            layer.requires_grad_(False)
    for one, other in tied:
        layers[other].weight = layers[one].weight
    simulated = device0.startswith("simgpu")
    before = torch.get_device_module("simgpu").memory_allocated(device0) if simulated else 0
    if simulated:
        torch.get_device_module("simgpu").reset_peak_memory_stats(device0)
    model = lab.FitInTwo(layers, memory0, torch.device(device0), torch.device(device1))
    places = tensors_of(model)
    run = forward_and_backward(model, x)
    optimizer = torch.optim.Adam(model.parameters())
    optimizer.step()
    forward_and_backward(model, x)  # with the optimizer's state there, as in every step but the first
    optimizer.step()
    # A real GPU's libraries keep memory of their own there, so the peak is asked of simulated ones only.
    peak = torch.get_device_module("simgpu").max_memory_allocated(device0) - before if simulated else None
    return run | {"tensors": places, "peak": peak}


def compare_fit(student, stack, memory0, cut, device0, device1, dtype=torch.float32, frozen=(), tied=()):
    """Fit `stack` into `memory0` bytes of device0, where `cut` layers have room, and compare with one device.

    `frozen` are the numbers of the layers whose parameters need no gradient, `tied` pairs of layers with one weight.
    """
    torch.manual_seed(5)
    whole = build(stack).to(dtype)
    state = {name: values.numpy().copy() for name, values in whole.state_dict().items()}
    x = torch.randn(4, stack[0][1], generator=torch.Generator().manual_seed(cut), dtype=dtype).numpy()
    for number in frozen:
        whole[number].requires_grad_(False)
    for one, other in tied:
        whole[other].weight = whole[one].weight
    parameters = [[t for t in tensors if isinstance(t, nn.Parameter)] for tensors in new_tensors(whole)]
    numbers = [sum(p.nbytes * (5 if p.requires_grad else 1) for p in each) for each in parameters]
    needs = [number for number in numbers if number]
    layers = f"layers that need {needs} bytes"
    if len(needs) > 1 and len(set(needs)) == 1:
        layers = f"{len(needs)} layers that need {needs[0]} bytes each"
    words = f"With memory0={memory0} and {layers}"
    if frozen:
        words += f" (frozen: layer {', '.join(map(str, frozen))})"
    for one, other in tied:
        words += f" (layer {other} shares the weight of layer {one})"
    with case(words):
        run = student.run(fit_and_train, stack, memory0, device0, device1, state, x, list(frozen), list(tied))
        there, fit = layers_there(run["tensors"], whole, cut, device0)
        held, room = run["peak"] or 0, memory0 + RESERVE
        count = likely_cut(whole, there, fit)
        if there <= fit:
            count = "Was something else on device0, such as the other layers before they moved?"
        need(
            held <= room,
            f"device0 held {held} bytes at the peak, more than memory0 plus {RESERVE} for activations. It has "
            f"{with_parameters(there)}, but {fit} fit. {count}",
        )
        compare_parts(run["tensors"], whole, cut, device0, device1)
        expected = forward_and_backward(whole, x)
        need(
            same(run["output"], expected["output"]),
            "The output differs from that of the unsplit stack. Keep all layers, in order. The first that does not fit "
            "and all after it belong on device1.",
        )
        with_gradient = [gradient for gradient in run["gradients"] if gradient is not None]
        expected = [gradient for gradient in expected["gradients"] if gradient is not None]
        need(len(with_gradient) >= len(expected), "After backward(), a parameter has no gradient.")
        need(len(with_gradient) == len(expected), "After backward(), a frozen parameter has a gradient.")
        right = all(any(same(mine, theirs) for theirs in expected) for mine in with_gradient)
        need(right, "The gradients differ from those of the stack on one device.")


def with_parameters(layers: int) -> str:
    return f"{layers} layer{'' if layers == 1 else 's'} with parameters"


def likely_cut(whole, there: int, fit: int) -> str:
    """How to count the bytes of layers of this kind where `there` layers are on device0, and another number fits."""
    parameters = [parameter for layer in whole for parameter in layer.parameters()]
    if not all(parameter.requires_grad for parameter in parameters):
        return "Count a frozen parameter once, and a trained one with its gradient and Adam's tensors."
    if len(set(parameters)) < len(parameters):
        return "Count a parameter that two layers share once."
    if any(True for _ in whole.buffers()):
        return "Buffers do not count."
    if there > fit == 0:
        return "If not even the first layer fits, part0 is an empty nn.Sequential."
    if there > fit:
        return "Count all parameters, their gradients and Adam's tensors, with the bytes of their dtype."
    return "A sum of exactly memory0 fits. The last layer also belongs on device0 if it fits."


def layers_there(found, whole, cut, device0):
    """How many layers with parameters are on device0, and how many fit: `found` is a list of [shape, device]."""
    there = layers_with(whole, sum(device == device0 for _, device in found))
    return there, layers_with(whole, len(tensors_of(whole[:cut])))


def compare_parts(found, whole, cut, device0, device1):
    """As many layers as fit are on device0 and the others on device1: `found` is a list of [shape, device]."""
    need(found, "PyTorch sees no parameters in the model. Set the parts as attributes: self.part0 = ...")
    elsewhere = [device for _, device in found if device not in (device0, device1)]
    need(not elsewhere, f"Parameters are on {', '.join(elsewhere[:1])}, which is neither device0 nor device1.")
    there, fit = layers_there(found, whole, cut, device0)
    if device0 != device1:  # a real GPU under two names says nothing about the cut
        need(there == fit, f"device0 has {with_parameters(there)}, but {fit} fit. {likely_cut(whole, there, fit)}")
    left = list(found)
    for index, tensors in enumerate(new_tensors(whole)):
        wanted = device0 if index < cut else device1
        for tensor in ([list(t.shape), wanted] for t in tensors):
            need(tensor in left, f"Layer {index} ({type(whole[index]).__name__}) should be on {wanted}.")
            left.remove(tensor)
    need(not left, f"The model has {len(left)} parameters that the stack does not have.")


def layers_with(whole, tensors):
    """How many layers with parameters the first `tensors` tensors make."""
    ends = accumulate(len(new) for new in new_tensors(whole) if new)
    return sum(end <= tensors for end in ends)


def new_tensors(whole):
    """The parameters and buffers of each layer that no layer before it has."""
    seen = set()
    for layer in whole:
        new = [tensor for tensor in (*layer.parameters(), *layer.buffers()) if tensor not in seen]
        seen.update(new)
        yield new


def same(mine, theirs):
    return mine.shape == theirs.shape and np.allclose(mine, theirs, **CLOSE)


@ex5.fact("device0 gets as many layers as fit at the peak of a step with Adam, and the split model trains the same")
def _(student):
    compare_fit(student, SIX, 2 * ONE + ONE // 2, 4, *student.devices)


@ex5.fact("with more memory, device0 gets more layers, also with the devices swapped")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            compare_fit(student, SIX, 4 * ONE + ONE // 2, 8, device0, device1)


@ex5.fact("exactly memory0 bytes fit, also in float64")
def _(student):
    compare_fit(student, SIX, 2 * ONE, 4, *student.devices)
    compare_fit(student, SIX, 2 * ONE - 4, 2, *student.devices)
    compare_fit(student, SIX, 2 * ONE, 2, *student.devices, dtype=torch.float64)


@ex5.fact("buffers do not count, as in exercise 3")
def _(student):
    norm = 5 * 4 * (128 + 128)  # bytes of a BatchNorm1d(128) at the peak, without its buffers
    compare_fit(student, [LINEAR, ["BatchNorm1d", 128], LINEAR, ["Tanh"]], ONE + norm, 2, *student.devices)


@ex5.fact("it works if all layers fit, and if not even the first does")
def _(student):
    compare_fit(student, SIX[:3], 2 * ONE + ONE // 2, 3, *student.devices)
    compare_fit(student, SIX[:3], ONE // 2, 0, *student.devices)


@ex5.fact("a frozen parameter counts once: it has no gradient and no optimizer tensors")
def _(student):
    compare_fit(student, SIX, ONE + ONE // 5, 4, *student.devices, frozen=[0])
    compare_fit(student, SIX, ONE + ONE // 5 - 4, 2, *student.devices, frozen=[0])


@ex5.fact("a weight that two layers share counts once, as in exercise 3")
def _(student):
    bias = 5 * 4 * 128  # bytes of what the second of them has alone, at the peak
    compare_fit(student, SIX, 2 * ONE + bias, 6, *student.devices, tied=[[0, 2]])
    compare_fit(student, SIX, 2 * ONE + bias - 4, 4, *student.devices, tied=[[0, 2]])


def record_step(lab, stack, memory0, device0, device1):
    from dataclasses import asdict

    import torch

    from utils.exercises.facts.probes import build
    from utils.observe.trace import record

    model = lab.FitInTwo(build(stack), memory0, torch.device(device0), torch.device(device1))
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.randn(8192, 128).to(device0)
    with record(device0, device1) as timeline:
        model(x).square().mean().backward()
        optimizer.step()
    return asdict(timeline)


@ex5.timeline
def _(student):
    return student.run(record_step, SIX, 4 * ONE, *student.devices)
