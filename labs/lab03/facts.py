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
        "A step has six parts: forward pass, loss, zeroing the gradients, backward pass, clipping and update. In which "
        "order do they run?",
        "The target must be on output.device.",
        "The norm covers all gradients together, as if they were one long vector. The gradients are on several "
        "devices, but an operator needs all its operands on one device.",
        "Add up the squares as Python numbers, which have no device, and skip parameters whose grad is None. "
        "Alternatively, look for clip_grad in torch.nn.utils.",
    ],
    likely={
        "Expected all tensors": "Leave the model's stages on their devices, and move the target to output.device. "
        "Before you combine norms from several devices, convert them to Python numbers or move them to one device.",
        "inplace operation": "Call step() after backward(). The backward pass needs the weights that the forward pass "
        "used.",
        "'NoneType' object": "The gradient of a frozen parameter is None. Skip such parameters.",
    },
)

STACK = [["Linear", 6, 8], ["Tanh"], ["Linear", 8, 5], ["Tanh"], ["Linear", 5, 3]]
NORM = 1.2  # some gradients of the steps below are longer, and some shorter


def take_steps(lab, places, x_on, y_on, kind, seed, xs, ys, max_norm, frozen, turned):
    """A few steps of train_step on a stack whose linear layers are on `places`; it has old gradients before.

    Turned: the stages are registered in the other order than they run in.
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
    "keep old": "The new gradients are added to the old ones. Zero the gradients of every optimizer before backward().",
    "zero at the end": "The gradients of the first step are added to gradients from before the first call. Zero "
    "all gradients before backward().",
    "no update": "The parameters never change. Call zero_grad() before backward() and step() after it.",
    "clear the first": "Only the first optimizer zeroes its gradients. Call zero_grad() on every optimizer.",
    "update the first": "Only the first optimizer updates its parameters. Call step() on every optimizer.",
    "update the last": "Only the last optimizer updates its parameters. Call step() on every optimizer.",
    "each number": "Each gradient value is clipped by itself, but max_norm limits the norm of all gradients together.",
    "no clip": "The gradients are not clipped before step(). Scale them between backward() and step().",
    "scale always": "Gradients are scaled up when their norm is below max_norm. Leave such gradients unchanged.",
    "each alone": "Each optimizer's gradients are clipped by their own norm. Use the norm of all gradients together.",
}


def compare_steps(student, places, x_on, y_on, kind="MSELoss", seed=1, max_norm=NORM, frozen=False, turned=False):
    """A few steps on the student's side and on one device."""
    xs = numbers(4, 16, 6, seed=seed)
    ys = numbers(4, 16, 3, seed=seed + 50) if kind == "MSELoss" else whole_numbers(3, 4, 16, seed=seed)
    special = " (the first stage is frozen)" if frozen else ""
    special += " (registered in the reverse order)" if turned else ""
    with case(f"With {kind}, stages on {', '.join(places)}{special}, x on {x_on}, y on {y_on} and max_norm={max_norm}"):
        run = student.run(take_steps, places, x_on, y_on, kind, seed, xs, ys, max_norm, frozen, turned)
        need(
            run["kind"] == "two",
            f"train_step returned {run['kind']}. Return exactly two values: the loss and the norm.",
        )
        losses, norms = run["losses"], run["norms"]
        wrong = [number for number in (*losses, *norms) if not isinstance(number, float)]
        need(
            not wrong,
            f"One of the values that train_step returned is {wrong[0] if wrong else ''}. Return two Python floats: use "
            "tensor.item().",
        )
        need(run["met"], "loss_fn was never called.")
        for output, target in run["met"]:
            need(
                output == target == places[-1],
                f"The loss was computed on {output}, but the model's output is on {places[-1]}. Move the target to the "
                "output's device.",
            )
        need(
            run["devices"] == [place for place in places for _ in range(2)],
            f"train_step moved the model. Its parameters are now on {', '.join(run['devices'])}.",
        )
        asked = kind, seed, xs, ys, max_norm, frozen, turned
        before, after, lengths, values = expected_steps(*asked)
        found = f"The losses are {listed(losses)}, but on one device they are {listed(before)}. "
        need(
            not same(losses, after),
            found + "Your losses were computed after the update. Return the loss from before the update.",
        )
        need(
            same(losses[:1], before[:1]),
            found + "The first loss differs before any update. Is it loss_fn(output, target) for this batch?",
        )
        for slip, words in SLIPS.items():
            mistaken = expected_steps(*asked, slip)[0]
            need(same(mistaken, before) or not same(losses, mistaken), found + words)
        need(
            same(losses, before),
            found
            + "The first loss is right, so the update is wrong. Do zero_grad, backward, clipping and step run in this "
            "order?",
        )
        told = f"The losses are right. Your norms are {listed(norms)}, but the right norms are {listed(lengths)}. "
        added = expected_steps(*asked, "norms added")[2]
        need(same(norms, lengths), told + why_norms(norms, lengths, added, max_norm))
        need(
            all_same(run["values"], values),
            "The losses and norms are right, but the parameters after four steps are wrong.",
        )


