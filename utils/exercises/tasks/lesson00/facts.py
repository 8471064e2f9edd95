"""What `check("sum_on")` in lesson 00 tells the learner."""

import numpy as np

from utils.exercises.facts import Lab, case, need

lab = Lab("lesson00", "Start here")

task = lab.exercise(
    "sum_on",
    points=0,
    title="Sum tensors from several devices",
    hints=[
        "Start with torch.zeros_like(tensors[0], device=device). Then add the tensors in a loop.",
        "You can only add tensors that are on the same device. Use the tensor that tensor.to(device) returns.",
    ],
)

VALUES = ((1.0, 2.0), (10.0, 20.0), (100.0, 200.0))


def add_up(lab, device, places):
    import torch

    from utils.exercises.facts.probes import array, kind_of
    from utils.exercises.tasks.lesson00.facts import VALUES

    tensors = [torch.tensor(values).to(place) for values, place in zip(VALUES, places, strict=False)]
    found = lab.sum_on(torch.device(device), tensors)
    if not isinstance(found, torch.Tensor):
        return {"kind": kind_of(found)}
    return {
        "kind": "a tensor",
        "device": str(found.device),
        "sum": array(found),
        "given": [array(tensor) for tensor in tensors],
        "places": [str(tensor.device) for tensor in tensors],
    }


def runs(student):
    """What sum_on finds for several devices, and the places that its tensors came from."""
    first, second = student.devices
    for device, places in [
        (first, [first, first]),
        (second, ["cpu", first, second]),
        (first, [first, second, "cpu"]),
        ("cpu", [second, "cpu"]),
    ]:
        with case(f"sum_on({device}, tensors on {', '.join(places)})"):
            found = student.run(add_up, device, places)
            need(found["kind"] == "a tensor", f"it returned {found['kind']}, not a tensor.")
            yield device, places, found


@task.fact("it returns the sum, wherever the tensors are")
def _(student):
    for _, places, found in runs(student):
        right = np.sum(VALUES[: len(places)], axis=0)
        need(
            np.array_equal(found["sum"], right),
            f"it returned {found['sum'].tolist()}, but the sum is {right.tolist()}. Do you add each tensor once?",
        )


@task.fact("the sum is on the device that sum_on is given")
def _(student):
    for device, _, found in runs(student):
        need(
            found["device"] == device,
            f"the sum is on {found['device']}. Put it on the device that sum_on is given, and leave it there.",
        )


@task.fact("the tensors do not change")
def _(student):
    for _, places, found in runs(student):
        for number, given in enumerate(found["given"]):
            need(
                np.array_equal(given, VALUES[number]),
                f"tensors[{number}] was {list(VALUES[number])} and is now {given.tolist()}. "
                "Do you use +=? If a tensor is on that device, .to returns the tensor itself, and += changes it.",
            )
        need(found["places"] == places, f"the tensors are now on {', '.join(found['places'])}.")
