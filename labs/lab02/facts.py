"""Lab 02's visible facts: what `check("ex1")` tells the learner, and the first part of the grade.

A probe runs beside the student's code and tells plain data; the fact judges it here.
"""

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn

from utils.exercises.facts import Lab, case, need, orders_of
from utils.exercises.facts.probes import build, fill, forward_and_backward

lab = Lab("lab02", "Follow the data")

CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}  # a real GPU adds up in another order than a CPU


# --- ex1: devices_seen ----------------------------------------------------------------------------------------

ex1 = lab.exercise(
    "ex1",
    points=3,
    title="Watch a model with hooks",
    hints=[
        "model.named_modules() returns every module at any depth, with its name. A leaf is a module without children.",
        "PyTorch calls a forward hook with the module, a tuple of its inputs, and its output.",
        "If a module raises an exception, its forward hook does not run. A forward pre-hook runs before the module. "
        "How can you recognize a call that began and did not end?",
        "Each hook needs the name of its own module. Create the hook in a function that takes the name. A hook created "
        "in the loop itself reads the loop variable later, when the variable has the last name.",
        "register_forward_hook returns a handle. Keep all handles, run the model in a try block, and call remove() on "
        "each handle in the finally block.",
    ],
    likely={
        "Expected all tensors": "Call model(x) instead of the model's layers. Only the model's own forward has the "
        "right order "
        "of layers and copies.",
    },
)


def watch_a_model(lab, device0, device1):
    import torch
    from torch import nn

    from utils.exercises.facts.probes import kind_of, text_or_kind

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
    need(names, "The list is empty. Call model(x) while the hooks are registered.")
    extra = [name or "the model itself" for name in names if name not in right]
    need(
        not extra,
        f"These entries do not belong to leaves: {', '.join(extra)}. Include only leaves, at any depth.",
    )
    missing = [name for name in right if name not in names]
    why = ""
    if missing and len(set(names)) == 1 < len(names):
        why = f" Every hook reads the loop variable after the loop, when its value is {names[0]!r}."
    need(
        not missing,
        f"These leaves ran but are not in the list: {', '.join(missing)}. The list has {', '.join(names)}.{why}",
    )
    why = " A leaf that runs twice needs two entries." if names == list(dict.fromkeys(right)) else ""
    need(names == right, f"The leaves ran in the order {', '.join(right)}. Your list has {', '.join(names)}.{why}")
    for (name, *places), (_, *truth) in zip(found, expected, strict=True):
        need(
            places == truth,
            f"The leaf '{name}' has its input on {truth[0]} and its output on {truth[1]}, but your entry has "
            f"{places[0]} and {places[1]}. Read the first from the hook's inputs and the second from its output.",
        )


@ex1.fact("devices_seen returns a list, and each entry has three strings: name, input device, and output device")
def _(student):
    with case("With a model that creates its layers in one order and runs them in another"):
        found = student.run(watch_a_model, *student.devices)
    need(found["kind"] in ("a list", "a tuple"), f"devices_seen returned {found['kind']}. Return a list.")
    for entry in found["seen"]:
        strings = isinstance(entry, list) and len(entry) == 3 and all(value[0] in "'\"" for value in entry)
        told = f"({', '.join(entry)})" if isinstance(entry, list) else entry
        need(strings, f"One entry is {told}. Three strings are expected, with str(device) for each device.")


@ex1.fact("the list has the leaves at any depth, in the order in which they ran")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            compare_seen(
                unquoted(student.run(watch_a_model, device0, device1)["seen"]), path_of_the_model(device0, device1)
            )


@ex1.fact("devices_seen removes all of its hooks")
def _(student):
    left = student.run(watch_a_model, *student.devices)["left"]
    need(left == 0, f"Hooks still registered after the call: {left}. Call remove() on the handle of each hook.")


def watch_a_failure(lab, device0, device1, kind):
    """A model that raises in a layer, or in its own forward: between two layers, or before any layer."""
    import torch
    from torch import nn

    from utils.exercises.facts.probes import kind_of, text_or_kind

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            refuses = {"wrong size": nn.Linear(9, 2), "one row": nn.BatchNorm1d(6)}
            self.first = nn.Sequential(nn.Linear(4, 6), nn.ReLU()).to(device0)
            self.second = nn.Sequential(nn.Tanh(), refuses.get(kind, nn.Linear(6, 2))).to(device1)
            self.last = nn.Linear(2, 2).to(device1)
            self.runs = 0

        def forward(self, x):
            self.runs += 1
            if kind == "at once":
                raise RuntimeError("too early")
            x = self.second(self.first(x).to(device1))
            if kind == "between":
                x = torch.cat([x, torch.ones(2, 5, 7, device=device1)])
            return self.last({"hidden": x}["hiden" if kind == "wrong key" else "hidden"])

    def hooks(model):
        return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())

    model = Model()
    found = lab.devices_seen(model, torch.ones(1 if kind == "one row" else 3, 4, device=device0))
    if not isinstance(found, (list, tuple)):
        return {"kind": kind_of(found), "seen": [], "left": 0, "runs": model.runs}
    seen = [[text_or_kind(value) for value in entry] for entry in found if isinstance(entry, (list, tuple))]
    return {"kind": kind_of(found), "seen": seen, "left": hooks(model), "runs": model.runs}