def why_norms(norms, lengths, added, max_norm) -> str:
    """The mistake that gives `norms` where `lengths` are right: `added` are sums of the norms of all gradients."""
    if same(norms, added):
        return "Your norms are sums of the gradients' norms. Add up the squares, then take the square root."
    if same(norms, [min(length, max_norm) for length in lengths]):
        return "You return the norms after clipping. Return the norms before clipping."
    if same(norms[1:], lengths[:-1]):
        return "You return the norms of the previous step. Compute the norm after backward()."
    if all(mine < length for mine, length in zip(norms, lengths, strict=True)):
        return "Your norms are too small. Include the gradients on all devices."
    return "Compute the norm of all parameters' gradients after backward() and before clipping."


@ex1.fact("with a norm below max_norm, the loss, norm and update equal those of the model on one device")
def _(student):
    device0, device1 = student.devices
    compare_steps(student, [device0, device1, device1], "cpu", device1, max_norm=100.0)


@ex1.fact("gradients are clipped by the total norm of all gradients on all devices")
def _(student):
    device0, device1 = student.devices
    for max_norm in (0.2, NORM):
        compare_steps(student, [device0, device1, device1], "cpu", device1, max_norm=max_norm)


@ex1.fact("the target may be on the CPU or on the other device, and the model may end on device0")
def _(student):
    device0, device1 = student.devices
    compare_steps(student, [device0, device1, device1], "cpu", "cpu", seed=2)
    compare_steps(student, [device0, device1, device1], device1, device0, seed=3)
    compare_steps(student, [device1, device0, device0], "cpu", "cpu", seed=4)


@ex1.fact("train_step works with a frozen stage, whose parameters have no gradients")
def _(student):
    device0, device1 = student.devices
    compare_steps(student, [device1, device0, device1], "cpu", device0, seed=7, max_norm=0.5, frozen=True)


# --- ex2: a classifier that fits ------------------------------------------------------------------------------

