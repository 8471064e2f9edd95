"""Lab 02's visible facts: what `check("ex1")` tells the learner, and the first part of the grade.

A probe runs beside the student's code and tells plain data; the fact judges it here.
"""

from itertools import pairwise

import numpy as np
import torch
from torch import nn

from utils.facts import Lab, case, need, orders_of
from utils.facts.probes import fill, forward_and_backward

lab = Lab("lab02", "Follow the data")

CLOSE = {"rtol": 1e-4, "atol": 1e-5}  # a real GPU adds up in another order than a CPU


# --- ex1: devices_seen ----------------------------------------------------------------------------------------

ex1 = lab.exercise(
    "ex1",
    points=2,
    title="Watch a model with hooks",
    hints=[
        "model.named_modules() gives every module at any depth, with its name. "
        "Which of them have no children of their own? list(module.children()) tells.",
        "A forward hook is called with the module, a tuple of its inputs, and its output. "
        "The devices of the first input and of the output are what you want.",
        "Every hook has to know its own name. Make it inside a function that is given the name, as tell(name) "
        "does in the lessons: a hook made straight in a loop reads the loop's variable when it is too late.",
        "register_forward_hook returns a handle. Keep all the handles, run the model, then call remove() on each.",
    ],
)


def watch_a_model(lab, device0, device1):
    import torch
    from torch import nn

    from utils.facts.probes import kind_of, text_or_kind

    class Bridge(nn.Module):
        def forward(self, x):
            return x.to(device1)

    class Model(nn.Module):
        # The layers are made in another order than they are used in.
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(6, 2).to(device1)
            self.bridge = Bridge()
            self.block = nn.Sequential(nn.Linear(4, 6), nn.Sequential(nn.ReLU(), nn.Tanh())).to(device0)

        def forward(self, x):
            return self.last(self.bridge(self.block(x.to(device0))))

    def hooks(model):
        own = sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())
        everywhere = len(torch.nn.modules.module._global_forward_hooks)
        return own + everywhere + len(torch.nn.modules.module._global_forward_pre_hooks)

    model = Model()
    before = hooks(model)
    found = lab.devices_seen(model, torch.randn(3, 4))
    if not isinstance(found, (list, tuple)):
        return {"kind": kind_of(found), "seen": [], "left": 0}
    seen = [
        [text_or_kind(value) for value in entry] if isinstance(entry, (list, tuple)) else kind_of(entry)
        for entry in found
    ]
    return {"kind": kind_of(found), "seen": seen, "left": hooks(model) - before}


def path_of_the_model(device0, device1):
    """What devices_seen should return for the model of `watch_a_model`."""
    return [
        ["block.0", device0, device0],
        ["block.1.0", device0, device0],
        ["block.1.1", device0, device0],
        ["bridge", device0, device1],
        ["last", device1, device1],
    ]


def unquoted(seen):
    """The entries as they are, where each is three texts."""
    return [[text[1:-1] for text in entry] for entry in seen]


def compare_seen(found, expected):
    names = [entry[0] for entry in found]
    right = [entry[0] for entry in expected]
    need(names, "The list is empty. Did the model run while the hooks were there?")
    extra = [name or "the model itself" for name in names if name not in right]
    need(not extra, f"These are no modules without children: {', '.join(extra)}.")
    missing = [name for name in right if name not in names]
    need(not missing, f"These modules ran and are not in it: {', '.join(missing)}. It has: {', '.join(names)}.")
    need(names == right, f"They ran in the order {', '.join(right)}. Yours: {', '.join(names)}.")
    for (name, *places), (_, *truth) in zip(found, expected, strict=True):
        need(
            places == truth,
            f"{name} had its input on {truth[0]} and its output on {truth[1]}. Yours says {places[0]} and {places[1]}.",
        )


