"""Lab 01's hidden facts, judged by the grader after the visible ones. Students do not get this file.

They ask what a right answer does anyway and a lucky one does not: other cuts, other layers, other batches.
"""

from utils.exercises.facts import case, need, orders_of, visible

seen = visible("lab01")
lab = seen.lab


@seen.ex2.fact("the same is true with the devices swapped")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            x = seen.batch(8, 1000, seed=3)
            run = student.run(seen.run_model, device0, device1, 3, x)
            need(
                run["output device"] == device1,
                f"The output is on {run['output device']}, not on {device1}. Use self.device1, not the notebook's.",
            )
            need(
                seen.same(run["output"], seen.expected_output(3, x)),
                "The output differs from relu2(layer2(relu1(layer1(batch)))) + batch.",
            )
            found = run["gradient devices"]
            need(
                sorted(map(str, found)) == sorted([device0] * 2 + [device1] * 2),
                f"The devices of the gradients are {found}. Each device should have two gradients.",
            )


def work_of_model(lab, device0, device1, x):
    import torch

    from utils.exercises.facts.probes import forward_work

    return forward_work(lab.SimpleMPModel(torch.device(device0), torch.device(device1)), x)


@seen.ex2.fact("each layer computes on its own device")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            work = student.run(work_of_model, device0, device1, seen.batch(8, 1000))
            for device in (device0, device1):
                # FLOPs of a linear layer: a multiplication and an addition for each weight and sample.
                done = work.get(device, 0) / (2 * 8 * 1000 * 2000)
                need(
                    done == 1,
                    f"In one forward pass, {device} does the work of {done:g} linear layers. Call each layer once on "
                    "its own device.",
                )


def place_nested_model(lab, device):
    from torch import nn

    from utils.exercises.facts.probes import kind_of, text_or_kind

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2, bias=False)), nn.BatchNorm1d(2))
            self.scale = nn.Parameter(self.block[0].weight.detach().clone(), requires_grad=False)

    found = lab.placement(Outer().to(device))
    if not isinstance(found, dict):
        return kind_of(found)
    return {str(name): text_or_kind(where) for name, where in found.items()}


@seen.ex4.fact("placement works for nested layers, buffers, and frozen parameters on any device")
def _(student):
    names = ["scale", "block.0.weight", "block.0.bias", "block.1.0.weight", "block.2.weight", "block.2.bias"]
    names += [f"block.2.{buffer}" for buffer in ("running_mean", "running_var", "num_batches_tracked")]
    for device in ("cpu", student.devices[1]):
        found = student.run(place_nested_model, device)
        seen.compare_placement(found, dict.fromkeys(names, device), buffers=names[-3:], frozen=["scale"])


def tear_a_norm(lab, device0, device1):
    from torch import nn

    from utils.exercises.facts.probes import kind_of

    norm = nn.BatchNorm1d(3).to(device0)
    for name, buffer in list(norm.named_buffers()):
        setattr(norm, name, buffer.to(device1))
    found = lab.torn_layers(nn.Sequential(nn.Linear(3, 3).to(device0), norm))
    if not isinstance(found, (list, tuple, set)):
        return kind_of(found)
    return [str(name) for name in found]


@seen.ex4.fact("torn_layers finds a torn module with children, even the model itself, and no module if none is torn")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            seen.compare_torn(student.run(seen.tear_a_nested_model, device0, device1), ["scaled", "block.1.0"])
            with case("With a model that has a layer and two parameters of its own on two devices"):
                seen.compare_torn(student.run(seen.tear_a_nested_model, device0, device1, True), [""])
            with case("With a BatchNorm1d that has its parameters on one device and its buffers on another"):
                seen.compare_torn(student.run(tear_a_norm, device0, device1), ["1"])
    seen.compare_torn(student.run(seen.tear_a_nested_model, "cpu", "cpu"), [])


@seen.ex5.fact("any cut and either order of the devices work")
def _(student):
    device0, device1 = student.devices
    for cut, first, second in ((1, device0, device1), (4, device0, device1), (3, device1, device0)):
        seen.compare_split(student, seen.LINEAR_STACK, seen.batch(6, 12, seed=cut), cut, first, second)


@seen.ex5.fact("the split works for other layers: convolution, batch normalization, and flatten")
def _(student):
    stack = [
        ["Conv2d", 3, 4, 3],
        ["BatchNorm2d", 4],
        ["ReLU"],
        ["Flatten"],
        ["Linear", 64, 6],
        ["ReLU"],
        ["Linear", 6, 2],
    ]
    for cut in (1, 4):
        seen.compare_split(student, stack, seen.batch(5, 3, 6, 6, seed=cut), cut, *student.devices)
        seen.compare_state(student, stack, cut, *student.devices[::-1], seed=cut)


def work_of_split(lab, stack, cut, device0, device1, x):
    import torch

    from utils.exercises.facts.probes import build, forward_work

    return forward_work(lab.SplitInTwo(build(stack), cut, torch.device(device0), torch.device(device1)), x)


@seen.ex5.fact("each part computes on its own device")
def _(student):
    for cut in (1, 2, 4):
        x = seen.batch(5, 12, seed=cut)
        work = student.run(work_of_split, seen.LINEAR_STACK, cut, *student.devices, x)
        for device, part in zip(student.devices, (seen.LINEAR_STACK[:cut], seen.LINEAR_STACK[cut:]), strict=True):
            own = sum(2 * 5 * layer[1] * layer[2] for layer in part if layer[0] == "Linear")
            did = work.get(device, 0)
            need(
                did == own,
                f"With cut={cut}, {device} does {did} FLOPs in a forward pass, but its layers need {own}. Does a part "
                "run twice or on the other device?",
            )
