"""Lab 05's visible facts: what `check("ex1")` tells the learner, and the first part of the grade.

A probe runs beside the student's code and tells plain data; the fact judges it here.
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
        "A training step has five lines, as in lab 03. On which device does the loss have to be computed?",
        "You need the step twice: once by itself, and once inside the block of `record`.",
        "timeline.utilisation() has a share for each device. Percent is a hundred times that.",
        "timeline.busy_times(device) is a list of pairs (start, end). For how long do two such pairs overlap?",
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

    def step(model, optimizer):
        for parameter in model.parameters():
            parameter.grad = None
        output = model(x)
        nn.functional.mse_loss(output, y.to(output.device)).backward()
        optimizer.step()

    x, y = torch.randn(rows, width), torch.randn(rows, 8)  # a target that is moved in no time
    model, optimizer = made()
    step(model, optimizer)
    with record(*devices) as timeline:
        step(model, optimizer)
    right = {name: 100 * timeline.busy(name) / timeline.span for name in devices}
    both = common(timeline.busy_times(devices[0]), timeline.busy_times(devices[1]))
    right["both"] = 100 * length(both) / timeline.span

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
        need(key in found, f"{key!r} is missing in what it returned. It has: {', '.join(found) or 'nothing'}.")
        need(not isinstance(found[key], str), f"{key!r} has {found[key]}. Write a number, the percent.")
        words = "both computed" if key == "both" else f"{key} computed"
        near = abs(found[key] - percent) < (NEAR_UPDATE if adam else NEAR.get(key, NEAR_BUSY))
        need(
            near or percent < 1 or abs(100 * found[key] - percent) > NEAR_BUSY,
            f"under {key!r} it has {found[key]:.4g}, a share from 0 to 1. Percent is wanted: {percent:.1f}.",
        )
        need(
            near,
            f"it says that {words} in {found[key]:.1f}% of the time. In the second step, recorded alone and whole, "
            f"it was {percent:.1f}%.",
        )
    extra = [key for key in found if key not in run["right"]]
    need(not extra, f"it has {', '.join(map(repr, extra))}, which the exercise does not ask for.")
    return run


def compare_trained(student, kind):
    run = student.run(watch_a_model, kind, 64, 32, list(student.devices), 3, False)
    need(
        run["steps"] == 2 and run["passes"] == 2,
        f"the batch went {run['passes']} times through the model, and optimizer.step() ran {run['steps']} times.",
    )
    same_weights = all(map(same, *run["weights"]))
    need(same_weights, "the weights differ from those after two steps: are the gradients cleared before each?")
    need(
        run["to the host"] < run["output"],
        f"{run['to the host']} bytes came from a device to the CPU, and the output has {run['output']}. The target "
        "goes to the output, not the output to the CPU.",
    )


@ex1.fact("it trains: two whole steps, in the order of lab 03")
def _(student):
    compare_trained(student, "split")


@ex1.fact("for a split model it tells the percent of each device, of the second step alone")
def _(student):
    compare_watch(student, "split", 512, 512, student.devices)


@ex1.fact("the update is in the recording: with few rows and Adam it takes much of a step")
def _(student):
    compare_watch(student, "split", 2048, 16, student.devices, adam=True)


@ex1.fact("y goes where the output is, which may be device0")
def _(student):
    with case("For a model whose output is on device0"):
        compare_trained(student, "back")


@ex1.fact("for a model with a branch on each device it tells in how much of the time both computed")
def _(student):
    compare_watch(student, "branches", 512, 512, student.devices)


# --- ex2: where the time goes ---------------------------------------------------------------------------------------

ex2 = lab.exercise(
    "ex2",
    points=3,
    title="Where does the time go?",
    hints=[
        "Draw both devices and the copies as bars on a line of time. At which moments can the answer change?",
        "Cut the time at each of these moments. Within one piece nothing changes: so ask at its middle.",
        "Ask in this order: how many devices compute? If none: is a copy on its way? If not, it is the host.",
        "timeline.begin and timeline.end are moments, too.",
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
        f"device{number} {'computes' if what == 'kernel' else f'and {what}: a copy'} {start}-{stop}"
        for number, what, start, stop, *_ in rows
    )
    with case(f"From {begin} to {end} s, {told or 'nothing at all'}"):
        found = student.run(ask_where, devices, events, begin, end)
        need(not isinstance(found, str), f"where_time_goes returned {found}. Return a dict.")
        need(set(found) == set(PARTS), f"it has {', '.join(map(repr, found)) or 'nothing'}. It should have {PARTS}.")
        for part in PARTS:
            value, share = found[part], right.get(part, 0.0)
            need(not isinstance(value, str), f"{part!r} has {value}. Write a number from 0 to 1.")
            need(abs(value - share) < 1e-6, f"{part!r} has {value:.4g}, and it is {share:.4g}.")


@ex2.fact("it tells apart both at work and one at work")
def _(student):
    compare_where(student, [(0, "kernel", 0, 4), (1, "kernel", 3, 8)], 0, 8, both=1 / 8, one=7 / 8)


@ex2.fact("time in which no device computes belongs to a copy, if one is running, and else to the host")
def _(student):
    rows = [(0, "cpu", 1, 2), (0, "kernel", 2, 5), (0, "other", 5, 6), (1, "kernel", 6, 8)]
    compare_where(student, rows, 0, 10, one=0.5, copy=0.2, host=0.3)


@ex2.fact("a copy that overlaps with a kernel takes no time")
def _(student):
    rows = [(0, "kernel", 0, 4), (0, "other", 2, 5, 1), (1, "kernel", 4.5, 8)]
    compare_where(student, rows, 0, 8, one=7.5 / 8, copy=0.5 / 8)


@ex2.fact("a copy that only device1 takes part in counts, and the time need not begin at 0")
def _(student):
    rows = [(0, "kernel", 2, 4), (1, "cpu", 4, 6), (1, "kernel", 6, 9)]
    compare_where(student, rows, 2, 10, one=5 / 8, copy=2 / 8, host=1 / 8)


@ex2.fact("any kernel of one device may run beside any of the other")
def _(student):
    rows = [(0, "kernel", 0, 1), (0, "kernel", 4, 6), (1, "kernel", 5, 7)]
    compare_where(student, rows, 0, 8, both=1 / 8, one=3 / 8, host=4 / 8)


# --- ex3: bytes of training -----------------------------------------------------------------------------------------

ex3 = lab.exercise(
    "ex3",
    points=1,
    title="What training takes at its peak, by device",
    hints=[
        "For one parameter: how many numbers has it, and how many bytes has each? Both are things to ask a tensor.",
        "How many tensors of a parameter's size are there at the fullest moment? Itself, its gradient, and which more?",
        "A parameter that is not trained has no gradient, and the optimizer needs nothing for it.",
        "model.parameters() gives a weight that two layers share once, and no buffers. model.state_dict() does not.",
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
        "frozen": "The first layer frozen (requires_grad=False)",
        "shared": "A weight that two layers share",
        "buffers": "A model with buffers (BatchNorm)",
    }.get(kind, f"A model in {kind}")
    with case(f"{words}, {optimizer!r}"):
        found = student.run(ask_training_memory, kind, devices, optimizer)
        need(not isinstance(found, str), f"training_memory returned {found}. Return a dict.")
        right = expected_memory(kind, devices, optimizer)
        for device, size in right.items():
            need(device in found, f"{device} is missing in what it returned. It has: {', '.join(found) or 'nothing'}.")
            need(not isinstance(found[device], str), f"{device} has {found[device]}. Write a number of bytes.")
            need(found[device] == size, f"{device} has {found[device]:g} bytes, counted by hand it is {size}.")
        extra = [device for device in found if device not in right]
        need(not extra, f"it has {', '.join(map(repr, extra))}, which holds none of the model's parameters.")


@ex3.fact("with plain SGD: a parameter and its gradient, on each device")
def _(student):
    compare_training_memory(student, "plain", student.devices, "sgd")


@ex3.fact("with SGD with momentum and with Adam: what these need for each parameter, too")
def _(student):
    for optimizer in ("momentum", "adam"):
        compare_training_memory(student, "plain", student.devices, optimizer)


@ex3.fact("a frozen parameter has no gradient and no state")
def _(student):
    compare_training_memory(student, "frozen", student.devices, "adam")


@ex3.fact("a weight that two layers share counts once")
def _(student):
    compare_training_memory(student, "shared", student.devices, "sgd")


@ex3.fact("every number counts with the bytes of its dtype, and buffers do not count")
def _(student):
    compare_training_memory(student, "float64 and bfloat16", student.devices, "sgd")
    compare_training_memory(student, "buffers", student.devices, "adam")


# --- ex4: Adam in less memory ----------------------------------------------------------------------------------------

ex4 = lab.exercise(
    "ex4",
    points=2,
    title="Adam in less than four times the weights",
    hints=[
        "The hook is given its parameter and nothing else. How does it find what updates this parameter, and no other?",
        "An optimizer may have one parameter only. It remembers the steps before, so when do you have to make it?",
        "Adam has made its step: the gradient has done its work. Is it still in .grad when your function returns?",
        "PyTorch refuses such a hook on a parameter that gets no gradient.",
    ],
)
FEWEST = 3.75  # times the weights: four and more are held by whoever keeps all gradients until the update


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
    """The weights after as many steps of updates that are taken for Adam's, by what to say of each."""

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

    def adam(p, kept, lr=0.01):
        kept.setdefault("adam", torch.optim.Adam([p], lr=lr)).step()

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
        "Adam gives where the gradients of the steps before are still in .grad, and are added up.": adam,
        "a new Adam in every step gives, which has forgotten the steps before.": lambda p, _: adam(p, {}),
        "SGD gives with this lr.": lambda p, _: torch.optim.SGD([p], lr=0.01).step(),
        "Adam gives with PyTorch's own lr of 0.001.": lambda p, kept: adam(p, kept, 0.001),
        "Adam gives without its bias correction, 1 - beta ** step.": lambda p, kept: by_hand(p, kept, 0),
        "Adam gives with the bias correction of step 1 in every step.": lambda p, kept: by_hand(p, kept, 1),
        "Adam gives where the updates of all parameters count as steps: each parameter has its own step.": counts_all,
        "Adam gives with each gradient used a step late. Is your hook called before the gradient is in .grad?": late,
        "more updates in each step than in the last give. Are your hooks registered in every step?": more_each_time,
    }
    # Only the first keeps its gradients.
    return {said: trained(one if one is adam else clearing(one)) for said, one in updates.items()}