@ex1.fact("devices_seen returns a list, and each entry is three texts: name, input device, output device")
def _(student):
    found = student.run(watch_a_model, *student.devices)
    need(found["kind"] == "a list", f"It returned {found['kind']}. Return a list.")
    for entry in found["seen"]:
        texts = isinstance(entry, list) and len(entry) == 3 and all(value[0] in "'\"" for value in entry)
        told = f"({', '.join(entry)})" if isinstance(entry, list) else entry
        need(texts, f"One entry is {told}. Three texts are wanted: str(device) makes text of a device.")


@ex1.fact("it has the modules without children, at any depth, in the order in which they ran")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            compare_seen(
                unquoted(student.run(watch_a_model, device0, device1)["seen"]), path_of_the_model(device0, device1)
            )


@ex1.fact("it leaves no hook behind")
def _(student):
    left = student.run(watch_a_model, *student.devices)["left"]
    need(left == 0, f"After it {left} hooks are still there. They would be called in every later forward.")


# --- ex2: bytes_moved -----------------------------------------------------------------------------------------

ex2 = lab.exercise(
    "ex2",
    points=2,
    title="Count the bytes before you run",
    hints=[
        "Three tensors travel. Which is each, and what is its shape? Write the three shapes down first.",
        "The bytes of a tensor are its number of elements times the bytes of one element. The weights stay at home.",
        "A dtype knows the bytes of one element: dtype.itemsize.",
        "A gradient has the shape and the dtype of the tensor that it belongs to. "
        "When is there none? Which tensor of the three never needs one?",
    ],
)

WAYS = ("cpu to device0", "device0 to device1", "device1 to device0")
ELEMENT = {"float32": 4, "float16": 2, "bfloat16": 2, "float64": 8}


def count_bytes(lab, batch_size, sizes, dtype, training, devices):
    import torch

    from utils.devices import is_simulated
    from utils.facts.probes import kind_of

    watched = [device for device in devices if is_simulated(device)]
    gpu = torch.get_device_module(watched[0]) if watched else None
    before = []
    for device in watched:
        gpu.reset_peak_memory_stats(device)
        before.append(gpu.memory_allocated(device))
    found = lab.bytes_moved(batch_size, tuple(sizes), getattr(torch, dtype), training)
    if not isinstance(found, dict):
        return kind_of(found)
    peaks = [gpu.max_memory_allocated(device) for device in watched]
    told = {str(way): n if isinstance(n, (int, float)) else kind_of(n) for way, n in found.items()}
    return {"told": told, "took": sum(peaks) - sum(before)}


def compare_bytes(student, batch_size, sizes, dtype, training, ways=WAYS):
    seen = student.run(count_bytes, batch_size, list(sizes), dtype, training, student.devices)
    need(isinstance(seen, dict), f"It returned {seen}. Keep the line with return.")
    found = seen["told"]
    inputs, hidden, _ = sizes
    truth = (
        batch_size * inputs * ELEMENT[dtype],
        batch_size * hidden * ELEMENT[dtype],
        batch_size * hidden * ELEMENT[dtype] if training else 0,
    )
    with case(f"bytes_moved({batch_size}, {tuple(sizes)}, torch.{dtype}, training={training})"):
        for way, right in zip(WAYS, truth, strict=True):
            if way in ways:
                need(way in found, f"there is no {way!r} in it. Keep the line with return.")
                need(found[way] == right, f"from {way} it says {found[way]}, and a timeline would count {right}.")
        took = seen["took"]
        need(
            not took,
            f"the numbers are right, and it took {took} bytes on the devices. Calculate: make no tensor there.",
        )


@ex2.fact("the bytes of the batch, from the CPU to device0")
def _(student):
    compare_bytes(student, 32, (1000, 2000, 1000), "float32", True, WAYS[:1])
    compare_bytes(student, 5, (7, 11, 3), "float32", True, WAYS[:1])


@ex2.fact("the bytes from device0 to device1 in forward")
def _(student):
    compare_bytes(student, 32, (1000, 2000, 1000), "float32", True, WAYS[1:2])
    compare_bytes(student, 5, (7, 11, 3), "float32", True, WAYS[1:2])