def compare_failure(student, kind, description, expected):
    for device0, device1, order in orders_of(student):
        with order, case(description):
            found = student.run(watch_a_failure, device0, device1, kind)
            seen, right = unquoted(found["seen"]), expected(device0, device1)
            told = ", ".join(" ".join(entry[::2]) for entry in seen) or "no entries"
            wanted = ", ".join(" ".join(entry[::2]) for entry in right) or "no entries"
            need(
                seen == right,
                f"Expected {wanted}, but your list has {told}. (The input devices are compared, but not "
                f"shown.){why_failure(seen, right)}",
            )
            need(
                not found["left"],
                f"Hooks still registered after the call: {found['left']}. Remove them after an error, too.",
            )
            need(
                found["runs"] == 1,
                f"The model ran {found['runs']} times instead of once. Register all hooks, and then run the model.",
            )


def why_failure(seen, right) -> str:
    """The mistake that gives these entries."""
    if right and right[-1][-1] == "raised" and seen == right[:-1]:
        return (
            f" The leaf that raised the exception has no entry. For {right[-1][0]}, a pre-hook runs, but no "
            "forward hook runs."
        )
    if seen and seen[-1][-1] == "raised" and (not right or right[-1][-1] != "raised"):
        return f" The leaf {seen[-1][0]} had finished before the model's own forward raised the exception."
    return ""


@ex1.fact("if a leaf raises an exception, its entry is the last one and ends with 'raised', and all hooks are removed")
def _(student):
    def expected(device0, device1):
        seen = [["first.0", device0, device0], ["first.1", device0, device0]]
        return [*seen, ["second.0", device1, device1], ["second.1", device1, "raised"]]

    caught = "which devices_seen should catch"
    compare_failure(student, "wrong size", f"With a layer that raises a RuntimeError, {caught}", expected)
    compare_failure(student, "one row", f"With a BatchNorm1d that raises a ValueError, {caught}", expected)


def watch_a_loop(lab, device0, device1):
    """A layer that runs twice, in a model that has a hook of its own already."""
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.ModuleDict({"step": nn.Linear(3, 3).to(device0), "out": nn.Linear(3, 2).to(device1)})
            self.act = nn.ReLU()

        def forward(self, x):
            for _ in range(2):
                x = self.act(self.inner["step"](x))
            return self.act(self.inner["out"](x.to(device1)))

    calls = []
    model = Model()
    model.inner["out"].register_forward_hook(lambda *_: calls.append("out"))
    found = lab.devices_seen(model, torch.ones(2, 3, device=device0))
    during = len(calls)
    with torch.no_grad():
        model(torch.ones(2, 3, device=device0))
    return {"seen": [list(map(str, entry)) for entry in found], "own hook": [during, len(calls) - during]}


@ex1.fact("a leaf that runs twice has two entries, and existing hooks are kept")
def _(student):
    for device0, device1 in (student.devices, student.devices[::-1]):
        found = student.run(watch_a_loop, device0, device1)
        expected = [["inner.step", device0, device0], ["act", device0, device0]] * 2
        expected += [["inner.out", device1, device1], ["act", device1, device1]]
        with case("With a model whose forward has a loop"):
            compare_seen(found["seen"], expected)
        need(
            found["own hook"][0] == 1,
            "An existing hook did not run exactly once. Run the model once, and keep its hooks.",
        )
        need(found["own hook"][1] == 1, "An existing hook is gone. Remove only your own hooks, using their handles.")


@ex1.fact("if the model's own forward raises an exception, no entry ends with 'raised', and all hooks are removed")
def _(student):
    def expected(device0, device1):
        ran = [["first.0", device0], ["first.1", device0], ["second.0", device1], ["second.1", device1]]
        return [[name, device, device] for name, device in ran]

    compare_failure(
        student, "between", "With a model whose own forward raises an exception between two layers", expected
    )


