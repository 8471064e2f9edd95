"""Lab 03's visible facts: what `check("ex1")` tells the learner, and the first part of the grade.

Losses and parameters are compared with those of the same layers on one device, trained here.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from torch import nn

from utils.exercises.facts import Lab, case, need
from utils.exercises.facts.probes import build, fill, forward_and_backward

lab = Lab("lab03", "Train across devices")

CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}  # a real GPU adds up in another order than a CPU


def same(mine, theirs) -> bool:
    mine, theirs = np.asarray(mine), np.asarray(theirs)
    return mine.shape == theirs.shape and np.allclose(mine, theirs, **CLOSE)


def all_same(mine, theirs) -> bool:
    return len(mine) == len(theirs) and all(map(same, mine, theirs))


def listed(numbers) -> str:
    return "[" + ", ".join(f"{number:.4f}" for number in numbers) + "]"


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).numpy()


def whole_numbers(below, *shape, seed=0):
    return torch.randint(below, shape, generator=torch.Generator().manual_seed(seed)).numpy()


def values_of(model) -> list:
    return [p.detach().numpy() for p in model.parameters()]


# --- ex1: one step of training --------------------------------------------------------------------------------

ex1 = lab.exercise(
    "ex1",
    points=2,
    title="One step of training, with the gradients clipped",
    hints=[
        "Six things happen in a step: forward, loss, zero the gradients, backward, clip, update. In which order?",
        "The norm is that of all gradients together, as if they were one long list of numbers. "
        "They are on several devices, and an operator wants its operands in one place.",
        "The square of a total norm is the sum of the squares. A sum of Python numbers has no device. "
        "PyTorch also has a function for this: look for clip_grad in torch.nn.utils.",
        "A parameter that is frozen has no gradient: its grad is None.",
    ],
)

STACK = [["Linear", 6, 8], ["Tanh"], ["Linear", 8, 5], ["Tanh"], ["Linear", 5, 3]]
NORM = 1.2  # some gradients of the steps below are longer, and some shorter


def take_steps(lab, places, x_on, y_on, kind, seed, xs, ys, max_norm, frozen, turned):
    """A few steps of train_step on a stack whose linear layers are on `places`; old gradients lie in it before.

    Turned: the parts are registered in the other order than they run in.
    """
    import torch
    from torch import nn

    from utils.exercises.facts.probes import array, build, fill, kind_of
    from utils.exercises.ledger import adding_to

    order = -1 if turned else 1

    class Parts(nn.Module):
        def __init__(self):
            super().__init__()
            stack = build([["Linear", 6, 8], ["Tanh"], ["Linear", 8, 5], ["Tanh"], ["Linear", 5, 3]])
            parts = [stack[:2], stack[2:4], stack[4:]]
            for part, place in zip(parts, places, strict=True):
                part.to(place)
            self.parts = nn.ModuleList(parts[::order])

        def forward(self, x):
            for part, place in zip(self.parts[::order], places, strict=True):
                x = part(x.to(place))
            return x

    met = []
    note = adding_to(met)

    class Loss(getattr(nn, kind)):
        def forward(self, input, target):
            note([str(input.device), str(target.device)])
            return super().forward(input, target)

    model = Parts()
    fill(model, seed)
    if frozen:
        model.parts[::order][0].requires_grad_(False)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.grad = torch.full_like(parameter, 0.5)
    optimizers = [torch.optim.SGD(part.parameters(), lr=0.1, momentum=0.9) for part in model.parts]
    losses, norms = [], []
    for x, y in zip(torch.from_numpy(xs).to(x_on), torch.from_numpy(ys).to(y_on), strict=True):
        found = lab.train_step(model, optimizers, Loss(), x, y, max_norm)
        if not isinstance(found, (list, tuple)) or len(found) != 2:
            return {"kind": kind_of(found)}
        loss, norm = found
        losses.append(loss if isinstance(loss, float) else kind_of(loss))
        norms.append(norm if isinstance(norm, float) else kind_of(norm))
    return {
        "kind": "two",
        "losses": losses,
        "norms": norms,
        "met": met,
        "values": [array(p) for p in model.parts[::order].parameters()],
        "devices": [str(p.device) for p in model.parts[::order].parameters()],
    }


def expected_steps(kind, seed, xs, ys, max_norm, frozen, turned=False, change=""):
    """(losses, losses after each update, norms, parameters) of the same steps on one device, or with a mistake."""
    model = build(STACK)
    fill(model, seed)
    if frozen:
        model[0].requires_grad_(False)
    loss_fn = getattr(nn, kind)()
    trained = [p for p in model.parameters() if p.requires_grad]
    parts = [model[:2], model[2:4], model[4:]][:: -1 if turned else 1]
    optimizers = [torch.optim.SGD(part.parameters(), lr=0.1, momentum=0.9) for part in parts]
    cleared = {"clear the first": optimizers[:1], "keep old": [], "zero at the end": []}.get(change, optimizers)
    stepping = {"update the first": optimizers[:1], "update the last": optimizers[-1:], "no update": []}
    for parameter in trained:
        parameter.grad = torch.full_like(parameter, 0.5)
    before, after, norms = [], [], []
    for x, y in zip(torch.from_numpy(xs), torch.from_numpy(ys), strict=True):
        loss = loss_fn(model(x), y)
        for optimizer in cleared:
            optimizer.zero_grad()
        loss.backward()
        added = sum(p.grad.norm().item() for p in trained)
        if change == "each number":
            nn.utils.clip_grad_value_(trained, max_norm)
        limits = [(list(layer.parameters()), max_norm) for layer in model] if change == "each alone" else []
        unlimited = change in ("no clip", "scale always", "each number")
        for group, limit in limits or [(trained, 1e9 if unlimited else max_norm)]:
            norms.append(nn.utils.clip_grad_norm_(group, limit).item())
        if change == "norms added":
            norms[-1] = added
        if change == "scale always":
            for parameter in trained:
                parameter.grad *= max_norm / norms[-1]
        for optimizer in stepping.get(change, optimizers):
            optimizer.step()
        if change == "zero at the end":
            for optimizer in optimizers:
                optimizer.zero_grad()
        before.append(loss.item())
        after.append(loss_fn(model(x), y).item())
    return before, after, norms, values_of(model)


SLIPS = {
    "keep old": "Old gradients were added to the new ones.",
    "zero at the end": "In the first step gradients from before it were added. When do you zero them?",
    "no update": "The model is never updated: what does optimizer.step() find to work with?",
    "clear the first": "Only the first optimizer has cleared its gradients. To the others old ones were added.",
    "update the first": "Only the first optimizer made its steps.",
    "update the last": "Only the last optimizer made its steps.",
    "each number": "They are what comes out when each number is limited. max_norm limits the norm of all.",
    "no clip": "They are what comes out when nothing is clipped before step().",
    "scale always": "They are what comes out when gradients that are short enough are made longer.",
    "each alone": "They are what comes out when each device's gradients are clipped by their own norm.",
}


def compare_steps(student, places, x_on, y_on, kind="MSELoss", seed=1, max_norm=NORM, frozen=False, turned=False):
    """A few steps on the student's side and on one device."""
    xs = numbers(4, 16, 6, seed=seed)
    ys = numbers(4, 16, 3, seed=seed + 50) if kind == "MSELoss" else whole_numbers(3, 4, 16, seed=seed)
    special = ", the first part frozen" if frozen else ""
    special += ", which are not registered in the order in which they run" if turned else ""
    with case(
        f"With {kind}, a model in three parts on {', '.join(places)}{special}, x on {x_on}, y on {y_on}, "
        f"max_norm={max_norm}"
    ):
        run = student.run(take_steps, places, x_on, y_on, kind, seed, xs, ys, max_norm, frozen, turned)
        need(run["kind"] == "two", f"train_step returned {run['kind']}. Return the loss and the norm.")
        losses, norms = run["losses"], run["norms"]
        wrong = [number for number in (*losses, *norms) if not isinstance(number, float)]
        need(not wrong, f"train_step returned {wrong[0] if wrong else ''}. Two Python floats are wanted.")
        need(run["met"], "loss_fn was never called.")
        for output, target in run["met"]:
            need(
                output == target == places[-1],
                f"the loss was computed on {output}, and the model's output is on {places[-1]}.",
            )
        need(
            run["devices"] == [place for place in places for _ in range(2)],
            "the parameters are not where they were before train_step: now on " + ", ".join(run["devices"]) + ".",
        )
        asked = kind, seed, xs, ys, max_norm, frozen, turned
        before, after, lengths, values = expected_steps(*asked)
        found = f"the losses are {listed(losses)}, and on one device {listed(before)}. "
        need(not same(losses, after), found + "Yours are those after the update.")
        need(same(losses[:1], before[:1]), found + "The very first one differs already.")
        for slip, words in SLIPS.items():
            mistaken = expected_steps(*asked, slip)[0]
            need(same(mistaken, before) or not same(losses, mistaken), found + words)
        need(
            same(losses, before),
            found + "The first is right, so what differs is the update. In which order are zero_grad, backward, clip "
            "and step?",
        )
        told = f"the losses are right. Your norms are {listed(norms)}, and right is {listed(lengths)}."
        added = expected_steps(*asked, "norms added")[2]
        need(not same(norms, added), told + " Yours are sums of the norms of the gradients. Add the squares.")
        clipped = [min(length, max_norm) for length in lengths]
        need(same(norms, lengths) or not same(norms, clipped), told + " Yours are those after clipping.")
        need(same(norms, lengths), told)
        need(all_same(run["values"], values), "the losses are right, the parameters after four steps are not.")


