"""Lab 06's visible facts: what `check("ex1")` tells the learner, and the first part of the grade.

A probe runs beside the student's code and tells plain data; the fact judges it here. What is compared are the
numbers of the unsplit model, made in this process from the same seed.
"""

from functools import cache

import numpy as np
import torch
from torch import nn
from torchvision.models.resnet import BasicBlock, ResNet

from utils.facts import Lab, case, need, orders_of

lab = Lab("lab06", "Split an existing model")

CLOSE = {"rtol": 1e-3, "atol": 1e-4}  # a real GPU adds up in another order than a CPU


def same(mine, theirs):
    return mine.shape == theirs.shape and np.allclose(mine, theirs, **CLOSE)


def near(mine, theirs):
    """Equal but for rounding in many layers: measured against the largest number, as small ones are sums of larger."""
    return mine.shape == theirs.shape and np.abs(mine - theirs).max() <= 2e-3 * max(np.abs(theirs).max(), 1e-3)


def batch(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).numpy()


# --- ex1: split a ResNet by inheriting ----------------------------------------------------------------------------

ex1 = lab.exercise(
    "ex1",
    points=3,
    title="Split a ResNet by inheriting",
    hints=[
        "All the parts are there when super().__init__ has run. Which of them have weights, and where do these go?",
        "forward is ResNet's own, with two moves in it. print(inspect.getsource(ResNet._forward_impl)) shows it.",
        "Which tensor has to move, and between which two parts? The output of the last part stays where it is.",
        "One line of ResNet's forward calls no part: it makes one long row of each image's numbers. Is it in yours?",
        "Names come from attributes: every new nn.Sequential that you make an attribute gives its layers more names.",
    ],
)

SMALL = [1, 1, 1, 1]  # one block in each stage: ResNet10, a small relative of ResNet18
ON_FIRST = ("conv1", "bn1", "layer1", "layer2")


def look_at_resnet(lab, blocks, options, device0, device1):
    import torch

    model = lab.SplitResNet(blocks, torch.device(device0), torch.device(device1), **options)
    return {
        "tensors": {name: [list(t.shape), str(t.device)] for name, t in model.state_dict().items()},
        "in training": all(module.training for module in model.modules()),
    }