# --- ex2: bytes_moved -----------------------------------------------------------------------------------------

ex2 = lab.exercise(
    "ex2",
    points=3,
    title="Count the bytes before you run",
    hints=[
        "Follow the batch by hand. What are its device, shape, and dtype, and where does the next layer need it?",
        "To find the shape of a layer's output, run the layer on the CPU. tensor.nbytes is a tensor's size in bytes.",
        "A gradient has the shape and dtype of its tensor. It crosses only if some layer before the crossing is "
        "trained. Keep track of this from layer to layer.",
        "The same pair (from, to) may occur more than once. Add to the dict's entry instead of replacing it.",
    ],
)


def count_bytes(lab, stack, places, dtype, frozen, training, x, devices):
    import torch

    from utils.exercises.facts.probes import build, kind_of
    from utils.observe.devices import is_simulated

    layers = list(build(stack).to(getattr(torch, dtype)))
    for number in frozen:
        layers[number].requires_grad_(False)
    batch = torch.from_numpy(x)
    if batch.dtype == torch.float32:
        batch = batch.to(getattr(torch, dtype))
    watched = [device for device in devices if is_simulated(device)]
    gpu = torch.get_device_module(watched[0]) if watched else None
    before = []
    for device in watched:
        gpu.reset_peak_memory_stats(device)
        before.append(gpu.memory_allocated(device))
    wanted = [[p.requires_grad for p in layer.parameters()] for layer in layers]
    found = lab.bytes_moved(layers, list(places), batch, training)
    wanted_now = [[p.requires_grad for p in layer.parameters()] for layer in layers]
    peaks = [gpu.max_memory_allocated(device) for device in watched]
    if not isinstance(found, dict):
        return {"kind": kind_of(found)}
    told = []
    for way, size in found.items():
        if not isinstance(way, tuple) or len(way) != 2:
            return {"kind": f"a dict with {kind_of(way)} as a key"}
        told.append([str(way[0]), str(way[1]), size if isinstance(size, (int, float)) else kind_of(size)])
    return {"kind": "dict", "told": told, "took": sum(peaks) - sum(before), "refrozen": wanted_now != wanted}


def bytes_of_a_step(stack, places, dtype, frozen, training, x, mistake=""):
    """What a timeline of the same step has, or what a mistake makes of it, as {(from, to): bytes}."""
    layers = build(stack).to(getattr(torch, dtype))
    batch = torch.from_numpy(x)
    batch = batch.to(getattr(torch, dtype)) if batch.dtype == torch.float32 else batch
    moved, trained = {}, False
    training = {"training always": True, "training never": False}.get(mistake, training)
    for number, (here, place) in enumerate(pairwise(["cpu", *places])):
        back = {"gradient of the batch": True, "frozen as trained": number > 0}.get(mistake, trained)
        output = layers[number](batch).detach()
        sizes = {"numbers": batch.numel(), "four bytes": 4 * batch.numel(), "size of the output": output.nbytes}
        for way in [(here, place), (place, here)][: 1 + (training and back)]:
            if here != place and not (mistake == "no first copy" and number == 0):
                moved[way] = sizes.get(mistake, batch.nbytes) + (0 if mistake == "overwritten" else moved.get(way, 0))
        batch = output
        before = trained and mistake != "layer before only"
        trained = before or (number not in frozen and any(True for _ in layers[number].parameters()))
    if mistake == "output to the CPU":
        moved[places[-1], "cpu"] = batch.nbytes
    return moved


MISCOUNTS = {
    "numbers": "elements are counted instead of bytes",
    "four bytes": "each element is counted as four bytes, regardless of its dtype",
    "training always": "gradients are counted although training is False",
    "training never": "no gradient is counted",
    "gradient of the batch": "a gradient is counted at every crossing, even for the batch, which needs no gradient",
    "frozen as trained": "a gradient is counted even where every layer before the crossing is frozen",
    "layer before only": "a gradient is counted only where the layer immediately before the crossing is trained, "
    "regardless of earlier layers",
    "size of the output": "a copy to a layer is counted with the size of the layer's output instead of its input",
    "no first copy": "the copy of the batch from the CPU to the first layer is missing",
    "overwritten": "only the last of several crossings with the same pair is counted",
    "output to the CPU": "a copy of the output to the CPU is counted, although the output stays on the last device",
}