@ex1.fact("where the norm is below max_norm, a step gives the loss, the norm and the update of the one-device model")
def _(student):
    device0, device1 = student.devices
    compare_steps(student, [device0, device1, device1], "cpu", device1, max_norm=100.0)


@ex1.fact("gradients are clipped by the norm of all of them together, on whichever devices they are")
def _(student):
    device0, device1 = student.devices
    for max_norm in (0.2, NORM):
        compare_steps(student, [device0, device1, device1], "cpu", device1, max_norm=max_norm)


@ex1.fact("the target may come from the CPU or the other device, and the model may end on device0")
def _(student):
    device0, device1 = student.devices
    compare_steps(student, [device0, device1, device1], "cpu", "cpu", seed=2)
    compare_steps(student, [device0, device1, device1], device1, device0, seed=3)
    compare_steps(student, [device1, device0, device0], "cpu", "cpu", seed=4)


@ex1.fact("a part that is frozen has no gradients, and needs none")
def _(student):
    device0, device1 = student.devices
    compare_steps(student, [device1, device0, device1], "cpu", device0, seed=7, max_norm=0.5, frozen=True)


# --- ex2: a classifier that fits ------------------------------------------------------------------------------

ex2 = lab.exercise(
    "ex2",
    points=2,
    title="A classifier that fits, whatever is in front of it",
    hints=[
        "Only features itself knows what it makes of an image. Ask it: what shape does it give for one image?",
        "An image for asking may be all zeros: torch.zeros. Its shape begins with 1, and it has 3 channels. "
        "It has to be where features is.",
        "A batch normalisation updates its running statistics in training mode. In which mode does it leave them?",
        "tensor.numel() counts the numbers in a tensor. For *one* image that is what the linear layer gets.",
        "Flatten everything but the batch: flatten(1). Then move, then classify, in this order or another.",
    ],
)