def compare_lean(student, devices, *, layers=12, width=128, cut=6, frozen=0, seed=2):
    run = student.run(train_lean, layers, width, cut, list(devices), frozen, 3, seed)
    need(not isinstance(run, str), f"lean_step returned {run}. Return a function, to be called with a loss.")
    lean, plain, fresh = run["weights"]
    moved = [not np.array_equal(mine, start) for mine, start in zip(lean, fresh, strict=True)]
    need(not any(moved[: 2 * frozen]), "a frozen parameter (requires_grad=False) has changed.")
    need(all(moved[2 * frozen :]), "after three steps some parameter is what it was at the beginning.")
    if not all(map(same, lean, plain)):
        for said, other in mistaken_updates(layers, width, frozen, 3, seed).items():
            need(not all(map(same, lean, other)), f"after three steps the weights are those that {said}")
        kept = "The first step is right, so look at what is kept from one step to the next."
        changed = kept if all(map(same, *run["first"])) else "They differ after the first step already."
        need(False, f"after three steps the weights differ from those that torch.optim.Adam gives. {changed}")
    return run


def compare_peaks(run):
    kept = "No gradient was in .grad any more after your hooks: what else of the size of the weights is there?"
    if run["kept"]:
        kept = f"{run['kept']} of {run['trained']} gradients were still in .grad after your hooks, if there are any."
    for name, peak in run["peaks"].items():
        need(peak <= FEWEST, f"at its fullest moment {name} holds {peak:.2f} times its weights. {kept}")


