"""The facts of lesson 06's tasks: a split ResNet50 and where it computes, and `differences` of models that differ."""

from functools import cache

import numpy as np
import torch
from torch import nn
from torchvision.models import resnet50

from utils.exercises.facts import Lab, case, need
from utils.exercises.facts.probes import gradient_of
from utils.exercises.tasks.lesson06.models import Small

lab = Lab("lesson06", "Split ResNet50")

ON_SECOND = ("layer3", "layer4", "fc")


def near(mine, theirs):
    """Equal but for rounding in many layers: measured against the largest number, as small ones are sums of larger."""
    return mine.shape == theirs.shape and np.abs(mine - theirs).max() <= 2e-3 * max(np.abs(theirs).max(), 1e-3)


def images(count, seed):
    return torch.randn(count, 3, 64, 64, generator=torch.Generator().manual_seed(seed)).numpy()


split = lab.exercise(
    "SplitResNet50",
    points=0,
    title="Split ResNet50",
    hints=[
        "After super().__init__, all parts exist. named_children() yields each with its name. Which parts go where?",
        "Take ResNet's forward and add two moves: the batch at the beginning and one tensor in the middle.",
        "One line of ResNet's forward calls no part: it flattens each image's numbers. Is it in yours?",
        "The names of parameters begin with the attribute's name. Does your class have parts that ResNet lacks?",
    ],
)


def look_at_places(lab, device0, device1):
    import torch

    model = lab.SplitResNet50(torch.device(device0), torch.device(device1), num_classes=10)
    return {name: str(tensor.device) for name, tensor in model.state_dict().items()}


