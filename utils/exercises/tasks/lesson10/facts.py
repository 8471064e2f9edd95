"""The facts about lesson 10's tasks: one step through a cut, and an executor."""

import math
from typing import Any

import numpy as np
import torch
from torch import nn

from utils.exercises.facts import Lab, case, need
from utils.exercises.facts.probes import build, fill, gradient_of

lab = Lab("lesson10", "Build a schedule")

CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-6}  # a real GPU adds up in another order than a CPU

cut = lab.exercise(
    "cut_step",
    points=0,
    title="Two backward passes",
    hints=[
        "received = hidden.detach().to(target.device).requires_grad_(). Call requires_grad_() last.",
        "After loss.backward() the gradient of hidden is in received.grad, on part1's device.",
    ],
)


def step_through_a_cut(lab, device0, device1, seed):
    from utils.exercises.tasks.lesson10.cut import step_through_a_cut

    return step_through_a_cut(lab.cut_step, device0, device1, seed)


def compare_steps(student, device0, device1, seed):
    with case(f"With part0 on {device0}, part1 on {device1}, and all gradients set to ones beforehand"):
        seen = student.run(step_through_a_cut, device0, device1, seed)
        need(len(seen["calls of part1"]) == 1, f"part1 was called {len(seen['calls of part1'])} times, not once.")
        [[begins_a_graph, requires_grad]] = seen["calls of part1"]
        need(
            begins_a_graph,
            "part1 is called with a tensor that still has a graph. Detach part0's output, copy it, and call "
            "requires_grad_() last.",
        )
        need(requires_grad, "part1 is called with a tensor that gets no gradient. Call requires_grad_() on it.")
        for name, mine, right in zip(seen["names"], seen["gradients"], seen["right"], strict=True):
            need(
                not np.allclose(mine, np.ones_like(right), **CLOSE),
                f"{name} gets no gradient. Which line carries it across the cut?",
            )
            need(
                not np.allclose(mine, right - 1, **CLOSE),
                f"the gradient of {name} is not added to the existing one. Leave zero_grad() to the caller.",
            )
            need(
                np.allclose(mine, right, **CLOSE),
                f"the gradient of {name} differs from the uncut model's. Pass on received.grad.",
            )
        need(seen["loss"] is not None, "it returns no loss.")
        need(np.isclose(seen["loss"], seen["right loss"], rtol=1e-4), "it returns a number that is not the loss.")


@cut.fact("part1's input starts a new graph, and all gradients equal those of the uncut model")
def _(student):
    compare_steps(student, *student.devices, 1)


@cut.fact("the gradients are right with the devices swapped, too")
def _(student):
    compare_steps(student, *student.devices[::-1], 2)


# --- the executor --------------------------------------------------------------------------------------------------

task = lab.exercise(
    "run_actions",
    points=0,
    title="An executor",
    hints=[
        "Forward: every stage but the first starts from the tensor that it was sent. What must you call on that tensor "
        "so that backward stores its gradient?",
        "Send the next stage a tensor without a graph. For B, keep the tensor that has one. Under which key should you "
        "store it?",
        "B: take what F kept. The last stage has a loss; every other stage needs the gradient that it was sent. "
        "Afterwards, where is the gradient for the previous stage?",
        "Several micro-batches are in flight at once. Dicts with the key (stage, number) keep them apart, and pop() "
        "removes each entry after its use.",
    ],
)

STAGES = [[["Linear", 6, 16], ["Tanh"]], [["Linear", 16, 5], ["Tanh"], ["Linear", 5, 4]], [["Linear", 4, 3]]]
IN_TURNS = "F0.0 F0.1 F1.0 B1.0 F1.1 B1.1 B0.0 B0.1"
IN_FLIGHT = "F0.0 F0.1 F1.0 B1.0 F0.2 F1.1 B0.0 B1.1 F1.2 B0.1 B1.2 B0.2"
THREE = "F0.0 F1.0 F0.1 F2.0 F1.1 B2.0 F2.1 B1.0 B2.1 B0.0 B1.1 B0.1"


def actions_of(text):
    """("F", 0, 1) for each F0.1 of a text."""
    return [(each[0], *map(int, each[1:].split("."))) for each in text.split()]


def batches(count, rows, seed):
    numbers = torch.Generator().manual_seed(seed)
    return torch.randn(count * rows, STAGES[0][0][1], generator=numbers).numpy()