def run_cnn(lab, stack, state, image_size, classes, device0, device1, seed, x):
    import torch
    from torch import nn

    from utils.exercises.facts.probes import array, build, fill, forward_and_backward, kind_of

    model = lab.SplitCNN(build(stack, state), image_size, classes, torch.device(device0), torch.device(device1))
    if not isinstance(model, nn.Module):
        return {"kind": kind_of(model)}
    asked = {
        "in training": all(module.training for module in model.modules()),
        "buffers": [array(buffer) for buffer in model.buffers()],
    }
    output = model(torch.from_numpy(x))  # before all that needs parameters: lazy layers have their shapes then
    if not isinstance(output, torch.Tensor):
        return {"kind": "model", "wrong output": kind_of(output)}
    fill(model, seed)
    shapes = [[list(p.shape), str(p.device)] for p in model.parameters()]
    return forward_and_backward(model, x) | {"kind": "model", "parameters": shapes} | asked


def compare_cnn(student, stack, image_size, device0, device1, *, batch=3, classes=10, seed=1):
    whole = build([*stack, ["Flatten"]])
    with torch.no_grad():
        size = whole.eval()(torch.zeros(1, 3, image_size, image_size)).shape[1]
    whole.train().append(nn.Linear(size, classes))
    fill(whole, seed)
    x = numbers(batch, 3, image_size, image_size, seed=seed)
    fresh, given = build(stack), build(stack)
    for buffer in given.buffers():  # statistics of features that have been trained
        buffer.add_(2)
    state = {name: values.numpy() for name, values in given.state_dict().items()}
    pools = sum(kind == "MaxPool2d" for kind, *_ in stack)
    with case(
        f"{batch} images of {image_size} x {image_size}, features with {pools} pooling layer(s), {classes} classes, "
        f"device0={device0}, device1={device1}"
    ):
        run = student.run(run_cnn, stack, state, image_size, classes, device0, device1, seed, x)
        need(run["kind"] == "model", f"SplitCNN gave {run['kind']}. Is it still a class, an nn.Module?")
        need("wrong output" not in run, f"forward returned {run.get('wrong output')}. Does it end with return?")
        shape = list(run["output"].shape)
        need(shape == [batch, classes], f"the output has shape {shape}, not {[batch, classes]}.")
        need(run["output device"] == device1, f"the output is on {run['output device']}, not on {device1}.")
        wanted = [[list(p.shape), device0 if n < 1 else device1] for n, part in enumerate((whole[:-2], whole[-1]))
                  for p in part.parameters()]  # fmt: skip
        need(
            run["in training"], "a part of the new model is in evaluation mode. What eval() sets, stays until train()."
        )
        lost, kept = (all_same(run["buffers"], [b.numpy() for b in one.buffers()]) for one in (fresh, given))
        need(
            kept or not lost,
            "the running statistics that features came with are gone: they are those of a new layer. In which mode "
            "does a layer leave them alone?",
        )
        need(kept, "asking has moved the running statistics. In which mode does a layer leave them alone?")
        left = list(run["parameters"])
        for parameter in wanted:
            need(
                parameter in left,
                f"a parameter of shape {parameter[0]} should be on {parameter[1]}. There is: "
                + ", ".join(f"{shape} on {device}" for shape, device in run["parameters"]) + ".",
            )  # fmt: skip
            left.remove(parameter)
        need(not left, f"the model has {len(left)} parameter(s) too many.")
        expected = forward_and_backward(whole, x)
        need(same(run["output"], expected["output"]), "the output differs from that of the same layers on one device.")
        missing = sum(gradient is None for gradient in run["gradients"])
        need(
            not missing,
            f"{missing} parameter(s) have no gradient after backward(). What cuts the backward pass off from them?",
        )
        right = all(any(same(mine, theirs) for theirs in expected["gradients"]) for mine in run["gradients"])
        need(right, "the gradients differ from those of the same layers on one device.")


