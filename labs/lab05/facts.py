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
        "Run the step twice: first without recording it, then inside a `with record(...)` block.",
        "timeline.utilization() returns the share of time in which each device computes, from 0 to 1. Multiply it by "
        "100 for a percentage.",
        "timeline.busy_times(device) returns a list of (start, end) pairs. For how long does an interval of device0 "
        "overlap with an interval of device1? timeline.span is the length of the recording.",
    ],
)
NEAR = {"both": 0.5}  # points of percent
NEAR_BUSY = 2  # a loss may be computed in more than one way, with more kernels
NEAR_UPDATE = 8  # with few rows a kernel more of the loss is a launch more of the step


def watch_a_model(lab, kind, width, rows, devices, seed, adam, mistakes=False):
    # What `watch` returns and is to return; or with `mistakes` what wrong recordings of this model would show.
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
        # The percentages of other recordings that are taken for the second step alone. They cost three models.
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
    simulated = is_simulated(device0) and is_simulated(device1)
    if mistakes:
        return mistaken() if simulated else {}
    model, optimizer = made()
    step(model, optimizer)
    with record(*devices) as timeline:
        step(model, optimizer)
    right = percentages(timeline)

    theirs, their_optimizer = made()
    steps = []
    their_optimizer.register_step_post_hook(lambda *_: steps.append(1))
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
        "steps": len(steps),
        "passes": len(theirs.passes),
        "weights": weights,
        "to the host": max(to_the_host, default=0),
        "output": rows * 8 * 4,
    }


def compare_watch(student, kind, width, rows, devices, seed=1, adam=False):
    asked = (kind, width, rows, list(devices), seed, adam)
    run = student.run(watch_a_model, *asked)
    found = run["found"]

    def likely(key) -> str:
        mistaken = student.run(watch_a_model, *asked, True)
        return likely_percentage(key, found[key], run["right"], mistaken, devices)

    need(isinstance(found, dict), f"watch returned {found}. Return a dict.")
    for key, percent in run["right"].items():
        need(
            key in found,
            f"The key {key!r} is missing. The dict has these keys: {', '.join(found) or 'none'}. Use str(device0), "
            "str(device1) and 'both' as keys.",
        )
        need(
            not isinstance(found[key], str), f"The value of {key!r} is {found[key]}. Return the percentage as a float."
        )
        near = abs(found[key] - percent) < (NEAR_UPDATE if adam else NEAR.get(key, NEAR_BUSY))
        need(
            near or percent < 1 or abs(100 * found[key] - percent) > NEAR_BUSY,
            f"The value of {key!r} is {found[key]:.4g}, a share from 0 to 1. Return the percentage, {percent:.1f}.",
        )
        need(
            near,
            f"{'Both devices computed together' if key == 'both' else f'{key} computed'} for {percent:.1f}% of the "
            f"second step, but watch returned {found[key]:.1f}. {'' if near else likely(key)}",
        )
    extra = [key for key in found if key not in run["right"]]
    need(not extra, f"The dict has extra keys: {', '.join(map(repr, extra))}. Return only the three percentages.")
    return run


def likely_percentage(key, found, right, mistaken, devices) -> str:
    """What a wrong percentage is the percentage of, and what to do. `mistaken` has those of wrong recordings."""
    known = []
    one, other = (right[name] for name in devices)
    if key == "both":
        overlap = "Add up the time in which a kernel on one device overlaps with a kernel on the other."
        busy = max(one + other - right["both"], 1e-9)
        known = [
            (
                100 * right["both"] / busy,
                "That is a percentage of the time in which at least one device computes. Divide by timeline.span.",
            ),
            (one * other / 100, f"That is the product of the two devices' utilizations. {overlap}"),
            (min(one, other), f"That is the smaller of the two devices' percentages. {overlap}"),
            (0, overlap),
        ]
    else:
        known = [
            (100 - right[key], "That is the percentage of the time in which the device is idle."),
            (one + other - right[key], "That is the percentage of the other device."),
        ]
    known += [
        (percents[key], f"That is the percentage for {name}. Record the whole second step and nothing else.")
        for name, percents in mistaken.items()
    ]
    likely = [words for percent, words in known if abs(percent - found) < 0.3]
    return likely[0] if likely else "Record the whole second step and nothing else, and divide by timeline.span."


