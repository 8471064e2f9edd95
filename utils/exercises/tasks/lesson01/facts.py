"""Lesson 01's tasks: what `check` tells the learner of each."""

from typing import Any

import numpy as np
import torch

from utils.exercises.facts import Lab, StudentError, case, need, orders_of
from utils.exercises.facts.probes import build, forward_and_backward

lab = Lab("lesson01", "Split a model")

CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}  # a real GPU adds up in another order than a CPU

# --- where each layer computes ---------------------------------------------------------------------------------------

watching = lab.exercise(
    "layer_devices",
    points=0,
    title="Where does each layer compute?",
    hints=[
        "hook(layer, inputs, output) stores output.device in a dict and returns nothing.",
        "Hooks defined in a loop all read the loop's last name. Write note(name), which returns a hook for that name.",
        "register_forward_hook returns a handle. Keep every handle, run model(batch), then call remove() on each.",
    ],
)


def watch(lab, device0, device1):
    """What layer_devices says of a model with a layer in a layer, how often it ran it, and which hooks it left."""
    import torch
    from torch import nn

    from utils.exercises.facts.probes import kind_of

    def checked(x, name):
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"your hook returned {kind_of(x)}, which replaced the output of {name}.")
        return x

    class Inside(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer2 = nn.Linear(6, 3).to(device1)

        def forward(self, x):
            return checked(self.layer2(x.to(device1)), "block.layer2")

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer1 = nn.Linear(4, 6).to(device0)
            self.relu = nn.ReLU()
            self.block = Inside()

        def forward(self, x):
            x = checked(self.layer1(x.to(device0)), "layer1")
            x = checked(self.relu(x), "relu")
            return checked(self.block(x), "block")

    model, runs = Model(), []
    model.register_forward_pre_hook(lambda *_: runs.append(1))
    found = lab.layer_devices(model, torch.ones(2, 4))
    hooks = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()]
    return {
        "kind": kind_of(found),
        "places": [[str(name), str(place)] for name, place in found.items()] if isinstance(found, dict) else [],
        "runs": len(runs),
        "hooks": sum(hooks) - 1,
    }


def watched(student, device0, device1):
    try:
        found = student.run(watch, device0, device1)
    except StudentError as error:
        need("StopIteration" not in str(error), "a ReLU has no weights, so use the device of each layer's output.")
        raise
    need(found["kind"] == "a dict", f"it returned {found['kind']}, not a dict.")
    return found


@watching.fact("it returns a dict with the name of every layer that runs and '' for the model itself")
def _(student):
    names = [name for name, _ in watched(student, *student.devices)["places"]]
    need(len(names) != 1, f"the dict has only {names}. Hooks defined in a loop all read the loop's last name.")
    missing = [name for name in ("layer1", "relu", "block", "block.layer2", "") if name not in names]
    need(
        missing not in (["block.layer2", ""], ["block.layer2"]),
        "block.layer2, a layer inside a layer, is missing. named_modules() finds it; named_children() does not.",
    )
    need(not missing, f"the dict has {names}. Missing from named_modules(): {', '.join(map(repr, missing))}.")


@watching.fact("each name has the device of the layer's output")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            places = dict(watched(student, device0, device1)["places"])
            right = {"layer1": device0, "relu": device0, "block.layer2": device1, "block": device1, "": device1}
            if places[""] == "cpu" or places["block"] == device0:
                need(
                    False,
                    f"'' has {places['']}, block has {places['block']}. Do you use outputs' devices, not inputs'?",
                )
            for name, place in right.items():
                need(places[name] == place, f"{name!r} has {places[name]}, but its output is on {place}.")


@watching.fact("the model runs once, and none of your hooks remains in it")
def _(student):
    found = watched(student, *student.devices)
    need(found["runs"] == 1, f"the model ran {found['runs']} times, not once.")
    left = found["hooks"]
    need(
        left <= 0, f"hooks still in the model: {left}. Call remove() on each handle that register_forward_hook returns."
    )
    need(left == 0, "a hook that was already in the model is gone. Remove only your own.")


# --- three stages -------------------------------------------------------------------------------------------------

STACK = [["Linear", 12, 20], ["Tanh"], ["Linear", 20, 16], ["Tanh"], ["Linear", 16, 5]]
LENGTHS = (2, 2, 1)  # of the three stages

task = lab.exercise(
    "SplitInThree",
    points=0,
    title="Split a model into three stages",
    hints=[
        "In __init__, store the stages and the devices, and move each stage to its device.",
        "A plain Python list hides the stages from parameters(). Which torch.nn container does not?",
        "In forward, do this for each stage: move the batch to the stage's device, then run the stage on it.",
    ],
)


def split_and_look(lab, stack, lengths, devices, state, x, does):
    """Of a stack in three stages: its tensors; or its output; or that and its gradients. No more is run."""
    import torch

    from utils.exercises.facts.probes import build, forward_and_backward, tensors_of

    layers, stages = build(stack, state), []
    for length in lengths:
        stages.append(layers[:length])
        layers = layers[length:]
    model = lab.SplitInThree(stages, [torch.device(device) for device in devices])
    if does == "nothing":
        return {"tensors": tensors_of(model)}
    if does == "forward":
        return {"output device": str(model(torch.from_numpy(x)).device)}
    return forward_and_backward(model, x)


