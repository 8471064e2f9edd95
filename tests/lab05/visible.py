"""Lab 05's visible facts: what `check("ex1")` tells the learner, and the first part of the grade.

A probe runs beside the student's code and tells plain data; the fact judges it here.
"""

import numpy as np
import torch

from utils.facts import Lab, case, need, orders_of
from utils.facts.probes import build, forward_and_backward, tensors_of

lab = Lab("lab05", "Watch the idle GPU")

CLOSE = {"rtol": 1e-4, "atol": 1e-5}  # a real GPU adds up in another order than a CPU


# --- ex1: what the percentage means -------------------------------------------------------------------------------

ex1 = lab.exercise(
    "ex1",
    points=2,
    title="What the percentage means",
    hints=[
        "Draw the kernels as bars on a line of time, with `begin` and `end` marked. Which stretches are covered?",
        "A kernel that began before `begin` counts from `begin` on. What do max and min do for its two times?",
        "Two kernels at the same moment are one busy moment. Go through the kernels in the order of their starts, and "
        "remember until when you have counted.",
        "The next kernel adds only what lies after that moment. If it ends before it, it adds nothing.",
    ],
)


def ask_busy_percent(lab, kernels, begin, end):
    from utils.facts.probes import kind_of

    found = lab.busy_percent([tuple(kernel) for kernel in kernels], begin, end)
    if found is None or isinstance(found, (str, bool, list, tuple, dict)) or not hasattr(found, "__float__"):
        return kind_of(found)
    return float(found)


def compare_percent(student, kernels, begin, end, right):
    with case(f"For the kernels {kernels}, from {begin} to {end}"):
        found = student.run(ask_busy_percent, [list(kernel) for kernel in kernels], begin, end)
        need(not isinstance(found, str), f"busy_percent returned {found}. Return a number, the percent.")
        need(abs(found - right) < 1e-6, f"busy_percent returned {found:g}, and the right answer is {right:g}.")


@ex1.fact("one kernel that runs for a quarter of the time makes 25 percent")
def _(student):
    compare_percent(student, [(1.0, 2.0)], 0.0, 4.0, 25)


@ex1.fact("kernels one after the other add up, and the time between them is idle")
def _(student):
    compare_percent(student, [(0.0, 1.0), (1.0, 2.0), (3.0, 3.5)], 0.0, 4.0, 62.5)


@ex1.fact("time in which two kernels ran counts once")
def _(student):
    compare_percent(student, [(0.0, 2.0), (1.0, 3.0)], 0.0, 4.0, 75)


@ex1.fact("of a kernel that lies partly outside, only the part inside counts")
def _(student):
    compare_percent(student, [(-1.0, 1.0), (3.0, 9.0)], 0.0, 4.0, 50)


# --- ex2: utilisation by device -----------------------------------------------------------------------------------

ex2 = lab.exercise(
    "ex2",
    points=2,
    title="Imbalance, from samples that have holes",
    hints=[
        "Collect first: for each device a list of its values. A dict of lists does it.",
        "0 is a value: the device was idle. None is no value: nobody knows. `if value` treats both alike.",
        "Divide by how many values there are, not by how many samples. And where there are none?",
    ],
)


def ask_means(lab, samples):
    from utils.facts.probes import kind_of

    found = lab.mean_utilisation([tuple(sample) for sample in samples])
    if not isinstance(found, dict):
        return kind_of(found)
    plain = {}
    for device, value in found.items():
        number = hasattr(value, "__float__") and not isinstance(value, (bool, str))
        plain[str(device)] = float(value) if number else None if value is None else repr(value)[:60]
    return plain


def compare_means(student, samples, right):
    with case(f"For the samples {samples}"):
        found = student.run(ask_means, [list(sample) for sample in samples])
        need(not isinstance(found, str), f"mean_utilisation returned {found}. Return a dict.")
        for device, mean in right.items():
            need(device in found, f"{device} is missing in what it returned: {found}.")
            value = found[device]
            need(not isinstance(value, str), f"{device} has {value}. Write a number, or None where there is no value.")
            same = value is None if mean is None else value is not None and abs(value - mean) < 1e-6
            need(same, f"{device} has {value}, and it should have {mean}.")
        extra = [device for device in found if device not in right]
        need(not extra, f"it has {', '.join(map(repr, extra))}, which is in none of these samples.")


@ex2.fact("each device has the mean of its own values")
def _(student):
    samples = [("cuda:0", 80), ("cuda:1", 10), ("cuda:0", 60), ("cuda:1", 20)]
    compare_means(student, samples, {"cuda:0": 70, "cuda:1": 15})


