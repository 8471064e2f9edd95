"""What `check("Untangled")` in lesson 02 tells the learner: values, and the bytes that moved."""

from typing import Any

import numpy as np
import torch
from torch import nn

from utils.exercises.facts import Lab, case, need, orders_of
from utils.exercises.facts.probes import fill, forward_and_backward

lab = Lab("lesson02", "Follow the data")

CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}  # a real GPU adds up in another order than a CPU

untangled = lab.exercise(
    "Untangled",
    points=0,
    title="Take out the needless crossings",
    hints=[
        "Write behind each line of Tangled.forward which tensors are where. Which of them cross to device1?",
        "hidden and gate cross, and then they are multiplied. Where else could that be done?",
        "scale comes from the CPU in each forward. Where, and how often, could it be moved instead?",
    ],
)

SIZES, BATCH = (5, 8, 3), 4


class OneDevice(nn.Module):
    """What Tangled computes, on one device."""

    scale: torch.Tensor

    def __init__(self, sizes):
        super().__init__()
        inputs, hidden, outputs = sizes
        self.layer1, self.gate = nn.Linear(inputs, hidden), nn.Linear(hidden, hidden)
        self.layer2 = nn.Linear(hidden, outputs)
        self.register_buffer("scale", torch.linspace(0.5, 1.5, hidden))

    def forward(self, x):
        hidden = torch.relu(self.layer1(x))
        return self.layer2(hidden * torch.sigmoid(self.gate(hidden)) * self.scale)


def run_untangled(lab, sizes, device0, device1, seed, x):
    import torch

    from utils.exercises.facts.probes import array, fill, kind_of
    from utils.observe.trace import record

    model = lab.Untangled(tuple(sizes), torch.device(device0), torch.device(device1))
    if not isinstance(model, torch.nn.Module):
        return {"kind": kind_of(model)}
    fill(model, seed)
    batch = torch.from_numpy(x)
    with record(device0, device1) as forward:
        output = model(batch)
    if not isinstance(output, torch.Tensor):
        return {"kind": kind_of(output)}
    with record(device0, device1) as backward:
        if output.requires_grad:
            output.square().mean().backward()
    return {
        "kind": "Tensor",
        "output": array(output),
        "output device": str(output.device),
        "gradients": [None if p.grad is None else array(p.grad) for p in model.parameters()],
        "forward": [[*way, size] for way, size in forward.moved().items()],
        "backward": [[*way, size] for way, size in backward.moved().items()],
    }


def run(student, device0, device1):
    """The student's run, and that of the same layers on one device."""
    x = torch.randn(BATCH, SIZES[0], generator=torch.Generator().manual_seed(1)).numpy()
    found = student.run(run_untangled, list(SIZES), device0, device1, 1, x)
    need(found["kind"] == "Tensor", f"forward returned {found['kind']}, not a tensor. Does it end with a return?")
    whole = OneDevice(SIZES)
    fill(whole, 1)
    return found, forward_and_backward(whole, x)


def same(mine, theirs):
    return mine.shape == theirs.shape and np.allclose(mine, theirs, **CLOSE)


def compare_ways(found, truth):
    seen = {(here, there): size for here, there, size in found if size and here != there}
    extra = [
        f"{size} bytes from {here} to {there}" for (here, there), size in seen.items() if (here, there) not in truth
    ]
    need(not extra, f"there also went {', '.join(extra)}.")
    for (here, there), size in truth.items():
        if here != there:
            went = seen.get((here, there), 0)
            need(went == size, f"from {here} to {there} went {went} bytes, and {size} are enough and needed.")


@untangled.fact("the output is on device1, with the numbers that Tangled gives")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            found, expected = run(student, device0, device1)
            need(same(found["output"], expected["output"]), "the numbers differ from those of Tangled.")
            on = found["output device"]
            need(on == device1, f"the output is on {on}, and device1 is {device1}.")


@untangled.fact("after backward() every parameter has the gradient that it has in Tangled")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            found, expected = run(student, device0, device1)
            missing = sum(gradient is None for gradient in found["gradients"])
            need(not missing, f"{missing} parameters have no gradient after backward().")
            count = len(expected["gradients"])
            need(len(found["gradients"]) == count, f"it has {len(found['gradients'])} parameters, and Tangled {count}.")
            right = all(any(same(mine, theirs) for mine in found["gradients"]) for theirs in expected["gradients"])
            need(right, "the gradients differ from those of Tangled.")


@untangled.fact("in forward the batch goes to device0, one hidden tensor to device1, and nothing else moves")
def _(student):
    for device0, device1, order in orders_of(student):
        with order, case(f"With a batch of {BATCH} and sizes={SIZES}"):
            found, _ = run(student, device0, device1)
            batch, hidden = BATCH * SIZES[0] * 4, BATCH * SIZES[1] * 4
            compare_ways(found["forward"], {("cpu", device0): batch, (device0, device1): hidden})


@untangled.fact("in backward one gradient goes from device1 to device0, and nothing else moves")
def _(student):
    for device0, device1, order in orders_of(student):
        with order, case(f"With a batch of {BATCH} and sizes={SIZES}"):
            found, _ = run(student, device0, device1)
            compare_ways(found["backward"], {(device1, device0): BATCH * SIZES[1] * 4})
