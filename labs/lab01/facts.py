"""Lab 01's visible facts: what `check("ex1")` tells the learner, and the first part of the grade.

A probe runs beside the student's code and tells plain data; the fact judges it here.
"""

from functools import cache
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.utils import skip_init

from utils.exercises.facts import Lab, Unmet, case, need, orders_of
from utils.exercises.facts.probes import build, fill, forward_and_backward, tensors_of

lab = Lab("lab01", "Split a model")

BATCH = 32
SEED = 7  # of the numbers that a model is given
CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}  # a real GPU adds up in another order than a CPU


# --- ex1: two layers, two devices -----------------------------------------------------------------------------

ex1 = lab.exercise(
    "ex1",
    points=1,
    title="Put two layers on two devices",
    hints=[
        "torch.zeros(3, device=...) creates a tensor on a device, without a copy. Can you create a layer the same way?",
        "help(nn.Linear) lists the arguments of nn.Linear. The third is bias, so pass the device by its keyword.",
        "Create each layer in one line, and do not move it afterwards. Use the function's two arguments instead of "
        "cuda:0 or simgpu:0, because check also passes other devices.",
    ],
)


def look_at_layers(lab, device0, device1):
    import torch
    from torch import nn

    from utils.exercises.facts.probes import device_of, kind_of

    torch.set_default_device(None)
    layers = lab.make_layers(torch.device(device0), torch.device(device1))
    default = torch.get_default_device()
    torch.set_default_device(None)  # other exercises are not to find what an answer leaves set
    if not isinstance(layers, (tuple, list)):
        return {"kind": kind_of(layers)}
    return {
        "default": str(default),
        "kind": "layers",
        "types": [type(layer).__name__ for layer in layers],
        "sizes": [list(layer.weight.shape)[::-1] for layer in layers if isinstance(layer, nn.Linear)],
        "devices": [device_of(layer) for layer in layers if isinstance(layer, nn.Module)],
    }


@ex1.fact("make_layers returns two nn.Linear layers")
def _(student):
    seen = student.run(look_at_layers, *student.devices)
    need(
        seen["kind"] == "layers",
        f"make_layers returned {seen['kind']}. Return both layers with `return layer1, layer2`.",
    )
    found = ", ".join(seen["types"]) or "no layers"
    need(seen["types"] == ["Linear", "Linear"], f"make_layers returned {found}. Return two nn.Linear layers.")


@ex1.fact("layer1 has 1000 inputs and 2000 outputs, and layer2 has 2000 inputs and 1000 outputs")
def _(student):
    sizes = student.run(look_at_layers, *student.devices)["sizes"]
    found = " and ".join(f"{inputs} -> {outputs}" for inputs, outputs in sizes)
    need(
        sizes == [[1000, 2000], [2000, 1000]],
        f"The sizes of your layers are {found} (inputs -> outputs). nn.Linear takes the number of inputs first.",
    )


@ex1.fact("layer1 is on device0 and layer2 is on device1")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            seen = student.run(look_at_layers, device0, device1)
            found, default = seen["devices"], seen["default"]
            need(
                found == [device0, device1],
                f"layer1 is on {found[0]} and layer2 is on {found[1]}. {why_elsewhere(found, device0, device1)}",
            )
            need(
                default == "cpu",
                f"After make_layers, PyTorch's default device is {default}, so later tensors are created on that "
                "device. Pass each layer its device instead.",
            )


def why_elsewhere(found, device0, device1):
    """The likeliest mistake that puts layer1 and layer2 on these devices."""
    if "cpu" in found:
        return "PyTorch creates a layer on the CPU unless you pass a device. Pass device0 or device1, as given."
    if found[0] == found[1]:
        return "Create each layer on its own device, and do not move it afterwards."
    return f"Expected {device0} and {device1}. Use the arguments device0 and device1 in this order, not device names."


def copies_while_making(lab, device0, device1):
    import torch

    from utils.observe.trace import record

    with record(device0, device1) as timeline:
        lab.make_layers(torch.device(device0), torch.device(device1))
    return [[event.kind, event.bytes] for event in timeline.events if not event.is_kernel]


