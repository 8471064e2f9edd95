"""Lesson 02's tasks: what `check` tells the learner of each."""

from typing import Any

import numpy as np
import torch
from torch import nn

from utils.exercises.facts import Lab, StudentError, case, need, orders_of
from utils.exercises.facts.probes import fill, forward_and_backward

lab = Lab("lesson02", "Follow the data")

CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}  # a real GPU adds up in another order than a CPU

# --- the nodes of the autograd graph --------------------------------------------------------------------------------

walking = lab.exercise(
    "graph_nodes",
    points=0,
    title="Walk the autograd graph",
    hints=[
        "Keep a list of nodes to visit. It starts as [output.grad_fn]. Take out one node at a time until it is empty.",
        "Loop with for next_node, _ in node.next_functions, and append each next_node to the list.",
        "Skip None, and skip nodes that you have already seen. Keep those in a set.",
    ],
)

JOINS = 9


def names_of_nodes(lab, device0, device1, joins):
    """What graph_nodes says of two layers with a move between them, and of sums in which two paths join."""
    import torch
    from torch import nn

    from utils.exercises.facts.probes import kind_of

    first, last = nn.Linear(3, 4).to(device0), nn.Linear(4, 2).to(device1)
    hidden = first(torch.ones(2, 3).to(device0))
    output = last(hidden.relu().to(device1)).relu()
    joined = torch.ones(2, device=device0).requires_grad_()
    for _ in range(joins):
        joined = joined + joined.tanh()
    told = {}
    for name, tensor in (("two layers", output), ("sums", joined)):
        found = lab.graph_nodes(tensor)
        is_list = isinstance(found, (list, tuple))
        told[name] = [kind_of(found), [str(node) for node in found] if is_list else []]
    return told


def nodes_of(student, name):
    try:
        kind, found = student.run(names_of_nodes, *student.devices, JOINS)[name]
    except StudentError as error:
        need("NoneType" not in str(error), "next_functions contains None where no gradient is needed. Skip it.")
        raise
    need(kind in ("a list", "a tuple"), f"it returned {kind}, not a list.")
    return [name.rpartition("::")[2] for name in found]  # torch::autograd::AccumulateGrad


@walking.fact("for two layers with a move between them, it returns the names of all nodes")
def _(student):
    found = nodes_of(student, "two layers")
    right = ["ReluBackward0", "AddmmBackward0", "ToCopyBackward0", "ReluBackward0", "AddmmBackward0"]
    right += ["TBackward0"] * 2 + ["AccumulateGrad"] * 4
    need(not any(" object at " in name for name in found), "it returned nodes. Return each node's name, node.name().")
    need(bool(found), "it returned an empty list. Start with output.grad_fn.")
    missing = [name for name in dict.fromkeys(right) if name not in found]
    need(not missing, f"the list lacks {', '.join(missing)}. Do you follow every entry of every node's next_functions?")
    for name in dict.fromkeys(right):
        count, there = found.count(name), right.count(name)
        need(count >= there, f"{name}: {count} in your list, {there} in the graph. Nodes can have the same name.")
        need(count == there, f"{name}: {count} in your list, {there} in the graph.")
    need(len(found) == len(right), "the list has names that are not in the graph.")


@walking.fact("a node that several paths reach is listed once")
def _(student):
    found = nodes_of(student, "sums")
    count = 2 * JOINS + 1
    need(
        len(found) <= count,
        f"it returned {len(found)} names for a graph of {count} nodes. Keep a set of the nodes that you have seen.",
    )
    need(len(found) == count, f"it returned {len(found)} names for a graph of {count} nodes.")


# --- a bridge in bfloat16 --------------------------------------------------------------------------------------------

bridge = lab.exercise(
    "Bridge",
    points=0,
    title="Cross in bfloat16",
    hints=[
        "Call bfloat16() before the move and float() after it. Then only two bytes per number cross.",
        "backward is not given x. Store x.device on ctx in forward.",
        "forward takes two inputs, so backward returns two values: the gradient of x, and None for the device.",
    ],
)


def cross(lab, device0, device1, x, gradient):
    from utils.exercises.tasks.lesson02.measured import crossed

    return crossed(lab.Bridge, device0, device1, x, gradient)


def crossing(student, device0, device1, backward=True):
    """Without `backward` only forward runs: an error of backward is not told below what forward returns."""
    x, gradient = torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(2)).numpy()
    found = student.run(cross, device0, device1, x, gradient if backward else None)
    need(found["kind"] == "a tensor", f"forward returned {found['kind']}, not a tensor.")
    return found, x, gradient