@ex2.fact("a sample without a value is left out of its device's mean")
def _(student):
    samples = [("cuda:0", 90), ("cuda:1", None), ("cuda:0", None), ("cuda:1", 30)]
    compare_means(student, samples, {"cuda:0": 90, "cuda:1": 30})


@ex2.fact("a device that never has a value has None")
def _(student):
    samples = [("cuda:0", 50), ("cuda:1", None), ("cuda:0", 70), ("cuda:1", None)]
    compare_means(student, samples, {"cuda:0": 60, "cuda:1": None})


# --- ex3: bytes of training ---------------------------------------------------------------------------------------

ex3 = lab.exercise(
    "ex3",
    points=2,
    title="What training takes, by device",
    hints=[
        "For one parameter: how many numbers has it, and how many bytes has each? Both are things to ask a tensor.",
        "How many tensors of a parameter's size are there in the end? Itself, its gradient, and the optimizer's.",
        "A parameter that is not trained has no gradient, and the optimizer keeps nothing for it.",
        "model.parameters() gives a weight that two layers share once, and no buffers. model.state_dict() does not.",
    ],
)

STATES = {"sgd": 0, "momentum": 1, "adam": 2}  # tensors of a parameter's size that the optimizer keeps


def ask_training_memory(lab, kind, devices, optimizer):
    import torch
    from torch import nn

    from utils.facts.probes import kind_of

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


@ex3.fact("with SGD with momentum and with Adam: what these keep for each parameter, too")
def _(student):
    for optimizer in ("momentum", "adam"):
        compare_training_memory(student, "plain", student.devices, optimizer)


@ex3.fact("a frozen parameter has no gradient and no state")
def _(student):
    compare_training_memory(student, "frozen", student.devices, "adam")


@ex3.fact("a weight that two layers share counts once")
def _(student):
    compare_training_memory(student, "shared", student.devices, "sgd")


# --- ex4: the cut that balances -----------------------------------------------------------------------------------

ex4 = lab.exercise(
    "ex4",
    points=2,
    title="The cut that balances",
    hints=[
        "For one cut: what does each part cost? sum(costs[:cut]) is one of them. Which of the two counts?",
        "Which cuts are there? The smallest leaves one layer for device0, the largest leaves one for device1.",
        "There are few cuts, so try all. min(..., key=...) gives the one for which something is smallest.",
    ],
)


def ask_best_cut(lab, costs):
    from utils.facts.probes import kind_of

    found = lab.best_cut(list(costs))
    if isinstance(found, bool) or not hasattr(found, "__index__"):
        return f"{found!r:.40}, {kind_of(found)}"
    return int(found)


def compare_cut(student, costs):
    heavier = {cut: max(sum(costs[:cut]), sum(costs[cut:])) for cut in range(1, len(costs))}
    with case(f"For the costs {costs}"):
        cut = student.run(ask_best_cut, costs)
        need(not isinstance(cut, str), f"best_cut returned {cut}. Return a whole number.")
        need(
            cut in heavier,
            f"best_cut returned {cut}. A cut is from 1 to {len(costs) - 1}: both devices get a layer.",
        )
        need(
            np.isclose(heavier[cut], min(heavier.values())),
            f"with cut={cut} the heavier part costs {heavier[cut]:g}, and another cut makes it "
            f"{min(heavier.values()):g}.",
        )


@ex4.fact("with layers of equal cost the cut is in the middle")
def _(student):
    compare_cut(student, [2, 2, 2, 2])


@ex4.fact("with layers of different cost the heavier part is as light as it can be")
def _(student):
    for costs in ([9, 1, 1, 1, 1, 1], [1, 2, 3, 4], [3, 1, 5, 1]):
        compare_cut(student, costs)


@ex4.fact("both devices get at least one layer")
def _(student):
    for costs in ([1, 20], [1, 1, 1, 30]):
        compare_cut(student, costs)


# --- ex5: fit a model into memory ---------------------------------------------------------------------------------

ex5 = lab.exercise(
    "ex5",
    points=2,
    title="Fit a model that one device cannot hold",
    hints=[
        "How many bytes does one layer take in training with Adam? How many tensors are there for each parameter?",
        "Go through the layers from the front and add up. When do you have to stop?",
        "Test before you add: would the sum with this layer still be at most memory0?",
        "Your loop gives a cut. layers[:cut] and layers[cut:] are the parts, and .to(device) places one.",
    ],
)

