"""Lab 02's hidden facts, judged by the grader after the visible ones. Students do not get this file.

They ask what a right answer does anyway and a lucky one does not: other models, sizes, dtypes and devices.
"""

from utils.exercises.facts import case, need, visible

seen = visible("lab02")
lab = seen.lab


def watch_one_layer(lab, device):
    import torch
    from torch import nn

    return [
        list(map(str, entry)) for entry in lab.devices_seen(nn.Linear(3, 2).to(device), torch.ones(2, 3, device=device))
    ]


@seen.ex1.fact("a model that is itself a layer without children is in it, by its name")
def _(student):
    device = student.devices[1]
    found = student.run(watch_one_layer, device)
    with case("With a model that is nothing but one nn.Linear"):
        need(found, "the list is empty. It has no children, so it is a leaf: its name in named_modules() is ''.")
        seen.compare_seen(found, [["", device, device]])


@seen.ex1.fact("so it is where forward raises another error, and where it raises before any layer")
def _(student):
    def expected(device0, device1):
        ran = [["first.0", device0], ["first.1", device0], ["second.0", device1], ["second.1", device1]]
        return [[name, device, device] for name, device in ran]

    seen.compare_failure(student, "wrong key", "With a forward that raises a KeyError between two layers", expected)
    seen.compare_failure(student, "at once", "With a forward that raises before any layer", lambda *_: [])


@seen.ex2.fact("it holds for other sizes, other dtypes, tokens, one device, and with the first layers frozen")
def _(student):
    device0, device1 = student.devices[::-1]
    words = [["Embedding", 40, 6], ["Linear", 6, 9], ["Tanh"], ["Linear", 9, 2]]
    seen.compare_bytes(student, words, [device0, device1, device0, device1], "With tokens of 8 bytes", rows=2)
    halves = [device0, device1, device1, device0]
    for training in (True, False):
        seen.compare_bytes(student, seen.CHAIN, halves, "In bfloat16", dtype="bfloat16", training=training)
    seen.compare_bytes(student, seen.CHAIN, halves, "In float64", dtype="float64", rows=1)
    seen.compare_bytes(student, seen.CHAIN, [device1] * 4, "All on one device")
    frozen = [device1, device0, device1, device0]
    seen.compare_bytes(student, seen.CHAIN, frozen, "With the first three layers frozen", frozen=[0, 1, 2])
    seen.compare_bytes(
        student, seen.CHAIN, frozen, "With all but the last frozen, no training", frozen=[0], training=False
    )


@seen.ex3.fact("it holds for longer ways, and for a tensor that is moved twice")
def _(student):
    device0, device1 = student.devices
    path = [device1, device0] * 20
    seen.compare_bridges(
        student, path, "chain", seen.crossings(path), seen.crossings(path), "A tensor that goes to and fro 39 times"
    )
    path = ["cpu", device1, device1, device0]
    seen.compare_bridges(
        student, path, "chain", seen.crossings(path), seen.crossings(path), "With a move that moves nothing"
    )
    once = seen.crossings([device1, device0])
    seen.compare_bridges(student, [device1, device0], "moved twice", 2 * once, once, "A tensor that is moved twice")


@seen.ex3.fact("where the ways part and join forty times, it does not walk each of them")
def _(student):
    once = seen.crossings(student.devices)
    words = "A result that forty times goes two ways and is added up again, then is moved once"
    seen.compare_bridges(student, student.devices, "part and join", once, once, words)


def split_model_bridges(lab, device0, device1):
    import torch
    from torch import nn

    first, second = nn.Linear(4, 6).to(device0), nn.Linear(6, 2).to(device1)
    hidden = torch.relu(first(torch.ones(3, 4).to(device0)))
    return list(lab.bridges(second(hidden.to(device1))))


@seen.ex3.fact("in a split model the copy of the batch is no bridge")
def _(student):
    device0, device1 = student.devices[::-1]
    found, expected = student.run(split_model_bridges, device0, device1), seen.crossings([device0, device1])
    need(
        found == [expected] * 2,
        f"a model in two parts has {expected}, and {expected} one behind the other; bridges says {found}.",
    )


@seen.ex4.fact("the same holds for other sizes, with the devices swapped, and for a batch that is on device0 already")
def _(student):
    for batch_size, sizes, swapped, start, description in (
        (9, (5, 7, 4), False, "cpu", "With other sizes"),
        (3, (8, 4, 6), True, "cpu", "With the devices swapped"),
        (3, (8, 4, 6), False, student.devices[0], "With a batch that is on device0 already"),
    ):
        with case(description):
            seen.compare_all(student, batch_size, sizes, swapped, start)


@seen.ex5.fact("it holds before any backward, with the devices swapped, and on other devices than the notebook's two")
def _(student):
    seen.compare_report(student, "before backward", dict.fromkeys(seen.NAMES, "cut"), "Before any backward")
    swapped = student.devices[::-1]
    seen.compare_report(student, "whole", {}, "With the devices swapped", swapped)
    seen.compare_report(student, "cut", dict.fromkeys(seen.NAMES[:4], "cut"), "Cut and swapped", swapped)
    part_on_cpu = ["cpu", student.devices[1]]
    seen.compare_report(student, "whole", {}, "With part0 on neither of the notebook's two devices", part_on_cpu)