POOLED_ONCE = [["Conv2d", 3, 4, 3, 1, 1], ["ReLU"], ["MaxPool2d", 2]]
POOLED_TWICE = [*POOLED_ONCE, ["Conv2d", 4, 6, 5], ["ReLU"], ["MaxPool2d", 2]]
NORMALISED = [["Conv2d", 3, 4, 3], ["BatchNorm2d", 4], ["ReLU"], ["MaxPool2d", 2]]


@ex2.fact("the classifier fits images of 64 x 64 and of 32 x 32, with features that pool once")
def _(student):
    compare_cnn(student, POOLED_ONCE, 64, *student.devices)
    compare_cnn(student, POOLED_ONCE, 32, *student.devices, classes=7)


@ex2.fact("it fits features that pool twice, and the devices may be swapped")
def _(student):
    compare_cnn(student, POOLED_TWICE, 32, *student.devices[::-1], batch=5, seed=2)


@ex2.fact("asking leaves features as it was: in training mode, with the running statistics that it had")
def _(student):
    compare_cnn(student, NORMALISED, 20, *student.devices, seed=3)


# --- ex3: one optimizer for each device -----------------------------------------------------------------------

ex3 = lab.exercise(
    "ex3",
    points=1,
    title="One optimizer for each device",
    hints=[
        "Each parameter knows its device. A dict from a device to a list of its parameters sorts them all.",
        "model.parameters() can be gone through only once. Call it again, or make a list, to go through it twice.",
        "How many devices come out is not known before. Which part of your code says 'two'?",
        "The dict's values are lists of parameters. Each one becomes one torch.optim.Adam, with the given lr.",
    ],
)


