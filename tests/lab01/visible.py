"""Lab 01's visible facts: what `check("ex1")` tells the learner, and the first part of the grade.

A probe runs beside the student's code and tells plain data; the fact judges it here.
"""

import numpy as np
import torch
from torch import nn
from torch.nn.utils import skip_init

from utils.facts import Lab, case, need, orders_of
from utils.facts.probes import build, fill, forward_and_backward, tensors_of

lab = Lab("lab01", "Split a model")

BATCH = 32
SEED = 7  # of the numbers that a model is given
CLOSE = {"rtol": 1e-4, "atol": 1e-5}  # a real GPU adds up in another order than a CPU


# --- ex1: two layers, two devices -----------------------------------------------------------------------------

ex1 = lab.exercise(
    "ex1",
    points=2,
    title="Put two layers on two devices",
    hints=[
        "A layer has a device as a tensor has one. Where is a new nn.Linear, before you say anything?",
        "nn.Linear(...) makes a layer on the CPU. Which method of a layer takes it to another device?",
        "Do it twice, with a different argument each time: device0 for one layer, device1 for the other.",
    ],
)


def look_at_layers(lab, device0, device1):
    import torch
    from torch import nn

    from utils.facts.probes import device_of, kind_of

    layers = lab.make_layers(torch.device(device0), torch.device(device1))
    if not isinstance(layers, (tuple, list)):
        return {"kind": kind_of(layers)}
    return {
        "kind": "layers",
        "types": [type(layer).__name__ for layer in layers],
        "sizes": [list(layer.weight.shape)[::-1] for layer in layers if isinstance(layer, nn.Linear)],
        "devices": [device_of(layer) for layer in layers if isinstance(layer, nn.Module)],
    }


@ex1.fact("make_layers returns two nn.Linear layers")
def _(student):
    seen = student.run(look_at_layers, *student.devices)
    need(seen["kind"] == "layers", f"It returned {seen['kind']}. Return both layers: return layer1, layer2")
    need(seen["types"] == ["Linear", "Linear"], f"It returned {seen['types']}.")


@ex1.fact("layer1 takes 1000 numbers and gives 2000, layer2 takes 2000 and gives 1000")
def _(student):
    sizes = student.run(look_at_layers, *student.devices)["sizes"]
    need(sizes == [[1000, 2000], [2000, 1000]], f"Yours go {' and '.join(f'{a} -> {b}' for a, b in sizes)}.")


@ex1.fact("layer1 is on device0 and layer2 is on device1")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            found = student.run(look_at_layers, device0, device1)["devices"]
            need(found == [device0, device1], f"layer1 is on {found[0]} and layer2 is on {found[1]}.")


# --- ex2: SimpleMPModel ---------------------------------------------------------------------------------------

ex2 = lab.exercise(
    "ex2",
    points=3,
    title="SimpleMPModel: the model that moves its own data",
    hints=[
        "Follow one batch with your finger. It starts on the CPU. Which device must it be on when layer1 runs?",
        "An operator wants its tensors on one device. So there is one move before layer1, and one more later.",
        "Between which two lines does the batch have to change device? Nothing has to move after layer2.",
        "x.to(device) leaves x where it is and gives a copy. Does your code keep the copy?",
    ],
)


def look_at_model(lab, device0, device1):
    import torch

    from utils.facts.probes import parameters

    return parameters(lab.SimpleMPModel(torch.device(device0), torch.device(device1)))


def run_model(lab, device0, device1, seed, x):
    import torch

    from utils.facts.probes import fill, forward_and_backward

    model = lab.SimpleMPModel(torch.device(device0), torch.device(device1))
    fill(model, seed)
    run = forward_and_backward(model, x)
    del run["gradients"]  # four million numbers that nobody asks for
    return run


def expected_output(seed, x):
    """What the same layers with the same numbers give on one device: what a split model must equal."""
    first, second = skip_init(nn.Linear, 1000, 2000), skip_init(nn.Linear, 2000, 1000)
    model = nn.Sequential(first, nn.ReLU(), second, nn.ReLU())
    fill(model, seed)
    with torch.no_grad():
        return model(torch.from_numpy(x)).numpy()


def batch(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).numpy()


def layers_of(parameters):
    """The layers' devices and sizes from a list of parameters, weights only, in order."""
    weights = [p for p in parameters if len(p["shape"]) > 1]
    return [p["device"] for p in weights], [p["shape"] for p in weights]