def why_miscounted(seen, truth, layers, mistaken) -> str:
    """The mistakes that give these bytes."""
    counted = [words for each, words in MISCOUNTS.items() if seen == mistaken[each]]
    if any(isinstance(size, str) for size in seen.values()):
        return " Give the bytes as a number."
    if counted:
        return f" This is the result if {', or if '.join(counted)}."
    if any(here == there for here, there in seen):
        return " Data that is already on the layer's device is not copied."
    extra = {seen.get(way, 0) - truth.get(way, 0) for way in {*seen, *truth}} - {0}
    weights = {sum(p.nbytes for p in layer.parameters()) for layer in layers}
    if extra & (weights - {0}):
        return " Do you count the bytes of a layer's parameters? Parameters and their gradients are not copied."
    return " Go from layer to layer. Each change of device is a copy."


def compare_bytes(student, stack, places, description, *, rows=8, dtype="float32", frozen=(), training=True, seed=0):
    first = stack[0]
    tokens = np.arange(rows * 5).reshape(rows, 5) % first[1]
    x = tokens if first[0] == "Embedding" else batch(rows, first[1], seed=seed)
    frozen = list(frozen)
    found = student.run(count_bytes, stack, places, dtype, frozen, training, x, student.devices)
    truth = bytes_of_a_step(stack, places, dtype, frozen, training, x)
    with case(f"{description} (places=[{', '.join(places)}], training={training})"):
        need(
            found["kind"] == "dict",
            f"bytes_moved returned {found['kind']}. Return a dict with pairs (from, to) as keys.",
        )
        seen = {(here, there): size for here, there, size in found["told"] if size}
        mistaken = {each: bytes_of_a_step(stack, places, dtype, frozen, training, x, each) for each in MISCOUNTS}
        layers = build(stack).to(getattr(torch, dtype))
        why = "" if seen == truth else why_miscounted(seen, truth, layers, mistaken)
        for here, there in dict.fromkeys([*truth, *seen]):
            says, right = seen.get((here, there), 0), truth.get((here, there), 0)
            need(
                says == right,
                f"From {here} to {there}, your result is {says}, but a timeline shows {right} bytes.{why}",
            )
        took = found["took"]
        need(not took, f"The result is right, but {took} bytes were allocated on the devices. Compute on the CPU.")
        need(
            not found["refrozen"],
            "The result is right, but requires_grad of some parameters has changed. Use torch.no_grad(), which "
            "does not freeze parameters.",
        )


CHAIN = [["Linear", 20, 30], ["ReLU"], ["Linear", 30, 10], ["Linear", 10, 7]]


@ex2.fact(
    "with one crossing, the forward pass copies the batch and the hidden activation, and the backward pass "
    "copies one gradient"
)
def _(student):
    device0, device1 = student.devices
    for training in (False, True):
        places = [device0, device0, device1, device1]
        compare_bytes(student, CHAIN, places, "With four layers", training=training)
    compare_bytes(student, CHAIN, places, "With four layers in float64", dtype="float64")


@ex2.fact("the result is right for several crossings, a repeated pair, and a layer on the CPU")
def _(student):
    device0, device1 = student.devices
    compare_bytes(student, CHAIN, [device1, device0, device1, device0], "With four layers", rows=3)
    compare_bytes(student, CHAIN, [device0, "cpu", "cpu", device1], "With four layers", rows=3)


@ex2.fact("a gradient crosses only if a layer before the crossing is trained")
def _(student):
    device0, device1 = student.devices
    places = [device0, device0, device1, device0]
    compare_bytes(student, CHAIN, places, "With the first layer frozen", frozen=[0])
    compare_bytes(student, CHAIN, [device0, device1, device0, device1], "With the third layer frozen", frozen=[2])


# --- ex3: bridges ---------------------------------------------------------------------------------------------

ex3 = lab.exercise(
    "ex3",
    star=True,
    title="Find the bridges in the autograd graph",
    hints=[
        "Begin with output.grad_fn. Its next_functions are pairs. The first item of a pair is the next node or None.",
        "Two paths may lead to the same node. What do you have to store to count the node only once?",
        "If bridges raises an error, consider an output computed under torch.no_grad(). What is its grad_fn?",
        "What is the largest number of bridges on a path from a node? It follows from the results for that node's next "
        "nodes.",
        "A recursive function that stores each node's result in a dict visits each node once. At the end, the dict has "
        "all nodes of the graph.",
    ],
    likely={
        "'NoneType' object": "The grad_fn of an output without a graph is None, and next_functions can contain None.",
    },
)