def run_resnet(lab, blocks, options, device0, device1, seed, training, x):
    import torch
    from torchvision.models.resnet import BasicBlock, ResNet

    from utils.facts.probes import array

    torch.manual_seed(seed)
    whole = ResNet(BasicBlock, blocks, **options)
    for module in whole.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(std=0.1)
            module.running_var.uniform_(0.5, 2.0)
    model = lab.SplitResNet(blocks, torch.device(device0), torch.device(device1), **options)
    model.load_state_dict(whole.state_dict())
    model.train(training)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):  # a real GPU would round to ten bits
        output = model(torch.from_numpy(x))
        if training:
            (output * torch.linspace(1, 2, output.numel()).reshape(output.shape).to(output.device)).sum().backward()
    seen = {"output": array(output), "output device": str(output.device)}
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
    output = whole(torch.from_numpy(batch(*shape, seed=seed)))
    (output * torch.linspace(1, 2, output.numel()).reshape(output.shape)).sum().backward()
    gradients = {n: p.grad.numpy().ravel()[:: max(1, p.grad.numel() // 200)] for n, p in whole.named_parameters()}
    return {
        "output": output.detach().numpy(),
        "gradients": gradients,
        "buffers": {n: b.numpy() for n, b in whole.named_buffers()},
    }


def compare_resnet_tensors(student, blocks, options, device0, device1):
    """The names and shapes of the split model's parameters and buffers; returns where each is."""
    seen = student.run(look_at_resnet, blocks, options, device0, device1)["tensors"]
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


def compare_resnet_places(student, blocks, options, device0, device1):
    for name, found in compare_resnet_tensors(student, blocks, options, device0, device1).items():
        wanted = device0 if name.startswith(ON_FIRST) else device1
        need(found == wanted, f"{name} is on {found}, and should be on {wanted}.")


def compare_resnet(student, blocks, options, device0, device1, *, training, shape, seed):
    x = batch(*shape, seed=seed)
    words = "training" if training else "evaluation"
    with case(f"In {words} mode, {shape[0]} image{'s' if shape[0] > 1 else ''} of {shape[2]} x {shape[3]}"):
        seen = student.run(run_resnet, blocks, options, device0, device1, seed, training, x)
        right = whole_resnet(tuple(blocks), tuple(options.items()), seed, training, shape)
        need(seen["output device"] == device1, f"the output is on {seen['output device']}, and device1 is {device1}.")
        found, wanted = seen["output"], right["output"]
        need(found.shape == wanted.shape, f"the output has shape {found.shape}, the unsplit model's {wanted.shape}.")
        need(near(found, wanted), "the output has other numbers than that of the unsplit model.")
        if training:
            none = [name for name, gradient in seen["gradients"].items() if gradient is None]
            need(not none, f"after backward() {len(none)} parameters have no gradient, such as {', '.join(none[:2])}.")
            for name, gradient in right["gradients"].items():
                need(near(seen["gradients"][name], gradient), f"the gradient of {name} has other numbers.")
            for name, buffer in right["buffers"].items():
                need(near(seen["buffers"][name], buffer), f"{name} has other numbers after a batch.")


@ex1.fact("its parameters and buffers have the names and shapes of the unsplit model's: a checkpoint loads")
def _(student):
    compare_resnet_tensors(student, SMALL, {"num_classes": 10}, *student.devices)


@ex1.fact("the parts from conv1 to layer2 are on device0, those from layer3 to fc on device1")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            compare_resnet_places(student, SMALL, {"num_classes": 10}, device0, device1)


@ex1.fact("in evaluation mode it computes what the unsplit model computes, and the output is on device1")
def _(student):
    compare_resnet(student, SMALL, {"num_classes": 10}, *student.devices, training=False, shape=(2, 3, 32, 32), seed=2)


@ex1.fact("in training mode outputs, gradients and running statistics are those of the unsplit model")
def _(student):
    compare_resnet(student, SMALL, {"num_classes": 10}, *student.devices, training=True, shape=(4, 3, 32, 64), seed=3)


# --- ex2: the copies' share ---------------------------------------------------------------------------------------

ex2 = lab.exercise(
    "ex2",
    points=1,
    title="The copies' share",
    hints=[
        "Draw the copies as bars on a line of time, and the kernels of all GPUs below them. Which stretches count?",
        "Two sets of times: when a copy between GPUs was on its way, and when any kernel ran. How do you combine them?",
        "A share is a part of a whole. The whole is the span, from the begin of the timeline to its end.",
    ],
)

# (device, kind, start, end, the other end of a copy)
ONE_STEP = [
    ("simgpu:0", "h2d", 0.0, 0.5, "cpu"),
    ("simgpu:0", "kernel", 0.5, 2.0, None),
    ("simgpu:0", "d2d", 2.0, 2.5, "simgpu:1"),
    ("simgpu:1", "kernel", 2.5, 5.5, None),
    ("simgpu:1", "d2d", 5.5, 6.0, "simgpu:0"),
    ("simgpu:0", "kernel", 6.0, 8.0, None),
]


def ask_copy_share(lab, rows, begin, end):
    from utils.facts.probes import kind_of
    from utils.trace import Event, Timeline

    events = [
        Event(device, 0, "copy" if other else "mm", kind, "forward", start, stop, None, 8, 0, other)
        for device, kind, start, stop, other in rows
    ]
    devices = sorted({event.device for event in events} | {e.other for e in events if e.other not in (None, "cpu")})
    found = lab.copy_share(Timeline(tuple(devices), tuple(events), begin, end, "made up for the lab"))
    if found is None or isinstance(found, (str, bool, list, tuple, dict)) or not hasattr(found, "__float__"):
        return kind_of(found)
    return float(found)


def compare_share(student, words, rows, begin, end, right):
    with case(words):
        found = student.run(ask_copy_share, [list(row) for row in rows], begin, end)
        need(not isinstance(found, str), f"copy_share returned {found}. Return a number, the share.")
        need(abs(found - right) < 1e-9, f"copy_share returned {found:g}, and the right answer is {right:g}.")


@ex2.fact("of a step of 8 s with two copies of 0.5 s between the GPUs the share is 0.125")
def _(student):
    compare_share(student, "A batch from the CPU, then forward, then backward", ONE_STEP, 0.0, 8.0, 0.125)


@ex2.fact("a copy counts only while no GPU computes")
def _(student):
    rows = [*ONE_STEP, ("simgpu:1", "kernel", 2.25, 2.5, None), ("simgpu:0", "kernel", 5.0, 6.0, None)]
    compare_share(student, "A kernel runs during half of the first copy and all of the second", rows, 0.0, 8.0, 1 / 32)


# --- ex3: a cut that is even enough, and copies little ------------------------------------------------------------

ex3 = lab.exercise(
    "ex3",
    points=2,
    title="A cut that is even enough, and copies little",
    hints=[
        "For one cut: the time of costs[:cut], and that of costs[cut:]. Forward and backward both count.",
        "Even enough: the larger of the two times is at most `most` times the smaller. Either may be device0's.",
        "What crosses at a cut? The output of the last layer before it. Which index has that layer?",
        "Collect the allowed cuts in a list first. If it is empty, there is nothing to choose from.",
    ],
)

# (forward, backward, bytes of the output) of each layer
SIX = [(4, 8, 900), (1, 2, 400), (1, 2, 300), (1, 2, 700), (2, 4, 100), (1, 2, 5)]


def ask_choose_cut(lab, rows, most):
    from utils.facts.probes import kind_of
    from utils.pipeline import LayerCost

    found = lab.choose_cut([LayerCost(*row) for row in rows], most)
    if found is None:
        return None
    if isinstance(found, bool) or not hasattr(found, "__index__"):
        return f"{found!r:.40}, {kind_of(found)}"
    return int(found)


def judge_cut(student, rows, most):
    times = [forward + backward for forward, backward, _ in rows]
    allowed = {}
    for cut in range(1, len(rows)):
        first, second = sum(times[:cut]), sum(times[cut:])
        if max(first, second) <= most * min(first, second):
            allowed[cut] = rows[cut - 1][2]
    with case(f"For the costs (forward, backward, output) {list(map(tuple, rows))}, most={most}"):
        found = student.run(ask_choose_cut, [list(row) for row in rows], most)
        need(not isinstance(found, str), f"choose_cut returned {found}. Return a whole number, or None.")
        if not allowed:
            need(found is None, f"choose_cut returned {found}, and no cut is even enough.")
            return
        need(found is not None, "choose_cut returned None, and there is a cut that is even enough.")
        need(1 <= found < len(rows), f"choose_cut returned {found}. A cut is from 1 to {len(rows) - 1} here.")
        first, second = sum(times[:found]), sum(times[found:])
        need(found in allowed, f"with cut={found} the devices take {first} and {second}: less even than allowed.")
        need(
            allowed[found] == min(allowed.values()),
            f"cut={found} copies {allowed[found]} bytes, and an allowed cut copies {min(allowed.values())}.",
        )


@ex3.fact("of the cuts that are even enough it takes the one that copies least")
def _(student):
    judge_cut(student, [(1, 2, 800), (1, 1, 200), (1, 2, 50)], 2)
    judge_cut(student, SIX, 1.6)


@ex3.fact("even means the time, forward and backward, whichever device is the slower")
def _(student):
    judge_cut(student, SIX, 1.3)
    judge_cut(student, [(1, 2, 40), (1, 2, 90), (1, 2, 80), (7, 9, 60), (1, 1, 1)], 2)
    judge_cut(student, [(3, 1, 70), (3, 1, 60), (1, 9, 20), (1, 9, 10)], 1.5)


@ex3.fact("where no cut is even enough it returns None")
def _(student):
    judge_cut(student, [(1, 2, 100), (9, 18, 10)], 3)


# --- ex4: cuts that fit -------------------------------------------------------------------------------------------

ex4 = lab.exercise(
    "ex4",
    points=2,
    title="Cuts that fit",
    hints=[
        "For one layer: how many tensors of a parameter's size does training with Adam keep? And how large is the "
        "output for the whole batch?",
        "Run the layers one by one, each on what the one before it gave, and write down how large each output is. A "
        "size in bytes is how many numbers, times how many bytes each has.",
        "What a device gets to begin with needs room too. On device1 it is a copy of the output of which layer?",
        "Now there is one number a layer and one a cut. Try all cuts from 1 on, and leave one layer for device1.",
    ],
)

LINEARS = [["Linear", 16, 64], ["Tanh"], ["Linear", 64, 64], ["Tanh"], ["Linear", 64, 8]]
CONVOLUTIONS = [["Conv2d", 3, 8, 3], ["Tanh"], ["MaxPool2d", 2], ["Conv2d", 8, 16, 3], ["Flatten"], ["Linear", 400, 10]]


def ask_cuts_that_fit(lab, stack, x, room0, room1):
    import torch

    from utils.facts.probes import build, kind_of

    images = torch.from_numpy(x)
    found = lab.cuts_that_fit(build(stack).to(images.dtype), images, room0, room1)
    if not isinstance(found, (list, tuple, range)):
        return kind_of(found)
    for cut in found:
        if isinstance(cut, bool) or not hasattr(cut, "__index__"):
            return f"a list with {kind_of(cut)} in it"
    return [int(cut) for cut in found]


def needs_of(stack, x):
    """For each cut the bytes that device0 and device1 need."""
    from utils.facts.probes import build

    layers, hidden = build(stack).to(torch.from_numpy(x).dtype), torch.from_numpy(x)
    crossing, own = [hidden.nbytes], []
    with torch.no_grad():
        for layer in layers:
            hidden = layer(hidden)
            crossing.append(hidden.nbytes)
            own.append(4 * sum(p.nbytes for p in layer.parameters()) + hidden.nbytes)
    return {cut: (crossing[0] + sum(own[:cut]), crossing[cut] + sum(own[cut:])) for cut in range(1, len(own))}


def compare_fitting(student, stack, x, room0, room1):
    needs = needs_of(stack, x)
    right = [cut for cut, (need0, need1) in needs.items() if need0 <= room0 and need1 <= room1]
    kinds = ", ".join(kind for kind, *_ in stack)
    with case(f"For {kinds}, x of shape {x.shape} ({x.dtype}), room0={room0} and room1={room1}"):
        found = student.run(ask_cuts_that_fit, stack, x, room0, room1)
        need(not isinstance(found, str), f"cuts_that_fit returned {found}. Return a list of whole numbers.")
        for cut in found:
            need(cut in needs, f"{cut} is in the list. Cuts are from 1 to {len(stack) - 1}: both devices get a layer.")
            for device, needed, room in zip(("device0", "device1"), needs[cut], (room0, room1), strict=True):
                need(needed <= room, f"{cut} is in the list, and {device} would need {needed} bytes.")
        for cut in right:
            need0, need1 = needs[cut]
            need(cut in found, f"{cut} is not in the list. It needs {need0} bytes on device0 and {need1} on device1.")
        need(found == right, f"the list is {found}. Each cut once, the smallest first.")


def rooms(stack, x, cut, slack0=0, slack1=0):
    """Room for exactly this cut, and so many bytes more or less."""
    need0, need1 = needs_of(stack, x)[cut]
    return need0 + slack0, need1 + slack1


@ex4.fact("with plenty of room every cut fits, with no room none does")
def _(student):
    x = batch(32, 16)
    compare_fitting(student, LINEARS, x, 10**9, 10**9)
    compare_fitting(student, LINEARS, x, 1000, 1000)


@ex4.fact("little room on device0 excludes the late cuts, little room on device1 the early ones")
def _(student):
    x = batch(32, 16)
    compare_fitting(student, LINEARS, x, rooms(LINEARS, x, 2, 64)[0], 10**9)
    compare_fitting(student, LINEARS, x, 10**9, rooms(LINEARS, x, 3, 0, 64)[1])


@ex4.fact("it holds to the byte, with activations that need more than weights")
def _(student):
    x = batch(300, 16)
    compare_fitting(student, LINEARS, x, *rooms(LINEARS, x, 3))
    compare_fitting(student, LINEARS, x, *rooms(LINEARS, x, 3, -4, 0))
    compare_fitting(student, LINEARS, x, *rooms(LINEARS, x, 3, 0, -4))


# --- ex5: split a Transformer encoder -----------------------------------------------------------------------------

ex5 = lab.exercise(
    "ex5",
    points=2,
    title="Split a Transformer encoder",
    hints=[
        "encoder.layers[:cut] is an nn.ModuleList, as encoder.layers is. What does .to(device) do to it?",
        "forward is a loop over the layers, with a move where the device changes. What does each call get besides x?",
        "What does the encoder call after its last layer? And what if there is no such thing?",
        "No layer, no norm and no dropout has to be made anew: all of them are in `encoder` already.",
    ],
)

WIDTH, HEADS, WIDE = 16, 2, 24


def run_encoder(lab, count, cut, norm, dropout, mask, training, device0, device1, seed, x):
    import torch
    from torch import nn

    from utils.facts.probes import array

    torch.manual_seed(seed)
    layer = nn.TransformerEncoderLayer(16, 2, 24, dropout=dropout, batch_first=True)
    encoder = nn.TransformerEncoder(layer, count, nn.LayerNorm(16) if norm else None, enable_nested_tensor=False)
    for parameter in encoder.parameters():
        parameter.data.add_(torch.randn(parameter.shape) * 0.1)
    model = lab.SplitEncoder(encoder, cut, torch.device(device0), torch.device(device1))
    seen = {"places": [[list(p.shape), str(p.device)] for p in model.parameters()]}
    model.train(training)
    mask = None if mask is None else torch.from_numpy(mask)
    output = model(torch.from_numpy(x), mask)
    again = model(torch.from_numpy(x), mask)
    seen |= {"output": array(output), "again": array(again), "output device": str(output.device)}
    (output * torch.linspace(1, 2, output.numel()).reshape(output.shape).to(output.device)).sum().backward()
    seen["gradients"] = [None if p.grad is None else array(p.grad) for p in model.parameters()]
    return seen


def causal(length):
    """A mask with which each place sees itself and those before it."""
    return nn.Transformer.generate_square_subsequent_mask(length).numpy()


def neighbours(length):
    """A mask with which each place sees itself and the two beside it."""
    return np.where(np.abs(np.subtract.outer(range(length), range(length))) > 1, -np.inf, 0).astype(np.float32)


def whole_encoder(count, norm, mask, seed, x):
    """The encoder on one device, without dropout."""
    torch.manual_seed(seed)
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, WIDE, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, count, nn.LayerNorm(WIDTH) if norm else None, enable_nested_tensor=False)
    for parameter in encoder.parameters():
        parameter.data.add_(torch.randn(parameter.shape) * 0.1)
    output = encoder(torch.from_numpy(x), None if mask is None else torch.from_numpy(mask))
    (output * torch.linspace(1, 2, output.numel()).reshape(output.shape)).sum().backward()
    return encoder, output.detach().numpy(), [p.grad.numpy() for p in encoder.parameters()]


def compare_encoder_places(found, encoder, cut, device0, device1):
    count = len(list(encoder.parameters()))
    need(
        len(found) >= count,
        f"PyTorch sees {len(found)} parameters in the model, and the encoder has {count}. "
        "Layers in a plain Python list cannot be seen.",
    )
    left = [tuple(map(str, each)) for each in found]
    for number, layer in enumerate(encoder.layers):
        wanted = device0 if number < cut else device1
        for parameter in layer.parameters():
            each = str(list(parameter.shape)), wanted
            need(each in left, f"layer {number} is not on {wanted}, or not there.")
            left.remove(each)
    for parameter in encoder.norm.parameters() if encoder.norm is not None else ():
        each = str(list(parameter.shape)), device1
        need(each in left, f"the norm is not on {device1}, or not there.")
        left.remove(each)
    need(not left, f"the model has {len(left)} parameters that the encoder does not have there.")


def compare_encoder(student, count, cut, device0, device1, *, norm=True, mask=causal, shape=(3, 5), seed=1):
    x = batch(*shape, WIDTH, seed=seed)
    values = mask and mask(shape[1])
    encoder, output, gradients = whole_encoder(count, norm, values, seed, x)
    kind = {None: "no mask", causal: "a causal mask"}.get(mask, "a mask that is not causal")
    words = f"With {count} layers, {'a' if norm else 'no'} norm, cut={cut} and {kind}"
    with case(words):
        seen = student.run(run_encoder, count, cut, norm, 0.0, values, True, device0, device1, seed, x)
        compare_encoder_places(seen["places"], encoder, cut, device0, device1)
        need(seen["output device"] == device1, f"the output is on {seen['output device']}, and device1 is {device1}.")
        need(same(seen["output"], output), "the output has other numbers than that of the encoder on one device.")
        none = sum(gradient is None for gradient in seen["gradients"])
        need(not none, f"after backward() {none} of {len(seen['gradients'])} parameters have no gradient.")
        right = all(any(same(mine, theirs) for theirs in gradients) for mine in seen["gradients"])
        need(right, "the gradients have other numbers than those of the encoder on one device.")


@ex5.fact("split in the middle it computes what the encoder computed on one device, with a mask")
def _(student):
    compare_encoder(student, 4, 2, *student.devices)


@ex5.fact("it works with the devices swapped, and for an encoder without a norm")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            compare_encoder(student, 3, 1, device0, device1, norm=False, seed=2)


@ex5.fact("dropout is on in training mode, and off in evaluation mode")
def _(student):
    x = batch(2, 4, WIDTH, seed=4)
    for training in (True, False):
        seen = student.run(run_encoder, 2, 1, True, 0.3, causal(4), training, *student.devices, 4, x)
        if training:
            need(not same(seen["output"], seen["again"]), "in training mode two passes gave the same: dropout is off.")
        else:
            need(same(seen["output"], seen["again"]), "in evaluation mode two passes differed: dropout is on.")
            right = whole_encoder(2, True, causal(4), 4, x)[1]
            need(same(seen["output"], right), "in evaluation mode the output has other numbers than the encoder's.")
