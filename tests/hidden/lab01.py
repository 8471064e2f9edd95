"""Lab 01's hidden facts, judged by the grader after the visible ones. Students do not get this file.

They ask what a right answer does anyway and a lucky one does not: other cuts, other layers, other batches.
"""

from utils.grading.facts import need, orders_of, visible

seen = visible("lab01")
lab = seen.lab


@seen.ex2.fact("the same holds with the devices swapped")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            x = seen.batch(8, 1000, seed=3)
            run = student.run(seen.run_model, device0, device1, 3, x)
            need(run["output device"] == device1, f"the output is on {run['output device']}.")
            need(seen.same(run["output"], seen.expected_output(3, x)), "the numbers differ.")
            found = run["gradient devices"]
            need(sorted(map(str, found)) == sorted([device0] * 2 + [device1] * 2), f"the gradients are on {found}.")


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