def compare_trained(student, kind):
    run = student.run(watch_a_model, kind, 64, 32, list(student.devices), 3, False)
    need(
        run["steps"] == 2 and run["passes"] == 2,
        "Instead of 2 forward passes and 2 calls to optimizer.step(), watch made "
        f"{run['passes']} and {run['steps']}. The warm-up step and the recorded step each need one forward pass and "
        "one such call.",
    )
    same_weights = all(map(same, *run["weights"]))
    need(
        same_weights,
        "After two steps, the weights differ from the expected weights. Does each step clear the gradients?",
    )
    need(
        run["to the host"] < run["output"],
        f"One copy from a device to the CPU moved {run['to the host']} bytes. The output has {run['output']} bytes. "
        "Leave the output on its device, and move y to that device.",
    )


@ex1.fact("watch trains for two complete steps")
def _(student):
    compare_trained(student, "split")


@ex1.fact("for a split model, watch returns the percentages for the second step only")
def _(student):
    compare_watch(student, "split", 512, 512, student.devices)


@ex1.fact("the recording includes optimizer.step(), which takes much of the time with Adam and few samples")
def _(student):
    compare_watch(student, "split", 2048, 16, student.devices, adam=True)


@ex1.fact("watch moves y to the output's device, even if the output is on device0")
def _(student):
    with case("For a model whose output is on device0"):
        compare_trained(student, "back")


@ex1.fact("for a model with a branch on each device, watch returns the percentage of time in which both compute")
def _(student):
    compare_watch(student, "branches", 512, 512, student.devices)


# --- ex2: where the time goes ---------------------------------------------------------------------------------------