@ex4.fact("three steps give the weights that torch.optim.Adam gives")
def _(student):
    compare_lean(student, student.devices)


@ex4.fact(f"no device ever holds more than {FEWEST} times its weights")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            compare_peaks(compare_lean(student, (device0, device1)))


@ex4.fact("a frozen layer stays as it is, and needs nothing")
def _(student):
    compare_peaks(compare_lean(student, student.devices, frozen=1, seed=3))


@ex4.scored(par=336, unit="% of the weights at the peak; less is better")
def _(student):
    peaks = compare_lean(student, student.devices)["peaks"]
    return 100 * max(peaks.values(), default=float("nan"))


# --- ex5: fit a model into memory ---------------------------------------------------------------------------------

ex5 = lab.exercise(
    "ex5",
    points=2,
    title="Fit a model that one device cannot hold",
    hints=[
        "How many bytes does one layer take at the peak of a step with Adam? How many tensors for each parameter?",
        "Go through the layers from the front and add up. When do you have to stop?",
        "Test before you add: would the sum with this layer still be at most memory0?",
        "Your loop gives a cut. layers[:cut] and layers[cut:] are the parts, and .to(device) places one.",
    ],
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
    words = f"With memory0={memory0} and layers that take {[n for n in numbers if n]} bytes at the peak"
    if frozen:
        words += f" (frozen: layer {', '.join(map(str, frozen))})"
    for one, other in tied:
        words += f" (layer {other} has the weight of layer {one})"
    with case(words):
        run = student.run(fit_and_train, stack, memory0, device0, device1, state, x, list(frozen), list(tied))
        room = memory0 + RESERVE
        need(
            run["peak"] is None or run["peak"] <= room,
            f"in two steps with Adam device0 is filled with {run['peak'] or 0} bytes. With memory0 and {RESERVE} for "
            f"the activations it has {room}: there a step ends with OutOfMemoryError.",
        )
        compare_parts(run["tensors"], whole, cut, device0, device1)
        expected = forward_and_backward(whole, x)
        need(
            same(run["output"], expected["output"]),
            "the output differs from that of the whole stack. Is each layer there, in its place?",
        )
        with_gradient = [gradient for gradient in run["gradients"] if gradient is not None]
        expected = [gradient for gradient in expected["gradients"] if gradient is not None]
        need(len(with_gradient) >= len(expected), "after backward() some parameter has no gradient.")
        need(len(with_gradient) == len(expected), "after backward() a frozen parameter has a gradient.")
        right = all(any(same(mine, theirs) for theirs in expected) for mine in with_gradient)
        need(right, "the gradients differ from those of the stack on one device.")


def compare_parts(found, whole, cut, device0, device1):
    """As many layers as fit are on device0 and the others on device1: `found` is a list of [shape, device]."""
    need(found, "PyTorch sees no parameters in the model. Are the parts attributes, such as self.part0 = ...?")
    elsewhere = [device for _, device in found if device not in (device0, device1)]
    need(not elsewhere, f"there are parameters on {', '.join(elsewhere[:1])}, which is neither device0 nor device1.")
    # A real GPU under two names says nothing about the cut.
    there = layers_with(whole, sum(device == device0 for _, device in found))
    room = layers_with(whole, len(tensors_of(whole[:cut])))
    if device0 != device1:
        layers = f"{there} layer{'' if there == 1 else 's'} with parameters"
        need(there == room, f"{layers} on device0, and {room} fit there.")
    left = list(found)
    for index, tensors in enumerate(new_tensors(whole)):
        wanted = device0 if index < cut else device1
        for tensor in ([list(t.shape), wanted] for t in tensors):
            need(tensor in left, f"layer {index} ({type(whole[index]).__name__}) is not on {wanted}, or not there.")
            left.remove(tensor)
    need(not left, f"the model has {len(left)} parameters that the stack does not have.")


def layers_with(whole, tensors):
    """Of how many layers with parameters the first so many tensors are."""
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


@ex5.fact("device0 gets as many layers as fit at the peak of a step with Adam, and the model trains like the whole")
def _(student):
    compare_fit(student, SIX, 2 * ONE + ONE // 2, 4, *student.devices)


@ex5.fact("with more room device0 gets more layers, and with the devices swapped the same holds")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            compare_fit(student, SIX, 4 * ONE + ONE // 2, 8, device0, device1)


@ex5.fact("a device may be filled to the last byte, and numbers may have eight bytes")
def _(student):
    compare_fit(student, SIX, 2 * ONE, 4, *student.devices)
    compare_fit(student, SIX, 2 * ONE - 4, 2, *student.devices)
    compare_fit(student, SIX, 2 * ONE, 2, *student.devices, dtype=torch.float64)


@ex5.fact("buffers do not count, as in exercise 3")
def _(student):
    norm = 5 * 4 * (128 + 128)  # bytes of a BatchNorm1d(128) at the peak, without its buffers
    compare_fit(student, [LINEAR, ["BatchNorm1d", 128], LINEAR, ["Tanh"]], ONE + norm, 2, *student.devices)


@ex5.fact("it holds where all layers fit, and where not even the first does")
def _(student):
    compare_fit(student, SIX[:3], 2 * ONE + ONE // 2, 3, *student.devices)
    compare_fit(student, SIX[:3], ONE // 2, 0, *student.devices)


@ex5.fact("a frozen parameter counts once: it has no gradient, and Adam keeps nothing for it")
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