@ex2.fact("the model has two linear layers: 1000 -> 2000 and 2000 -> 1000")
def _(student):
    _, shapes = layers_of(student.run(look_at_model, *student.devices))
    need(
        shapes,
        "PyTorch sees no layers in it. Is each an attribute, self.something = nn.Linear(...)? "
        "Layers in a plain Python list, or made in forward, cannot be seen.",
    )
    need(
        shapes == [[2000, 1000], [1000, 2000]],
        f"Its layers go {', '.join(f'{s[-1]} -> {s[0]}' for s in shapes)}.",
    )


@ex2.fact("the first layer is on device0 and the second is on device1")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            found, _ = layers_of(student.run(look_at_model, device0, device1))
            need(found == [device0, device1], f"the layers are on {' and '.join(found)}.")


@ex2.fact("a batch that starts on the CPU goes all the way through")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            shape = student.run(run_model, device0, device1, SEED, batch(BATCH, 1000))["output"].shape
            need(shape == (BATCH, 1000), f"a batch of shape ({BATCH}, 1000) came out with shape {tuple(shape)}.")


@ex2.fact("the output is on device1")
def _(student):
    found = student.run(run_model, *student.devices, SEED, batch(BATCH, 1000))["output device"]
    need(found == student.devices[1], f"The output is on {found}, and device1 is {student.devices[1]}.")


@ex2.fact("the first ReLU works on device0: the batch moves after it")
def _(student):
    copied = student.run(run_model, *student.devices, SEED, batch(BATCH, 1000))["copied results of"]
    need(
        not any(name.startswith("AddmmBackward") for name in copied),
        "What moves is the result of a linear layer, so the ReLU after it works on the other device.",
    )


@ex2.fact("the output has the numbers that the same layers give on one device")
def _(student):
    x = batch(BATCH, 1000)
    found = student.run(run_model, *student.devices, SEED, x)["output"]
    need(
        same(found, expected_output(SEED, x)),
        "The numbers differ. Are there two ReLUs, one after each layer, and does each run once?",
    )


@ex2.fact("it can be trained: after backward() every parameter has a gradient, on its own device")
def _(student):
    device0, device1 = student.devices
    found = student.run(run_model, device0, device1, SEED, batch(BATCH, 1000))["gradient devices"]
    need(
        None not in found, f"{found.count(None)} of the 4 parameters have no gradient. What cuts the way back to them?"
    )
    need(sorted(found) == sorted([device0] * 2 + [device1] * 2), f"The gradients are on {', '.join(found)}.")


# --- ex3: read a forward pass -----------------------------------------------------------------------------------

ex3 = lab.exercise(
    "ex3",
    points=1,
    title="Read a forward pass",
    hints=[
        "Go line by line, and write beside each line where x is after it.",
        "A ReLU has no weights: it computes where its input is. Which line before it moved the input last?",
        "For the copies, count the lines with .to that really change the device. The first one counts too.",
    ],
)

QUESTIONS = {
    "relu1_computes_on": (("cpu", "device0", "device1"), "device1"),
    "output_is_on": (("cpu", "device0", "device1"), "device0"),
    "number_of_copies": (range(10), 3),
}


def read_answers(lab):
    answers = {}
    for name in ("relu1_computes_on", "output_is_on", "number_of_copies"):
        value = getattr(lab, name)
        answers[name] = value if isinstance(value, (str, int, float)) else repr(value)[:80]
    return answers


@ex3.fact("each of the three has an answer of the kind that is asked for")
def _(student):
    for name, found in student.run(read_answers).items():
        offered = QUESTIONS[name][0]
        wanted = "a number below 10" if isinstance(offered, range) else f"one of: {', '.join(map(repr, offered))}"
        need(found in offered, f"{name} is {found!r}. It should be {wanted}.")


@ex3.fact("the three answers are right")
def _(student):
    found = student.run(read_answers)
    wrong = [name for name, (_, right) in QUESTIONS.items() if found[name] != right]
    need(not wrong, f"{len(wrong)} of 3 {'is' if len(wrong) == 1 else 'are'} not right yet.")


# --- ex4: placement -------------------------------------------------------------------------------------------

ex4 = lab.exercise(
    "ex4",
    points=1,
    title="Where is everything? A tool you will use again",
    hints=[
        "Which method of a module goes through its parameters *and* their names? dir(model) lists all methods.",
        "A parameter is a tensor. What do you ask a tensor for, to know where it is?",
        "The task wants text. What does Python have to turn any object into text?",
    ],
)