def count_bridges(lab, places, kind):
    """`places` are names of devices. Chain: a tensor that goes from each to the next."""
    import torch

    from utils.exercises.facts.probes import kind_of

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
    elif kind == "a shorter way":
        hidden = start * 2
        output = hidden.to(places[1]) + hidden.to("cpu").to(places[1]) * 2
    elif kind in ("short way first", "long way first"):
        moved = (start * 2).to(places[1])
        short, long = moved, moved.tanh().to("cpu").to(places[1])
        output = short + long if kind == "short way first" else long + short
    elif kind == "part and join":
        output = start * 2
        for _ in range(40):
            output = output.tanh() + output.relu()
        output = output.to(places[1])
    elif kind == "two inputs":
        other = torch.ones(4, 3).to(places[1]).requires_grad_()
        output = (start * 2).to(places[2]) + (other * 2).to(places[2])
    elif kind == "no gradient":
        with torch.no_grad():
            output = (start * 2).to(places[1])

    found = lab.bridges(output)
    if not isinstance(found, (list, tuple)) or len(found) != 2:
        return {"kind": kind_of(found)}
    for number in found:
        if not isinstance(number, int) or isinstance(number, bool):
            return {"kind": f"a pair that contains {kind_of(number)}"}
    touched = start.grad is not None
    try:
        if output.requires_grad:
            output.sum().backward()
        alive = True
    except RuntimeError:
        alive = False
    return {"kind": "two", "found": list(found), "touched": touched, "alive": alive}


def crossings(path):
    """How often the device changes on a path. Two names for one GPU are one device."""
    return sum(here != there for here, there in pairwise(path))


def compare_bridges(student, places, kind, expected, row, description):
    found = student.run(count_bridges, list(places), kind)
    with case(description):
        need(found["kind"] == "two", f"bridges returned {found['kind']}. Return two integers.")
        count, longest = found["found"]
        turned = [count, longest] == [row, expected] and row != expected
        need(
            not turned,
            f"Your numbers, {count} and {longest}, are in the wrong order. Return the total number of bridges first.",
        )
        need(
            count == expected,
            f"The graph has {expected} bridge{'s' * (expected != 1)}, but your first number is {count}. "
            f"{why_count(kind, count, expected)}",
        )
        need(
            longest == row,
            f"The path with the most bridges has {row}, but your second number is {longest}. "
            f"{why_longest(kind, longest, row)}",
        )
        need(
            not found["touched"],
            "The call left a gradient in a tensor of the graph. Read the graph without calling backward().",
        )
        need(found["alive"], "After the call, backward() raises an error. Only read the graph.")


def why_count(kind, count, expected) -> str:
    """The likeliest mistake that counts so many bridges."""
    if count > expected and kind != "chain":
        return "Count each node once, no matter how many paths lead to it."
    if count > expected:
        return "Count only the nodes of copies. The initial copy of the input has no node."
    if count == 0:
        return "A bridge's name() begins with ToCopyBackward and may have any ending."
    return (
        "Follow every entry of next_functions to the end, count the bridges of all paths, and compare the nodes "
        "themselves, not their names."
    )


def why_longest(kind, longest, row) -> str:
    """The likeliest mistake that finds a path with so many bridges."""
    if longest > row:
        return "Count only bridges, and only those on the same path."
    return "Where paths branch, take the one with the most bridges, even if another path has already visited its nodes."


def compare_chain(student, path, description):
    """A graph with one path."""
    compare_bridges(student, path, "chain", crossings(path), crossings(path), description)


@ex3.fact("one move between two devices gives one bridge, and a tensor that does not move has none")
def _(student):
    device0, device1 = student.devices
    compare_chain(student, [device0, device1], "With a tensor that moves from device0 to device1")
    compare_chain(student, [device0], "With a tensor that stays on device0")


@ex3.fact("a path across several devices has as many bridges as moves")
def _(student):
    device0, device1 = student.devices
    path = [device0, "cpu", device1, device0]
    compare_chain(student, path, "With a tensor that moves from device0 to the CPU, to device1, and back to device0")


@ex3.fact("a bridge that two paths lead to is counted once")
def _(student):
    path = student.devices
    compare_bridges(
        student,
        path,
        "used twice",
        crossings(path),
        crossings(path),
        "With a tensor that is moved once and then used several times",
    )


@ex3.fact("bridges follows all paths, not only the first")
def _(student):
    device0, device1 = student.devices
    each = crossings(["cpu", device1]), crossings([device0, device1])
    words = "With a sum of two tensors that are each moved once"
    compare_bridges(student, ["cpu", device0, device1], "two inputs", sum(each), max(each), words)