@ex1.fact("each layer is created on its own device, and nothing is copied from the CPU or the other device")
def _(student):
    copies = student.run(copies_while_making, *student.devices)
    size = sum(size for _, size in copies)
    amount = f"{size / 1e6:.1f} MB" if size > 1e5 else f"{size} bytes"
    need(
        not copies,
        f"make_layers copies {amount} between devices (copies: {len(copies)}). Moving a layer copies its parameters, "
        "and so does filling them with values from another device. Have nn.Linear create them on the device.",
    )


# --- ex2: SimpleMPModel ---------------------------------------------------------------------------------------

ex2 = lab.exercise(
    "ex2",
    points=3,
    title="SimpleMPModel with a shortcut",
    hints=[
        "Draw the two paths of the batch, one through the layers and one around them. Where do they meet?",
        "The two operands of the addition must be on the same device. Which one do you have to move?",
        "After an assignment to x, the name x no longer refers to the batch. Give the activations another name.",
        "x.to(device) returns a copy and leaves x on its device. Does your code use each copy?",
        "If backward() raises an error about an in-place operation, a line such as x += y overwrites a tensor that the "
        "backward pass needs.",
    ],
    likely={
        "inplace operation": "An in-place line such as x += y changed a tensor that backward() needs. Write x = x + y.",
        "The size of tensor a": "The shortcut adds the batch itself, which has the same shape as the output of relu2.",
    },
)


def look_at_model(lab, device0, device1):
    import torch

    from utils.exercises.facts.probes import parameters

    return parameters(lab.SimpleMPModel(torch.device(device0), torch.device(device1)))


def run_forward(lab, device0, device1, seed, x):
    """Forward alone: what is wrong in backward only belongs to the fact about training."""
    import torch

    from utils.exercises.facts.probes import array, copied_results_of, fill

    model = lab.SimpleMPModel(torch.device(device0), torch.device(device1))
    fill(model, seed)
    output = model(torch.from_numpy(x))
    copied = copied_results_of(output)
    return {"output": array(output), "output device": str(output.device), "copied results of": copied}


def run_model(lab, device0, device1, seed, x):
    import torch

    from utils.exercises.facts.probes import fill, forward_and_backward

    model = lab.SimpleMPModel(torch.device(device0), torch.device(device1))
    fill(model, seed)
    run = forward_and_backward(model, x)
    del run["gradients"]  # four million numbers that no fact needs
    return run


def expected_output(seed, x):
    """What the same layers and shortcut give on one device: what a split model must equal."""
    return np.maximum(before_last_relu(seed, x), 0) + x


def before_last_relu(seed, x):
    return _before_last_relu(seed, x.shape, x.tobytes())


@cache  # the same for each submission that a grader judges
def _before_last_relu(seed, shape, numbers):
    x = np.frombuffer(numbers, dtype=np.float32).reshape(shape)
    first, second = skip_init(nn.Linear, 1000, 2000), skip_init(nn.Linear, 2000, 1000)
    model = nn.Sequential(first, nn.ReLU(), second)
    fill(model, seed)
    with torch.no_grad():
        found = model(torch.tensor(x)).numpy()
    found.flags.writeable = False
    return found


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
        "The model has no registered weights. Create each layer in __init__ as an attribute, as in self.layer1 = "
        "nn.Linear(...). PyTorch does not register layers in a plain list or layers created in forward.",
    )
    need(
        shapes == [[2000, 1000], [1000, 2000]],
        f"The model has the layers {', '.join(f'{s[-1]} -> {s[0]}' for s in shapes)}. Expected 1000 -> 2000 and "
        "2000 -> 1000, in this order.",
    )


@ex2.fact("the first layer is on device0, and the second is on device1")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            found, _ = layers_of(student.run(look_at_model, device0, device1))
            why = "Use the given devices, and do not move the whole model afterwards."
            if "cpu" in found:
                why = "Put each layer on its device in __init__. Moving the batch does not move a layer."
            need(
                found == [device0, device1],
                f"The layers are on {' and '.join(found)}, not on {device0} and {device1}. {why}",
            )