@ex2.fact("the bytes from device1 to device0 in backward, and none where nothing is trained")
def _(student):
    compare_bytes(student, 32, (1000, 2000, 1000), "float32", True)
    compare_bytes(student, 32, (1000, 2000, 1000), "float32", False)


@ex2.fact("numbers of another dtype have another size")
def _(student):
    compare_bytes(student, 32, (1000, 2000, 1000), "float16", True)


# --- ex3: bridges ---------------------------------------------------------------------------------------------

ex3 = lab.exercise(
    "ex3",
    points=2,
    title="Find the bridges in the backward graph",
    hints=[
        "Begin with output.grad_fn. Its next_functions are pairs; the first of each pair is the next node, or None.",
        "Keep a list of nodes that wait to be looked at. Take one, look at its name(), add its next nodes to the list.",
        "Two ways can lead to one node. What do you have to remember, to count it once?",
        "If it raises: what is grad_fn of an output that was computed under torch.no_grad()?",
    ],
)


def count_bridges(lab, places, kind):
    """`places` are names of devices. Chain: a tensor that goes from each to the next."""
    import torch

    from utils.facts.probes import kind_of

    start = torch.ones(4, 3).to(places[0]).requires_grad_()
    if kind == "chain":
        output = start * 2
        for place in places[1:]:
            output = output.to(place) * 2
    elif kind == "used twice":
        moved = (start * 2).to(places[1])
        output = moved.relu() + moved.tanh() * moved
    elif kind == "moved twice":
        hidden = start * 2
        output = hidden.to(places[1]) + hidden.to(places[1])
    elif kind == "two inputs":
        other = torch.ones(4, 3).to(places[1]).requires_grad_()
        output = (start * 2).to(places[2]) + (other * 2).to(places[2])
    elif kind == "no gradient":
        with torch.no_grad():
            output = (start * 2).to(places[1])
    found = lab.bridges(output)
    if not isinstance(found, int) or isinstance(found, bool):
        return {"kind": kind_of(found)}
    touched = start.grad is not None
    try:
        if output.requires_grad:
            output.sum().backward()
        alive = True
    except RuntimeError:
        alive = False
    return {"kind": "int", "found": found, "touched": touched, "alive": alive}


def crossings(path):
    """How often the device changes on a path. Two names for one GPU are one place."""
    return sum(here != there for here, there in pairwise(path))


def compare_bridges(student, places, kind, expected, description):
    found = student.run(count_bridges, list(places), kind)
    with case(description):
        need(found["kind"] == "int", f"bridges returned {found['kind']}. Return a number.")
        need(
            found["found"] == expected,
            f"the gradient crosses {expected} bridge{'' if expected == 1 else 's'}, and bridges says {found['found']}.",
        )
        need(not found["touched"], "there were gradients after it. Only look at the graph, call no backward().")
        need(found["alive"], "backward() was not possible after it. Only look at the graph.")


@ex3.fact("one move between two devices is one bridge, and none is none")
def _(student):
    device0, device1 = student.devices
    path = [device0, device1]
    compare_bridges(student, path, "chain", crossings(path), "A tensor that goes from device0 to device1")
    compare_bridges(student, [device0], "chain", 0, "A tensor that stays on device0")


@ex3.fact("a way over several devices has as many bridges as moves")
def _(student):
    device0, device1 = student.devices
    path = [device0, "cpu", device1, device0]
    compare_bridges(student, path, "chain", crossings(path), "A tensor that goes device0, cpu, device1, device0")


@ex3.fact("a bridge to which two ways lead is counted once")
def _(student):
    path = student.devices
    compare_bridges(student, path, "used twice", crossings(path), "A tensor that is moved once and then used twice")


@ex3.fact("all the ways are followed, not only the first")
def _(student):
    device0, device1 = student.devices
    expected = crossings(["cpu", device1]) + crossings([device0, device1])
    compare_bridges(student, ["cpu", device0, device1], "two inputs", expected, "A sum of two tensors, each moved once")


