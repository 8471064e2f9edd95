"""The facts about lesson 12's task."""

import numpy as np

from utils.exercises.facts import Lab, case, need

lab = Lab("lesson12", "Shards of a model")

task = lab.exercise(
    "sharded_step",
    points=0,
    title="A step with the state in shards",
    hints=[
        "Device r adds up part r of the gradients: for each parameter, take part r of every copy's gradient to the "
        "device of the shard.",
        "shards[r][i].grad = ..., then optimizers[r].step(). The shard is a view, so copy r has its new part already.",
        "Under torch.no_grad(), p.view(-1).chunk(P)[r].copy_(shard) writes shard r into another copy's parameter.",
    ],
)

NETWORK = [["Linear", 6, 12], ["Tanh"], ["Linear", 12, 6]]  # all sizes divide by 2 and by 3


def sharded(lab, network, places, seed, steps):
    """Weights and gradients of each copy before and after some steps, by a step of SGD with momentum on shards."""
    import torch

    from utils.exercises.facts.probes import array, build, fill

    count = len(places)
    copies = [build(network) for _ in places]
    for copy, place in zip(copies, places, strict=True):
        fill(copy, seed)
        copy.to(place)
    shards = [
        [torch.nn.Parameter(torch.chunk(torch.flatten(torch.detach(p)), count)[r]) for p in copy.parameters()]
        for r, copy in enumerate(copies)
    ]
    optimizers = [torch.optim.SGD(mine, lr=0.1, momentum=0.9) for mine in shards]
    before = [array(p) for p in copies[0].parameters()]
    given, after = [], []
    for step in range(steps):
        for number, (copy, place) in enumerate(zip(copies, places, strict=True)):
            for index, weight in enumerate(copy.parameters()):
                numbers = torch.Generator().manual_seed(seed + 1000 * step + 100 * number + index)
                weight.grad = torch.randn(weight.shape, generator=numbers).to(place)
        given.append([[array(p.grad) for p in copy.parameters()] for copy in copies])
        lab.sharded_step(copies, shards, optimizers)
        after.append([[array(p) for p in copy.parameters()] for copy in copies])
    return {
        "before": before,
        "given": given,
        "after": after,
        "left": sum(shard.grad is not None for mine in shards for shard in mine),
    }


def wanted(before, given):
    """The weights after each step, by the mean gradients on one device."""
    weights, speeds = [w.copy() for w in before], [np.zeros_like(w) for w in before]
    for copies in given:
        for index, mean in enumerate(np.mean(each, axis=0) for each in zip(*copies, strict=True)):
            speeds[index] = 0.9 * speeds[index] + mean
            weights[index] = weights[index] - 0.1 * speeds[index]
        yield [w.copy() for w in weights]


def compare(student, places, seed, steps=2):
    with case(f"With copies on {', '.join(places)}"):
        run = student.run(sharded, NETWORK, places, seed, steps)
        for step, (right, found) in enumerate(zip(wanted(run["before"], run["given"]), run["after"], strict=True)):
            for number, weights in enumerate(found):
                for index, (weight, expected) in enumerate(zip(weights, right, strict=True)):
                    if np.allclose(weight, expected, rtol=1e-4, atol=1e-5):
                        continue
                    who = f"after step {step}, parameter {index} of copy {number}"
                    count = len(places)
                    parts = [
                        np.allclose(a, b, rtol=1e-4, atol=1e-5)
                        for a, b in zip(np.split(weight.ravel(), count), np.split(expected.ravel(), count), strict=True)
                    ]
                    parted = ", ".join(str(r) for r, holds in enumerate(parts) if holds)
                    need(not parted, f"{who} is right in part {parted} only. Do the others' new shards arrive there?")
                    need(False, f"{who} is not what one device with the mean gradient would have.")
        need(not run["left"], f"{run['left']} shards still have a gradient after the step.")


@task.fact("after a step all copies have the weights of one device that has taken the mean gradient")
def _(student):
    compare(student, student.devices, 1)


@task.fact("so they have with the devices swapped, and with three copies")
def _(student):
    device0, device1 = student.devices
    compare(student, [device1, device0], 2)
    compare(student, [device0, device1, device1], 3)