ex2 = lab.exercise(
    "ex2",
    star=True,
    title="A classifier that fits, whatever is in front of it",
    hints=[
        "To see the shape of the output of `features`, run `features` on one image.",
        "The image may be all zeros. Its shape is (1, 3, image_size, image_size), and it must be on the device of "
        "`features`.",
        "BatchNorm updates its running statistics in training mode. In which mode do the statistics stay the same? "
        "Which mode must `features` be in afterwards?",
        "tensor.numel() returns the number of elements. For the output of *one* image, that is the input size of the "
        "linear layer.",
        "flatten(1) flattens all dimensions except the batch. Then move the result, and classify it.",
    ],
    likely={
        "shapes cannot be multiplied": "Flatten the features of each image. The linear layer's input size is the "
        "number of values that `features` returns for one image.",
        "more than 1 value per channel": "In training mode, BatchNorm may refuse a single image. Run `features` in "
        "evaluation mode, then restore training mode.",
    },
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
        f"With batch size {batch}, images of {image_size} x {image_size}, "
        f"features that apply MaxPool2d {'once' if pools == 1 else f'{pools} times'} and return "
        f"{size} numbers per image, {classes} classes, device0={device0} and device1={device1}"
    ):
        run = student.run(run_cnn, stack, state, image_size, classes, device0, device1, seed, x)
        need(run["kind"] == "model", f"SplitCNN(...) returned {run['kind']}. SplitCNN must be a subclass of nn.Module.")
        need("wrong output" not in run, f"forward returned {run.get('wrong output')}. Return the output tensor.")
        shape = list(run["output"].shape)
        why = "Use the `classes` argument." if shape[:1] == [batch] else "Flatten each image by itself with flatten(1)."
        need(shape == [batch, classes], f"The output has shape {shape}, not {[batch, classes]}. {why}")
        need(run["output device"] == device1, f"The output is on {run['output device']}. Leave it on device1.")
        wanted = [[list(p.shape), device0 if n < 1 else device1] for n, part in enumerate((whole[:-2], whole[-1]))
                  for p in part.parameters()]  # fmt: skip
        need(
            run["in training"],
            "A layer of the new model is in evaluation mode. This mode lasts until you call train().",
        )
        lost, kept = (all_same(run["buffers"], [b.numpy() for b in one.buffers()]) for one in (fresh, given))
        need(
            kept or not lost,
            "The running statistics of `features` have their initial values. Run `features` in evaluation mode, and do "
            "not reset the statistics.",
        )
        need(
            kept,
            "The running statistics of `features` have changed. In evaluation mode, BatchNorm does not update them.",
        )
        left = list(run["parameters"])
        for parameter in wanted:
            need(
                parameter in left,
                f"The model needs a parameter of shape {parameter[0]} on {parameter[1]}. "
                + (f"It has {', '.join(f'{shape} on {device}' for shape, device in run['parameters'])}."
                   if run["parameters"] else "It has none. nn.Module does not register layers in a plain list."),
            )  # fmt: skip
            left.remove(parameter)
        need(
            not left,
            f"The model has {len(left)} parameter{'s' * (len(left) != 1)} besides those of `features` and one linear "
            "layer.",
        )
        expected = forward_and_backward(whole, x)
        need(same(run["output"], expected["output"]), "The output differs from that of the same layers on one device.")
        missing = sum(gradient is None for gradient in run["gradients"])
        need(
            not missing,
            f"After backward(), the gradient is None for {missing} of the parameters. Does no_grad() or detach() in "
            "forward cut the autograd graph?",
        )
        right = all(any(same(mine, theirs) for theirs in expected["gradients"]) for mine in run["gradients"])
        need(right, "The gradients differ from those of the same layers on one device.")


POOLED_ONCE = [["Conv2d", 3, 4, 3, 1, 1], ["ReLU"], ["MaxPool2d", 2]]
POOLED_TWICE = [*POOLED_ONCE, ["Conv2d", 4, 6, 5], ["ReLU"], ["MaxPool2d", 2]]
NORMALISED = [["Conv2d", 3, 4, 3], ["BatchNorm2d", 4], ["ReLU"], ["MaxPool2d", 2]]


@ex2.fact("the classifier fits images of 64 x 64 and 32 x 32, with features that pool once")
def _(student):
    compare_cnn(student, POOLED_ONCE, 64, *student.devices)
    compare_cnn(student, POOLED_ONCE, 32, *student.devices, classes=7)


@ex2.fact("the classifier fits features that pool twice, and it works with the devices swapped")
def _(student):
    compare_cnn(student, POOLED_TWICE, 32, *student.devices[::-1], batch=5, seed=2)


@ex2.fact("`features` stays in training mode and keeps its running statistics")
def _(student):
    compare_cnn(student, NORMALISED, 20, *student.devices, seed=3)


# --- ex3: one optimizer for each device -----------------------------------------------------------------------

ex3 = lab.exercise(
    "ex3",
    points=2,
    title="One optimizer for each device",
    hints=[
        "Each parameter has a device. Group the parameters by device.",
        "You do not know how many devices there are. Which line of your code assumes that there are two?",
        "model.parameters() returns a generator, which you can go through only once. Call it again, or make a list.",
        "Make a dict that maps each device to a list of its parameters. Use each list for one torch.optim.Adam.",
    ],
    likely={
        "empty parameter list": "Do you go through the same model.parameters() twice? It is a generator, so it is "
        "empty the second time.",
    },
)