@ex2.fact("for a batch on the CPU, the output has the same shape as the batch")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            shape = student.run(run_forward, device0, device1, SEED, batch(BATCH, 1000))["output"].shape
            need(shape == (BATCH, 1000), f"For a batch of shape ({BATCH}, 1000), the output has shape {tuple(shape)}.")


@ex2.fact("the output is on device1")
def _(student):
    found = student.run(run_forward, *student.devices, SEED, batch(BATCH, 1000))["output device"]
    need(found == student.devices[1], f"The output is on {found}. Leave it on device1 ({student.devices[1]}).")


@ex2.fact("the output equals that of the same layers and shortcut on one device")
def _(student):
    x = batch(BATCH, 1000)
    found = student.run(run_forward, *student.devices, SEED, x)["output"]
    before = before_last_relu(SEED, x)
    through = np.maximum(before, 0)
    need(not same(found, through), "The output is that of relu2 alone. Add the batch to it.")
    need(
        not same(found, 2 * through),
        "The output is twice that of relu2, because your code adds relu2's output to itself. Add the batch. Did you "
        "assign that output to the batch's name?",
    )
    need(not same(found, np.maximum(before + x, 0)), "The batch is added before relu2. Add it to the output of relu2.")
    need(
        same(found, expected_output(SEED, x)),
        "The output differs from relu2(layer2(relu1(layer1(batch)))) + batch. Is there a ReLU after each linear layer?",
    )


@ex2.fact("the only activation that is copied between devices is the first ReLU's output, and it is copied once")
def _(student):
    copied = student.run(run_forward, *student.devices, SEED, batch(BATCH, 1000))["copied results of"]
    need(
        not any(name.startswith("AddmmBackward") for name in copied),
        "The output of a linear layer is moved before its ReLU, so the ReLU runs on the other device. Apply the ReLU "
        "first, and then move its output.",
    )
    need(
        len(copied) < 2,
        f"Activations are copied between devices {len(copied)} times. {what_is_copied_too_often(copied)}",
    )


def what_is_copied_too_often(copied):
    if any(name.startswith("AddBackward") for name in copied):
        return "One of the copied activations is the sum. Add the two tensors on device1, and leave the sum there."
    if any(name.startswith("ToCopyBackward") for name in copied):
        return "One of these copies is copied again. Copy the activation directly from device0 to device1."
    return "One copy is enough."


def run_from(lab, start, device0, device1, seed, x):
    import torch

    from utils.exercises.facts.probes import array, fill

    model = lab.SimpleMPModel(torch.device(device0), torch.device(device1))
    fill(model, seed)
    output = model(torch.from_numpy(x).to(start))
    return {"output": array(output), "device": str(output.device)}


@ex2.fact("the batch may also start on device0 or device1")
def _(student):
    x = batch(BATCH, 1000)
    for name, start in zip(("device0", "device1"), student.devices, strict=True):
        with case(f"With a batch that starts on {name}"):
            run = student.run(run_from, start, *student.devices, SEED, x)
            need(run["device"] == student.devices[1], f"The output is on {run['device']}, not on device1.")
            need(same(run["output"], expected_output(SEED, x)), "The output differs from that for a batch on the CPU.")


@ex2.fact("after backward(), every parameter has a gradient on its own device")
def _(student):
    device0, device1 = student.devices
    with case("In output.square().mean().backward(), after a correct forward pass"):
        found = student.run(run_model, device0, device1, SEED, batch(BATCH, 1000))["gradient devices"]
    need(
        None not in found,
        f"The gradient of {found.count(None)} of the 4 parameters is None. Does detach() or no_grad() cut the autograd "
        "graph?",
    )
    need(
        sorted(found) == sorted([device0] * 2 + [device1] * 2),
        f"The gradients are on {', '.join(found)}. Each device should have two of them.",
    )


# --- ex3: read a forward pass -----------------------------------------------------------------------------------

ex3 = lab.exercise(
    "ex3",
    points=1,
    title="Read a forward pass",
    hints=[
        "Next to each line of forward, write the device of x after that line.",
        "A ReLU has no weights, so it computes on the device of its input. Which earlier line was the last to move x?",
        "Count each .to() that changes the device of x, including the one that moves x from the CPU.",
    ],
)