def near(found, right):
    return found.shape == right.shape and np.allclose(found, right, rtol=0.01, atol=0.01)


@bridge.fact("forward returns x on the other device, in float32")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            found, x, _ = crossing(student, device0, device1, backward=False)
            place, dtype, values = found["output"]
            need(place == device1, f"the output is on {place}, not on {device1}.")
            need(dtype == "torch.float32", f"the output is {dtype}. Convert it back with float().")
            need(near(values, x), "the output has different values from x.")


@bridge.fact("backward returns the gradient on x's device")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            found, _, gradient = crossing(student, device0, device1)
            need(found["gradient"] is not None, "x has no gradient. Is it the first value that backward returns?")
            need(
                near(found["gradient"], gradient),
                "the gradient has different values from the one that backward is given.",
            )


@bridge.fact("both cross with two bytes per number")
def _(student):
    for device0, device1, order in orders_of(student):
        with order, case(f"With {6 * 8} numbers"):
            found, _, _ = crossing(student, device0, device1)
            for name, way in (("forward", (device0, device1)), ("backward", (device1, device0))):
                sent = sum(size for *ends, size in found[name] if tuple(ends) == way)
                whole = f"{name} sends {sent} bytes, four per number. Call bfloat16() before the move."
                need(sent != 4 * 6 * 8, whole)
                need(sent == 2 * 6 * 8, f"{name} sends {sent} bytes; it should send {2 * 6 * 8}.")
                detour = [ends for *ends, size in found[name] if size and tuple(ends) != way]
                need(not detour, f"{name} also copies from {' to '.join(detour[0] if detour else [])}.")


# --- needless crossings ----------------------------------------------------------------------------------------------

untangled = lab.exercise(
    "Untangled",
    points=0,
    title="Remove the needless crossings",
    hints=[
        "After each line of Tangled.forward, note where each tensor is. Which of them cross to device1?",
        "hidden and gate cross and are then multiplied. Where else could you multiply them?",
        "Every forward pass moves scale from the CPU. Where, and how often, could you move it instead?",
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
        return {"wrong": f"Untangled(...) is {kind_of(model)}, not an nn.Module."}
    fill(model, seed)
    batch = torch.from_numpy(x)
    with record(device0, device1) as forward:
        output = model(batch)
    if not isinstance(output, torch.Tensor):
        return {"wrong": f"forward returned {kind_of(output)}, not a tensor. Does it end with a return?"}
    with record(device0, device1) as backward:
        if output.requires_grad:
            output.square().mean().backward()
    return {
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
    need("wrong" not in found, found.get("wrong", ""))
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
    need(not extra, f"it also copies {', '.join(extra)}.")
    for (here, there), size in truth.items():
        if here != there:
            went = seen.get((here, there), 0)
            need(went == size, f"it copies {went} bytes from {here} to {there}; it should copy {size}.")


@untangled.fact("the output is on device1 and has the same numbers as Tangled's")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            found, expected = run(student, device0, device1)
            need(same(found["output"], expected["output"]), "the output differs from Tangled's.")
            on = found["output device"]
            need(on == device1, f"the output is on {on}, but device1 is {device1}.")


@untangled.fact("after backward(), every parameter has the same gradient as in Tangled")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            found, expected = run(student, device0, device1)
            missing = sum(gradient is None for gradient in found["gradients"])
            need(not missing, f"parameters without a gradient after backward(): {missing}.")
            count = len(expected["gradients"])
            need(len(found["gradients"]) == count, f"it has {len(found['gradients'])} parameters; Tangled has {count}.")
            right = all(any(same(mine, theirs) for mine in found["gradients"]) for theirs in expected["gradients"])
            need(right, "the gradients differ from Tangled's.")


@untangled.fact("in forward, the batch moves to device0, one hidden tensor moves to device1, and nothing else moves")
def _(student):
    for device0, device1, order in orders_of(student):
        with order, case(f"With a batch of {BATCH} and sizes={SIZES}"):
            found, _ = run(student, device0, device1)
            batch, hidden = BATCH * SIZES[0] * 4, BATCH * SIZES[1] * 4
            compare_ways(found["forward"], {("cpu", device0): batch, (device0, device1): hidden})


@untangled.fact("in backward, one gradient moves from device1 to device0, and nothing else moves")
def _(student):
    for device0, device1, order in orders_of(student):
        with order, case(f"With a batch of {BATCH} and sizes={SIZES}"):
            found, _ = run(student, device0, device1)
            compare_ways(found["backward"], {(device1, device0): BATCH * SIZES[1] * 4})