def work_of(lab, stack, lengths, devices, x):
    import torch

    from utils.exercises.facts.probes import build, forward_work

    layers, stages = build(stack), []
    for length in lengths:
        stages.append(layers[:length])
        layers = layers[length:]
    return forward_work(lab.SplitInThree(stages, [torch.device(device) for device in devices]), x)


def placings(student):
    """Three devices for the three stages: one of them twice, in both orders, and each with its description."""
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


@task.fact("parameters() finds the weights of all three stages, each on its stage's device")
def _(student):
    for devices, described in placings(student):
        with described:
            found = run(student, devices, "nothing")[0]["tensors"]
            expected = expected_places(devices)
            need(found, "parameters() finds no weights. It does not see stages in a plain Python list.")
            need(
                sorted(map(str, found)) == sorted(map(str, expected)),
                f"the weights and biases are on {', '.join(device for _, device in found)}; "
                f"they should be on {', '.join(device for _, device in expected)}.",
            )
            need(found == expected, "the stages are all there, but not in order.")


@task.fact("a batch from the CPU passes through all stages, and the output stays on the last stage's device")
def _(student):
    for devices, described in placings(student):
        with described:
            found = run(student, devices, "forward")[0]["output device"]
            need(found == devices[-1], f"the output is on {found}, not on {devices[-1]}.")


@task.fact("the output and the gradients equal those of the same model on one device")
def _(student):
    for devices, described in placings(student):
        with described:
            found, expected = run(student, devices, "backward")
            same = np.shape(found["output"]) == np.shape(expected["output"])
            need(
                same and np.allclose(found["output"], expected["output"], **CLOSE),
                "the output has different numbers. Does each stage run once, in order, and nothing else?",
            )
            gradients = [g for g in found["gradients"] if g is not None]
            need(len(gradients) == len(expected["gradients"]), "after backward(), some parameters have no gradient.")
            same = all(
                np.allclose(mine, theirs, **CLOSE)
                for mine, theirs in zip(gradients, expected["gradients"], strict=True)
            )
            need(same, "the gradients have different numbers.")


@task.fact("each stage computes on its own device")
def _(student):
    x = torch.ones(4, 12).numpy()
    for devices, described in [*placings(student)][:2]:
        with described:
            work = student.run(work_of, STACK, LENGTHS, devices, x)
            for device in set(devices):
                own = sum(2 * 4 * shape[0] * shape[1] for shape, at in expected_places(devices)[::2] if at == device)
                did = work.get(device, 0)
                need(did == own, f"{device} does {did} FLOPs in a forward pass; its stages need {own}.")


# --- the same numbers? -----------------------------------------------------------------------------------------------

difference = lab.exercise(
    "largest_difference",
    points=0,
    title="Test a split",
    hints=[
        "eval() turns dropout off, and train() turns it back on.",
        "The outputs are on different devices. Move both to the CPU before you subtract.",
        "Call abs(), then max(), then item(), which converts a one-element tensor to a Python number.",
    ],
)


def differ(lab, device0, device1, by):
    """What largest_difference says of two models with dropout; in the second one bias is larger, by `by`."""
    import torch
    from torch import nn

    from utils.exercises.facts.probes import fill, kind_of

    class Model(nn.Module):
        def __init__(self, second):
            super().__init__()
            self.layer1, self.second = nn.Linear(6, 8).to(device0), second
            self.drop = nn.Dropout(0.5)
            self.layer2 = nn.Linear(8, 5).to(second)

        def forward(self, x):
            hidden = self.drop(self.layer1(x.to(device0)))
            return self.layer2(hidden.to(self.second))

    whole, split = Model(device0), Model(device1)
    for model in (whole, split):
        fill(model, 3)
    with torch.no_grad():
        split.layer2.bias.add_(torch.tensor([0.0, 0.0, by, 0.0, 0.0]).to(device1))
    found = lab.largest_difference(whole, split, torch.linspace(-1, 1, 24).reshape(4, 6))
    number = found if isinstance(found, float) else None
    return {"kind": kind_of(found), "number": number, "training": [whole.training, split.training]}


def differing(student, device0, device1, by):
    found = student.run(differ, device0, device1, by)
    need(found["number"] is not None, f"it returned {found['kind']}, not a float. Call item() on the tensor.")
    return found["number"]


@difference.fact("models with equal weights differ by 0, even if they have dropout")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            found = differing(student, device0, device1, 0.0)
            need(abs(found) < 1e-5, f"it returned {found:.2g}. Did you call eval() on both models to turn dropout off?")


@difference.fact("if one output differs by 0.25, the largest difference is 0.25")
def _(student):
    for by in (0.25, -0.25):
        with case(f"With one output of the split model changed by {by}"):
            found = differing(student, *student.devices, by=by)
            need(abs(found - 0.05) > 1e-3, f"it returned {found:.3g}, the mean over all outputs. Return the largest.")
            need(found > -1e-3, f"it returned {found:.3g}. Take absolute values with abs().")
            need(abs(found - 0.25) < 1e-3, f"it returned {found:.3g}. Do you call abs() first, then max()?")


@difference.fact("dropout is back on in both models")
def _(student):
    on = student.run(differ, *student.devices, 0.0)["training"]
    left = " and ".join(name for name, is_on in zip(("whole", "split"), on, strict=True) if not is_on)
    need(all(on), f"dropout stays off in {left}. Call train() to turn it back on.")