ex2 = lab.exercise(
    "ex2",
    points=3,
    title="Where does the time go?",
    hints=[
        "Draw both devices and the copies as bars along a time axis. At which moments can the answer change?",
        "Split the time axis at all these moments. Nothing changes within an interval, so look at its midpoint.",
        "For each interval, first ask how many devices compute. If none computes, ask whether a copy runs. Without a "
        "copy, the devices wait for the host.",
        "Split the time axis at timeline.begin and timeline.end, too.",
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
        f"device{number} computes from {start} to {stop} s"
        if what == "kernel"
        else f"a copy between device{number} and {'the CPU' if what == 'cpu' else f'device{1 - number}'} runs "
        f"from {start} to {stop} s"
        for number, what, start, stop, *_ in rows
    )
    seen = max((row[3] for row in rows), default=end) - min((row[2] for row in rows), default=begin)
    with case(f"For a recording from {begin} to {end} s in which {told or 'nothing runs'}"):
        found = student.run(ask_where, devices, events, begin, end)
        need(not isinstance(found, str), f"where_time_goes returned {found}. Return a dict.")
        keys = ", ".join(map(repr, found)) or "none"
        need(
            set(found) == set(PARTS),
            f"The dict has these keys: {keys}. It must have exactly {', '.join(map(repr, PARTS))}.",
        )
        for part in PARTS:
            value, share = found[part], right.get(part, 0.0)
            need(not isinstance(value, str), f"The value of {part!r} is {value}. Return a float from 0 to 1.")
            need(
                abs(value - share) < 1e-6,
                f"The value of {part!r} is {value:.4g}, but should be {share:.4g}. "
                + likely_share(part, found, share, end - begin, seen),
            )


def likely_share(part, found, share, span, seen) -> str:
    """What to look at where the share of `part` is wrong in what was found for a timeline of `span` seconds.

    `seen`: the seconds from its first event to its last.
    """
    numbers = [value for value in found.values() if isinstance(value, float)]
    if share and abs(found[part] - share * span) < 1e-6:
        return "That is a time in seconds. Divide it by timeline.end - timeline.begin."
    if share and abs(found[part] - 100 * share) < 1e-6:
        return "That is a percentage. Return a share from 0 to 1."
    if share and abs(found[part] - share * span / seen) < 1e-6:
        return (
            "Divide by the length of the recording, timeline.end - timeline.begin, not by the time from the first "
            "event to the last."
        )
    if 0 < abs(found[part] - share) < 0.01:
        return (
            "That is close but not exact. Do not sample the time. Split it wherever a kernel or a copy starts or ends."
        )
    total = f"The four shares add up to {sum(numbers):.4g}, not 1"
    if sum(numbers) < 1 - 1e-6:
        return f"{total}. Cover the whole time from timeline.begin to timeline.end, and divide by its duration."
    more = found[part] > share
    looks = {
        "both": (
            "Do you count the same overlap twice?",
            "Compare each kernel on device0 with every kernel on device1.",
        ),
        "one": (
            "Count only the time in which a kernel runs on exactly one device.",
            "Time in which a kernel runs on exactly one device counts, even if a copy runs too.",
        ),
        "copy": (
            "Do you count the same copy twice, or time in which a kernel runs?",
            "Copies to or from either device count.",
        ),
        "host": (
            "Does a kernel or a copy run during some of this time?",
            "Include the time before the first event and after the last.",
        ),
    }
    return looks[part][0 if more else 1] + (f" {total}." if sum(numbers) > 1 + 1e-6 else "")


@ex2.fact("where_time_goes distinguishes time in which both devices compute from time in which only one does")
def _(student):
    compare_where(student, [(0, "kernel", 0, 4), (1, "kernel", 3, 8)], 0, 8, both=1 / 8, one=7 / 8)


@ex2.fact('time in which no device computes counts as "copy" if a copy runs, and as "host" otherwise')
def _(student):
    rows = [(0, "cpu", 1, 2), (0, "kernel", 2, 5), (0, "other", 5, 6), (1, "kernel", 6, 8)]
    compare_where(student, rows, 0, 10, one=0.5, copy=0.2, host=0.3)


@ex2.fact('time in which a kernel runs does not count as "copy"')
def _(student):
    rows = [(0, "kernel", 0, 4), (0, "other", 2, 5, 1), (1, "kernel", 4.5, 8)]
    compare_where(student, rows, 0, 8, one=7.5 / 8, copy=0.5 / 8)


@ex2.fact("a copy between the CPU and device1 counts, even if the recording begins after 0")
def _(student):
    rows = [(0, "kernel", 2, 4), (1, "cpu", 4, 6), (1, "kernel", 6, 9)]
    compare_where(student, rows, 2, 10, one=5 / 8, copy=2 / 8, host=1 / 8)


@ex2.fact("where_time_goes finds every overlap of a kernel on device0 with a kernel on device1")
def _(student):
    rows = [(0, "kernel", 0, 1), (0, "kernel", 4, 6), (1, "kernel", 5, 7)]
    compare_where(student, rows, 0, 8, both=1 / 8, one=3 / 8, host=4 / 8)


# --- ex3: bytes of training -----------------------------------------------------------------------------------------

ex3 = lab.exercise(
    "ex3",
    points=2,
    title="Peak training memory, by device",
    hints=[
        "How many elements does a parameter have, and how many bytes does each element take?",
        "Which tensors of a parameter's size exist at the peak, besides the parameter and its gradient?",
        "A frozen parameter counts only once. It has no gradient, and the optimizer stores no tensors for it.",
        "model.parameters() yields a shared weight once and leaves out buffers. model.state_dict() lists the weight "
        "twice and includes the buffers.",
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
        "plain": "two linear layers",
        "frozen": "a model with a frozen first layer",
        "shared": "a model in which two layers share a weight",
        "buffers": "a model with buffers (BatchNorm)",
    }.get(kind, f"a model in {kind}")
    with case(f"For {words}, with optimizer={optimizer!r}"):
        found = student.run(ask_training_memory, kind, devices, optimizer)
        need(not isinstance(found, str), f"training_memory returned {found}. Return a dict.")
        right = expected_memory(kind, devices, optimizer)
        for device, size in right.items():
            need(
                device in found,
                f"The key {device!r} is missing. The dict has these keys: {', '.join(found) or 'none'}. Use "
                "str(parameter.device).",
            )
            need(
                not isinstance(found[device], str),
                f"The value of {device!r} is {found[device]}. Return a number of bytes.",
            )
            need(
                found[device] == size,
                f"training_memory returned {found[device]:.0f} bytes for {device} instead of {size}. "
                f"{likely_count(kind, optimizer, found[device], size, sum(right.values()))}",
            )
        extra = [device for device in found if device not in right]
        need(
            not extra,
            f"The dict has extra keys: {', '.join(map(repr, extra))}. Return only devices that have parameters.",
        )


def likely_count(kind, optimizer, found, size, total) -> str:
    """What a wrong number of bytes counts, and what to do."""
    if found == total:
        return "That is the total over all devices. Count each parameter only for its own device."
    if kind == "plain" and 4 * found == size:
        return "That is the number of elements, not of bytes."
    if kind == "plain":
        copies = found / (size / (2 + STATES[optimizer]))
        return (
            f"That is {copies:.3g} times the size of the parameters on that device. Which tensors of this size "
            "exist at the "
            "peak of a step?"
        )
    return {
        "frozen": "Count a frozen parameter itself, but no gradient and no optimizer tensors for it.",
        "shared": "Count a shared weight only once, as model.parameters() does.",
        "buffers": "Leave out the buffers. Only parameters count.",
    }.get(kind, "Use the bytes per element of each parameter's dtype for its gradient and optimizer tensors, too.")


@ex3.fact("with plain SGD, each parameter and its gradient count on the parameter's device")
def _(student):
    compare_training_memory(student, "plain", student.devices, "sgd")


@ex3.fact("with momentum and with Adam, the optimizer's tensors also count")
def _(student):
    for optimizer in ("momentum", "adam"):
        compare_training_memory(student, "plain", student.devices, optimizer)


@ex3.fact("a frozen parameter counts without a gradient or optimizer tensors")
def _(student):
    compare_training_memory(student, "frozen", student.devices, "adam")


@ex3.fact("a weight that two layers share counts only once")
def _(student):
    compare_training_memory(student, "shared", student.devices, "sgd")


@ex3.fact("each element takes its dtype's number of bytes, and buffers do not count")
def _(student):
    compare_training_memory(student, "float64 and bfloat16", student.devices, "sgd")
    compare_training_memory(student, "buffers", student.devices, "adam")


# --- ex4: Adam in less memory ----------------------------------------------------------------------------------------

ex4 = lab.exercise(
    "ex4",
    star=True,
    title="Adam in less than four times the weights' memory",
    hints=[
        "The only argument of the hook is its parameter. How can the hook update this parameter and no other?",
        "An optimizer can have a single parameter. The optimizer keeps its state from step to step, so when must you "
        "create it?",
        "When your hook returns after the update, is the gradient still in .grad?",
        "PyTorch rejects such a hook on a parameter that does not require a gradient.",
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
        "Adam with accumulated gradients. Set .grad to None after each update.": adam,
        "a new Adam in every step. Create each optimizer once, so that it keeps its state.": lambda p, _: adam(p, {}),
        "AdamW, which also decays the weights. Use torch.optim.Adam.": lambda p, kept: adam(
            p, kept, kind=torch.optim.AdamW
        ),
        "SGD with the same lr. Use torch.optim.Adam.": lambda p, _: torch.optim.SGD([p], lr=0.01).step(),
        "Adam with PyTorch's default lr, 0.001. Pass lr to the optimizer.": lambda p, kept: adam(p, kept, 0.001),
        "Adam without bias correction, the division by 1 - beta ** step.": lambda p, kept: by_hand(p, kept, 0),
        "Adam with the bias correction of the first step in every step.": lambda p, kept: by_hand(p, kept, 1),
        "Adam with one step count for all parameters. Count the steps of each parameter separately.": counts_all,
        "Adam with the previous step's gradients. A register_hook function runs before a gradient is in .grad.": late,
        "Adam with one more update in each step than in the step before. Register the hooks only once.": more_each_time,
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
        "A frozen parameter (requires_grad=False) has changed. Skip frozen parameters, and keep requires_grad=False.",
    )
    need(
        all(moved[2 * frozen :]),
        "After three steps, a trainable parameter has not changed. Does each trainable parameter have a hook? Hooks "
        "defined in a loop share the loop variable, which ends as the last parameter. Use the hook's argument instead.",
    )
    if not all(map(same, lean, plain)):
        # Rounding grows from step to step, and the first may tell what three do not.
        for steps, when, mine in ((3, "three steps", lean), (1, "the first step", run["first"][0])):
            for said, other in mistaken_updates(layers, width, frozen, steps, seed).items():
                taken = all(map(same, mine, other)) and not all(map(same, mine, run["first"][1]))
                need(not taken, f"After {when}, the weights match those of {said}")
        kept = "The first step is correct. Does each optimizer keep its state from one step to the next?"
        changed = kept if all(map(same, *run["first"])) else "They already differ after the first step."
        need(False, f"After three steps, the weights differ from those of torch.optim.Adam. {changed}")
    return run


def compare_peaks(run):
    kept = "Your hooks left no gradient in .grad. Which other tensors of the weights' size does your code keep?"
    if run["kept"]:
        kept = (
            f"After the hooks, .grad still held a gradient for {run['kept']} of {run['trained']} parameters. Update "
            "each weight in its hook, and then set its .grad to None."
        )
    for name, peak in run["peaks"].items():
        need(
            peak <= FEWEST,
            f"At its peak, {name} held {peak:.2f} times the size of its weights. The limit is {FEWEST} times. {kept}",
        )


@ex4.fact("after three steps, the weights match those of torch.optim.Adam")
def _(student):
    compare_lean(student, student.devices)


@ex4.fact(f"no device ever holds more than {FEWEST} times the size of its weights")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            compare_peaks(compare_lean(student, (device0, device1)))


@ex4.fact("a frozen layer does not change and has no optimizer tensors")
def _(student):
    compare_peaks(compare_lean(student, student.devices, frozen=1, seed=3))


@ex4.scored(par=336, unit="% of the size of the weights at the peak; lower is better")
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
        "Before you add a layer, test whether the sum including this layer is at most memory0.",
        "Your loop finds the cut. The two parts are layers[:cut] and layers[cut:], and .to(device) moves a part.",
    ],
    likely={
        "shapes cannot be multiplied": "Do the layers run in order? The first layer that does not fit and "
        "all layers after it belong on device1.",
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
    layers = f"layers with parameters that need {needs} bytes"
    if len(needs) > 1 and len(set(needs)) == 1:
        layers = f"{len(needs)} layers with parameters that need {needs[0]} bytes each"
    words = f"With memory0={memory0} and {layers}"
    if frozen:
        words += f" (frozen: {', '.join(f'layers[{index}]' for index in frozen)})"
    for one, other in tied:
        words += f" (layers[{other}] shares the weight of layers[{one}])"
    with case(words):
        run = student.run(fit_and_train, stack, memory0, device0, device1, state, x, list(frozen), list(tied))
        there, fit = layers_there(run["tensors"], whole, cut, device0)
        held, room = run["peak"] or 0, memory0 + RESERVE
        count = likely_cut(whole, there, fit)
        if there <= fit:
            count = "Was anything else on device0, such as the other layers before they moved?"
        need(
            held <= room,
            f"At its peak, device0 held {held} bytes, more than memory0 plus {RESERVE} bytes for activations. It has "
            f"{with_parameters(there)}. memory0 is enough for {fit}. {count}",
        )
        compare_parts(run["tensors"], whole, cut, device0, device1)
        expected = forward_and_backward(whole, x)
        need(
            same(run["output"], expected["output"]),
            "The output differs from that of the unsplit stack. Keep all layers in order. The first layer that does "
            "not fit and all layers after it belong on device1.",
        )
        with_gradient = [gradient for gradient in run["gradients"] if gradient is not None]
        expected = [gradient for gradient in expected["gradients"] if gradient is not None]
        need(len(with_gradient) >= len(expected), "After backward(), a trainable parameter has no gradient.")
        need(len(with_gradient) == len(expected), "After backward(), a frozen parameter has a gradient.")
        right = all(any(same(mine, theirs) for theirs in expected) for mine in with_gradient)
        need(right, "The gradients differ from those of the unsplit stack.")


def with_parameters(layers: int) -> str:
    return f"{layers} layer{'' if layers == 1 else 's'} with parameters"


def likely_cut(whole, there: int, fit: int) -> str:
    """How to count the bytes of layers of this kind where `there` layers are on device0, and another number fits."""
    parameters = [parameter for layer in whole for parameter in layer.parameters()]
    if not all(parameter.requires_grad for parameter in parameters):
        return "Count a frozen parameter once, and a trainable parameter with its gradient and Adam's tensors."
    if len(set(parameters)) < len(parameters):
        return "If two layers share a parameter, count it only once."
    if any(True for _ in whole.buffers()):
        return "Do not count buffers."
    if there > fit == 0:
        return "If not even the first layer fits, part0 is an empty nn.Sequential."
    if there > fit:
        return "Count all parameters, their gradients and Adam's tensors, with the bytes per element of their dtype."
    return "A sum of exactly memory0 bytes fits. If all layers fit, the last layer also belongs on device0."


def layers_there(found, whole, cut, device0):
    """How many layers with parameters are on device0, and how many fit: `found` is a list of [shape, device]."""
    there = layers_with(whole, sum(device == device0 for _, device in found))
    return there, layers_with(whole, len(tensors_of(whole[:cut])))


def compare_parts(found, whole, cut, device0, device1):
    """As many layers as fit are on device0 and the others on device1: `found` is a list of [shape, device]."""
    need(found, "The model has no registered parameters. Assign the parts to attributes: self.part0 = ...")
    elsewhere = [device for _, device in found if device not in (device0, device1)]
    need(
        not elsewhere, f"A parameter or buffer is on {', '.join(elsewhere[:1])}, which is neither device0 nor device1."
    )
    there, fit = layers_there(found, whole, cut, device0)
    if device0 != device1:  # a real GPU under two names says nothing about the cut
        need(
            there == fit,
            f"device0 has {with_parameters(there)}, but memory0 is enough for {fit}. {likely_cut(whole, there, fit)}",
        )
    left = list(found)
    for index, tensors in enumerate(new_tensors(whole)):
        wanted = device0 if index < cut else device1
        for tensor in ([list(t.shape), wanted] for t in tensors):
            need(
                tensor in left,
                f"A tensor of layers[{index}] ({type(whole[index]).__name__}) is not on {wanted}, where it belongs.",
            )
            left.remove(tensor)
    need(not left, f"Of the model's parameters and buffers, {len(left)} are not in the stack.")


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


@ex5.fact("device0 gets as many layers as fit at the peak of a step with Adam; outputs and gradients do not change")
def _(student):
    compare_fit(student, SIX, 2 * ONE + ONE // 2, 4, *student.devices)


@ex5.fact("with more memory, device0 gets more layers, even when the devices are swapped")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            compare_fit(student, SIX, 4 * ONE + ONE // 2, 8, device0, device1)


@ex5.fact("a peak of exactly memory0 bytes fits, even for float64 parameters")
def _(student):
    compare_fit(student, SIX, 2 * ONE, 4, *student.devices)
    compare_fit(student, SIX, 2 * ONE - 4, 2, *student.devices)
    compare_fit(student, SIX, 2 * ONE, 2, *student.devices, dtype=torch.float64)


@ex5.fact("buffers do not count, as in exercise 3")
def _(student):
    norm = 5 * 4 * (128 + 128)  # bytes of a BatchNorm1d(128) at the peak, without its buffers
    compare_fit(student, [LINEAR, ["BatchNorm1d", 128], LINEAR, ["Tanh"]], ONE + norm, 2, *student.devices)


@ex5.fact("one part is empty if all layers fit or if not even the first layer fits")
def _(student):
    compare_fit(student, SIX[:3], 2 * ONE + ONE // 2, 3, *student.devices)
    compare_fit(student, SIX[:3], ONE // 2, 0, *student.devices)


@ex5.fact("a frozen parameter counts without a gradient or optimizer tensors, as in exercise 3")
def _(student):
    compare_fit(student, SIX, ONE + ONE // 5, 4, *student.devices, frozen=[0])
    compare_fit(student, SIX, ONE + ONE // 5 - 4, 2, *student.devices, frozen=[0])


@ex5.fact("a weight that two layers share counts only once, as in exercise 3")
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