def run_the_model(lab, device0, device1, seed, training, x):
    import torch
    from torch import nn
    from torchvision.models import resnet50

    from utils.exercises.facts.probes import array

    torch.manual_seed(seed)
    whole = resnet50(num_classes=10)
    for module in whole.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(std=0.1)
            module.running_var.uniform_(0.5, 2.0)
    model = lab.SplitResNet50(torch.device(device0), torch.device(device1), num_classes=10)
    model.load_state_dict(whole.state_dict())
    model.train(training)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):  # a real GPU would round to ten bits
        output = model(torch.from_numpy(x))
        seen = {"output": array(output), "device": str(output.device)}
        if training:
            output.square().mean().backward()
            # Of a large gradient some numbers are enough.
            gradients = {name: p.grad for name, p in model.named_parameters()}
            seen["gradients"] = {
                name: None if g is None else array(g).ravel()[:: max(1, g.numel() // 100)]
                for name, g in gradients.items()
            }
            seen["buffers"] = {name: array(b) for name, b in model.named_buffers()}
    return seen


@cache
def the_whole_model(count, seed, training):
    """The same of ResNet50 on the CPU."""
    torch.manual_seed(seed)
    whole = resnet50(num_classes=10)
    for module in whole.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.get_buffer("running_mean").normal_(std=0.1)
            module.get_buffer("running_var").uniform_(0.5, 2.0)
    output = whole.train(training)(torch.from_numpy(images(count, seed)))
    output.square().mean().backward()
    gradients = {n: gradient_of(p).ravel()[:: max(1, p.numel() // 100)] for n, p in whole.named_parameters()}
    return output.detach().numpy(), gradients, {n: b.numpy() for n, b in whole.named_buffers()}


def compare(student, device0, device1, *, count, seed, training):
    with case(f"In {'training' if training else 'evaluation'} mode, {count} images of 64 x 64"):
        seen = student.run(run_the_model, device0, device1, seed, training, images(count, seed))
        output, gradients, buffers = the_whole_model(count, seed, training)
        need(seen["device"] == device1, f"the output is on {seen['device']}, but device1 is {device1}.")
        found = seen["output"]
        need(found.shape == output.shape, f"the output has shape {found.shape}; ResNet50's has {output.shape}.")
        need(near(found, output), "the output has different numbers from ResNet50's.")
        for name, gradient in gradients.items() if training else ():
            need(seen["gradients"][name] is not None, f"after backward(), {name} has no gradient.")
            need(
                near(seen["gradients"][name], gradient),
                f"the gradient of {name} has different numbers from ResNet50's.",
            )
        for name, buffer in buffers.items() if training else ():
            need(near(seen["buffers"][name], buffer), f"after a batch, {name} has different numbers from ResNet50's.")


@split.fact("its parameters and buffers have ResNet50's names")
def _(student):
    found = student.run(look_at_places, *student.devices)
    with torch.device("meta"):
        right = resnet50(num_classes=10).state_dict()
    missing = [name for name in right if name not in found]
    need(not missing, f"ResNet50's names that your model lacks: {len(missing)}, such as {', '.join(missing[:2])}.")
    extra = [name for name in found if name not in right]
    need(not extra, f"names that ResNet50 does not have: {len(extra)}, such as {', '.join(extra[:2])}.")


@split.fact("conv1 to layer2 are on device0, and layer3 to fc are on device1")
def _(student):
    device0, device1 = student.devices
    for name, found in student.run(look_at_places, device0, device1).items():
        wanted = device1 if name.startswith(ON_SECOND) else device0
        need(found == wanted, f"{name} is on {found}, but should be on {wanted}.")


@split.fact("in evaluation mode, its output is on device1 and equals ResNet50's")
def _(student):
    compare(student, *student.devices, count=1, seed=2, training=False)


@split.fact("in training mode, its output, gradients and running statistics equal ResNet50's")
def _(student):
    device0, device1 = student.devices
    with case(f"Called with device0={device1} and device1={device0}, swapped on purpose"):
        compare(student, device1, device0, count=3, seed=3, training=True)


# --- parity --------------------------------------------------------------------------------------------------------

differences = lab.exercise(
    "differences",
    points=0,
    title="Parity of two models",
    hints=[
        "Loop over (whole, split). For each, collect the output, p.grad by name, and named_buffers().",
        "Pair tensors by name with dict(model.named_buffers()). Compare with (a.cpu() - b.cpu()).abs().max().item().",
    ],
)

KINDS = ("output", "gradients", "buffers")


def look_at_differences(lab, device0, device1, change, training, left, x):
    import torch

    from utils.exercises.facts.probes import kind_of
    from utils.exercises.tasks.lesson06.models import Small

    whole = Small(torch.device(device0), torch.device(device0)).train(training)
    split = Small(torch.device(device0), torch.device(device1), change).train(training)
    for model, value in ((whole, left), (split, 0)):
        for p in model.parameters() if left else ():
            p.grad = torch.full_like(p, value)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        found = lab.differences(whole, split, torch.from_numpy(x))
    if not isinstance(found, dict):
        return {"kind": kind_of(found)}
    kept = all(model.training == training for model in (*whole.modules(), *split.modules()))
    values = {
        str(key): float(value) if isinstance(value, (int, float)) else kind_of(value) for key, value in found.items()
    }
    return {"values": values, "mode kept": kept}


@cache
def right_differences(change, training):
    """By hand, on the CPU. The models' parts have the same names, so sorted tensors are pairs."""
    seen = []
    for model in (Small("cpu", "cpu"), Small("cpu", "cpu", change)):
        output = model.train(training)(torch.from_numpy(small_images()))
        output.square().mean().backward()
        gradients = [p.grad for _, p in sorted(model.named_parameters())]
        seen.append([[output.detach()], gradients, [b for _, b in sorted(model.named_buffers())]])
    return {
        kind: max(float((a - b).abs().max()) for a, b in zip(one, two, strict=True))
        for kind, one, two in zip(KINDS, *seen, strict=True)
    }


def small_images():
    return torch.randn(6, 3, 4, 4, generator=torch.Generator().manual_seed(5)).numpy()


WHY = {
    "output": "Take the largest absolute difference over all numbers: .abs().max().",
    "gradients": "Compare every p.grad after backward() on the mean of the squared output.",
    "buffers": "Compare all named_buffers() after the forward pass.",
}


def compare_differences(student, change="", *, training=True, left=0, says, why=None):
    with case(f"{says}, in {'training' if training else 'evaluation'} mode"):
        seen = student.run(look_at_differences, *student.devices, change, training, left, small_images())
        need("values" in seen, f"differences returned {seen.get('kind')}. Return a dict.")
        found, right = seen["values"], right_differences(change, training)
        need(
            sorted(found) == sorted(KINDS),
            f"the dict has these keys: {', '.join(sorted(found)) or 'none'}. It needs {', '.join(KINDS)}.",
        )
        for kind in KINDS:
            mine, is_ = found[kind], right[kind]
            need(not isinstance(mine, str), f"{kind!r} is {mine}. Use .item() to get a number.")
            need(
                abs(mine - is_) <= 0.01 * is_ + 1e-4,
                f"the largest absolute difference of {kind!r} is {is_:.3g}, not {mine:.3g}. {why or WHY[kind]}",
            )
        need(seen["mode kept"], "your function changes the models' mode. Do not call train() or eval().")


@differences.fact("models that compute the same have no differences, even with old gradients")
def _(student):
    compare_differences(student, says="The same model twice")
    why = "The parameters start with old gradients. Call zero_grad() first."
    compare_differences(student, says="The same model twice, with old gradients", left=3, why=why)


@differences.fact("a difference counts in either direction, and the largest is returned")
def _(student):
    for change in ("higher", "lower"):
        compare_differences(student, change, training=False, says=f"One output is {change} by 0.5")


@differences.fact("different gradients or running statistics are found even if the outputs are equal")
def _(student):
    compare_differences(student, "gradients", says="A detach() halves some of split's gradients")
    compare_differences(student, "buffers", says="split's BatchNorm has a different momentum")


@differences.fact("tensors are paired by name")
def _(student):
    says = "The same model with its parts registered in a different order"
    compare_differences(student, "order", says=says, why="Pair tensors by name.")
