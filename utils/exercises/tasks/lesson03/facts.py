"""What `check` in lesson 03 tells the learner: losses, parameters and gradients, compared with one device."""

import math
from typing import Any

import numpy as np
import torch

from utils.exercises.facts import Lab, case, need, orders_of
from utils.exercises.facts.probes import build, fill

lab = Lab("lesson03", "Train across devices")

CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}  # a real GPU adds up in another order than a CPU

step = lab.exercise(
    "train_step",
    points=0,
    title="One training step, wherever the batch is",
    hints=[
        "A step has five parts: forward pass, loss, zeroing gradients, backward pass, update. In what order?",
        "The loss takes two tensors. The output has a graph and is on the model's last device. Move the other one.",
        "The loss is a tensor with one number. Which method returns it as a Python float?",
    ],
)

STACK = [["Linear", 6, 8], ["Tanh"], ["Linear", 8, 3]]


def take_steps(lab, stack, place0, place1, x_on, y_on, together, xs, ys):
    """Three steps on a stack in two parts, with old gradients in it before."""
    import torch
    from torch import nn

    from utils.exercises.facts.probes import array, build, fill, kind_of

    class Parts(nn.Module):
        def __init__(self):
            super().__init__()
            layers = build(stack)
            self.part0, self.part1 = layers[:2].to(place0), layers[2:].to(place1)

        def forward(self, x):
            return self.part1(self.part0(x.to(place0)).to(place1))

    met = []

    class Loss(nn.MSELoss):
        def forward(self, input, target):
            met.append([str(input.device), str(target.device)])
            return super().forward(input, target)

    model = Parts()
    fill(model, 1)
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 0.5)
    held = [model] if together else [model.part0, model.part1]
    optimizers = [torch.optim.SGD(part.parameters(), lr=0.1, momentum=0.9) for part in held]
    losses = []
    for x, y in zip(torch.from_numpy(xs).to(x_on), torch.from_numpy(ys).to(y_on), strict=True):
        loss = lab.train_step(model, optimizers, Loss(), x, y)
        losses.append(loss if isinstance(loss, float) else kind_of(loss))
    return {"losses": losses, "met": met, "values": [array(p) for p in model.parameters()]}


def expected_steps(xs, ys, *, keep_old=False, zero_last=False, update=True):
    """(losses, losses after each update, parameters) of the same steps on one device, or with a mistake in them."""
    model = build(STACK)
    fill(model, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 0.5)
    before, after = [], []
    for x, y in zip(torch.from_numpy(xs), torch.from_numpy(ys), strict=True):
        loss = torch.nn.functional.mse_loss(model(x), y)
        if not keep_old and not zero_last:
            optimizer.zero_grad()
        loss.backward()
        if update:
            optimizer.step()
        if zero_last:
            optimizer.zero_grad()
        before.append(loss.item())
        after.append(torch.nn.functional.mse_loss(model(x), y).item())
    return before, after, [p.detach().numpy() for p in model.parameters()]


def same(mine, theirs):
    return np.allclose(np.asarray(mine), np.asarray(theirs), **CLOSE)


def compare(student, place0, place1, x_on, y_on, together=True):
    generator = torch.Generator().manual_seed(1)
    xs, ys = (torch.randn(3, 16, size, generator=generator).numpy() for size in (6, 3))
    count = "one optimizer" if together else "an optimizer for each part"
    with case(f"A model on {place0} and {place1}, x on {x_on}, y on {y_on}, {count}"):
        run = student.run(take_steps, STACK, place0, place1, x_on, y_on, together, xs, ys)
        losses = run["losses"]
        wrong = [loss for loss in losses if not isinstance(loss, float)]
        need(not wrong, f"train_step returned {wrong[0] if wrong else ''}. Return a Python float.")
        need(run["met"], "loss_fn was never called.")
        for output, target in run["met"]:
            need(output == target == place1, f"the loss was computed on {output}, but the output is on {place1}.")
        before, after, values = expected_steps(xs, ys)
        told = ", ".join(f"{loss:.4f}" for loss in losses)
        found = f"the losses are {told}; on one device, {', '.join(f'{loss:.4f}' for loss in before)}. "
        need(not same(losses, after), found + "Yours are from after the update.")
        need(not same(losses, expected_steps(xs, ys, keep_old=True)[0]), found + "Old gradients were added.")
        late = "Gradients from before the first step were added. Zero them before backward(), not after the update."
        need(not same(losses, expected_steps(xs, ys, zero_last=True)[0]), found + late)
        need(not same(losses, expected_steps(xs, ys, update=False)[0]), found + "The model is never updated.")
        need(same(losses, before), found + "Do you use every optimizer in the list?")
        right = all(map(same, run["values"], values))
        need(right, "the losses are right, but the parameters after three steps are not.")


@step.fact("with the target on the CPU, a step has the same loss and update as on one device")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            compare(student, device0, device1, "cpu", "cpu")


@step.fact("x and y can be on any device, and there can be several optimizers")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            compare(student, device0, device1, device1, device0, together=False)
            compare(student, device0, device1, device0, device1)


# --- gradients, compared with one device ---------------------------------------------------------------------------