def use_optimizers(lab, places, shared, frozen, torn, lr, seed, steps):
    """make_optimizers on linear layers that stand on `places`, then some steps with gradients given.

    Frozen: the first layer is, and gets no gradients. Torn: the last layer's bias is where the first layer is.
    """
    import torch
    from torch import nn

    from utils.exercises.facts.probes import array, fill, kind_of

    layers = [nn.Linear(4 + n, 3 + n).to(place) for n, place in enumerate(places)]
    if torn:
        layers[-1].bias = nn.Parameter(layers[-1].bias.detach().to(places[0]))
    if shared:
        layers = [layers[0], nn.Sequential(nn.Tanh(), nn.Sequential(*layers[1:])), layers[0]]
    model = nn.Sequential(*layers)
    fill(model, seed)
    model[0].requires_grad_(not frozen)
    names = {id(p): name for name, p in model.named_parameters()}
    found = lab.make_optimizers(model, lr)
    if not isinstance(found, (list, tuple)):
        return {"kind": kind_of(found)}
    kinds = [type(each).__name__ for each in found]
    if set(kinds) - {"Adam"}:
        return {"kind": "list", "kinds": kinds}
    groups = [[p for group in each.param_groups for p in group["params"]] for each in found]
    for step in range(steps):
        for n, parameter in enumerate(model.parameters()):
            generator = torch.Generator().manual_seed(1000 * step + n)
            if parameter.requires_grad:
                parameter.grad = torch.randn(parameter.shape, generator=generator).to(parameter.device)
        for each in found:
            each.step()
    return {
        "kind": "list",
        "kinds": kinds,
        "names": [[names.get(id(p), "a tensor that is no parameter of the model") for p in group] for group in groups],
        "devices": [sorted({str(p.device) for p in group}) for group in groups],
        "rates": [group["lr"] for each in found for group in each.param_groups],
        "places": {name: str(p.device) for name, p in model.named_parameters()},
        "values": [array(p) for p in model.parameters()],
    }


def expected_after_steps(places, shared, frozen, lr, seed, steps):
    """The parameters after the same steps of one optimizer on one device."""
    layers = [nn.Linear(4 + n, 3 + n) for n in range(len(places))]
    if shared:
        layers = [layers[0], nn.Sequential(nn.Tanh(), nn.Sequential(*layers[1:])), layers[0]]
    model = nn.Sequential(*layers)
    fill(model, seed)
    model[0].requires_grad_(not frozen)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for step in range(steps):
        for n, parameter in enumerate(model.parameters()):
            generator = torch.Generator().manual_seed(1000 * step + n)
            if parameter.requires_grad:
                parameter.grad = torch.randn(parameter.shape, generator=generator)
        optimizer.step()
    return values_of(model)


def compare_optimizers(student, places, *, shared=False, frozen=False, torn=False, lr=0.01, seed=1, steps=3):
    special = ", the first one frozen" if frozen else f", the last one's bias on {places[0]}" if torn else ""
    with case(f"A model with layers on {', '.join(places)}{special}"):
        run = student.run(use_optimizers, places, shared, frozen, torn, lr, seed, steps)
        need(run["kind"] == "list", f"make_optimizers returned {run['kind']}. Return a list of optimizers.")
        others = set(run["kinds"]) - {"Adam"}
        need(not others, f"in the list there is: {', '.join(sorted(others))}. Only torch.optim.Adam is wanted.")
        held = [name for group in run["names"] for name in group]
        missing = [name for name in run["places"] if name not in held]
        need(not missing, f"no optimizer has {', '.join(missing)}.")
        twice = sorted({name for name in held if held.count(name) > 1})
        need(not twice, f"{', '.join(twice)} would be updated more than once in a step.")
        mixed = [devices for devices in run["devices"] if len(devices) > 1]
        need(not mixed, f"one optimizer has parameters on {' and on '.join(mixed[0]) if mixed else ''}.")
        wanted = sorted(set(run["places"].values()))
        need(
            len(run["devices"]) == len(wanted),
            f"there are {len(run['devices'])} optimizers for {len(wanted)} device(s): {', '.join(wanted)}.",
        )
        need(all(rate == lr for rate in run["rates"]), f"lr is {lr}, and the optimizers have {run['rates']}.")
        need(
            all_same(run["values"], expected_after_steps(places, shared, frozen, lr, seed, steps)),
            f"after {steps} steps the parameters differ from those that one optimizer for all of them gives.",
        )


@ex3.fact("every parameter is in exactly one optimizer, each has one device; steps are those of one optimizer for all")
def _(student):
    device0, device1 = student.devices
    compare_optimizers(student, [device0, device1])


@ex3.fact("the CPU counts as a device")
def _(student):
    device0, device1 = student.devices
    compare_optimizers(student, ["cpu", device1, device0], lr=0.003, seed=4)