QUESTIONS = {
    "relu1_computes_on": (("cpu", "device0", "device1"), "device1"),
    "output_is_on": (("cpu", "device0", "device1"), "device0"),
    "number_of_copies": (range(10), 3),
}
WHERE_TO_LOOK = {
    "relu1_computes_on": "Which device is the ReLU's input on?",
    "output_is_on": "Look at the return statement.",
    "number_of_copies": "Look at each .to() call, and ignore the other operations.",
}


def read_answers(lab):
    answers = {}
    for name in ("relu1_computes_on", "output_is_on", "number_of_copies"):
        value = getattr(lab, name)
        answers[name] = value if isinstance(value, (str, int, float)) else repr(value)[:80]
    return answers


@ex3.fact("two of the answers name a device, and the third is a number")
def _(student):
    for name, found in student.run(read_answers).items():
        offered = QUESTIONS[name][0]
        wanted = "a number below 10" if isinstance(offered, range) else f"one of {', '.join(map(repr, offered))}"
        if isinstance(offered, range) and isinstance(found, str):
            wanted += ", without quotes"
        need(meant(found) in offered, f"{name} is {found!r}. Write {wanted}.")


def meant(found):
    """A name of a device in small letters, as it is offered; a number as it is."""
    return found.strip().lower() if isinstance(found, str) else found


@ex3.fact("the three answers are right")
def _(student):
    found = student.run(read_answers)
    wrong = [name for name, (_, right) in QUESTIONS.items() if meant(found[name]) != right]
    need(not wrong, f"Not right yet: {', '.join(wrong)}. {WHERE_TO_LOOK[wrong[0]] if wrong else ''}")


# --- ex4: placement -------------------------------------------------------------------------------------------

ex4 = lab.exercise(
    "ex4",
    points=2,
    title="Where is each tensor, and which layers are torn?",
    hints=[
        "Which methods of a module return its parameters or buffers *with* their names? dir(model) lists all methods.",
        "Parameters and buffers are tensors. Which attribute of a tensor gives its device?",
        "named_modules() returns every module. A module's parameters() and buffers() take an argument named recurse.",
        "Alternatively, start from the names that placement returns. The text before the last dot is the module's "
        "name.",
    ],
)


def place_a_small_model(lab, devices):
    from collections import OrderedDict

    from torch import nn

    from utils.exercises.facts.probes import kind_of, text_or_kind

    names = ("first", "second", "third")
    layers = [(name, nn.Linear(3, 3).to(device)) for name, device in zip(names, devices, strict=False)]
    found = lab.placement(nn.Sequential(OrderedDict(layers)))
    if not isinstance(found, dict):
        return kind_of(found)
    return {str(name): text_or_kind(where) for name, where in found.items()}


def compare_placement(found, expected, buffers=(), frozen=()):
    need(isinstance(found, dict), f"placement returned {found}. Return a dict.")
    missing = [name for name in expected if name not in found]
    if {name.rpartition(".")[2] for name in missing} & set(found):
        why = " Use full names. Otherwise, entries with the same short name overwrite each other."
    elif missing and set(missing) <= set(frozen):
        why = " Include frozen parameters, too."
    else:
        why = " Include the buffers, too." if missing and set(missing) <= set(buffers) else ""
    need(
        not missing, f"The dict from placement lacks {', '.join(missing)}. It has {', '.join(found) or 'nothing'}.{why}"
    )
    extra = [name for name in found if name not in expected]
    need(not extra, f"The dict has names that are neither parameters nor buffers of the model: {', '.join(extra)}.")
    for name, device in expected.items():
        quoted = found[name].startswith(("'", '"'))
        why = "Use str(tensor.device) of each tensor." if quoted else "A string is expected: str(device)."
        need(found[name] == repr(device), f"{name} is on {device!r}, but placement gives {found[name]}. {why}")


