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


@seen.ex1.fact("a model that is itself a leaf has an entry with its name")
def _(student):
    device = student.devices[1]
    found = student.run(watch_one_layer, device)
    with case("With a model that is a single nn.Linear"):
        need(found, "The list is empty. The model itself is a leaf, and named_modules() gives it the name ''.")
        seen.compare_seen(found, [["", device, device]])


@seen.ex1.fact("the same is true if forward raises another exception or raises one before any layer runs")
def _(student):
    def expected(device0, device1):
        ran = [["first.0", device0], ["first.1", device0], ["second.0", device1], ["second.1", device1]]
        return [[name, device, device] for name, device in ran]

    caught = "which devices_seen should catch"
    between = f"With a model whose own forward, between two layers, raises a KeyError, {caught}"
    seen.compare_failure(student, "wrong key", between, expected)
    seen.compare_failure(
        student, "at once", "With a forward that raises an exception before any layer runs", lambda *_: []
    )


@seen.ex2.fact(
    "the result is right for other sizes and dtypes, for tokens, on one device, and with the first layers frozen"
)
def _(student):
    device0, device1 = student.devices[::-1]
    tokens = [["Embedding", 40, 6], ["Linear", 6, 9], ["Tanh"], ["Linear", 9, 2]]
    with case("With a batch of integer tokens, which keep their dtype"):
        seen.compare_bytes(student, tokens, [device0, device1, device0, device1], "At 8 bytes per token", rows=2)
    halves = [device0, device1, device1, device0]
    for training in (True, False):
        seen.compare_bytes(student, seen.CHAIN, halves, "In bfloat16", dtype="bfloat16", training=training)
    seen.compare_bytes(student, seen.CHAIN, halves, "In float64", dtype="float64", rows=1)
    seen.compare_bytes(student, seen.CHAIN, [device1] * 4, "With all layers on one device")
    frozen = [device1, device0, device1, device0]
    seen.compare_bytes(student, seen.CHAIN, frozen, "With the first three layers frozen", frozen=[0, 1, 2])
    seen.compare_bytes(
        student, seen.CHAIN, frozen, "With the first layer frozen and without training", frozen=[0], training=False
    )


@seen.ex3.fact("both numbers are right for longer paths and for a tensor that is moved twice")
def _(student):
    device0, device1 = student.devices
    seen.compare_chain(student, [device1, device0] * 20, "With a tensor that moves back and forth 39 times in total")
    seen.compare_chain(student, ["cpu", device1, device1, device0], "With a .to(device) that copies nothing")
    once = seen.crossings([device1, device0])
    words = "With a tensor that is copied to the same device twice"
    seen.compare_bridges(student, [device1, device0], "moved twice", 2 * once, once, words)


@seen.ex3.fact("if paths branch and rejoin forty times, bridges() does not follow each path separately")
def _(student):
    once = seen.crossings(student.devices)
    words = "With 2 ** 40 paths in the graph (visit each node only once)"
    with case(words):
        seen.compare_bridges(student, student.devices, "part and join", once, once, "With one move at the end")


def split_model_bridges(lab, device0, device1):
    import torch
    from torch import nn

    first, second = nn.Linear(4, 6).to(device0), nn.Linear(6, 2).to(device1)
    hidden = torch.relu(first(torch.ones(3, 4).to(device0)))
    return list(lab.bridges(second(hidden.to(device1))))


@seen.ex3.fact("in a split model, the copy of the batch is not a bridge")
def _(student):
    device0, device1 = student.devices[::-1]
    found, expected = student.run(split_model_bridges, device0, device1), seen.crossings([device0, device1])
    need(
        found == [expected] * 2,
        f"For a model in two stages, the two numbers are {expected} and {expected}, but bridges returned {found}. The "
        "node of a linear layer has three next functions. Follow them all.",
    )


@seen.ex4.fact("the same is true for other sizes, with the devices swapped, and for a batch that is already on device0")
def _(student):
    for batch_size, sizes, swapped, start, description in (
        (9, (5, 7, 4), False, "cpu", "With other sizes"),
        (3, (8, 4, 6), True, "cpu", "With the devices swapped"),
        (3, (8, 4, 6), False, student.devices[0], "With a batch that is already on device0"),
    ):
        with case(description):
            seen.compare_all(student, batch_size, sizes, swapped, start)


@seen.ex5.fact("the report is right before any backward pass, with the devices swapped, and on other devices")
def _(student):
    seen.compare_report(student, "before backward", dict.fromkeys(seen.NAMES, "cut"), "Before any backward pass")
    swapped = student.devices[::-1]
    seen.compare_report(student, "whole", {}, "With the devices swapped", swapped)
    seen.compare_report(
        student,
        "cut",
        dict.fromkeys(seen.NAMES[:4], "cut"),
        "With a detach() and swapped devices",
        swapped,
    )
    part_on_cpu = ["cpu", student.devices[1]]
    seen.compare_report(student, "whole", {}, "With part0 on neither of the notebook's two devices", part_on_cpu)