@ex3.fact("an output without a backward graph has none")
def _(student):
    compare_bridges(student, student.devices, "no gradient", 0, "An output computed under torch.no_grad()")


# --- ex4: Mended ----------------------------------------------------------------------------------------------

ex4 = lab.exercise(
    "ex4",
    points=2,
    title="Mend a forward that makes detours",
    hints=[
        "Write beside each line of Detour.forward where x is after it. Which moves does no layer ask for?",
        "Record the run of your model and print moved(), as the cell below it does. Only two ways should be left.",
        "The numbers of the output may be right and the training still broken. "
        "Which word in forward takes a tensor out of the backward graph?",
        "An activation such as a ReLU has no weights. Let it compute where its input is already.",
    ],
)

SIZES = (6, 10, 3)
USUAL = f"With a batch of 4 from the CPU and sizes={SIZES}"


def follow_mended(lab, sizes, device0, device1, start, seed, x):
    import torch

    from utils.facts.probes import array, fill, kind_of
    from utils.trace import record

    model = lab.Mended(tuple(sizes), torch.device(device0), torch.device(device1))
    fill(model, seed)
    batch = torch.from_numpy(x).to(start)
    with record(device0, device1) as forward:
        output = model(batch)
    if not isinstance(output, torch.Tensor):
        return {"kind": kind_of(output)}
    with record(device0, device1) as backward:
        if output.requires_grad:
            output.square().mean().backward()
    gradients = {name: None if p.grad is None else array(p.grad) for name, p in model.named_parameters()}
    return {
        "kind": "Tensor",
        "output": array(output),
        "output device": str(output.device),
        "gradients": gradients,
        "forward": [[*way, size] for way, size in forward.moved().items()],
        "backward": [[*way, size] for way, size in backward.moved().items()],
    }


def mended(student, batch_size=4, sizes=SIZES, swapped=False, start="cpu", seed=1):
    """One run of the student's model, and the right answer beside it."""
    device0, device1 = student.devices[::-1] if swapped else student.devices
    x = batch(batch_size, sizes[0], seed=seed)
    found = student.run(follow_mended, list(sizes), device0, device1, start, seed, x)
    need(
        found["kind"] == "Tensor",
        f"forward returned {found['kind']}, not a tensor. Does it end with a return?",
    )
    whole = nn.Sequential(nn.Linear(sizes[0], sizes[1]), nn.ReLU(), nn.Linear(sizes[1], sizes[2]), nn.ReLU())
    fill(whole, seed)
    hidden = batch_size * sizes[1] * 4
    ways = {
        "forward": [(start, device0, batch_size * sizes[0] * 4), (device0, device1, hidden)],
        "backward": [(device1, device0, hidden)],
    }
    return found, forward_and_backward(whole, x), ways


def batch(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).numpy()


def same(mine, theirs):
    return mine.shape == theirs.shape and np.allclose(mine, theirs, **CLOSE)


def compare_output(found, expected):
    need(same(found["output"], expected["output"]), "the numbers differ. Does every layer, and each ReLU, run once?")


def compare_gradients(found, expected):
    missing = [name for name, gradient in found["gradients"].items() if gradient is None]
    need(not missing, f"after backward() these have no gradient: {', '.join(missing)}. Where is their way back cut?")
    for name, mine in found["gradients"].items():
        need(any(same(mine, g) for g in expected["gradients"]), f"the gradient of {name} has other numbers.")


def compare_ways(found, expected):
    """`found` and `expected` are lists of (from, to, bytes). A move between two names of one GPU is none."""
    truth = {(here, there): size for here, there, size in expected if here != there}
    seen = {(here, there): size for here, there, size in found if size}
    extra = [f"{here} to {there}: {size} bytes" for (here, there), size in seen.items() if (here, there) not in truth]
    need(not extra, f"these copies are not needed. {'; '.join(extra)}.")
    for (here, there), size in truth.items():
        need((here, there) in seen, f"nothing was copied straight from {here} to {there}.")
        moved = seen[here, there]
        need(moved == size, f"from {here} to {there} went {moved} bytes. Once across would be {size}.")