@ex4.fact("placement maps the name of every parameter to its device as a string")
def _(student):
    device0, device1 = student.devices
    expected = {"first.weight": device0, "first.bias": device0, "second.weight": device1, "second.bias": device1}
    with case(f"With an nn.Sequential of two nn.Linear layers, named first (on {device0}) and second (on {device1})"):
        compare_placement(student.run(place_a_small_model, [device0, device1]), expected)


def place_a_model_with_buffers(lab, device0, device1):
    import torch
    from torch import nn

    from utils.exercises.facts.probes import kind_of, text_or_kind

    class Positions(nn.Module):
        def __init__(self):
            super().__init__()
            nn.Module.register_buffer(self, "table", torch.zeros(3), persistent=False)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(3).to(device0)
            self.positions = Positions().to(device1)

    found = lab.placement(Model())
    if not isinstance(found, dict):
        return kind_of(found)
    return {str(name): text_or_kind(where) for name, where in found.items()}


@ex4.fact("placement includes every buffer, even one that state_dict() leaves out")
def _(student):
    device0, device1 = student.devices
    kept = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    expected = {f"norm.{name}": device0 for name in kept} | {"positions.table": device1}
    buffers = list(expected)[2:]
    with case("With a BatchNorm1d named norm and a module named positions, whose buffer table is not in state_dict()"):
        compare_placement(student.run(place_a_model_with_buffers, device0, device1), expected, buffers)


def tear_a_small_model(lab, device0, device1):
    from collections import OrderedDict

    from torch import nn

    from utils.exercises.facts.probes import kind_of

    torn, norm = nn.Linear(3, 3).to(device0), nn.BatchNorm1d(3).to(device1)
    torn.bias = nn.Parameter(torn.bias.detach().to(device1))
    norm.running_mean = norm.running_mean.to(device0)
    layers = [("whole", nn.Linear(3, 3).to(device0)), ("torn", torn), ("norm", norm)]
    model = nn.Sequential(OrderedDict([*layers, ("other", nn.Linear(3, 3).to(device1))]))
    found = lab.torn_layers(model)
    if not isinstance(found, (list, tuple, set)):
        return kind_of(found)
    return [str(name) for name in found]


def told_names(names):
    return ", ".join(repr(name) if name else "'' (the model itself)" for name in names) or "no names"


def compare_torn(found, expected):
    need(not isinstance(found, str), f"torn_layers returned {found}. Return a list of names.")
    missing = [name for name in expected if name not in found]
    need(not missing, f"torn_layers should also return {told_names(missing)}. It returned {told_names(found)}.")
    extra = [name for name in found if name not in expected]
    need(
        not extra,
        f"torn_layers returned modules that are not torn: {told_names(extra)}. Look at a module's own tensors, not "
        "those of its children.",
    )
    need(len(found) == len(expected), f"torn_layers returned a name more than once: {told_names(found)}.")


@ex4.fact("torn_layers finds layers whose bias or buffer is on a different device from their other tensors")
def _(student):
    with case(
        "With two torn layers out of four (the bias of the layer torn and the running_mean of the layer norm are on "
        "the other device)"
    ):
        compare_torn(student.run(tear_a_small_model, *student.devices), ["torn", "norm"])


def tear_a_parent(lab, device0, device1):
    import torch
    from torch import nn

    from utils.exercises.facts.probes import kind_of

    class Parent(nn.Module):
        def __init__(self):
            super().__init__()
            self.child = nn.Linear(3, 3).to(device0)
            self.scale = nn.Parameter(torch.ones(3, device=device0))
            self.shift = nn.Parameter(torch.ones(3, device=device1))

    found = lab.torn_layers(nn.Sequential(Parent()))
    if not isinstance(found, (list, tuple, set)):
        return kind_of(found)
    return [str(name) for name in found]


@ex4.fact("torn_layers finds a torn module that has children")
def _(student):
    with case("With an nn.Sequential of one module that has a child and whose own two parameters are on two devices"):
        compare_torn(student.run(tear_a_parent, *student.devices), ["0"])