@ex3.fact("the second number belongs to the path with the most bridges, regardless of the order of the paths")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            straight, detour = crossings([device0, device1]), crossings([device0, "cpu", device1])
            words = "With the sum of a tensor moved directly and the same tensor moved through the CPU"
            compare_bridges(student, [device0, device1], "a shorter way", straight + detour, detour, words)
            behind = crossings([device0, device1, "cpu", device1])
            words = "With a moved tensor that enters a sum both directly and through the CPU"
            for first in ("short way first", "long way first"):
                described = f"{words}, with the {first.replace('way', 'path')}"
                compare_bridges(student, [device0, device1], first, behind, behind, described)


@ex3.fact("an output without a graph has no bridges")
def _(student):
    compare_bridges(student, student.devices, "no gradient", 0, 0, "With an output computed under torch.no_grad()")


# --- ex4: Mended ----------------------------------------------------------------------------------------------

ex4 = lab.exercise(
    "ex4",
    points=2,
    title="Repair a forward pass that makes detours",
    hints=[
        "Next to each line of Detour.forward, write the device of x after that line. Which moves are unnecessary?",
        "Run the cell that prints the copies of both models. Which copies of your model are unnecessary?",
        "The output can be right while training is broken. Which call in forward cuts the autograd graph?",
        "A ReLU has no weights. Apply it on the device of its input.",
        "The mean is the same in every step. When can you move it so that no forward pass has to?",
    ],
)

SIZES = (6, 10, 3)
USUAL = f"With a batch of 4 samples from the CPU and sizes={SIZES}"


def follow_mended(lab, sizes, device0, device1, start, seed, x):
    import torch

    from utils.exercises.facts.probes import array, fill, kind_of
    from utils.observe.trace import record

    model = lab.Mended(tuple(sizes), torch.device(device0), torch.device(device1))
    shapes = {name: list(p.shape) for name, p in model.named_parameters()}
    places = {name: str(p.device) for name, p in model.named_parameters()}
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
        "shapes": shapes,
        "places": places,
        "output": array(output),
        "output device": str(output.device),
        "gradients": gradients,
        "forward": [[*way, size] for way, size in forward.moved().items()],
        "backward": [[*way, size] for way, size in backward.moved().items()],
    }


class OneDevice(nn.Module):
    """What Detour computes, on one device."""

    mean: torch.Tensor

    def __init__(self, sizes):
        super().__init__()
        inputs, hidden, outputs = sizes
        self.layer1, self.layer2 = nn.Linear(inputs, hidden), nn.Linear(hidden, outputs)
        self.shortcut = nn.Linear(inputs, outputs)
        self.register_buffer("mean", torch.linspace(-1, 1, inputs))

    def forward(self, x):
        x = x - self.mean
        return torch.relu(self.layer2(torch.relu(self.layer1(x))) + self.shortcut(x))

    def outputs_without(self, x):
        """What comes out where something is left out, as {what: output}."""
        x = torch.from_numpy(x)
        with torch.no_grad():
            less = x - self.mean
            sum_of_both = self.layer2(torch.relu(self.layer1(less))) + self.shortcut(less)
            without = {
                "The subtraction of the mean": self(x + self.mean),
                "The ReLU after layer1": torch.relu(self.layer2(self.layer1(less)) + self.shortcut(less)),
                "The last ReLU": sum_of_both,
            }
        return {what: output.numpy() for what, output in without.items()}


def mended(student, batch_size=4, sizes=SIZES, swapped=False, start="cpu", seed=1):
    """One run of the student's model, and the right answer beside it."""
    device0, device1 = student.devices[::-1] if swapped else student.devices
    x = batch(batch_size, sizes[0], seed=seed)
    found = student.run(follow_mended, list(sizes), device0, device1, start, seed, x)
    need(
        found["kind"] == "Tensor",
        f"forward returned {found['kind']}. Return the output tensor.",
    )
    whole = OneDevice(sizes)
    needs_no_more_parameters(found["shapes"], whole)
    fill(whole, seed)
    images, hidden = batch_size * sizes[0] * 4, batch_size * sizes[1] * 4
    ways = {
        "forward": [(start, device0, images), (start, device1, images), (device0, device1, hidden)],
        "backward": [(device1, device0, hidden)],
    }
    return found, forward_and_backward(whole, x) | {"without": whole.outputs_without(x)}, ways


def needs_no_more_parameters(shapes, whole):
    """Of each shape there are as many as the layers have, whatever their names."""
    left = [list(p.shape) for p in whole.parameters()]
    for name, shape in shapes.items():
        need(
            shape in left,
            f"{name} is a parameter that Detour does not have. Is it the mean? The mean is not trained, so make it "
            "a buffer with register_buffer.",
        )
        left.remove(shape)


