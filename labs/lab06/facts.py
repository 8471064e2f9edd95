"""Lab 06's visible facts: what `check("ex1")` tells the learner, and the first part of the grade.

A probe runs beside the student's code and tells plain data; the fact judges it here. What is compared are the
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

from utils.exercises.facts import Lab, case, need, orders_of

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
        "Where would you count the blocks? Each group is an nn.Sequential: it can be indexed and looped over.",
        "Make one list of all blocks, from the first of layer1 to the last of layer4. The cut is an index into it.",
        "forward is a loop over that list. At which number does the data have to move?",
        "One line of ResNet's forward calls no part: it makes one long row of each image's numbers. Is it in yours?",
        "Names come from attributes: an nn.Sequential or nn.ModuleList that you make an attribute gives more names.",
    ],
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
    """What there is to compute is computed on the devices. `found`: None where nobody counts."""
    need(
        found is None or found >= LEAST_WORK * right,
        f"the devices do {(found or 0) / right:.0%} of the work that there is. Where is the rest done?",
    )


def compare_resnet_tensors(student, blocks, cut, options, device0, device1):
    """The names and shapes of the split model's parameters and buffers; returns where each is."""
    seen = student.run(look_at_resnet, blocks, cut, options, device0, device1)["tensors"]
    with torch.device("meta"):
        right = ResNet(BasicBlock, blocks, **options).state_dict()
    missing = [name for name in right if name not in seen]
    need(not missing, f"{len(missing)} names of the unsplit model are not there, such as {', '.join(missing[:2])}.")
    extra = [name for name in seen if name not in right]
    need(
        not extra,
        f"{len(extra)} names are there that the unsplit model does not have, such as {', '.join(extra[:2])}. "
        "A checkpoint does not load.",
    )
    for name, tensor in right.items():
        shape, wanted = seen[name][0], list(tensor.shape)
        need(shape == wanted, f"{name} has shape {shape}, in the unsplit model {wanted}.")
    return {name: device for name, (_, device) in seen.items()}


def on_first(blocks, cut):
    """How the names begin of what is on the first device."""
    every = [f"layer{group}.{number}." for group, count in enumerate(blocks, 1) for number in range(count)]
    return "conv1.", "bn1.", *every[:cut]


def compare_resnet_places(student, blocks, cut, options, device0, device1):
    with case(f"With blocks={blocks} and cut={cut}"):
        for name, found in compare_resnet_tensors(student, blocks, cut, options, device0, device1).items():
            wanted = device0 if name.startswith(on_first(blocks, cut)) else device1
            need(found == wanted, f"{name} is on {found}, and should be on {wanted}.")


def compare_resnet(student, blocks, cut, options, device0, device1, *, training, shape, seed):
    x = batch(*shape, seed=seed)
    mode = "training" if training else "evaluation"
    images = f"{shape[0]} image{'s' if shape[0] > 1 else ''} of {shape[2]} x {shape[3]}"
    with case(f"With blocks={blocks} and cut={cut}, in {mode} mode, {images}"):
        seen = student.run(run_resnet, blocks, cut, options, device0, device1, seed, training, x)
        right = whole_resnet(tuple(blocks), tuple(options.items()), seed, training, shape)
        need(seen["output device"] == device1, f"the output is on {seen['output device']}, and device1 is {device1}.")
        found, wanted = seen["output"], right["output"]
        need(found.shape == wanted.shape, f"the output has shape {found.shape}, the unsplit model's {wanted.shape}.")
        need(near(found, wanted), "the output has other numbers than that of the unsplit model.")
        need_work(seen["work"], right["work"])
        if training:
            none = [name for name, gradient in seen["gradients"].items() if gradient is None]
            need(not none, f"after backward() {len(none)} parameters have no gradient, such as {', '.join(none[:2])}.")
            for name, gradient in right["gradients"].items():
                need(near(seen["gradients"][name], gradient), f"the gradient of {name} has other numbers.")
            for name, buffer in right["buffers"].items():
                need(near(seen["buffers"][name], buffer), f"{name} has other numbers after a batch.")


@ex1.fact("its parameters and buffers have the names and shapes of the unsplit model's: a checkpoint loads")
def _(student):
    compare_resnet_tensors(student, SMALL, 2, {"num_classes": 10}, *student.devices)


@ex1.fact("the first blocks are on device0, as many as the cut says, and the others and fc on device1")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            compare_resnet_places(student, EARLY, 1, {"num_classes": 10}, device0, device1)


