"""Lab 06's visible facts: what `check("ex1")` tells the learner, and the first part of the grade.

A probe runs next to the student's code and returns plain data; the fact judges it here. It compares them with the
numbers of the unsplit model, made in this process from the same seed.
"""

from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from torchvision.models.resnet import BasicBlock, ResNet

from utils.exercises.facts import Lab, StudentError, case, need, orders_of

lab = Lab("lab06", "Split an existing model")

CLOSE: dict[str, Any] = {"rtol": 1e-3, "atol": 1e-4}  # a real GPU adds up in another order than a CPU
LEAST_WORK = 0.9  # of the operations of the unsplit model: those of its products, which are nearly all


def same(mine, theirs):
    return mine.shape == theirs.shape and np.allclose(mine, theirs, **CLOSE)


def near(mine, theirs):
    """Equal but for rounding in many layers: measured against the largest number, as small ones are sums of larger."""
    return mine.shape == theirs.shape and np.abs(mine - theirs).max() <= 2e-3 * max(np.abs(theirs).max(), 1e-3)


def batch(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).numpy()


# --- ex1: cut a ResNet at any block ------------------------------------------------------------------------------

ex1 = lab.exercise(
    "ex1",
    points=3,
    title="Cut a ResNet at any block",
    hints=[
        "Each group is an nn.Sequential, so you can index it and loop over it. Where do you count the blocks?",
        "Make one list of all blocks, from the first of layer1 to the last of layer4. `cut` is an index into this "
        "list.",
        "Parameter names come from attributes. Assigning an nn.Sequential or nn.ModuleList to an attribute adds names. "
        "Building the list in a method does not.",
        "In forward, loop over the list of all blocks. Before which block do the activations move?",
        "One line of ResNet's forward flattens the features of each image without a module. Does your forward "
        "contain this line?",
    ],
    likely={
        "shapes cannot be multiplied": "Does your forward flatten each image's features before fc, as ResNet's does?",
        "IndexError": "The number of blocks in a group depends on the ResNet. Loop over each group.",
    },
)

SMALL = [1, 1, 1, 1]  # one block in each group: ResNet10, a small relative of ResNet18
EARLY = [2, 1, 1, 1]


def look_at_resnet(lab, blocks, cut, options, device0, device1):
    import torch

    model = lab.SplitResNet(blocks, cut, torch.device(device0), torch.device(device1), **options)
    return {
        "tensors": {name: [list(t.shape), str(t.device)] for name, t in model.state_dict().items()},
        "in training": all(module.training for module in model.modules()),
    }


