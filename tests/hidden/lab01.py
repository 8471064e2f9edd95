"""Lab 01's hidden facts, judged by the grader after the visible ones. Students do not get this file.

They ask what a right answer does anyway and a lucky one does not: other cuts, other layers, swapped devices.
"""

from utils.grading.facts import need, visible

seen = visible("lab01")
lab = seen.lab


@seen.ex2.fact("every parameter gets a gradient, on its own device")
def _(student):
    x = seen.batch(8, 1000, seed=3)
    device0, device1 = student.devices
    for first, second in ((device0, device1), (device1, device0)):
        found = student.run(seen.run_model, first, second, 3, x)["gradient devices"]
        need(found == [first, first, second, second], f"The gradients of the four parameters are on {found}.")


def place_nested_model(lab, device):
    from torch import nn

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2, bias=False)), nn.BatchNorm1d(2))
            self.scale = nn.Parameter(self.block[0].weight.detach().clone(), requires_grad=False)

    found = lab.placement(Outer().to(device))
    return {str(name): str(where) for name, where in found.items()} if isinstance(found, dict) else type(found).__name__


@seen.ex4.fact("it works for layers inside layers, with frozen parameters and buffers, on any device")
def _(student):
    names = ("scale", "block.0.weight", "block.0.bias", "block.1.0.weight", "block.2.weight", "block.2.bias")
    for device in ("cpu", student.devices[1]):
        seen.compare_placement(student.run(place_nested_model, device), dict.fromkeys(names, device))


@seen.ex5.fact("any cut works, and either order of devices")
def _(student):
    device0, device1 = student.devices
    for cut, first, second in ((1, device0, device1), (4, device0, device1), (3, device1, device0)):
        seen.compare_split(student, seen.LINEAR_STACK, seen.batch(6, 12, seed=cut), cut, first, second)


@seen.ex5.fact("it works for layers of other kinds: convolution, batch normalisation, flatten")
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
