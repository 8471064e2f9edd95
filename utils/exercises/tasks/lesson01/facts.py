"""Lesson 01's task: what `check("SplitInThree")` tells the learner."""

import numpy as np
import torch

from utils.exercises.facts import Lab, case, need
from utils.exercises.facts.probes import build, forward_and_backward

lab = Lab("lesson01", "Split a model")

STACK = [["Linear", 12, 20], ["Tanh"], ["Linear", 20, 16], ["Tanh"], ["Linear", 16, 5]]
LENGTHS = (2, 2, 1)  # of the three parts
CLOSE = {"rtol": 1e-4, "atol": 1e-5}  # a real GPU adds up in another order than a CPU

task = lab.exercise(
    "SplitInThree",
    points=0,
    title="Split a model of three parts",
    hints=[
        "Two things happen in __init__: the model remembers its parts and devices, and each part goes to its device.",
        "A plain Python list hides the parts from parameters(). Which container of torch.nn does not?",
        "In forward one step happens three times: the batch comes to the device of a part, then the part computes.",
    ],
)


def split_and_look(lab, stack, lengths, devices, state, x, does):
    """Of a stack in three parts: its tensors; or its output; or that and its gradients. No more is run."""
    import torch

    from utils.exercises.facts.probes import build, forward_and_backward, tensors_of

    layers, parts = build(stack, state), []
    for length in lengths:
        parts.append(layers[:length])
        layers = layers[length:]
    model = lab.SplitInThree(parts, [torch.device(device) for device in devices])
    if does == "nothing":
        return {"tensors": tensors_of(model)}
    if does == "forward":
        return {"output device": str(model(torch.from_numpy(x)).device)}
    return forward_and_backward(model, x)


def work_of(lab, stack, lengths, devices, x):
    import torch

    from utils.exercises.facts.probes import build, forward_work

    layers, parts = build(stack), []
    for length in lengths:
        parts.append(layers[:length])
        layers = layers[length:]
    return forward_work(lab.SplitInThree(parts, [torch.device(device) for device in devices]), x)


def placings(student):
    """Three devices for the three parts: one of them twice, in both orders, and each with its description."""
    first, second = student.devices
    for devices in ([first, second, first], [second, first, first], [first, second, "cpu"]):
        yield devices, case(f"With devices {', '.join(devices)}")


def run(student, devices, does):
    torch.manual_seed(5)
    whole, x = build(STACK), torch.randn(4, 12).numpy()
    state = {name: values.numpy().copy() for name, values in whole.state_dict().items()}
    return student.run(split_and_look, STACK, LENGTHS, devices, state, x, does), forward_and_backward(whole, x)


def expected_places(devices):
    layers = [device for device, length in zip(devices, LENGTHS, strict=True) for _ in range(length)]
    linear = [(layer[2], layer[1], device) for layer, device in zip(STACK, layers, strict=True) if len(layer) > 1]
    return [place for out, into, device in linear for place in ([[out, into], device], [[out], device])]


@task.fact("parameters() finds the weights of all three parts, each on the device of its part")
def _(student):
    for devices, described in placings(student):
        with described:
            found = run(student, devices, "nothing")[0]["tensors"]
            expected = expected_places(devices)
            need(found, "parameters() finds none. Parts in a plain Python list cannot be seen.")
            need(
                sorted(map(str, found)) == sorted(map(str, expected)),
                f"the weights and biases are on {', '.join(device for _, device in found)}; "
                f"they should be on {', '.join(device for _, device in expected)}.",
            )
            need(found == expected, "the parts are there, but not in their order.")


@task.fact("a batch from the CPU goes all the way through, and the output stays on the device of the last part")
def _(student):
    for devices, described in placings(student):
        with described:
            found = run(student, devices, "forward")[0]["output device"]
            need(found == devices[-1], f"the output is on {found}.")


@task.fact("the output and the gradients are those of the undivided model")
def _(student):
    for devices, described in placings(student):
        with described:
            found, expected = run(student, devices, "backward")
            same = np.shape(found["output"]) == np.shape(expected["output"])
            need(
                same and np.allclose(found["output"], expected["output"], **CLOSE),
                "the output has other numbers. Does each part compute once, in their order, and nothing else?",
            )
            gradients = [g for g in found["gradients"] if g is not None]
            need(len(gradients) == len(expected["gradients"]), "after backward() some parameter has no gradient.")
            same = all(
                np.allclose(mine, theirs, **CLOSE)
                for mine, theirs in zip(gradients, expected["gradients"], strict=True)
            )
            need(same, "the gradients have other numbers.")


@task.fact("no part computes anywhere else than on its own device")
def _(student):
    x = torch.ones(4, 12).numpy()
    for devices, described in [*placings(student)][:2]:
        with described:
            work = student.run(work_of, STACK, LENGTHS, devices, x)
            for device in set(devices):
                own = sum(2 * 4 * shape[0] * shape[1] for shape, at in expected_places(devices)[::2] if at == device)
                did = work.get(device, 0)
                need(did == own, f"{device} does {did} FLOPs in a forward pass, and its parts have {own}.")