def tear_a_nested_model(lab, device0, device1, itself=False):
    import torch
    from torch import nn

    from utils.exercises.facts.probes import kind_of

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2).to(device0)
            self.scale = nn.Parameter(torch.ones(2, device=device0))
            self.shift = nn.Parameter(torch.ones(2, device=device1))

    class Outer(nn.Module):
        def __init__(self, torn):
            super().__init__()
            self.scaled = Scaled()
            self.block = nn.Sequential(nn.Linear(2, 2).to(device1), nn.Sequential(torn, nn.ReLU()), nn.BatchNorm1d(2))

    torn = nn.Linear(2, 2).to(device0)
    torn.weight = nn.Parameter(torn.weight.detach().to(device1), requires_grad=False)
    found = lab.torn_layers(Scaled() if itself else Outer(torn))
    if not isinstance(found, (list, tuple, set)):
        return kind_of(found)
    return [str(name) for name in found]


@ex4.fact("torn_layers finds a torn module at any depth and gives its full name")
def _(student):
    with case("With two torn modules at different depths, scaled and block.1.0"):
        compare_torn(student.run(tear_a_nested_model, *student.devices), ["scaled", "block.1.0"])


# --- ex5: any stack of layers ---------------------------------------------------------------------------------

ex5 = lab.exercise(
    "ex5",
    points=3,
    title="Split any stack of layers",
    hints=[
        "layers[:cut] is an nn.Sequential of the layers before the cut. layers[cut:] is an nn.Sequential of the rest.",
        "Move each part to its device. In forward, move the batch and one activation, as in SimpleMPModel.",
        "On which device does part0 need its input, and on which does part1?",
        "If the output or the gradients differ, check that each given layer runs once, in order, and that no other "
        "runs.",
        "For undivided_state, print the keys of layers.state_dict() next to those of your two parts. A slice of an "
        "nn.Sequential keeps the names of its layers.",
    ],
    likely={
        'missing the required "forward"': "part0 and part1 must run their layers when they are called. Use "
        "nn.Sequential.",
    },
)


LINEAR_STACK = [["Linear", 12, 16], ["Tanh"], ["Linear", 16, 8], ["Tanh"], ["Linear", 8, 5]]


def split_and_run(lab, stack, cut, device0, device1, state, x):
    import torch

    from utils.exercises.facts.probes import build, forward_and_backward, tensors_of

    model = lab.SplitInTwo(build(stack, state), cut, torch.device(device0), torch.device(device1))
    return forward_and_backward(model, x) | {"tensors": tensors_of(model)}


def compare_split(student, stack, x, cut, device0, device1):
    """Split `stack` after `cut` layers and compare with the same stack on one device."""
    torch.manual_seed(5)
    whole = build(stack)
    state = {name: values.numpy().copy() for name, values in whole.state_dict().items()}
    with case(f"With {len(stack)} layers, cut={cut}, device0={device0}, and device1={device1}"):
        run = student.run(split_and_run, stack, cut, device0, device1, state, x)
        compare_places(run["tensors"], whole, cut, device0, device1)
        need(
            run["output device"] == device1,
            f"The output is on {run['output device']}. Leave it on device1 ({device1}).",
        )
        expected = forward_and_backward(whole, x)
        if not same(run["output"], expected["output"]):
            raise Unmet(f"The output differs from that of `layers`. {why_output(run['output'], whole, x, cut)}")
        missing = sum(gradient is None for gradient in run["gradients"])
        need(
            not missing,
            f"After backward(), the gradient of {missing} of {len(run['gradients'])} parameters is None. Does detach() "
            "or no_grad() cut the autograd graph?",
        )
        right = all(any(same(mine, theirs) for theirs in expected["gradients"]) for mine in run["gradients"])
        need(right, "The gradients differ from those of `layers` on one device.")


def why_output(output, whole, x, cut) -> str:
    """The mistake that gives this output."""
    linear = nn.Sequential(*(layer for layer in whole if not isinstance(layer, (nn.Tanh, nn.ReLU))))
    with torch.no_grad():
        if same(output, linear(torch.from_numpy(x)).numpy()):
            return "The split model leaves out layers without parameters, such as Tanh."
        if same(output, whole[cut:](whole[:cut](torch.from_numpy(x)).relu()).relu().numpy()):
            return "Your model applies a ReLU after each part. Run only the layers in `layers`."
    return "Does each given layer run once, in order, with its own weights?"