def run_resnet(lab, blocks, cut, options, device0, device1, seed, training, x):
    import torch
    from torchvision.models.resnet import BasicBlock, ResNet

    from utils.exercises.facts.probes import array
    from utils.observe.devices import is_simulated
    from utils.observe.trace import record

    torch.manual_seed(seed)
    whole = ResNet(BasicBlock, blocks, **options)
    for module in whole.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(std=0.1)
            module.running_var.uniform_(0.5, 2.0)
    model = lab.SplitResNet(blocks, cut, torch.device(device0), torch.device(device1), **options)
    model.load_state_dict(whole.state_dict())
    model.train(training)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):  # a real GPU would round to ten bits
        if is_simulated(device0):
            with record(device0, device1) as timeline:
                output = model(torch.from_numpy(x))
            work = sum([event.flops for event in timeline.events])
        else:
            output, work = model(torch.from_numpy(x)), None
        if training:
            (output * torch.linspace(1, 2, output.numel()).reshape(output.shape).to(output.device)).sum().backward()
    seen = {"output": array(output), "output device": str(output.device), "work": work}
    if training:
        # Of a large gradient some numbers are enough, and need not travel all.
        gradients = {n: p.grad for n, p in model.named_parameters()}
        seen["gradients"] = {
            n: None if g is None else array(g).ravel()[:: max(1, g.numel() // 200)] for n, g in gradients.items()
        }
        seen["buffers"] = {n: array(b) for n, b in model.named_buffers()}
    return seen


@cache
def whole_resnet(blocks, options, seed, training, shape):
    """The same of the unsplit model: outputs, some numbers of each gradient, the buffers."""
    torch.manual_seed(seed)
    whole = ResNet(BasicBlock, list(blocks), **dict(options))
    for module in whole.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(std=0.1)
            module.running_var.uniform_(0.5, 2.0)
    whole.train(training)
    with FlopCounterMode(display=False) as counted:
        output = whole(torch.from_numpy(batch(*shape, seed=seed)))
    (output * torch.linspace(1, 2, output.numel()).reshape(output.shape)).sum().backward()
    gradients = {n: p.grad.numpy().ravel()[:: max(1, p.grad.numel() // 200)] for n, p in whole.named_parameters()}
    return {
        "output": output.detach().numpy(),
        "gradients": gradients,
        "buffers": {n: b.numpy() for n, b in whole.named_buffers()},
        "work": counted.get_total_flops(),
    }


def need_work(found, right):
    """The model is computed on the devices. `found`: None where FLOPs are not counted."""
    need(
        found is None or found >= LEAST_WORK * right,
        f"The devices compute only {(found or 0) / right:.0%} of the model's FLOPs. Run every layer on a device, not "
        "on the CPU.",
    )


def compare_resnet_tensors(student, blocks, cut, options, device0, device1):
    """The names and shapes of the split model's parameters and buffers; returns where each is."""
    seen = student.run(look_at_resnet, blocks, cut, options, device0, device1)["tensors"]
    with torch.device("meta"):
        right = ResNet(BasicBlock, blocks, **options).state_dict()
    missing = [name for name in right if name not in seen]
    need(
        not missing,
        f"The split model lacks {len(missing)} of the unsplit model's tensor names, such as {', '.join(missing[:2])}.",
    )
    extra = [name for name in seen if name not in right]
    need(
        not extra,
        f"The split model has {len(extra)} tensor names that the unsplit model lacks, such as "
        f"{', '.join(extra[:2])}, so a checkpoint does not load. Do not assign a module to a second attribute.",
    )
    for name, tensor in right.items():
        shape, wanted = seen[name][0], list(tensor.shape)
        need(shape == wanted, f"{name} has shape {shape}. In the unsplit model, its shape is {wanted}.")
    return {name: device for name, (_, device) in seen.items()}


def on_first(blocks, cut):
    """The first letters of all names on the first device."""
    every = [f"layer{group}.{number}." for group, count in enumerate(blocks, 1) for number in range(count)]
    return "conv1.", "bn1.", *every[:cut]


def compare_resnet_places(student, blocks, cut, options, device0, device1):
    with case(f"With blocks={blocks} and cut={cut}"):
        for name, found in compare_resnet_tensors(student, blocks, cut, options, device0, device1).items():
            wanted = device0 if name.startswith(on_first(blocks, cut)) else device1
            of_blocks = ", ".join(block.rstrip(".") for block in on_first(blocks, cut)[2:])
            there = f" device0 should have only these blocks: {of_blocks}." if name.startswith("layer") else ""
            need(found == wanted, f"{name} is on {found}, but should be on {wanted}.{there}")


def compare_resnet(student, blocks, cut, options, device0, device1, *, training, shape, seed):
    x = batch(*shape, seed=seed)
    mode = "training" if training else "evaluation"
    images = f"{shape[0]} image{'s' if shape[0] > 1 else ''} of {shape[2]} x {shape[3]}"
    with case(f"With blocks={blocks} and cut={cut}, in {mode} mode, for {images}"):
        seen = student.run(run_resnet, blocks, cut, options, device0, device1, seed, training, x)
        right = whole_resnet(tuple(blocks), tuple(options.items()), seed, training, shape)
        need(
            seen["output device"] == device1,
            f"The output is on {seen['output device']}, but should be on device1 ({device1}).",
        )
        found, wanted = seen["output"], right["output"]
        need(
            found.shape == wanted.shape,
            f"The output has shape {found.shape} instead of {wanted.shape}. Does forward keep the batch dimension?",
        )
        need(
            near(found, wanted),
            "The output differs from the unsplit model's. Does forward call the same modules in the same order?",
        )
        need_work(seen["work"], right["work"])
        if training:
            none = [name for name, gradient in seen["gradients"].items() if gradient is None]
            need(
                not none,
                f"After backward(), the gradient is None for {len(none)} parameters, such as {', '.join(none[:2])}. "
                "Move the activations only with .to(), because detach(), .data and no_grad() cut the autograd graph.",
            )
            for name, gradient in right["gradients"].items():
                need(
                    near(seen["gradients"][name], gradient), f"The gradient of {name} differs from the unsplit model's."
                )
            for name, buffer in right["buffers"].items():
                need(
                    near(seen["buffers"][name], buffer),
                    f"After one batch, the buffer {name} differs from the unsplit model's.",
                )


@ex1.fact("parameters and buffers have the unsplit model's names and shapes, so a checkpoint loads")
def _(student):
    compare_resnet_tensors(student, SMALL, 2, {"num_classes": 10}, *student.devices)


@ex1.fact("conv1, bn1 and the first `cut` blocks are on device0, and the other blocks and fc are on device1")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            compare_resnet_places(student, EARLY, 1, {"num_classes": 10}, device0, device1)


@ex1.fact("a new model is in training mode, as a new ResNet is")
def _(student):
    seen = student.run(look_at_resnet, SMALL, 2, {"num_classes": 10}, *student.devices)
    need(seen["in training"], "A module of the new model is in evaluation mode. Do not call eval() in __init__.")


@ex1.fact("in evaluation mode, the output is on device1 and matches the unsplit model's")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            options = {"training": False, "shape": (2, 3, 32, 32), "seed": 2}
            compare_resnet(student, EARLY, 1, {"num_classes": 10}, device0, device1, **options)


@ex1.fact("in training mode, outputs, gradients and running statistics match the unsplit model's")
def _(student):
    shape = (4, 3, 32, 64)
    compare_resnet(student, SMALL, 3, {"num_classes": 10}, *student.devices, training=True, shape=shape, seed=3)


# --- ex2: split without touching forward --------------------------------------------------------------------------

ex2 = lab.exercise(
    "ex2",
    points=3,
    title="Split without touching forward",
    hints=[
        "Move each module once, inside place(). Its arguments must move in every call. What runs before each forward?",
        "A pre-hook registered using with_kwargs=True receives the module, args and kwargs. Which two of them must the "
        "hook return?",
        "Functions defined in a loop all see the last value of `device`. Create each hook in a function that takes "
        "`device` as an argument.",
        "An argument may be None or a number. Move only tensors, and keep every argument in its position.",
    ],
)


def make_places(device0, device1):
    """The plans, by the name of the model that they are for."""
    return {
        "resnet": {"conv1": device0, "bn1": device0, "layer1": device0}
        | dict.fromkeys(("layer2", "layer3", "layer4", "fc"), device1),
        "inside a group": {"conv1": device0, "bn1": device0, "layer1.0": device0, "layer1.1": device1}
        | dict.fromkeys(("layer2", "layer3", "layer4", "fc"), device1),
        "back and forth": {"body.0": device0, "body.1": device1, "body.2": device0, "head": device1},
        "by name": {"mix": device0, "both": device1, "head": device0},
        "no parameters": {"left": device0, "right": device1, "both": device0, "head": device1},
        "tokens": {"embed": device0, "head": device1},
        "None first": {"enter": device0, "mask": device1},
    }


def run_placed(lab, kind, plan, seed, x, training):
    import contextlib

    import torch
    from torch import nn
    from torchvision.models.resnet import BasicBlock, ResNet

    from utils.exercises.facts.probes import array, kind_of
    from utils.exercises.ledger import adding_to
    from utils.observe.devices import is_simulated
    from utils.observe.trace import record

    class Chain(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 7))
            self.head = nn.Linear(7, 3)

        def forward(self, x):
            return self.head(torch.tanh(self.body(x)))

    class Mix(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(6, 5)

        def forward(self, x, scale, *, other=None, power=1):
            note([kind_of(value) for value in (x, scale, other, power)])
            x = self.linear(x) * scale
            return x**power if other is None else x**power + other

    class ByName(nn.Module):
        def __init__(self):
            super().__init__()
            self.mix, self.both, self.head = Mix(), Mix(), nn.Linear(5, 2)

        def forward(self, x):
            hidden = self.mix(x, 2.0, power=2)
            return self.head(self.both(x, scale=hidden.mean(), other=hidden))

    class Join(nn.Module):
        def forward(self, first, *, second):
            return torch.cat([first, second], dim=1)

    class TwoBranches(nn.Module):
        def __init__(self):
            super().__init__()
            self.left, self.right, self.both, self.head = nn.Linear(6, 4), nn.Linear(6, 5), Join(), nn.Linear(9, 2)

        def forward(self, x):
            return self.head(self.both(self.left(x), second=self.right(x)))

    class Tokens(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Embedding(2, 5), nn.Linear(5, 3)

        def forward(self, x):
            return self.head(self.embed(torch.gt(x, 0).to(torch.int64)))

    class Mask(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(5, 5)

        def forward(self, mask, x):
            note([kind_of(value) for value in (mask, x)])
            return self.linear(x if mask is None else x * mask)

    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.enter, self.mask = nn.Linear(6, 5), Mask()

        def forward(self, x):
            hidden = self.enter(x)
            masked = self.mask(torch.gt(hidden, 0), hidden)
            return masked + self.mask(None, hidden) * self.mask(mask=None, x=hidden)

    given = []
    note = adding_to(given)
    torch.manual_seed(seed)
    if kind == "back and forth":
        model = Chain()
    elif kind == "by name":
        model = ByName()
    elif kind == "no parameters":
        model = TwoBranches()
    elif kind == "tokens":
        model = Tokens()
    elif kind == "None first":
        model = Masked()
    else:
        model = ResNet(BasicBlock, [2, 1, 1, 1] if kind == "inside a group" else [1, 1, 1, 1], num_classes=5)
    model.train(training)
    found = lab.place(model, {name: torch.device(device) for name, device in plan.items()})
    if found is not model:
        return {"kind": kind_of(found)}
    mode_kept = all([part.training == training for part in model.modules()])
    recorded = [device for device in {place for _, place in plan.items()} if is_simulated(device)]
    with record(*recorded) if recorded else contextlib.nullcontext() as timeline:
        output = model(torch.from_numpy(x))
        output.square().sum().backward()
    work = sum([event.flops for event in timeline.events]) if recorded else None
    return {
        "kind": "",
        "names": list(dict(model.named_parameters())),
        "places": {name: str(p.device) for name, p in model.named_parameters()},
        "output": array(output),
        "gradients": [None if p.grad is None else array(p.grad).ravel()[:500] for p in model.parameters()],
        "given": given,
        "mode kept": mode_kept,
        "work": work,
    }


@cache
def unplaced(kind, seed, shape, training) -> dict:
    """The same of a model that is not placed, run here."""
    left_alone = SimpleNamespace(place=lambda model, plan: model)
    with FlopCounterMode(display=False) as counted:
        seen = run_placed(left_alone, kind, {}, seed, batch(*shape, seed=seed), training)
    return seen | {"work": counted.get_total_flops()}


MODELS = {
    "resnet": "For a ResNet with one block in each group, cut after layer1",
    "inside a group": "For a ResNet cut between the two blocks of layer1",
    "back and forth": "For a small model that changes devices three times, with body.0, body.1 and so on in the plan",
    "by name": "For a module called with positional and keyword arguments, both tensors and numbers",
    "no parameters": "For a module without parameters that concatenates two tensors",
    "tokens": "For an nn.Embedding that is called with integers, followed by a linear layer",
    "None first": "For a module called with (bool mask, tensor), with (None, tensor), and with mask=None",
}
# What to look at, first of all, where a placed model raises.
LIKELY = {
    "resnet": "Does each pre-hook move all arguments to the device of its own module and return them?",
    "back and forth": "Module names can contain dots. Get a module by its name with model.get_submodule(name).",
    "by name": "Move every tensor argument, positional or keyword, and no other argument.",
    "tokens": "Move tensors of every dtype.",
    "None first": "Pass on None unchanged, as a positional or keyword argument, and keep the hooks for later calls.",
    "no parameters": "Take the device from the plan, because this module has no parameters.",
}


def compare_placed(student, kind, device0, device1, *, shape, seed=1, training=True):
    plan = make_places(device0, device1)[kind]
    with case(MODELS[kind]):
        try:
            seen = student.run(run_placed, kind, plan, seed, batch(*shape, seed=seed), training)
        except StudentError as error:
            likely = f"\n{LIKELY[kind]}" if kind in LIKELY and "It raised" in str(error) else ""
            raise StudentError(f"{error}{likely}") from None
        need(not seen["kind"], f"place returned {seen['kind']}. Return the model itself.")
        whole = unplaced(kind, seed, shape, training)
        need(
            seen["names"] == whole["names"],
            "The parameter names have changed. Add hooks to the modules instead of wrapping or replacing them.",
        )
        for name, found in seen["places"].items():
            wanted = next((device for part, device in plan.items() if f"{name}.".startswith(f"{part}.")), None)
            dots = f" {LIKELY['back and forth']}" if kind == "back and forth" else ""
            need(wanted in (None, found), f"{name} is on {found}, but the plan puts it on {wanted}.{dots}")
        mode = "" if seen["mode kept"] else " A module's mode has changed. Do not call eval() or train()."
        need(
            near(seen["output"], whole["output"]),
            f"After place(), the output differs from the output of the unsplit model.{mode}",
        )
        for found, right in zip(seen["given"], whole["given"], strict=True):
            words = f"A module was called with {', '.join(right)}, but its forward received {', '.join(found)}."
            need(found == right, f"{words} Move only tensors, and pass on other arguments unchanged.")
        none = sum(gradient is None for gradient in seen["gradients"])
        need(
            not none,
            f"After backward(), the gradient is None for {none} of {len(seen['gradients'])} parameters. Move arguments "
            "only with .to(), because detach(), .data and no_grad() cut the autograd graph.",
        )
        right = all(near(a, b) for a, b in zip(seen["gradients"], whole["gradients"], strict=True))
        need(right, "After place(), a gradient differs from that of the unsplit model.")
        need_work(seen["work"], whole["work"])


@ex2.fact(
    "place returns the same ResNet, with its modules on the plan's devices, and outputs and gradients do not change"
)
def _(student):
    compare_placed(student, "resnet", *student.devices, shape=(2, 3, 32, 32), training=False)


@ex2.fact("each module in the plan receives its input on its own device, even when the devices are swapped")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            compare_placed(student, "back and forth", device0, device1, shape=(4, 6))


@ex2.fact("tensors that are keyword arguments also move, and other arguments do not change")
def _(student):
    compare_placed(student, "by name", *student.devices, shape=(4, 6), seed=2)


@ex2.fact("in every call of a module, integer and bool tensors move and None is passed on")
def _(student):
    compare_placed(student, "tokens", *student.devices, shape=(4, 6), seed=4)
    compare_placed(student, "None first", *student.devices, shape=(4, 6), seed=5)


@ex2.fact("tensor arguments also move for a module without parameters")
def _(student):
    compare_placed(student, "no parameters", *student.devices, shape=(4, 6), seed=3)


# --- ex3: what will the split cost? -------------------------------------------------------------------------------

ex3 = lab.exercise(
    "ex3",
    points=2,
    title="What will the split cost?",
    hints=[
        "You need one tensor, the output of `last`. How can you observe this output when the model runs?",
        "How many bytes does a tensor of a given dtype take, and how often does a tensor of that size cross in a step?",
        "Which attribute of the output tells you whether it receives a gradient? (Under no_grad, no output does.)",
        "A forward pass in training mode changes BatchNorm's buffers, and a hook stays until it is removed. Run a copy "
        "of the model.",
    ],
)


NORM = 2  # the number of bn1 among the parts of a ResNet, of which the model itself is number 0


def ask_seconds(lab, blocks, last, frozen, dtype, mode, odd, x, bandwidth, latency):
    import torch
    from torchvision.models.resnet import BasicBlock, ResNet

    from utils.exercises.facts.probes import kind_of

    torch.manual_seed(0)
    model = ResNet(BasicBlock, blocks, num_classes=4)
    if dtype == "float64":
        model.double()
    for name, parameter in model.named_parameters():
        if name.startswith(tuple(frozen)):
            parameter.requires_grad_(False)
    model.train(mode)
    parts = [part for part in model.modules()]
    if odd is not None:
        parts[odd].train(not mode)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    modes = [part.training for part in parts]
    found = lab.copy_seconds(model, last, torch.from_numpy(x), bandwidth, latency)
    if found is None or isinstance(found, (str, bool, list, tuple, dict)) or not hasattr(found, "__float__"):
        return {"kind": kind_of(found)}
    found = float(found)  # what this runs, it runs before the look at the model
    changed = [n for n, tensor in model.state_dict().items() if not torch.equal(tensor, before[n])]
    hooks = [len(part._forward_hooks) + len(part._forward_pre_hooks) for part in model.modules()]
    changed_modes = [part.training != before for part, before in zip(parts, modes, strict=True)]
    return {"kind": "", "seconds": found, "changed": changed, "hooks": sum(hooks), "modes": sum(changed_modes)}


# Channels of each module's output, and by which factor its images are smaller than the model's.
OUTPUTS = {"layer1": (64, 4), "layer2": (128, 8), "layer2.0": (128, 8), "layer3": (256, 16), "maxpool": (64, 4)}


def compare_seconds(
    student, blocks, last, shape, *, frozen=(), trained_before=True, dtype="float32", mode=True, **link
):
    channels, smaller = OUTPUTS[last]
    count, _, height, width = shape
    size = count * channels * (height // smaller) * (width // smaller) * (8 if dtype == "float64" else 4)
    copies, latency, bandwidth = 2 if trained_before else 1, link["latency"], link["bandwidth"]
    right = copies * (latency + size / bandwidth)
    x = batch(*shape).astype(dtype)
    words = f", with {', '.join(frozen)} frozen" if frozen else ""
    words += "" if mode else ", in evaluation mode"
    width = 8 if dtype == "float64" else 4
    mistakes = [
        (
            2 * right,
            "That is twice the correct time. A gradient crosses back only if a parameter up to the cut is trainable.",
        ),
        (latency + copies * size / bandwidth, "Add the latency for each copy."),
        (copies * (latency + size / width / bandwidth), "Count bytes, not elements."),
        (copies * (latency + size * 4 / width / bandwidth), f"Each {dtype} element takes {width} bytes."),
        (copies * (latency + size / count / bandwidth), "Count all samples of the batch, not just one."),
    ]
    with case(f"For images of shape {shape} ({dtype}) and last={last!r}{words}"):
        asked = (blocks, last, list(frozen), dtype, mode, None, x, bandwidth, latency)
        found = seconds_of(student.run(ask_seconds, *asked))
        need(
            not trained_before or abs(found - right / 2) > 1e-6 * right,
            f"copy_seconds returned the time of one copy. A parameter before or inside {last!r} is trainable, so a "
            "gradient crosses back in training mode and in evaluation mode. (Under no_grad, no output requires a "
            "gradient.)",
        )
        likely = [words for seconds, words in mistakes if abs(found - seconds) < 1e-6 * right]
        need(
            abs(found - right) < 1e-6 * right,
            f"copy_seconds returned {found * 1e6:.2f} microseconds instead of {right * 1e6:.2f}. "
            f"{likely[0] if likely else f'Count only the output of {last!r} and, if it crosses back, its gradient.'}",
        )


def seconds_of(seen):
    need(not seen["kind"], f"copy_seconds returned {seen['kind']}. Return the seconds as a float.")
    return seen["seconds"]


def compare_left(student, mode, odd):
    """The model that is asked about is in `mode`, but for its part number `odd`, which is in the other one."""
    words = "in training mode" if mode else "in evaluation mode"
    with case(f"For a model {words}, with one module in the other mode"):
        x = batch(2, 3, 32, 32)
        seen = student.run(ask_seconds, SMALL, "layer2", [], "float32", mode, odd, x, 1e9, 1e-6)
        seconds_of(seen)
        copied = "Run a copy of the model instead of the model itself."
        need(not seen["hooks"], f"The model still has {seen['hooks']} of your hooks. {copied}")
        modes, changed = seen["modes"], seen["changed"]
        need(not modes, f"copy_seconds changed the mode of {modes} of the model's modules. {copied}")
        need(
            not changed,
            f"copy_seconds changed {len(changed)} of the model's tensors, such as {', '.join(changed[:1])}. {copied}",
        )


@ex3.fact("copy_seconds counts two copies, one of the output and one of its gradient, each with its latency")
def _(student):
    compare_seconds(student, SMALL, "layer1", (8, 3, 32, 32), bandwidth=1e9, latency=2e-6)


@ex3.fact("a gradient crosses back unless all parameters up to the cut are frozen")
def _(student):
    early = ("conv1", "bn1", "layer1")
    link: dict[str, Any] = {"bandwidth": 2e9, "latency": 1e-5}
    compare_seconds(student, SMALL, "layer1", (4, 3, 32, 64), frozen=early, trained_before=False, **link)
    compare_seconds(student, SMALL, "layer1", (4, 3, 32, 64), frozen=("layer1",), **link)
    compare_seconds(student, SMALL, "layer1", (4, 3, 32, 64), frozen=("conv1", "bn1"), **link)


@ex3.fact("copy_seconds counts the bytes of the given dtype, even for float64")
def _(student):
    compare_seconds(student, SMALL, "layer2", (2, 3, 32, 32), dtype="float64", bandwidth=1e9, latency=1e-6)


@ex3.fact("copy_seconds adds no hooks and does not change modes or running statistics")
def _(student):
    compare_left(student, True, NORM)
    compare_left(student, False, NORM)


# --- ex4: where does a wrong split go wrong? ----------------------------------------------------------------------

ex4 = lab.exercise(
    "ex4",
    points=2,
    title="Where does a wrong split go wrong?",
    hints=[
        "Collect the output of every leaf of one model by name. Do the same for the other model, and then compare.",
        "In which order do you compare? named_modules() follows the order of definition, but hooks run in the order "
        "of calls.",
        "A hook that stores the output stores the tensor itself. How does an in-place ReLU then change this tensor?",
        "The two outputs can be on different devices. Before torch.allclose, compare their shapes and move both to one "
        "device.",
    ],
)


def ask_difference(lab, bug, device0, device1, seed, x):

    import torch
    from torch import nn

    from utils.exercises.facts.probes import kind_of

    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(8, 3)  # made first, called last
            self.first = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(inplace=True))
            self.second = nn.Sequential(nn.Linear(8, 8), nn.Tanh())

        def forward(self, x):
            return self.head(self.second(self.first(x)))

    # A name of the bug would stand in the closure of forward().
    factor, inside = [1.1 if bug == wrong else 1.0 for wrong in ("scaled between", "scaled in second")]
    nudge = torch.zeros(len(x), 1, device=device1)
    nudge[0] = 0.3 if bug == "one row" else 0.0

    class Scaled(nn.Sequential):
        def forward(self, input):
            return super().forward(input) * inside

    class Split(Whole):
        def __init__(self):
            super().__init__()
            self.second = Scaled(*self.second)

        def forward(self, x):
            hidden = self.first(x.to(device0)).to(device1)
            return self.head(self.second(hidden * factor + nudge))

    torch.manual_seed(seed)
    whole, split = Whole(), Split()
    split.load_state_dict(whole.state_dict())
    with torch.no_grad():
        if bug == "second.0":
            split.second[0].weight.data[3].add_(0.5)
        if bug == "head and second.0":
            split.head.bias.data.add_(1.0)
            split.second[0].bias.data.add_(1.0)
        if bug == "hidden by the ReLU":
            for model, shift in ((whole, -50.0), (split, -60.0)):
                model.first[1].bias.data.add_(shift)
        if bug == "rounding":
            split.first[0].weight.data.add_(1e-7)
        if bug == "rounding of large numbers":
            for model, shift in ((whole, 1000.0), (split, 1000.05)):
                model.second[0].bias.data.add_(shift)
        if bug == "cancels":
            split.second[0].bias.data[0].add_(0.25)
            split.second[0].bias.data[1].add_(-0.25)
        if bug == "shape":
            split.head = nn.Linear(8, 2)
        if bug == "flat":
            whole.head, split.head = nn.Flatten(1), nn.Flatten(0)
    if bug == "mode":
        split.first[1].train(False)
    split.first.to(device0)
    split.second.to(device1)
    split.head.to(device1)
    modes = [[part.training for part in model.modules()] for model in (whole, split)]
    found = lab.first_difference(whole, split, torch.from_numpy(x))
    after = [[part.training for part in model.modules()] for model in (whole, split)]
    hooks = [len(part._forward_hooks) + len(part._forward_pre_hooks) for m in (whole, split) for part in m.modules()]
    told = found if found is None or isinstance(found, str) else kind_of(found)
    return {
        "found": told,
        "is text": found is None or isinstance(found, str),
        "same": modes == after,
        "hooks": sum(hooks),
    }


# For each bug: what it is, the first leaf whose output differs, and what to do where that is not found.
BUGS = {
    "none": ("a correct split", None, "Compare the outputs with rtol=1e-3 and atol=1e-4."),
    "second.0": (
        "a split with a different weight in second.0",
        "second.0",
        "Compare only leaves, in the order of calls, and return the first that differs. The leaf head is defined first "
        "but runs last.",
    ),
    "scaled between": (
        "a split that multiplies the activations by 1.1 between the devices",
        "second.0",
        "Compare the outputs, because no weight differs.",
    ),
    "head and second.0": (
        "a split with different biases in head and in second.0",
        "second.0",
        "Compare the outputs in the order of calls. The leaf head is defined first but runs last.",
    ),
    "hidden by the ReLU": (
        "a split with different negative outputs of first.1, which the in-place ReLU sets to 0",
        "first.1",
        "Store a copy of each output in the hook.",
    ),
    "mode": (
        "a split with first.1 in evaluation mode and an unsplit model in training mode",
        "first.1",
        "Compare the modules in their current modes. Do not call eval() or train().",
    ),
    "rounding": (
        "a split whose outputs differ only by rounding",
        None,
        "Use torch.allclose instead of exact equality.",
    ),
    "rounding of large numbers": (
        "a split in which the outputs of second.0 are near 1000.05 instead of 1000",
        None,
        "Use torch.allclose with both tolerances. With rtol=1e-3, this difference is allowed.",
    ),
    "cancels": (
        "a split in which one bias of second.0 is larger and another is smaller",
        "second.0",
        "Compare element by element, because differences cancel in a sum or a mean.",
    ),
    "shape": ("a split whose head returns one number fewer per sample", "head", "Compare the shapes first."),
    "flat": (
        "a split whose head returns the same numbers in one dimension instead of two",
        "head",
        "Compare the shapes as well.",
    ),
    "scaled in second": (
        "a split in which the module second multiplies the output of second.1 by 1.1",
        "head",
        "Compare only leaves. The module second contains other modules.",
    ),
    "one row": (
        "a split in which one of 4,000 samples is changed between the devices",
        "second.0",
        "Compare every element of every sample.",
    ),
}
LEAVES = ("first.0", "first.1", "first.2", "second.0", "second.1", "head")


def judge_difference(student, bug, device0, device1, seed=1, rows=16):
    words, right, likely = BUGS[bug]
    with case(f"For {words}"):
        seen = student.run(ask_difference, bug, device0, device1, seed, batch(rows, 5, seed=seed))
        found = seen["found"]
        need(seen["is text"], f"first_difference returned {found}. Return a module's name or None.")
        told = f"first_difference returned {found!r} instead of {right!r}."
        need(found is None or found in LEAVES, f"{told} Only these modules are leaves: {', '.join(LEAVES)}.")
        need(found == right, f"{told} {likely}")
        need(
            not seen["hooks"], f"The models still have {seen['hooks']} of your hooks. Remove each hook with its handle."
        )
        need(seen["same"], "first_difference changed a module's mode. Do not call eval() or train().")


@ex4.fact("first_difference returns None for a correct split and, if a weight is wrong, the name of its leaf")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            judge_difference(student, "none", device0, device1)
            judge_difference(student, "second.0", device0, device1)


@ex4.fact("first_difference returns the first leaf in the order of calls that differs, even if no weight is wrong")
def _(student):
    judge_difference(student, "head and second.0", *student.devices)
    judge_difference(student, "scaled between", *student.devices)


@ex4.fact("first_difference returns a leaf, even if a module that contains leaves causes the difference")
def _(student):
    judge_difference(student, "scaled in second", *student.devices)


@ex4.fact("first_difference finds a difference that an in-place ReLU overwrites")
def _(student):
    judge_difference(student, "hidden by the ReLU", *student.devices)


@ex4.fact("rounding does not count as a difference, but a different shape does, and so do differences that add up to 0")
def _(student):
    for bug in ("rounding", "rounding of large numbers", "shape", "flat", "cancels"):
        judge_difference(student, bug, *student.devices)


@ex4.fact("a single wrong sample counts as a difference, even among thousands of correct samples")
def _(student):
    judge_difference(student, "one row", *student.devices, rows=4000)


@ex4.fact("first_difference compares the modules in their current modes")
def _(student):
    judge_difference(student, "mode", *student.devices)