@ex4.fact("the output is on device1 and has the numbers that the layers give on one device")
def _(student):
    found, expected, _ = mended(student)
    with case(USUAL):
        compare_output(found, expected)
        right = student.devices[1]
        need(found["output device"] == right, f"the output is on {found['output device']}, and device1 is {right}.")


@ex4.fact("after backward() every parameter has the gradient that it has on one device")
def _(student):
    found, expected, _ = mended(student)
    with case(USUAL):
        compare_gradients(found, expected)


@ex4.fact("in forward the batch goes straight to device0, the hidden result straight to device1, and nothing else")
def _(student):
    found, _, ways = mended(student)
    with case(USUAL):
        compare_ways(found["forward"], ways["forward"])


@ex4.fact("in backward one gradient goes straight from device1 to device0, and nothing else")
def _(student):
    found, _, ways = mended(student)
    with case(USUAL):
        compare_ways(found["backward"], ways["backward"])


# --- ex5: gradient_report -------------------------------------------------------------------------------------

ex5 = lab.exercise(
    "ex5",
    points=2,
    title="Find a training that is cut in silence",
    hints=[
        "Go through model.named_parameters(). What is parameter.grad where no gradient has arrived?",
        "There are two reasons for no gradient. parameter.requires_grad tells whether one was wanted at all.",
        "A gradient is a tensor. Ask for it with `is None`: its numbers do not matter, they may all be zero.",
    ],
)


def report_on_a_model(lab, device0, device1, kind):
    import torch
    from torch import nn

    from utils.facts.probes import kind_of, text_or_kind

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.part0 = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5)).to(device0)
            self.part1 = nn.Linear(5, 2).to(device1)

        def forward(self, x):
            hidden = self.part0(x.to(device0))
            return self.part1((hidden.detach() if kind == "cut" else hidden).to(device1))

    model = Model()
    if kind == "frozen":
        model.part0[0].requires_grad_(False)
        model.part1.bias.requires_grad_(False)
    if kind != "before backward":
        output = model(torch.ones(3, 4))
        (output.sum() * (0 if kind == "zero" else 1)).backward()
    found = lab.gradient_report(model)
    if not isinstance(found, dict):
        return kind_of(found)
    return {str(name): text_or_kind(value) for name, value in found.items()}


NAMES = ("part0.0.weight", "part0.0.bias", "part0.2.weight", "part0.2.bias", "part1.weight", "part1.bias")


def compare_report(student, kind, words, description, swapped=False):
    """`words` says what is right where it is not a device: {name: "cut" or "frozen"}."""
    device0, device1 = student.devices[::-1] if swapped else student.devices
    found = student.run(report_on_a_model, device0, device1, kind)
    expected = {name: device0 if name.startswith("part0") else device1 for name in NAMES} | words
    with case(description):
        need(isinstance(found, dict), f"gradient_report returned {found}. Return a dict.")
        missing = [name for name in expected if name not in found]
        need(not missing, f"these are not in it: {', '.join(missing)}. It has: {', '.join(found) or 'nothing'}.")
        extra = [name for name in found if name not in expected]
        need(not extra, f"these are no parameters of the model: {', '.join(extra)}.")
        for name, right in expected.items():
            need(found[name] == repr(right), f"{name} should have {right!r}, and has {found[name]}.")


@ex5.fact("it tells the device of each gradient, by the name of its parameter, as text")
def _(student):
    compare_report(student, "whole", {}, "After a backward that reached everything")


@ex5.fact("it says 'cut' where a gradient is missing")
def _(student):
    compare_report(student, "cut", dict.fromkeys(NAMES[:4], "cut"), "With a detach() between the two parts")


@ex5.fact("it says 'frozen' where no gradient was wanted")
def _(student):
    words = dict.fromkeys((*NAMES[:2], NAMES[5]), "frozen")
    compare_report(student, "frozen", words, "With some parameters frozen")