gradients = lab.exercise(
    "gradient_differences",
    points=0,
    title="Compare the gradients of two models by name",
    hints=[
        "Run one backward pass for each model. dict(model.named_parameters()) has the same names for both.",
        "The two gradients are on different devices. Which method moves both to the CPU?",
        "p.grad is None if the backward pass did not reach p. Check for that before you subtract.",
    ],
)


def take_differences(lab, stack, place0, place1, detached, seed, seed_of_split, x, y):
    """What the student's function says of a stack on one device and of one in two parts, both with old gradients.

    `detached`: the split model cuts the graph at its move. `seed_of_split` other than `seed`: it has other weights.
    """
    import torch
    from torch import nn

    from utils.exercises.facts.probes import array, build, fill, kind_of

    class Parts(nn.Module):
        def __init__(self, second, seed):
            super().__init__()
            layers = build(stack)
            self.second = second
            self.part0, self.part1 = layers[:2].to(place0), layers[2:].to(second)
            fill(self, seed)

        def forward(self, x):
            hidden = self.part0(x.to(place0))
            if detached and self.second != place0:
                hidden = hidden.detach()
            return self.part1(hidden.to(self.second))

    whole, split = Parts(place0, seed), Parts(place1, seed_of_split)
    for parameter in (*whole.parameters(), *([] if detached else split.parameters())):
        parameter.grad = torch.full_like(parameter, 0.5)
    before = [array(p).copy() for model in (whole, split) for p in model.parameters()]
    found = lab.gradient_differences(whole, split, nn.MSELoss(), torch.from_numpy(x), torch.from_numpy(y))
    after = [array(p) for model in (whole, split) for p in model.parameters()]
    told = {"kind": kind_of(found), "before": before, "after": after}
    if isinstance(found, dict):
        told["found"] = [
            [str(name), float(value) if isinstance(value, (int, float)) else kind_of(value)]
            for name, value in found.items()
        ]
    return told


NAMES = ["part0.0.weight", "part0.0.bias", "part1.2.weight", "part1.2.bias"]


def gradients_on_the_cpu(seed, x, y, old=0.0):
    model = build(STACK)
    fill(model, seed)
    torch.nn.functional.mse_loss(model(torch.from_numpy(x)), torch.from_numpy(y)).backward()
    return [p.grad + old for p in model.parameters()]


def expected_differences(seed, seed_of_split, x, y, old=0.0, turned=False):
    """The differences name by name, or with a mistake: old gradients in them, or the other model as the measure."""
    pairs = zip(gradients_on_the_cpu(seed, x, y, old), gradients_on_the_cpu(seed_of_split, x, y, old), strict=True)
    return [((mine - right).norm() / (mine if turned else right).norm()).item() for right, mine in pairs]


def compare_differences(student, place0, place1, detached=False, seed_of_split=1):
    generator = torch.Generator().manual_seed(2)
    x, y = (torch.randn(16, size, generator=generator).numpy() for size in (6, 3))
    seen = student.run(take_differences, STACK, place0, place1, detached, 1, seed_of_split, x, y)
    need("found" in seen, f"it returned {seen['kind']}. Return a dict with a float for each parameter's name.")
    found = dict(seen["found"])
    need(
        all(map(same, seen["after"], seen["before"])),
        "it changed weights. Compare gradients only; do not update the weights.",
    )
    need(
        sorted(found) == sorted(NAMES),
        f"the dict has these names: {', '.join(found) or 'none'}. Use those of named_parameters().",
    )
    wrong = [f"{name} has {value}" for name, value in found.items() if not isinstance(value, float)]
    need(not wrong, f"{wrong[0] if wrong else ''}. Use .item() to get a Python float.")
    right = expected_differences(1, seed_of_split, x, y)
    if detached:
        right[:2] = [math.inf, math.inf]
    told = [found[name] for name in NAMES]
    for name, mine, theirs in zip(NAMES, told, right, strict=True):
        if near_difference(mine, theirs):
            continue
        where = f"{name} differs by {theirs:.3g}, but you returned {mine:.3g}."
        need(theirs != math.inf, f"{where} The split model has no gradient there, so use float('inf').")
        with_old = expected_differences(1, seed_of_split, x, y, old=0.5)
        need(
            not all(map(near_difference, told, with_old)), f"{where} It includes old gradients. Call zero_grad() first."
        )
        turned = expected_differences(1, seed_of_split, x, y, turned=True)
        need(not all(map(near_difference, told, turned)), f"{where} Divide by the norm of the whole model's gradient.")
        need(False, f"{where} Is it the norm of the difference divided by the norm of the whole model's gradient?")


def near_difference(mine, theirs) -> bool:
    return math.isclose(mine, theirs, rel_tol=1e-3, abs_tol=1e-4)  # infinity is close to itself only


@gradients.fact("a correct split has the same gradients as the one-device model")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            compare_differences(student, device0, device1)


@gradients.fact("different gradients give the norm of the difference divided by the norm of the whole model's gradient")
def _(student):
    with case("With other weights in the split model and old gradients in both"):
        compare_differences(student, *student.devices, seed_of_split=2)


@gradients.fact("a parameter that the backward pass does not reach gets infinity")
def _(student):
    with case("With a split model that detaches the tensor that it moves"):
        compare_differences(student, *student.devices, detached=True)