@ex3.fact("it works when the layers of a device are not next to each other")
def _(student):
    device0, device1 = student.devices
    compare_optimizers(student, [device0, device1, device1, device0], lr=0.002, seed=2)


@ex3.fact("frozen parameters are in an optimizer, too")
def _(student):
    device0, device1 = student.devices
    compare_optimizers(student, [device0, device1, device0], frozen=True, seed=6)


@ex3.fact("it works for a module that has parameters on two devices")
def _(student):
    compare_optimizers(student, student.devices, torn=True, seed=7)


# --- ex4: two branches at the same time -----------------------------------------------------------------------

ex4 = lab.exercise(
    "ex4",
    points=2,
    title="Two branches that work at the same time",
    hints=[
        "Record it and look at the copies. When is the batch copied to device1, and what does that copy wait for?",
        "A copy from one GPU to another waits for what both have been given before, and what both are given after it "
        "waits for the copy. So where in forward does a copy between GPUs do no harm?",
        "The host launches a branch and goes on at once, unless something asks for a value or copies a result. "
        "Launch both branches before anything is done with a result.",
        "torch.cat([a, b], dim=1) joins two tensors side by side. Both have to be where head is.",
    ],
)


def run_branches(lab, device0, device1, seed, x):
    import torch

    from utils.exercises.facts.probes import build, fill, forward_and_backward, kind_of

    parts = (
        build([["Linear", 6, 9], ["Tanh"], ["Linear", 9, 4]]),
        build([["Linear", 6, 7], ["Tanh"], ["Linear", 7, 5]]),
        build([["Linear", 9, 3]]),
    )
    model = lab.Branches(*parts, torch.device(device0), torch.device(device1))
    output = model(torch.from_numpy(x)) if isinstance(model, torch.nn.Module) else model
    if not isinstance(output, torch.Tensor):
        return {"wrong output": kind_of(output)}
    fill(model, seed)
    places = [[list(p.shape), str(p.device)] for p in model.parameters()]
    return forward_and_backward(model, x) | {"places": places}


MOST_WORK = 1.05  # times what is needed: a device that is busy with something else is no branch at work


class OneDeviceBranches(nn.Module):
    """What `Branches` computes, on one device."""

    def __init__(self):
        super().__init__()
        self.branch0 = build([["Linear", 6, 9], ["Tanh"], ["Linear", 9, 4]])
        self.branch1 = build([["Linear", 6, 7], ["Tanh"], ["Linear", 7, 5]])
        self.head = build([["Linear", 9, 3]])

    def forward(self, x):
        return self.head(torch.cat([self.branch0(x), self.branch1(x)], dim=1))


def watch_branches(lab, device0, device1):
    """The share of the shorter branch's work that is done while the other device works too. Simulated devices only."""
    import torch

    from utils.exercises.facts.probes import array, build
    from utils.observe import intervals
    from utils.observe.devices import is_simulated
    from utils.observe.trace import record

    if not (is_simulated(device0) and is_simulated(device1)):
        return {"watched": False}
    # A branch has to work for longer than launching the other one takes: most of it is one large product.
    wide = [["Linear", 32, 2048], ["ReLU"], ["Linear", 2048, 2048], ["ReLU"], ["Linear", 2048, 8]]
    torch.manual_seed(4)
    parts = build(wide), build(wide), build([["Linear", 16, 2]])
    x = torch.randn(640, 32)
    model = lab.Branches(*parts, torch.device(device0), torch.device(device1))
    x = x.to(device0)
    with record(device0, device1) as timeline:
        output = model(x)
    both = intervals.length(intervals.common(timeline.busy_times(device0), timeline.busy_times(device1)))
    least = min(timeline.busy(device0), timeline.busy(device1))
    flops = sum([event.flops for event in timeline.events])
    return {"watched": True, "share": both / least if least else 0.0, "output": array(output), "flops": flops}


@cache
def wide_branches() -> tuple[np.ndarray, int]:
    """What the branches that are watched give on one device, and the operations of their products."""
    wide = [["Linear", 32, 2048], ["ReLU"], ["Linear", 2048, 2048], ["ReLU"], ["Linear", 2048, 8]]
    torch.manual_seed(4)
    branch0, branch1, head = build(wide), build(wide), build([["Linear", 16, 2]])
    x = torch.randn(640, 32)
    with torch.no_grad():
        output = head(torch.cat([branch0(x), branch1(x)], dim=1))
    return output.numpy(), sum(2 * 640 * p.numel() for part in (branch0, branch1, head) for p in part.parameters())