def use_optimizers(lab, places, shared, frozen, torn, lr, seed, steps):
    """make_optimizers on linear layers that are on `places`, then some steps with gradients given.

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
        "names": [
            [names.get(id(p), "a tensor that is not a parameter of the model") for p in group] for group in groups
        ],
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
    special = " (the first is frozen)" if frozen else f" (the last one's bias is on {places[0]})" if torn else ""
    with case(f"With a model whose layers are on {', '.join(places)}{special}"):
        run = student.run(use_optimizers, places, shared, frozen, torn, lr, seed, steps)
        need(run["kind"] == "list", f"make_optimizers returned {run['kind']}. Return a list of optimizers.")
        others = set(run["kinds"]) - {"Adam"}
        need(not others, f"The list contains {', '.join(sorted(others))}. Use only torch.optim.Adam.")
        held = [name for group in run["names"] for name in group]
        missing = [f"{name} (on {place})" for name, place in run["places"].items() if name not in held]
        need(not missing, f"No optimizer has {', '.join(missing)}. Go through all of model.parameters().")
        twice = sorted({name for name in held if held.count(name) > 1})
        need(
            not twice,
            f"Each step would update {', '.join(twice)} more than once. Put each parameter into one optimizer, once.",
        )
        mixed = [devices for devices in run["devices"] if len(devices) > 1]
        need(
            not mixed,
            f"One optimizer has parameters on {' and on '.join(mixed[0]) if mixed else ''}. Group the parameters by "
            "each parameter's own device, and make one optimizer for each device.",
        )
        wanted = sorted(set(run["places"].values()))
        need(
            len(run["devices"]) == len(wanted),
            f"The list has {len(run['devices'])} optimizers. Make one for each device: {', '.join(wanted)}.",
        )
        need(
            all(rate == lr for rate in run["rates"]),
            f"lr is {lr}, but the optimizers' learning rates are {run['rates']}. Pass lr to each optimizer.",
        )
        need(
            all_same(run["values"], expected_after_steps(places, shared, frozen, lr, seed, steps)),
            f"After {steps} steps, the parameters differ from those of a model with a single optimizer.",
        )


@ex3.fact("each parameter is in exactly one optimizer, each optimizer has one device, and the updates are right")
def _(student):
    device0, device1 = student.devices
    compare_optimizers(student, [device0, device1])


@ex3.fact("the CPU counts as a device")
def _(student):
    device0, device1 = student.devices
    compare_optimizers(student, ["cpu", device1, device0], lr=0.003, seed=4)


@ex3.fact("make_optimizers works if the layers on one device are not next to each other")
def _(student):
    device0, device1 = student.devices
    compare_optimizers(student, [device0, device1, device1, device0], lr=0.002, seed=2)


@ex3.fact("frozen parameters are also in an optimizer")
def _(student):
    device0, device1 = student.devices
    compare_optimizers(student, [device0, device1, device0], frozen=True, seed=6)


@ex3.fact("make_optimizers works for a module with parameters on two devices")
def _(student):
    compare_optimizers(student, student.devices, torn=True, seed=7)


# --- ex4: two branches at the same time -----------------------------------------------------------------------

ex4 = lab.exercise(
    "ex4",
    points=3,
    title="Two branches that work at the same time",
    hints=[
        "In the timeline, when is the batch copied to device1, and what does that copy wait for?",
        "A copy between GPUs waits for all work launched on both GPUs before it. All work launched on either GPU after "
        "the copy waits for it. Where in forward does such a copy cause no delay?",
        "The host launches a branch and continues, unless a line needs a value from a device. Launch both branches "
        "before you use a result.",
        "torch.cat([a, b], dim=1) needs both tensors on the device of head.",
    ],
    likely={
        "shapes cannot be multiplied": "Pass the batch itself to each branch.",
        "Sizes of tensors must match": "Join along the feature dimension, not the batch dimension: use torch.cat(..., "
        "dim=1).",
    },
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
    """The share of the shorter branch's work that is done while the other device works too. Simulated devices only.

    And the order of the launches: "0" and "1" are products, "h" is a copy to the host, "c" one from device0 to device1
    and "b" one back.
    """
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
    launched = sorted([e for e in timeline.events if e.launched is not None], key=lambda e: e.launched or 0.0)
    products, copies = {device0: "0", device1: "1"}, {device0: "c", device1: "b"}
    order = ["h" if e.kind == "d2h" else (products if e.flops else copies)[e.device]
             for e in launched if e.flops or e.kind in ("d2h", "d2d")]  # fmt: skip
    share = both / least if least else 0.0
    return {"watched": True, "share": share, "output": array(output), "flops": flops, "order": "".join(order)}


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
        need(
            "wrong output" not in run,
            f"The model returned {run.get('wrong output')}. Return the output tensor from forward.",
        )
        left = list(run["places"])
        for name, part, wanted in (("branch0", whole.branch0, device0), ("branch1", whole.branch1, device1),
                                   ("head", whole.head, device0)):  # fmt: skip
            for parameter in part.parameters():
                need(
                    [list(parameter.shape), wanted] in left,
                    f"The model has no {name} on {wanted}. Make it an attribute of the model, and move it there.",
                )
                left.remove([list(parameter.shape), wanted])
        need(
            run["output device"] == device0,
            f"The output is on {run['output device']}. Leave it on device0 ({device0}).",
        )
        expected = forward_and_backward(whole, x)
        need(
            same(run["output"], expected["output"]),
            "The output differs from that on one device. Does each branch get the batch itself, and does branch0's "
            "output come first in torch.cat?",
        )
        missing = run["gradient devices"].count(None)
        need(
            not missing,
            f"After backward(), the gradient is None for {missing} of 10 parameters. Does detach() or no_grad() cut "
            "the autograd graph?",
        )
        right = all(any(same(mine, theirs) for theirs in expected["gradients"]) for mine in run["gradients"])
        need(right, "The gradients differ from those on one device.")


@ex4.fact("the output and the gradients on two devices equal those on one device")
def _(student):
    compare_branches(student, *student.devices)
    compare_branches(student, *student.devices[::-1])


def why_no_overlap(order) -> str:
    """What lies between the launches of the two branches: for the letters see `watch_branches`."""
    first, second = sorted((order.find("0"), order.find("1")))
    if first < 0:
        return "One device runs neither branch."
    between = order[first:second]
    if "h" in between:
        return (
            "Before the second branch is launched, a value is copied to the CPU (.cpu(), item(), print), and the host "
            "waits for that copy."
        )
    if "c" in between:
        return (
            "The batch is copied to device1 after branch0 is launched, so the copy waits for branch0. Copy the batch "
            "before you launch branch0."
        )
    if "b" in between:
        return (
            "The output of branch1 is copied to device0 before branch0 is launched, so branch0 waits for that copy. "
            "Launch both branches first."
        )
    return (
        "Before the second branch is launched, the host waits for a device, for example in synchronize(). Launch both "
        "branches first."
    )


def need_overlap(student, device0, device1):
    with case(f"With device0={device0}, device1={device1} and a batch that is already on {device0}"):
        run = student.run(watch_branches, device0, device1)
        if not run["watched"]:
            return
        need(
            run["share"] > 0.1,
            f"On the simulated clock, the devices hardly ever work at the same time. {why_no_overlap(run['order'])}",
        )
        output, flops = wide_branches()
        need(same(run["output"], output), "The output differs from that on one device.")
        need(
            run["flops"] <= MOST_WORK * flops,
            f"The devices do {run['flops'] / flops:.2f} times the work of the three modules. Run each module once.",
        )


@ex4.fact("the two devices work at the same time (checked on simulated devices only)")
def _(student):
    need_overlap(student, *student.devices)


# --- ex5: the whole loop --------------------------------------------------------------------------------------

ex5 = lab.exercise(
    "ex5",
    points=3,
    title="Train any chain of stages, from raw data to losses",
    hints=[
        "Before the loop, move each part and make the optimizer. The optimizer keeps momentum from step to step. What "
        "is lost if you make the optimizer in the loop?",
        "In the loop, preprocess the batch on the CPU. Then go through parts and devices together: zip(parts, places).",
        "Move the target to output.device. The rest is as in exercise 1 without clipping: loss, zero_grad, backward "
        "and step.",
        "One optimizer takes a list of all parameters. A comprehension with two `for` clauses collects them.",
    ],
    likely={
        "must have the same dtype": "raw contains integers. Pass preprocess(raw) to the first part.",
        "The size of tensor a": "Does each batch go through all parts, however many there are?",
    },
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
    "no zero_grad": "The new gradients are added to the old ones. Zero the gradients in each step.",
    "no momentum": "The updates have no momentum. Pass momentum=0.9, and make the optimizer once, before the loop.",
    "last part only": "Only the last part is trained. Is the autograd graph cut between parts? Are the other parts in "
    "an optimizer?",
    "no update": "No part is updated. Call step() after backward() in each step.",
    "first part only": "Only the first part is trained. Are the other parts in an optimizer?",
    "lr of the notebook": f"Your losses are those with lr={RATE}. Use the lr argument of train.",
    "default lr": "Your losses are those with lr=0.001, the default of SGD. Use the lr argument of train.",
}


def compare_train(student, stacks, places, kind="MSELoss", *, seed=1, steps=4, batch=12, lr=RATE):
    features = stacks[0][0][1]
    outputs = next(sizes[1] for name, *sizes in reversed(stacks[-1]) if name == "Linear")
    raws = whole_numbers(256, steps, batch, features, seed=seed).astype(np.uint8)
    if kind == "MSELoss":
        ys = numbers(steps, batch, outputs, seed=seed)
    else:
        ys = whole_numbers(outputs, steps, batch, seed=seed)
    with case(f"With {len(stacks)} parts on {', '.join(places)}, {kind}, {steps} batches and lr={lr}"):
        run = student.run(run_train, stacks, places, kind, seed, raws, ys, lr)
        need(run["kind"] == "list", f"train returned {run['kind']}. Return a list with the loss of each batch.")
        losses = run["losses"]
        need(
            len(losses) == steps,
            f"train returned {len(losses)} loss{'es' * (len(losses) != 1)}. Return one loss for each batch.",
        )
        wrong = [loss for loss in losses if not isinstance(loss, float)]
        need(not wrong, f"The list contains {wrong[0] if wrong else ''}. Return Python floats: use loss.item().")
        on = run["preprocessed on"]
        elsewhere = sorted(set(on) - {"cpu"})
        need(
            not elsewhere,
            f"preprocess got a batch on {' and '.join(elsewhere)}. Call it on the CPU, then move its result.",
        )
        need(
            len(on) == steps, f"preprocess was called {len(on)} times for {steps} batches. Call it once for each batch."
        )
        for number, (found, place) in enumerate(zip(run["places"], places, strict=True)):
            need(
                found == [place],
                f"Part {number} is on {' and '.join(found)}, not on {place}. Move and train the given parts, not "
                "copies.",
            )
        expected, values = expected_train(stacks, kind, seed, raws, ys, lr)
        told = f"The losses are {listed(losses)}, but on one device they are {listed(expected)}. "
        if not same(losses, expected):
            for mistake, words in MISTAKES.items():
                mistaken, _ = expected_train(stacks, kind, seed, raws, ys, lr, change=mistake)
                need(not same(losses, mistaken), told + words)
        need(
            same(losses[:1], expected[:1]),
            told + "The first loss differs before any update. Does each batch go through all parts in order?",
        )
        need(
            same(losses, expected),
            told + "The first loss is right, so the update is wrong. Check zero_grad, backward and step.",
        )
        for number, (mine, theirs) in enumerate(zip(run["values"], values, strict=True)):
            need(
                all_same(mine, theirs),
                f"The losses are right, but the parameters of part {number} are wrong after the last step.",
            )


TWO_PARTS = [[["Linear", 6, 8], ["Tanh"]], [["Linear", 8, 3]]]
THREE_PARTS = [[["Linear", 6, 10], ["Tanh"]], [["Linear", 10, 8], ["ReLU"], ["Linear", 8, 7]], [["Linear", 7, 4]]]


@ex5.fact("two parts on two devices have the same loss in each step as on one device")
def _(student):
    device0, device1 = student.devices
    compare_train(student, TWO_PARTS, [device0, device1])


@ex5.fact("three parts on device1, device0 and device1 again have the same losses as on one device")
def _(student):
    device0, device1 = student.devices
    compare_train(student, THREE_PARTS, [device1, device0, device1], seed=2, lr=0.05)