def run_lists(lab, stages, places, actions, seed, x, count):
    import torch

    from utils.exercises.facts.probes import array, build, fill, kind_of

    built = [build(stage) for stage in stages]
    fill(torch.nn.Sequential(*built), seed)
    log = []

    def noting(kind, number):
        def note(*given):
            log.append([kind, number])

        return note

    for number, stage in enumerate(built):
        stage.to(places[number])
        stage.register_forward_hook(noting("F", number))
        weight = stage[0].weight
        weight.register_post_accumulate_grad_hook(noting("B", number))
    rows = torch.from_numpy(x)
    inputs = [each.to(places[0]) for each in torch.chunk(rows, count)]
    targets = [torch.zeros(len(each), stages[-1][-1][2]).to(places[-1]) for each in inputs]
    found = lab.run_actions(
        [tuple(each) for each in actions],
        built,
        [torch.device(place) for place in places],
        inputs,
        targets,
        torch.nn.functional.mse_loss,
    )
    return {
        "returned": kind_of(found),
        "log": log,
        "gradients": [None if p.grad is None else array(p.grad) for stage in built for p in stage.parameters()],
    }


def whole_batch(stages, seed, x):
    """The gradients of the mean loss of the whole batch, undivided."""
    model = nn.Sequential(*map(build, stages))
    fill(model, seed)
    output = model(torch.from_numpy(x))
    nn.functional.mse_loss(output, torch.zeros_like(output)).backward()
    return [gradient_of(p) for p in model.parameters()]


def in_words(log):
    return " ".join(f"{kind}{stage}" for kind, stage in log)


def compare(student, text, places, *, stages=2, rows=4, seed=1):
    actions = actions_of(text)
    count = 1 + max(number for _, _, number in actions)
    x = batches(count, rows, seed)
    with case(f"With the stages on {', '.join(places)} and the actions {text}"):
        run = student.run(run_lists, STAGES[:stages], places, actions, seed, x, count)
        wanted = [[kind, stage] for kind, stage, _ in actions]
        need(
            run["log"] == wanted,
            f"the stages ran in the order {in_words(run['log']) or '(nothing ran)'}, but the actions say "
            f"{in_words(wanted)}. (B marks where a stage's weights got a gradient.)",
        )
        missing = sum(gradient is None for gradient in run["gradients"])
        need(not missing, f"{missing} of {len(run['gradients'])} parameters have no gradient.")
        right = whole_batch(STAGES[:stages], seed, x)
        if all(np.allclose(mine, other, **CLOSE) for mine, other in zip(run["gradients"], right, strict=True)):
            return
        ratio = math.sqrt(sum((g**2).sum() for g in run["gradients"]) / sum((g**2).sum() for g in right))
        need(False, f"the gradients are not those of the whole batch: they are {ratio:.2f} times as large.")


@task.fact("each action runs one stage, in the given order, and the gradients are those of the whole batch's mean loss")
def _(student):
    compare(student, IN_TURNS, student.devices)


@task.fact("the same holds with several micro-batches in flight and the devices swapped")
def _(student):
    compare(student, IN_FLIGHT, student.devices[::-1], seed=2)


@task.fact("the same holds with three stages, two of them on one device")
def _(student):
    device0, device1 = student.devices
    compare(student, THREE, [device0, device1, device0], stages=3, rows=3, seed=3)


def measure_memory(lab, places, actions, count):
    """The most that each device holds beyond what it held before, in bytes."""
    import torch

    wide = [torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.Tanh(), torch.nn.Linear(512, 64)) for _ in places]
    for stage, place in zip(wide, places, strict=True):
        stage.to(place)
    gpu = torch.get_device_module(torch.device(places[0]))
    inputs = [torch.zeros(64, 64).to(places[0]) for _ in range(count)]
    targets = [torch.zeros(64, 64).to(places[-1]) for _ in range(count)]
    before = [gpu.memory_allocated(place) for place in places]
    for place in places:
        gpu.reset_peak_memory_stats(place)
    lab.run_actions(
        [tuple(each) for each in actions],
        wide,
        [torch.device(place) for place in places],
        inputs,
        targets,
        torch.nn.functional.mse_loss,
    )
    return [gpu.max_memory_allocated(place) - held for place, held in zip(places, before, strict=True)]


def one_after_the_other(count):
    return actions_of(" ".join(f"F0.{m} F1.{m} B1.{m} B0.{m}" for m in range(count)))


@task.fact("a micro-batch's activations are freed after its B")
def _(student):
    few, many = (student.run(measure_memory, student.devices, one_after_the_other(n), n) for n in (2, 8))
    for device, least, most in zip(student.devices, few, many, strict=True):
        need(
            most < least + 64 * 64 * 4,
            f"when micro-batches run one at a time, {device} holds up to {most} bytes with eight of them and {least} "
            "with two. What is still kept from finished micro-batches?",
        )