def compare_branches(student, device0, device1, *, batch=8, seed=1):
    x = numbers(batch, 6, seed=seed)
    whole = OneDeviceBranches()
    fill(whole, seed)
    with case(f"With device0={device0} and device1={device1}"):
        run = student.run(run_branches, device0, device1, seed, x)
        need("wrong output" not in run, f"the output is {run.get('wrong output')}. Does forward end with return?")
        left = list(run["places"])
        for name, part, wanted in (("branch0", whole.branch0, device0), ("branch1", whole.branch1, device1),
                                   ("head", whole.head, device0)):  # fmt: skip
            for parameter in part.parameters():
                need(
                    [list(parameter.shape), wanted] in left,
                    f"{name} is not on {wanted}. Are all three attributes of the model, and placed?",
                )
                left.remove([list(parameter.shape), wanted])
        need(run["output device"] == device0, f"the output is on {run['output device']}, not on {device0}.")
        expected = forward_and_backward(whole, x)
        need(
            same(run["output"], expected["output"]),
            "the numbers differ from those of the same three parts on one device. Does each branch get the batch "
            "itself, and does branch0's result come first in the join?",
        )
        missing = run["gradient devices"].count(None)
        need(not missing, f"{missing} of 10 parameters have no gradient after backward().")
        right = all(any(same(mine, theirs) for theirs in expected["gradients"]) for mine in run["gradients"])
        need(right, "the gradients differ from those of the same three parts on one device.")


@ex4.fact("on two devices the branches compute what they compute on one, forward and backward")
def _(student):
    compare_branches(student, *student.devices)
    compare_branches(student, *student.devices[::-1])


def need_overlap(student, device0, device1):
    with case(f"With device0={device0} and device1={device1}, and a batch that is on {device0} already"):
        run = student.run(watch_branches, device0, device1)
        need(
            not run["watched"] or run["share"] > 0.1,
            "on the simulated clock one branch had ended before the other began. "
            "What happens between the two launches that has to wait, for a result or for a device?",
        )
        if run["watched"]:
            output, flops = wide_branches()
            need(same(run["output"], output), "the numbers differ from those of the same three parts on one device.")
            need(
                run["flops"] <= MOST_WORK * flops,
                f"the devices do {run['flops'] / flops:.2f} times the work of the three parts.",
            )


@ex4.fact("the two devices work at the same time (watched where devices are simulated)")
def _(student):
    need_overlap(student, *student.devices)


# --- ex5: the whole loop --------------------------------------------------------------------------------------

ex5 = lab.exercise(
    "ex5",
    points=3,
    title="Train any chain of parts, from raw data to losses",
    hints=[
        "Before the loop: each part to its place, and the optimizer for the parameters of all parts. "
        "An optimizer remembers things between steps. What is lost if it is made in each step?",
        "In the loop: preprocess on the CPU, then go through the parts and their places together: zip(parts, places).",
        "The target goes to output.device. Then loss, zero_grad, backward, step, as in one step of exercise 1.",
        "An optimizer takes any list of parameters: a comprehension with two `for` collects those of several parts.",
    ],
)

RATE = 0.1


def run_train(lab, stacks, places, kind, seed, raws, ys, lr):
    import torch
    from torch import nn

    from utils.exercises.facts.probes import array, build, fill, kind_of
    from utils.exercises.ledger import adding_to

    parts = [build(stack) for stack in stacks]
    for number, part in enumerate(parts):
        fill(part, seed + number)
    seen = []
    note = adding_to(seen)

    def preprocess(raw):
        note(str(raw.device))
        return raw.float() / 100

    batches = [(torch.from_numpy(raw), torch.from_numpy(y)) for raw, y in zip(raws, ys, strict=True)]

    found = lab.train(preprocess, parts, [torch.device(place) for place in places], getattr(nn, kind)(), batches, lr)
    if not isinstance(found, (list, tuple)):
        return {"kind": kind_of(found)}
    return {
        "kind": "list",
        "losses": [loss if isinstance(loss, float) else kind_of(loss) for loss in found],
        "preprocessed on": seen,
        "places": [sorted({str(p.device) for p in part.parameters()}) for part in parts],
        "values": [[array(p) for p in part.parameters()] for part in parts],
    }