def compare_layers(found, sizes, device0, device1):
    """A layer is known by its shape, as it may have another name."""
    inputs, hidden, _ = sizes
    for name, shape in found["shapes"].items():
        wanted = device0 if shape in ([hidden, inputs], [hidden]) else device1
        place = found["places"][name]
        need(place == wanted, f"{name} is on {place}, but in Detour it is on {wanted}. Move the data, not the layers.")


def batch(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).numpy()


def same(mine, theirs):
    return mine.shape == theirs.shape and np.allclose(mine, theirs, **CLOSE)


def compare_output(found, expected):
    why = [words for words, output in expected["without"].items() if same(found["output"], output)]
    need(
        same(found["output"], expected["output"]),
        "The output differs from that of Detour. "
        + (f"{why[0]} is missing." if why else "Is the mean subtracted, and does each layer and each ReLU run once?"),
    )


def compare_gradients(found, expected):
    missing = [name for name, gradient in found["gradients"].items() if gradient is None]
    need(
        not missing,
        f"After backward(), these parameters have no gradient: {', '.join(missing)}. Does detach() or no_grad() cut "
        "the autograd graph between them and the output?",
    )
    for name, mine in found["gradients"].items():
        need(
            any(same(mine, g) for g in expected["gradients"]),
            f"The gradient of {name} differs from that on one device.",
        )


def compare_ways(found, phase, expected, mean):
    """`found` and `expected` have for each phase a list of (from, to, bytes), `mean` is the bytes of the mean.

    A move between two names of one GPU is none.
    """
    found, expected = found[phase], expected[phase]
    truth = {}
    for here, there, size in expected:
        if here != there:
            truth[here, there] = truth.get((here, there), 0) + size
    seen = {(here, there): size for here, there, size in found if size}
    extra = {way: size for way, size in seen.items() if way not in truth}
    told = "; ".join(f"{here} to {there}, {size} bytes" for (here, there), size in extra.items())
    need(not extra, f"These copies are unnecessary: {told}. {why_copied(extra, phase)}")
    for (here, there), size in truth.items():
        need((here, there) in seen, f"Nothing is copied directly from {here} to {there}.")
        moved = seen[here, there]
        why = " The extra bytes are those of the mean. Move the mean once, in __init__." if moved - size == mean else ""
        need(moved == size, f"{moved} bytes are copied from {here} to {there}, but {size} bytes are expected.{why}")


def why_copied(ways, phase) -> str:
    """The likeliest mistake that makes copies over these pairs (from, to)."""
    if phase == "backward":
        return "Only the gradient of the hidden activation crosses. The batch needs no gradient."
    if any("cpu" in way for way in ways):
        return "Copy directly from GPU to GPU, and copy the batch from its original device."
    return "Copy the batch from its original device, leave each layer on its device, and compute the sum on device1."


@ex4.fact("the output is on device1 and equals the output on one device")
def _(student):
    found, expected, _ = mended(student)
    with case(USUAL):
        compare_output(found, expected)
        right = student.devices[1]
        need(
            found["output device"] == right,
            f"The output is on {found['output device']}. Leave it on device1 ({right}).",
        )


@ex4.fact("after backward(), every parameter has the same gradient as on one device")
def _(student):
    found, expected, _ = mended(student)
    with case(USUAL):
        compare_gradients(found, expected)


@ex4.fact("each layer is on the same device as in Detour")
def _(student):
    found, _, _ = mended(student)
    with case(USUAL):
        compare_layers(found, SIZES, *student.devices)


@ex4.fact(
    "forward copies the batch directly to both devices, the hidden activation directly to device1, and nothing else"
)
def _(student):
    found, _, ways = mended(student)
    with case(USUAL):
        compare_ways(found, "forward", ways, mean=4 * SIZES[0])


@ex4.fact("backward copies one gradient directly from device1 to device0, and nothing else")
def _(student):
    found, _, ways = mended(student)
    with case(USUAL + ", in the backward pass"):
        compare_ways(found, "backward", ways, mean=4 * SIZES[0])


@ex4.fact("with the devices swapped, layers, output, gradients and copies are also right")
def _(student):
    with case("With the devices swapped"):
        compare_all(student, swapped=True)


def compare_all(student, batch_size=4, sizes=SIZES, swapped=False, start="cpu"):
    found, expected, ways = mended(student, batch_size, sizes, swapped, start, seed=batch_size)
    compare_layers(found, sizes, *(student.devices[::-1] if swapped else student.devices))
    compare_output(found, expected)
    compare_gradients(found, expected)
    for phase in ("forward", "backward"):
        compare_ways(found, phase, ways, mean=4 * sizes[0])