@ex1.fact("a new model is in training mode, as a new ResNet is")
def _(student):
    seen = student.run(look_at_resnet, SMALL, 2, {"num_classes": 10}, *student.devices)
    need(seen["in training"], "a part of it is in evaluation mode. eval() holds until train() is called.")


@ex1.fact("in evaluation mode it computes what the unsplit model computes, and the output is on device1")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            options = {"training": False, "shape": (2, 3, 32, 32), "seed": 2}
            compare_resnet(student, EARLY, 1, {"num_classes": 10}, device0, device1, **options)


@ex1.fact("in training mode outputs, gradients and running statistics are those of the unsplit model")
def _(student):
    shape = (4, 3, 32, 64)
    compare_resnet(student, SMALL, 3, {"num_classes": 10}, *student.devices, training=True, shape=shape, seed=3)


# --- ex2: split without touching forward --------------------------------------------------------------------------

ex2 = lab.exercise(
    "ex2",
    points=3,
    title="Split without touching forward",
    hints=[
        "Two things have to move: each part once, now; and what it is given, each time that it is called. Who can do "
        "the second?",
        "A pre-hook that is registered with_kwargs=True gets three things and returns two. Which?",
        "If all parts use the last device: which `device` does a function see that was made in a loop, when the loop "
        "is over?",
        "An argument may be None, or a number. Only a tensor has to move.",
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
    """The same of a model that nobody has placed, run here."""
    left_alone = SimpleNamespace(place=lambda model, plan: model)
    with FlopCounterMode(display=False) as counted:
        seen = run_placed(left_alone, kind, {}, seed, batch(*shape, seed=seed), training)
    return seen | {"work": counted.get_total_flops()}


MODELS = {
    "resnet": "For a ResNet with one block in each group, cut after layer1",
    "inside a group": "For a ResNet cut between the two blocks of layer1",
    "back and forth": "For a small model whose parts change devices three times",
    "by name": "For a part that is called with a number, a keyword and a tensor by keyword",
    "no parameters": "For a part without parameters, which joins two tensors",
    "tokens": "For an nn.Embedding, which is given whole numbers, and a linear layer",
    "None first": "For a part that is called with (a mask of bools, a tensor), with (None, a tensor), and by keyword",
}


def compare_placed(student, kind, device0, device1, *, shape, seed=1, training=True):
    plan = make_places(device0, device1)[kind]
    with case(MODELS[kind]):
        seen = student.run(run_placed, kind, plan, seed, batch(*shape, seed=seed), training)
        need(not seen["kind"], f"place returned {seen['kind']}. Return the model that it was given, itself.")
        whole = unplaced(kind, seed, shape, training)
        need(seen["names"] == whole["names"], "the parameters have other names than before.")
        for name, found in seen["places"].items():
            wanted = next((device for part, device in plan.items() if f"{name}.".startswith(f"{part}.")), None)
            need(wanted in (None, found), f"{name} is on {found}, and the plan says {wanted}.")
        mode = "" if seen["mode kept"] else " Some part is in another mode now, training or evaluation."
        need(near(seen["output"], whole["output"]), f"the output has other numbers than before.{mode}")
        for found, right in zip(seen["given"], whole["given"], strict=True):
            words = f"a part was called with {', '.join(right)}, and its forward got {', '.join(found)}."
            need(found == right, f"{words} What is no tensor is passed on as it is.")
        none = sum(gradient is None for gradient in seen["gradients"])
        need(not none, f"after backward() {none} of {len(seen['gradients'])} parameters have no gradient.")
        right = all(near(a, b) for a, b in zip(seen["gradients"], whole["gradients"], strict=True))
        need(right, "some gradient has other numbers than before.")
        need_work(seen["work"], whole["work"])


@ex2.fact("a ResNet that is placed is the same object, with its parts where the plan says, and computes the same")
def _(student):
    compare_placed(student, "resnet", *student.devices, shape=(2, 3, 32, 32), training=False)


@ex2.fact("each part gets its input on its own device, back and forth, with the devices in both orders")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            compare_placed(student, "back and forth", device0, device1, shape=(4, 6))


@ex2.fact("what is given by keyword moves, too, and what is no tensor is passed on")
def _(student):
    compare_placed(student, "by name", *student.devices, shape=(4, 6), seed=2)


@ex2.fact("tensors of whole numbers and of bools move, None is passed on, and all of it in each call of a part")
def _(student):
    compare_placed(student, "tokens", *student.devices, shape=(4, 6), seed=4)
    compare_placed(student, "None first", *student.devices, shape=(4, 6), seed=5)


@ex2.fact("so it is for a part without parameters")
def _(student):
    compare_placed(student, "no parameters", *student.devices, shape=(4, 6), seed=3)


# --- ex3: what will the split cost? -------------------------------------------------------------------------------

ex3 = lab.exercise(
    "ex3",
    points=2,
    title="What will the split cost?",
    hints=[
        "You need one tensor: the output of that part. Who sees it, when the model runs?",
        "How many bytes has a tensor, whatever its dtype? And how many times does something of that size cross?",
        "A tensor knows by itself whether a gradient will come back to it. Which attribute says so?",
        "A pass in training mode changes BatchNorm's buffers, and a hook stays until it is removed. With what "
        "could you run the pass instead of with the model itself?",
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
    found = float(found)  # what it runs, it runs before anybody looks
    changed = [n for n, tensor in model.state_dict().items() if not torch.equal(tensor, before[n])]
    hooks = [len(part._forward_hooks) + len(part._forward_pre_hooks) for part in model.modules()]
    changed_modes = [part.training != before for part, before in zip(parts, modes, strict=True)]
    return {"kind": "", "seconds": found, "changed": changed, "hooks": sum(hooks), "modes": sum(changed_modes)}


# Channels of what each part gives, and by how much it has made the sides of an image shorter.
OUTPUTS = {"layer1": (64, 4), "layer2": (128, 8), "layer2.0": (128, 8), "layer3": (256, 16), "maxpool": (64, 4)}


def compare_seconds(
    student, blocks, last, shape, *, frozen=(), trained_before=True, dtype="float32", mode=True, **link
):
    channels, smaller = OUTPUTS[last]
    count, _, height, width = shape
    size = count * channels * (height // smaller) * (width // smaller) * (8 if dtype == "float64" else 4)
    right = (2 if trained_before else 1) * (link["latency"] + size / link["bandwidth"])
    x = batch(*shape).astype(dtype)
    words = f", with {', '.join(frozen)} frozen" if frozen else ""
    with case(f"For images of shape {shape} ({dtype}) and last={last!r}{words}"):
        asked = (blocks, last, list(frozen), dtype, mode, None, x, link["bandwidth"], link["latency"])
        found = seconds_of(student.run(ask_seconds, *asked))
        need(
            not trained_before or abs(found - right / 2) > 1e-6 * right,
            f"copy_seconds returned the time of one copy. Up to {last!r}, and inside it, there are parameters that are "
            "trained, so a gradient crosses back.",
        )
        need(
            abs(found - right) < 1e-6 * right,
            f"copy_seconds returned {found * 1e6:.2f} microseconds, and it is {right * 1e6:.2f}.",
        )


def seconds_of(seen):
    need(not seen["kind"], f"copy_seconds returned {seen['kind']}. Return a number of seconds.")
    return seen["seconds"]


def compare_left(student, mode, odd):
    """The model that is asked about is in `mode`, but for its part number `odd`, which is in the other one."""
    words = "in training mode" if mode else "in evaluation mode"
    with case(f"For a model {words}, but for one part"):
        x = batch(2, 3, 32, 32)
        seen = student.run(ask_seconds, SMALL, "layer2", [], "float32", mode, odd, x, 1e9, 1e-6)
        seconds_of(seen)
        need(not seen["hooks"], f"{seen['hooks']} hooks are left in the model.")
        modes, changed = seen["modes"], seen["changed"]
        need(not modes, f"afterwards {modes} of its parts are in another mode than before.")
        need(
            not changed, f"afterwards {len(changed)} tensors of the model are others, such as {', '.join(changed[:1])}."
        )


@ex3.fact("it is two copies of what the last part gives, each with its latency")
def _(student):
    compare_seconds(student, SMALL, "layer1", (8, 3, 32, 32), bandwidth=1e9, latency=2e-6)


@ex3.fact("of frozen parts no gradient comes back")
def _(student):
    early = ("conv1", "bn1", "layer1")
    link: dict[str, Any] = {"bandwidth": 2e9, "latency": 1e-5}
    compare_seconds(student, SMALL, "layer1", (4, 3, 32, 64), frozen=early, trained_before=False, **link)
    compare_seconds(student, SMALL, "layer1", (4, 3, 32, 64), frozen=("layer1",), **link)
    compare_seconds(student, SMALL, "layer1", (4, 3, 32, 64), frozen=("conv1", "bn1"), **link)


@ex3.fact("it counts the bytes that there are, in float64, too")
def _(student):
    compare_seconds(student, SMALL, "layer2", (2, 3, 32, 32), dtype="float64", bandwidth=1e9, latency=1e-6)


@ex3.fact("afterwards the model is as it was: no hooks, each part in its mode, the same running statistics")
def _(student):
    compare_left(student, True, NORM)
    compare_left(student, False, NORM)


# --- ex4: where does a wrong split go wrong? ----------------------------------------------------------------------

ex4 = lab.exercise(
    "ex4",
    points=2,
    title="Where does a wrong split go wrong?",
    hints=[
        "Write down what every leaf of one model gives, by its name. Do the same for the other, then compare.",
        "In which order do you compare? named_modules() has the order in which parts were made, hooks see another.",
        "A hook that keeps the output keeps the tensor itself. What does an in-place ReLU do to it afterwards?",
        "The two outputs are on different devices. torch.allclose wants them on one.",
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


# For each bug: what it is, and the first leaf that gives something else.
BUGS = {
    "none": ("a split that is right", None),
    "second.0": ("a split with another weight in second.0", "second.0"),
    "scaled between": ("a split that multiplies what crosses by 1.1", "second.0"),
    "head and second.0": ("a split with other biases in head and in second.0", "second.0"),
    "hidden by the ReLU": ("a split whose first.1 gives other negative numbers, which the ReLU makes 0", "first.1"),
    "mode": ("a split whose first.1 is in evaluation mode, where the whole model is in training mode", "first.1"),
    "rounding": ("a split whose numbers differ by rounding", None),
    "rounding of large numbers": ("a split in which second.0 gives 1000.05 where the whole model gives 1000", None),
    "cancels": ("a split in which two biases of second.0 differ, one up, one down", "second.0"),
    "shape": ("a split whose head gives one number less", "head"),
    "flat": ("a split whose head gives the same numbers in one dimension instead of two", "head"),
    "scaled in second": ("a split whose second multiplies the result of second.1 by 1.1", "head"),
    "one row": ("a split in which one row of 4,000 is wrong where it crosses", "second.0"),
}
LEAVES = ("first.0", "first.1", "first.2", "second.0", "second.1", "head")


def judge_difference(student, bug, device0, device1, seed=1, rows=16):
    words, right = BUGS[bug]
    with case(f"For {words}"):
        seen = student.run(ask_difference, bug, device0, device1, seed, batch(rows, 5, seed=seed))
        found = seen["found"]
        need(seen["is text"], f"first_difference returned {found}. Return a name, or None.")
        told = f"first_difference returned {found!r}, and the right answer is {right!r}."
        need(found is None or found in LEAVES, f"{told} The leaves are {', '.join(LEAVES)}.")
        need(found == right, told)
        need(not seen["hooks"], f"afterwards {seen['hooks']} hooks are left in the models.")
        need(seen["same"], "afterwards some part is in another mode than before.")


@ex4.fact("for a right split it returns None, and for one wrong weight the part that has it")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            judge_difference(student, "none", device0, device1)
            judge_difference(student, "second.0", device0, device1)


@ex4.fact("it is the first in the order of the calls, also where what crosses is wrong and no weight is")
def _(student):
    judge_difference(student, "head and second.0", *student.devices)
    judge_difference(student, "scaled between", *student.devices)


@ex4.fact("it names a leaf also where a part with leaves in it changes their result")
def _(student):
    judge_difference(student, "scaled in second", *student.devices)


@ex4.fact("it sees what an in-place ReLU has overwritten")
def _(student):
    judge_difference(student, "hidden by the ReLU", *student.devices)


@ex4.fact("rounding is no difference; another shape is one, and so are differences that cancel out")
def _(student):
    for bug in ("rounding", "rounding of large numbers", "shape", "flat", "cancels"):
        judge_difference(student, bug, *student.devices)


@ex4.fact("a single wrong row is a difference, however many rows are right")
def _(student):
    judge_difference(student, "one row", *student.devices, rows=4000)


@ex4.fact("it compares in the mode in which the models are")
def _(student):
    judge_difference(student, "mode", *student.devices)