LINEAR = ["Linear", 128, 128]  # sizes that fill whole blocks of memory, so that what is counted is what is taken
SIX = [layer for _ in range(6) for layer in (LINEAR, ["Tanh"])]
ONE = 4 * 4 * (128 * 128 + 128)  # bytes of one LINEAR in training with Adam


def fit_and_train(lab, stack, memory0, device0, device1, state, x):
    import torch

    from utils.facts.probes import build, forward_and_backward, tensors_of

    layers = build(stack).to(torch.from_numpy(x).dtype)
    layers.load_state_dict({name: torch.from_numpy(values) for name, values in state.items()})
    simulated = device0.startswith("simgpu")
    before = torch.get_device_module("simgpu").memory_allocated(device0) if simulated else 0
    model = lab.FitInTwo(layers, memory0, torch.device(device0), torch.device(device1))
    places = tensors_of(model)
    run = forward_and_backward(model, x)
    optimizer = torch.optim.Adam(model.parameters())
    optimizer.step()
    # A real GPU's libraries keep memory of their own there, so what is held is asked of simulated ones only.
    held = torch.get_device_module("simgpu").memory_allocated(device0) - before if simulated else None
    return run | {"tensors": places, "held": held}


def compare_fit(student, stack, memory0, cut, device0, device1, dtype=torch.float32):
    """Fit `stack` into `memory0` bytes of device0, where `cut` layers have room, and compare with one device."""
    torch.manual_seed(5)
    whole = build(stack).to(dtype)
    state = {name: values.numpy().copy() for name, values in whole.state_dict().items()}
    x = torch.randn(4, stack[0][1], generator=torch.Generator().manual_seed(cut), dtype=dtype).numpy()
    numbers = [sum(p.numel() * p.element_size() for p in layer.parameters()) * 4 for layer in whole]
    with case(f"With memory0={memory0} and layers that take {[n for n in numbers if n]} bytes in training"):
        run = student.run(fit_and_train, stack, memory0, device0, device1, state, x)
        compare_parts(run["tensors"], whole, cut, device0, device1)
        expected = forward_and_backward(whole, x)
        need(
            same(run["output"], expected["output"]),
            "the output differs from that of the whole stack. Is each layer there, in its place?",
        )
        need(all(g is not None for g in run["gradients"]), "after backward() some parameter has no gradient.")
        right = all(any(same(mine, theirs) for theirs in expected["gradients"]) for mine in run["gradients"])
        need(right, "the gradients differ from those of the stack on one device.")
        need(
            run["held"] is None or run["held"] <= memory0,
            f"after a step with Adam device0 holds {run['held']} bytes: more than it has. Is something there twice?",
        )


def compare_parts(found, whole, cut, device0, device1):
    """As many layers as fit are on device0 and the others on device1: `found` is a list of [shape, device]."""
    need(found, "PyTorch sees no parameters in the model. Are the parts attributes, such as self.part0 = ...?")
    elsewhere = [device for _, device in found if device not in (device0, device1)]
    need(not elsewhere, f"there are parameters on {', '.join(elsewhere[:1])}, which is neither device0 nor device1.")
    # Each layer with parameters has two of them. A real GPU under two names says nothing about the cut.
    count, room = sum(device == device0 for _, device in found) // 2, len(tensors_of(whole[:cut])) // 2
    if device0 != device1:
        layers = f"{count} layer{'' if count == 1 else 's'} with parameters"
        need(count <= room, f"{layers} on device0, and {room} fit there: a real step ends with OutOfMemoryError.")
        need(count >= room, f"{layers} on device0, and {room} fit there.")
    left = list(found)
    for index, layer in enumerate(whole):
        wanted = device0 if index < cut else device1
        for tensor in tensors_of(layer, wanted):
            need(tensor in left, f"layer {index} ({type(layer).__name__}) is not on {wanted}, or not there.")
            left.remove(tensor)
    need(not left, f"the model has {len(left)} parameters that the stack does not have.")


def same(mine, theirs):
    return mine.shape == theirs.shape and np.allclose(mine, theirs, **CLOSE)


@ex5.fact("device0 gets as many layers as have room there, trained with Adam, and the model trains like the whole")
def _(student):
    compare_fit(student, SIX, 2 * ONE + ONE // 2, 4, *student.devices)


@ex5.fact("with more room device0 gets more layers, and with the devices swapped the same holds")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            compare_fit(student, SIX, 4 * ONE + ONE // 2, 8, device0, device1)


def record_step(lab, stack, memory0, device0, device1):
    from dataclasses import asdict

    import torch

    from utils.facts.probes import build
    from utils.trace import record

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