# --- ex5: gradient_report -------------------------------------------------------------------------------------

ex5 = lab.exercise(
    "ex5",
    points=2,
    title="Find where training is silently cut off",
    hints=[
        "Loop over model.named_parameters(). What is parameter.grad if a parameter has no gradient?",
        "There are two reasons for a missing gradient. parameter.requires_grad shows which one applies.",
        "First test the gradient with `is None`. A gradient may be all zeros, and its parameter may have been frozen "
        "after backward().",
    ],
    likely={
        "'NoneType' object": "If a parameter has no gradient, its .grad is None. Test for None first.",
        "Boolean value of Tensor": "A gradient has no truth value. Test `grad is None` instead of `grad`.",
    },
)


def report_on_a_model(lab, device0, device1, kind):
    import torch
    from torch import nn

    from utils.exercises.facts.probes import fill, kind_of, text_or_kind

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.part0 = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5)).to(device0)
            self.part1 = nn.Linear(5, 2).to(device1)

        def forward(self, x):
            hidden = self.part0(x.to(device0))
            return self.part1((hidden.detach() if kind == "cut" else hidden).to(device1))

    model = Model()
    fill(model, 5)  # where no ReLU lets anything through, no gradient is other than zero
    if kind == "frozen":
        model.part0[0].requires_grad_(False)
        model.part1.bias.requires_grad_(False)
    if kind != "before backward":
        output = model(torch.ones(3, 4))
        (output.sum() * (0 if kind == "zero" else 1)).backward()
    if kind == "frozen since":
        model.part1.requires_grad_(False)
    before = [None if p.grad is None else p.grad.detach().clone() for p in model.parameters()]
    found = lab.gradient_report(model)
    if not isinstance(found, dict):
        return kind_of(found)
    kept = all(
        p.grad is None if old is None else p.grad is not None and torch.equal(old, p.grad)
        for old, p in zip(before, model.parameters(), strict=True)
    )
    return {"report": {str(name): text_or_kind(value) for name, value in found.items()}, "kept": kept}


NAMES = ("part0.0.weight", "part0.0.bias", "part0.2.weight", "part0.2.bias", "part1.weight", "part1.bias")


def compare_report(student, kind, words, description, devices=None):
    """`words` says what is right where it is not a device: {name: "cut" or "frozen"}."""
    device0, device1 = devices or student.devices
    found = student.run(report_on_a_model, device0, device1, kind)
    expected = {name: device0 if name.startswith("part0") else device1 for name in NAMES} | words
    with case(description):
        need(isinstance(found, dict), f"gradient_report returned {found}. Return a dict.")
        found, kept = found["report"], found["kept"]
        missing = [name for name in expected if name not in found]
        need(not missing, f"The report lacks {', '.join(missing)}. It has {', '.join(found) or 'nothing'}.")
        extra = [name for name in found if name not in expected]
        need(not extra, f"The report has names that are not parameters of the model: {', '.join(extra)}.")
        for name, right in expected.items():
            why = {
                "cut": "The parameter has no gradient (grad is None), but its requires_grad is True.",
                "frozen": "The parameter has no gradient (grad is None), and its requires_grad is False.",
            }.get(right, "The parameter has a gradient, so report the gradient's device.")
            if found[name] not in ("'cut'", "'frozen'") and right not in ("cut", "frozen"):
                why = "Use str(device) of the parameter's own gradient."
            if not found[name].startswith(("'", '"')):
                why = "A string is expected. For a device, use str(device)."
            need(
                found[name] == repr(right),
                f"For {name}, the report has {found[name]}, but {right!r} is expected. {why}",
            )
        need(
            kept,
            "The report is right, but the gradients have changed. Leave them as they are for optimizer.step().",
        )


@ex5.fact("the report maps each parameter's name to the device of its gradient, as a string")
def _(student):
    compare_report(student, "whole", {}, "After a backward pass that reached every parameter")


@ex5.fact("the report has 'cut' where a trainable parameter has no gradient")
def _(student):
    compare_report(student, "cut", dict.fromkeys(NAMES[:4], "cut"), "With a detach() between the two parts")


@ex5.fact("the report has 'frozen' where a frozen parameter has no gradient")
def _(student):
    words = dict.fromkeys((*NAMES[:2], NAMES[5]), "frozen")
    compare_report(student, "frozen", words, "With some parameters frozen")


@ex5.fact("a gradient counts even if it is all zeros or if its parameter was frozen after backward()")
def _(student):
    compare_report(student, "zero", {}, "With gradients that are all zeros")
    compare_report(student, "frozen since", {}, "With a part that was frozen after backward()")