def compare_places(found, whole, cut, device0, device1):
    """Every layer's parameters and buffers are on the device of its part: `found` is a list of [shape, device]."""
    need(
        found,
        "The model has no parameters. Make the parts attributes, as in self.part0 = layers[...]. PyTorch does not "
        "register layers in a plain list.",
    )
    left = list(found)
    for index, layer in enumerate(whole):
        wanted = device0 if index < cut else device1
        for tensor in tensors_of(layer, wanted):
            elsewhere = sorted({device for shape, device in left if shape == tensor[0]})
            where = f"is on {' or '.join(elsewhere)}" if elsewhere else "is missing"
            part = "part0 on device0" if index < cut else "part1 on device1"
            need(
                tensor in left,
                f"Layer {index} ({type(layer).__name__}) {where}. It belongs in {part} ({wanted}).",
            )
            left.remove(tensor)
    need(
        not left,
        f"The model has more parameters or buffers than `layers` ({len(left)} more). Does it keep copies of layers?",
    )


def same(mine, theirs):
    return mine.shape == theirs.shape and np.allclose(mine, theirs, **CLOSE)


@ex5.fact("a stack split in the middle gives the same output and gradients as on one device")
def _(student):
    compare_split(student, LINEAR_STACK, batch(4, 12), 2, *student.devices)


@ex5.fact("with the two devices swapped, output and gradients are also the same as on one device")
def _(student):
    compare_split(student, LINEAR_STACK, batch(4, 12), 2, *student.devices[::-1])


def run_parts(lab, stack, cut, device0, device1, state, x):
    import torch

    from utils.exercises.facts.probes import array, build

    device0, device1 = torch.device(device0), torch.device(device1)
    model = lab.SplitInTwo(build(stack, state), cut, device0, device1)
    part0, part1 = (torch.nn.Module.get_submodule(model, name) for name in ("part0", "part1"))
    hidden = part0(torch.from_numpy(x).to(device0))
    return [array(hidden), array(part1(hidden.to(device1)))]


@ex5.fact("part0 and part1 can each be called on their own")
def _(student):
    torch.manual_seed(5)
    whole, x = build(LINEAR_STACK), batch(4, 12)
    state = {name: values.numpy().copy() for name, values in whole.state_dict().items()}
    with case("With cut=2 and direct calls to part0 and part1"):
        hidden, output = student.run(run_parts, LINEAR_STACK, 2, *student.devices, state, x)
    with torch.no_grad():
        after_cut = whole[:2](torch.from_numpy(x)).numpy()
        need(same(hidden, after_cut), "With cut=2, the output of part0 differs from that of the first 2 layers.")
        need(
            same(output, whole(torch.from_numpy(x)).numpy()),
            "With cut=2, part1(part0(x)) differs from the output of `layers`.",
        )


def state_of_split(lab, stack, cut, device0, device1, seed):
    import torch

    from utils.exercises.facts.probes import array, build, fill, kind_of

    model = lab.SplitInTwo(build(stack), cut, torch.device(device0), torch.device(device1))
    fill(model, seed)
    state = lab.undivided_state(model)
    if not isinstance(state, dict):
        return kind_of(state)
    told = {}
    for name, value in state.items():
        tensor = isinstance(value, torch.Tensor)
        told[str(name)] = [str(value.device), array(value)] if tensor else [kind_of(value), None]
    return told


def why_names(found, whole, cut) -> str:
    """The mistake that gives these names."""
    first, second = (list(whole[part].state_dict()) for part in (slice(cut), slice(cut, None)))
    from_0 = list(nn.Sequential(*whole[cut:]).state_dict())
    twice = [name for name in first if name in from_0]
    if twice and sorted(found) == sorted({*first, *from_0}):
        return (
            f" Both parts have {', '.join(twice)}, because part1 numbers its layers from 0 again. For each of these "
            "names, one tensor is lost."
        )
    if sorted(found) == sorted([*(f"part0.{name}" for name in first), *(f"part1.{name}" for name in second)]):
        return " Use the state of each part. The names in the split model's state begin with part0 or part1."
    if sorted(found) == sorted(name for name, _ in whole.named_parameters()):
        return " The buffers are missing."
    return ""


