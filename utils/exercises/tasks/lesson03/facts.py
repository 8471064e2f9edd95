"""What `check("train_step")` in lesson 03 tells the learner: losses and parameters, compared with one device."""

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
    title="One step of training, wherever the batch comes from",
    hints=[
        "Five things happen in a step: forward, loss, zero the gradients, backward, update. In which order?",
        "The loss has two operands. One has a graph behind it and is where the model ends. Move the other one.",
        "The loss is a tensor with one number. Which method gives that number to Python?",
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
        need(not wrong, f"train_step returned {wrong[0] if wrong else ''}. A Python float is wanted.")
        need(run["met"], "loss_fn was never called.")
        for output, target in run["met"]:
            need(output == target == place1, f"the loss was computed on {output}, and the output is made on {place1}.")
        before, after, values = expected_steps(xs, ys)
        told = ", ".join(f"{loss:.4f}" for loss in losses)
        found = f"the losses are {told}, and on one device {', '.join(f'{loss:.4f}' for loss in before)}. "
        need(not same(losses, after), found + "Yours are those after the update.")
        need(not same(losses, expected_steps(xs, ys, keep_old=True)[0]), found + "Old gradients were added to the new.")
        late = "Gradients from before the first step were added: zero them before backward(), not after the update."
        need(not same(losses, expected_steps(xs, ys, zero_last=True)[0]), found + late)
        need(not same(losses, expected_steps(xs, ys, update=False)[0]), found + "The model is never updated.")
        need(same(losses, before), found + "Do all the optimizers in the list take part?")
        right = all(map(same, run["values"], values))
        need(right, "the losses are right, and the parameters after three steps are not.")


@step.fact("a step gives the loss and the update of the one-device model, with the target on the CPU")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            compare(student, device0, device1, "cpu", "cpu")


@step.fact("x and y may be on any device, and there may be several optimizers")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            compare(student, device0, device1, device1, device0, together=False)
            compare(student, device0, device1, device0, device1)
