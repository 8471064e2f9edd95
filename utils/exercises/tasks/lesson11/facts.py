"""The facts about lesson 11's task."""

import numpy as np

from utils.exercises.facts import Lab, case, need

lab = Lab("lesson11", "Copies of a model")

task = lab.exercise(
    "average_gradients",
    points=0,
    title="The mean of all gradients, on every copy",
    hints=[
        "The third parameter of every copy belongs together: zip(*(copy.parameters() for copy in copies)).",
        "Tensors on two devices cannot be added. Send each gradient to the first copy's device first.",
        "Divide once, when all have been added; then every copy has to get the result, on its own device.",
    ],
)


def average(lab, places, seed):
    """Each copy's weights and gradients before and after, and where the gradients are."""
    import torch

    from utils.exercises.facts.probes import array, build, fill, gradient_of

    copies = [build([["Linear", 3, 5], ["Tanh"], ["Linear", 5, 2]]) for _ in places]
    for number, (copy, place) in enumerate(zip(copies, places, strict=True)):
        fill(copy, seed)
        copy.to(place)
        for index, weight in enumerate(copy.parameters()):
            numbers = torch.Generator().manual_seed(seed + 100 * number + index)
            weight.grad = torch.randn(weight.shape, generator=numbers).to(place)
    before = [[[array(p), gradient_of(p)] for p in copy.parameters()] for copy in copies]
    lab.average_gradients(copies)
    after = [[[array(p), None if p.grad is None else array(p.grad)] for p in copy.parameters()] for copy in copies]
    held = [[None if p.grad is None else str(p.grad.device) for p in copy.parameters()] for copy in copies]
    return {"before": before, "after": after, "held": held}


def compare(student, places, seed):
    with case(f"With copies on {', '.join(places)}"):
        run = student.run(average, places, seed)
        means = [np.mean([gradient for _, gradient in each], axis=0) for each in zip(*run["before"], strict=True)]
        for number, (place, before, after, held) in enumerate(
            zip(places, run["before"], run["after"], run["held"], strict=True)
        ):
            for index, mean in enumerate(means):
                who = f"parameter {index} of copy {number}"
                weight, gradient = after[index]
                need(np.array_equal(weight, before[index][0]), f"the weights of {who} have changed.")
                need(gradient is not None, f"{who} has no gradient any more.")
                need(held[index] == place, f"the gradient of {who} is on {held[index]}, and the copy is on {place}.")
                if np.allclose(gradient, mean, rtol=1e-4, atol=1e-6):
                    continue
                kept = np.allclose(gradient, before[index][1])
                need(not kept, f"{who} has kept its own gradient. Every copy needs the mean.")
                times = np.linalg.norm(gradient) / np.linalg.norm(mean)
                need(
                    False,
                    f"the gradient of {who} is not the mean of the {len(places)} copies' gradients: it is "
                    f"{times:.2f} times as large.",
                )


@task.fact("two copies have the mean of their gradients, each on its own device, and the weights that they had")
def _(student):
    compare(student, student.devices, 1)


@task.fact("so have two copies on the devices swapped, and three")
def _(student):
    device0, device1 = student.devices
    compare(student, [device1, device0], 2)
    compare(student, [device0, device1, device1], 3)