def compare_state(student, stack, cut, device0, device1, seed=SEED):
    """The state of a split stack that has been given other numbers since is that of the stack."""
    whole = build(stack)
    fill(whole, seed)
    expected = whole.state_dict()
    with case(f"With {len(stack)} layers and cut={cut}"):
        found = student.run(state_of_split, stack, cut, device0, device1, seed)
        need(isinstance(found, dict), f"undivided_state returned {found}. Return a dict.")
        need(
            list(map(str, sorted(found))) == sorted(expected),
            f"undivided_state returned the names [{', '.join(found)}]. Expected [{', '.join(expected)}]."
            + why_names(list(found), whole, cut),
        )
        for name, (device, values) in found.items():
            need(values is not None, f"The value of {name} is {device}, not a tensor.")
            need(
                device == "cpu",
                f"{name} is on {device}. Move it to the CPU, so that a machine without GPUs can load it.",
            )
            need(
                same(values, expected[name].numpy()),
                f"The values of {name} are not the model's current ones. Read them in undivided_state, not earlier.",
            )


@ex5.fact("the undivided layers can load the result of undivided_state on the CPU")
def _(student):
    compare_state(student, LINEAR_STACK, 2, *student.devices)


@ex5.fact("undivided_state includes the buffers")
def _(student):
    stack = [["Linear", 12, 16], ["BatchNorm1d", 16], ["ReLU"], ["Linear", 16, 5]]
    compare_state(student, stack, 2, *student.devices, seed=6)


def split_named_layers(lab, cut, device0, device1, x):
    """Of a stack whose layers have names, one of them twice, and a buffer that no state_dict has."""
    from collections import OrderedDict

    import torch
    from torch import nn

    from utils.exercises.facts.probes import array, fill, kind_of

    class Shift(nn.Module):
        def __init__(self):
            super().__init__()
            nn.Module.register_buffer(self, "weight", torch.ones(6), persistent=False)

        def forward(self, x):
            return x + self.weight

    act = nn.Tanh()
    named = [("enter", nn.Linear(5, 6)), ("act", act), ("shift", Shift()), ("again", act), ("leave", nn.Linear(6, 3))]
    layers = nn.Sequential(OrderedDict(named))
    fill(layers, 4)
    with torch.no_grad():
        model = lab.SplitInTwo(layers, cut, torch.device(device0), torch.device(device1))
        output = model(torch.from_numpy(x))
    state = lab.undivided_state(model)
    found = sorted(map(str, state)) if isinstance(state, dict) else kind_of(state)
    return {"output": array(output), "found": found}


def undivided_named_layers(x) -> np.ndarray:
    """What that stack gives, computed where no code of a notebook runs."""
    layers = build([["Linear", 5, 6], ["Tanh"], ["Linear", 6, 3]])
    fill(layers, 4)
    enter, act, leave = layers
    with torch.no_grad():
        return leave(act(act(enter(torch.from_numpy(x))) + 1)).numpy()


NAMED = ["enter.bias", "enter.weight", "leave.bias", "leave.weight"]


@ex5.fact("the layers may have names, and a layer may appear twice")
def _(student):
    for cut in (1, 3):
        with case(f"With cut={cut} and layers named enter, act, shift, again (the same layer as act), and leave"):
            x = batch(4, 5)
            run = student.run(split_named_layers, cut, *student.devices, x)
            need(
                same(run["output"], undivided_named_layers(x)),
                "The output differs from that of `layers`. named_children() and modules() list a repeated layer "
                "only once.",
            )
            found = run["found"]
            need(isinstance(found, list), f"undivided_state returned {found}. Return a dict.")
            why = "Keep the layers' names from `layers`."
            if "shift.weight" in found:
                why = "Leave out the buffer shift.weight, which is not in state_dict()."
            need(
                found == NAMED,
                f"undivided_state returned the names [{', '.join(found)}]. Expected [{', '.join(NAMED)}]. {why}",
            )