def place_a_small_model(lab, devices):
    from collections import OrderedDict

    from torch import nn

    from utils.facts.probes import kind_of, text_or_kind

    names = ("first", "second", "third")
    layers = [(name, nn.Linear(3, 3).to(device)) for name, device in zip(names, devices, strict=False)]
    found = lab.placement(nn.Sequential(OrderedDict(layers)))
    if not isinstance(found, dict):
        return kind_of(found)
    return {str(name): text_or_kind(where) for name, where in found.items()}


def compare_placement(found, expected):
    need(isinstance(found, dict), f"placement returned {found}. Return a dict.")
    missing = [name for name in expected if name not in found]
    need(not missing, f"These parameters are not in it: {', '.join(missing)}. It has: {', '.join(found) or 'nothing'}.")
    extra = [name for name in found if name not in expected]
    need(not extra, f"These are no parameters of the model: {', '.join(extra)}.")
    for name, device in expected.items():
        text = "" if found[name].startswith(("'", '"')) else " Text is wanted: str(device) makes it."
        need(found[name] == repr(device), f"{name} is on {device!r}, and placement gives {found[name]}.{text}")


@ex4.fact("placement tells the device of every parameter, by name, as text")
def _(student):
    device0, device1 = student.devices
    expected = {"first.weight": device0, "first.bias": device0, "second.weight": device1, "second.bias": device1}
    compare_placement(student.run(place_a_small_model, [device0, device1]), expected)


# --- ex5: any stack of layers ---------------------------------------------------------------------------------

ex5 = lab.exercise(
    "ex5",
    points=3,
    title="Split any stack of layers",
    hints=[
        "layers[:cut] is an nn.Sequential too, with the layers before the cut. So is layers[cut:].",
        "Each of the two parts goes to its device in one line. forward has the shape of SimpleMPModel's.",
        "Where does a batch that starts on the CPU have to be before the first part, and before the second?",
        "If the numbers or the gradients differ: are these the layers that you were given, each once, in their order?",
    ],
)


LINEAR_STACK = [["Linear", 12, 16], ["Tanh"], ["Linear", 16, 8], ["Tanh"], ["Linear", 8, 5]]


def split_and_run(lab, stack, cut, device0, device1, state, x):
    import torch

    from utils.facts.probes import build, forward_and_backward, tensors_of

    model = lab.SplitInTwo(build(stack, state), cut, torch.device(device0), torch.device(device1))
    return forward_and_backward(model, x) | {"tensors": tensors_of(model)}


def compare_split(student, stack, x, cut, device0, device1):
    """Split `stack` after `cut` layers and compare with the same stack on one device."""
    torch.manual_seed(5)
    whole = build(stack)
    state = {name: values.numpy().copy() for name, values in whole.state_dict().items()}
    with case(f"With {len(stack)} layers, cut={cut}, device0={device0} and device1={device1}"):
        run = student.run(split_and_run, stack, cut, device0, device1, state, x)
        compare_places(run["tensors"], whole, cut, device0, device1)
        need(run["output device"] == device1, f"the output is on {run['output device']}.")
        expected = forward_and_backward(whole, x)
        need(same(run["output"], expected["output"]), "the output differs from that of the stack on one device.")
        need(all(g is not None for g in run["gradients"]), "after backward() some parameter has no gradient.")
        right = all(any(same(mine, theirs) for theirs in expected["gradients"]) for mine in run["gradients"])
        need(right, "the gradients differ from those of the stack on one device.")


def compare_places(found, whole, cut, device0, device1):
    """Every layer's parameters and buffers are on the device of its part: `found` is a list of [shape, device]."""
    need(
        found,
        "PyTorch sees no parameters in the model. Are the parts attributes, such as self.part0 = layers[...]? "
        "Layers in a plain Python list cannot be seen.",
    )
    left = list(found)
    for index, layer in enumerate(whole):
        wanted = device0 if index < cut else device1
        for tensor in tensors_of(layer, wanted):
            need(tensor in left, f"layer {index} ({type(layer).__name__}) is not on {wanted}, or not there.")
            left.remove(tensor)
    need(not left, f"the model has {len(left)} parameters or buffers that the stack does not have.")


def same(mine, theirs):
    return mine.shape == theirs.shape and np.allclose(mine, theirs, **CLOSE)


@ex5.fact("split in the middle, a stack of linear layers computes what it computed on one device")
def _(student):
    compare_split(student, LINEAR_STACK, batch(4, 12), 2, *student.devices)


@ex5.fact("with the two devices swapped it does, too")
def _(student):
    compare_split(student, LINEAR_STACK, batch(4, 12), 2, *student.devices[::-1])