def expected_train(stacks, kind, seed, raws, ys, lr, *, change=""):
    """(losses, parameters of each part) of the same training on one device, or of a training with one mistake."""
    parts = [build(stack) for stack in stacks]
    for number, part in enumerate(parts):
        fill(part, seed + number)
    model = nn.Sequential(*parts)
    trained = {"last part only": parts[-1], "first part only": parts[0]}.get(change, model)
    lr = {"no update": 0.0, "lr of the notebook": RATE, "default lr": 1e-3}.get(change, lr)
    optimizer = torch.optim.SGD(trained.parameters(), lr=lr, momentum=0 if change == "no momentum" else 0.9)
    loss_fn, losses = getattr(nn, kind)(), []
    for raw, y in zip(raws, ys, strict=True):
        loss = loss_fn(model(torch.from_numpy(raw).float() / 100), torch.from_numpy(y))
        if change != "no zero_grad":
            optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [values_of(part) for part in parts]


MISTAKES = {
    "no zero_grad": "They are what comes out when old gradients are added to the new ones.",
    "no momentum": "They are what comes out without momentum, or with a new optimizer for each batch.",
    "last part only": "They are what comes out when only the last part is trained.",
    "no update": "They are what comes out when no part is updated.",
    "first part only": "They are what comes out when only the first part is trained.",
    "lr of the notebook": f"They are what comes out with lr={RATE}. Is that the lr that train was given?",
    "default lr": "They are what comes out with lr=0.001, which SGD takes where it is given none.",
}


def compare_train(student, stacks, places, kind="MSELoss", *, seed=1, steps=4, batch=12, lr=RATE):
    features = stacks[0][0][1]
    outputs = next(sizes[1] for name, *sizes in reversed(stacks[-1]) if name == "Linear")
    raws = whole_numbers(256, steps, batch, features, seed=seed).astype(np.uint8)
    if kind == "MSELoss":
        ys = numbers(steps, batch, outputs, seed=seed)
    else:
        ys = whole_numbers(outputs, steps, batch, seed=seed)
    with case(f"{len(stacks)} parts on {', '.join(places)}, {kind}, {steps} batches"):
        run = student.run(run_train, stacks, places, kind, seed, raws, ys, lr)
        need(run["kind"] == "list", f"train returned {run['kind']}. Return the list of the losses.")
        losses = run["losses"]
        need(len(losses) == steps, f"it returned {len(losses)} loss(es), not one for each batch.")
        wrong = [loss for loss in losses if not isinstance(loss, float)]
        need(not wrong, f"the list has {wrong[0] if wrong else ''} in it. Python floats are wanted.")
        on = run["preprocessed on"]
        need(on == ["cpu"] * steps, f"preprocess was called with batches on {on}: once for each, on the CPU, is right.")
        for number, (found, place) in enumerate(zip(run["places"], places, strict=True)):
            need(found == [place], f"part {number} is on {' and '.join(found)}, and places says {place}.")
        expected, values = expected_train(stacks, kind, seed, raws, ys, lr)
        told = f"the losses are {listed(losses)}, and on one device {listed(expected)}. "
        if not same(losses, expected):
            for mistake, words in MISTAKES.items():
                mistaken, _ = expected_train(stacks, kind, seed, raws, ys, lr, change=mistake)
                need(not same(losses, mistaken), told + words)
        need(
            same(losses[:1], expected[:1]),
            told + "The first one differs already, before any update: do all parts compute, in their order?",
        )
        need(same(losses, expected), told + "The first is right, so what differs is the update.")
        for number, (mine, theirs) in enumerate(zip(run["values"], values, strict=True)):
            need(all_same(mine, theirs), f"the losses are right, but part {number} differs after the last step.")


TWO_PARTS = [[["Linear", 6, 8], ["Tanh"]], [["Linear", 8, 3]]]
THREE_PARTS = [[["Linear", 6, 10], ["Tanh"]], [["Linear", 10, 8], ["ReLU"], ["Linear", 8, 7]], [["Linear", 7, 4]]]


@ex5.fact("two parts on two devices train as they do on one: the same losses, step by step")
def _(student):
    device0, device1 = student.devices
    compare_train(student, TWO_PARTS, [device0, device1])


@ex5.fact("three parts that go to device1, to device0 and back to device1 do, too")
def _(student):
    device0, device1 = student.devices
    compare_train(student, THREE_PARTS, [device1, device0, device1], seed=2, lr=0.05)
