"""Lab 08's visible facts: what `check("ex1")` tells the learner, and the first part of the grade.

A probe runs beside the student's code and tells plain data; the fact judges it here. What a pipeline has to compute,
and why one does not overlap, is said as in lesson 08's task.
"""

import math
from functools import cache
from itertools import pairwise

import numpy as np
import torch
from torch import nn

from utils.exercises.facts import Lab, case, need, visible
from utils.exercises.facts.probes import build, fill

lab = Lab("lab08", "Pipeline the batch")
lesson = visible("lesson08")
same, numbers = lesson.same, lesson.numbers
compare_sizes, compare_gradients = lesson.compare_sizes, lesson.compare_gradients

LEAST_WORK, MOST_WORK = 0.95, 1.05  # times what is needed: a device may be kept busy with needless work
ENOUGH = 0.8  # of the bound that the recorded kernels allow; a right pipeline reaches 0.93 here, a serial one 0.55


def number_of(samples, size) -> int:
    return -(-samples // size)


# --- ex1: a pipeline of any number of stages ------------------------------------------------------------------------

ex1 = lab.exercise(
    "ex1",
    points=2,
    title="A pipeline of any number of stages",
    hints=[
        "PyTorch finds the parameters of modules that are attributes of the model. It does not look into plain lists.",
        "You need two loops, one over micro-batches and one over stages. Which one is the inner loop?",
        "Write down, in order, the kernels and copies that your loops queue on each device. When can the second device "
        "start?",
        "A line in the loop that reads a value (.item(), print, .cpu()) or calls synchronize makes Python wait for the "
        "device.",
    ],
    likely={
        "shapes cannot be multiplied": "Does each micro-batch go through all stages, for any number of stages?",
    },
)

TWO = [[["Linear", 6, 16], ["Tanh"]], [["Linear", 16, 5], ["Tanh"], ["Linear", 5, 3]]]
THREE = [[["Linear", 7, 9], ["ReLU"]], [["Linear", 9, 8], ["Tanh"]], [["Linear", 8, 2]]]


def run_pipelined(lab, stacks, places, seed, x, size, comes_from):
    import torch

    from utils.exercises.facts.probes import array, build, fill, kind_of
    from utils.exercises.ledger import adding_to

    stages = [build(stack) for stack in stacks]
    whole = torch.nn.Sequential(*stages)
    fill(whole, seed)
    named = {tuple(p.shape): number for number, p in enumerate(whole.parameters())}
    sizes = []
    note = adding_to(sizes)
    stages[0][0].register_forward_hook(lambda module, inputs, output: note(len(inputs[0])))
    model = lab.Pipelined(stages, [torch.device(place) for place in places])
    if not isinstance(model, torch.nn.Module) or not list(model.parameters()):
        return {"wrong": "PyTorch finds no parameters in the model. It does not look for stages in plain lists."}
    output = model(torch.from_numpy(x).to(comes_from), size)
    if not isinstance(output, torch.Tensor):
        return {"wrong": f"forward returned {kind_of(output)}. Return one tensor."}
    model.zero_grad()
    output.square().mean().backward()
    where, gradients = [None] * len(named), [None] * len(named)
    for p in model.parameters():
        if tuple(p.shape) in named:
            number = named[tuple(p.shape)]
            where[number] = str(p.device)
            gradients[number] = None if p.grad is None else array(p.grad)
    return {
        "sizes": sizes,
        "output": array(output),
        "device": str(output.device),
        "places": where,
        "gradients": gradients,
    }


def compare_pipelined(student, places, samples, size, *, stacks=TWO, seed=1, comes_from="cpu"):
    x = numbers(samples, stacks[0][0][1], seed=seed)
    where = "" if comes_from == "cpu" else f", x on {comes_from}"
    with case(f"With {samples} samples, size={size}{where} and stages on {', '.join(places)}"):
        run = student.run(run_pipelined, stacks, list(places), seed, x, size, comes_from)
        need("wrong" not in run, run.get("wrong", ""))
        compare_sizes(run["sizes"], samples, size)
        counts = [2 * sum(len(layer) > 1 for layer in stack) for stack in stacks]
        for stage, (count, place) in enumerate(zip(counts, places, strict=True)):
            found = run["places"][sum(counts[:stage]) : sum(counts[:stage]) + count]
            need(
                found == [place] * count,
                f"the parameters of stage {stage} are on {' and '.join(sorted(set(map(str, found))))}, but they should "
                f"be on {place}.",
            )
        need(run["device"] == places[-1], f"the output is on {run['device']}, but it should be on {places[-1]}.")
        output, gradients = lesson.whole_batch(stacks, seed, x)
        lesson.compare_outputs(run["output"], output)
        compare_gradients(run["gradients"], gradients)


@ex1.fact("with two stages, each stage is on its device, and output and gradients match those of the whole batch")
def _(student):
    compare_pipelined(student, student.devices, 12, 4)


@ex1.fact("output and gradients also match with three stages and a smaller last micro-batch")
def _(student):
    device0, device1 = student.devices
    compare_pipelined(student, [device0, device1, device1], 10, 4, stacks=THREE)


def watch_forward(lab, device0, device1, micro_batches, comes_from):
    """The share of the shorter device's work that is done while the other works too. Simulated devices only."""
    import warnings

    import torch

    import simgpu
    from utils.exercises.facts.probes import array, build
    from utils.observe import intervals
    from utils.observe.devices import is_simulated
    from utils.observe.trace import record

    if not (is_simulated(device0) and is_simulated(device1)):
        return {"watched": False}
    torch.manual_seed(8)
    # In simgpu's cost model a sum of very many numbers for very few results is slow; this computer does it quickly.
    slow = [["Linear", 8, 60_000], ["Linear", 60_000, 8]]
    stages, x = [build(slow), build(slow)], torch.randn(16 * micro_batches, 8)
    model = lab.Pipelined(stages, [torch.device(device0), torch.device(device1)])
    x = x.to(comes_from)
    with torch.no_grad(), record(device0, device1) as timeline, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with simgpu.unfinished_reads() as races:
            output = model(x, 16)
    both = intervals.length(intervals.common(timeline.busy_times(device0), timeline.busy_times(device1)))
    least = min(timeline.busy(device0), timeline.busy(device1))
    # The stages are products of matrices: what the host does before the first or after the last is not in the loop.
    products = [event.launched for event in timeline.events if event.flops]
    first, last = min(products, default=0.0), max(products, default=0.0)
    inside = sorted((e for e in timeline.events if first <= e.launched <= last), key=lambda e: e.launched)
    kernels, copies = {device0: "0", device1: "1"}, {device0: "c", device1: "b"}
    return {
        "watched": True,
        "share": both / least if least else 0.0,
        "launched": [event.launched for event in inside],
        "order": "".join((kernels if e.is_kernel else copies)[e.device] for e in inside),
        "races": len(races),
        "output": array(output),
        "flops": sum([event.flops for event in timeline.events]),
    }


def need_both_at_work(student, device0, device1, micro_batches):
    """The devices work at the same time, on what there is to do."""
    run = student.run(watch_forward, device0, device1, micro_batches, device0)
    lesson.need_overlap(run, micro_batches)
    if run["watched"]:
        torch.manual_seed(8)
        slow = [["Linear", 8, 60_000], ["Linear", 60_000, 8]]
        whole, x = nn.Sequential(build(slow), build(slow)), torch.randn(16 * micro_batches, 8)
        with case(f"With {micro_batches} micro-batches"), torch.no_grad():
            need(
                np.allclose(run["output"], whole(x), rtol=1e-3, atol=1e-4),
                "the output differs from that of the whole batch.",
            )
            need_no_more(run["flops"], 4 * 2 * len(x) * 8 * 60_000)


def need_no_more(flops, needed):
    need(
        LEAST_WORK * needed <= flops <= MOST_WORK * needed,
        f"the devices perform {flops / needed:.2f} times the required operations. Compute each sample exactly once.",
    )


@ex1.fact("both devices work at the same time (checked on simulated devices)")
def _(student):
    need_both_at_work(student, *student.devices, 6)


@ex1.fact("the loop does not wait for a batch that comes from the CPU (checked on simulated devices)")
def _(student):
    run = student.run(watch_forward, *student.devices, 6, "cpu")
    with case("With a batch on the CPU and 6 micro-batches"):
        need(
            not run["watched"] or not lesson.host_waited(run["launched"]),
            "Python waits in the loop for a copy from the CPU. Move the whole batch once, before the loop.",
        )


# --- ex2: one training step ---------------------------------------------------------------------------------------

ex2 = lab.exercise(
    "ex2",
    points=3,
    title="One training step, a loss for each micro-batch",
    hints=[
        "loss_fn returns the mean over the samples that it is given. The mean of these means is the mean over all "
        "samples only if all micro-batches have the same size.",
        "Which weight for each loss makes all samples count equally? Think of a last micro-batch with one sample.",
        "backward() adds to existing gradients. Which calls belong before the loop, inside it and after it?",
        "Split the targets in the same way as the batch. On which device does the loss function need them?",
    ],
)


def run_train_step(lab, device0, device1, widths, x, y, size, loss, steps):
    import contextlib

    import torch
    from torch import nn

    from utils.exercises.facts.probes import array, fill, kind_of
    from utils.exercises.ledger import adding_to
    from utils.observe.devices import is_simulated
    from utils.observe.trace import record

    class Split(nn.Module):
        def __init__(self):
            super().__init__()
            self.device0, self.device1 = torch.device(device0), torch.device(device1)
            self.part0 = nn.Sequential(nn.Linear(widths[0], widths[1]), nn.Tanh()).to(device0)
            self.part1 = nn.Linear(widths[1], widths[2]).to(device1)

        def forward(self, x):
            return self.part1(self.part0(x.to(self.device0)).to(self.device1))

    model = Split()
    fill(model, 4)
    parameters = list(model.parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
    sizes, seen, losses = [], [], []
    note = adding_to(sizes)
    model.part0[0].register_forward_hook(lambda module, inputs, output: note(len(inputs[0])))
    optimizer.register_step_post_hook(  # after it: a closure computes the gradients in the step
        lambda *_: seen.append([None if p.grad is None else array(p.grad).copy() for p in parameters])
    )
    for p in parameters:
        p.grad = torch.ones_like(p)  # left over from earlier
    simulated = is_simulated(device0) and is_simulated(device1)
    with record(device0, device1) if simulated else contextlib.nullcontext() as timeline:
        for _ in range(steps):
            given = torch.from_numpy(x), torch.from_numpy(y)
            found = lab.train_step(model, optimizer, getattr(nn, loss)(), *given, size)
            losses.append(found if type(found) is float else kind_of(found))
    return {
        "sizes": sizes,
        "flops": [event.flops for event in timeline.events] if simulated else [],
        "updates": len(seen),
        "gradients": seen[0] if seen else [],
        "losses": losses,
        "parameters": [array(p) for p in parameters],
        "places": [str(p.device) for p in parameters],
    }


def chain(widths, seed):
    model = nn.Sequential(nn.Linear(widths[0], widths[1]), nn.Tanh(), nn.Linear(widths[1], widths[2]))
    fill(model, seed)
    return model


def mistaken_steps(model, loss_fn, x, y, size):
    """(when it comes out and what to do, loss, gradients) for each known mistake with the losses of micro-batches."""
    x, y = torch.from_numpy(x), torch.from_numpy(y)
    pieces = x.split(size)
    losses = [loss_fn(model(samples), target) for samples, target in zip(pieces, y.split(size), strict=True)]
    shares = [len(samples) / len(x) for samples in pieces]
    first = [loss_fn(model(samples), y[: len(samples)]) for samples in pieces]
    share = "Weight each mean loss by the micro-batch's share of the samples"
    last = (
        "only the last micro-batch counts. Add up all losses, and clear the gradients only before the first backward()"
    )
    for when, loss in (
        (last, losses[-1]),
        (last, losses[-1] * shares[-1]),
        (f"the mean losses are added up without weights. {share}", sum(losses)),
        (f"all micro-batches have the same weight, whatever their size. {share}", sum(losses) / len(losses)),
        (f"each micro-batch counts as if it had {size} samples. {share}", sum(losses) * size / len(x)),
        (
            "each micro-batch is compared with the first targets. Split y in the same way as x",
            sum(a * b for a, b in zip(first, shares, strict=True)),
        ),
        (
            "the outputs are concatenated in reverse order. The targets are in the order of the samples",
            loss_fn(model(torch.cat(pieces[::-1])), y),
        ),
    ):
        gradients = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
        yield when, loss.item(), [gradient.numpy() for gradient in gradients]


def all_same(mine, theirs) -> bool:
    return all(one is not None and same(one, other) for one, other in zip(mine, theirs, strict=True))


def need_gradients(found, right, mistakes, hint=""):
    """`mistakes`: (when it comes out, gradients)."""
    for when, gradients in mistakes:
        mistaken = all_same(found, gradients) and not all_same(right, gradients)
        need(not mistaken, f"your gradients match a step in which {when}.")
    compare_gradients(found, right, hint)


def why_loss(found, right, mistakes) -> str:
    """`mistakes`: (when it comes out, loss)."""
    for when, loss in mistakes:
        if math.isclose(found, loss, rel_tol=1e-4) and not math.isclose(right, loss, rel_tol=1e-4):
            return f" This loss matches a step in which {when}."
    return ""


def expected_train_step(widths, x, y, loss, steps):
    model = chain(widths, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses, gradients = [], None
    for _ in range(steps):
        value = getattr(nn, loss)()(model(torch.from_numpy(x)), torch.from_numpy(y))
        optimizer.zero_grad()
        value.backward()
        if gradients is None:
            gradients = [p.grad.numpy().copy() for p in model.parameters()]
        optimizer.step()
        losses.append(value.item())
    return losses, gradients, [p.detach().numpy() for p in model.parameters()]


def compare_train_step(student, device0, device1, samples, size, *, widths=(5, 12, 3), loss="MSELoss", seed=2):
    x = numbers(samples, widths[0], seed=seed)
    y = numbers(samples, widths[2], seed=seed + 1)
    if loss == "CrossEntropyLoss":
        y = y.argmax(axis=1)
    with case(f"With {samples} samples, size={size} and {loss}"):
        run = student.run(run_train_step, device0, device1, list(widths), x, y, size, loss, 2)
        losses, gradients, parameters = expected_train_step(widths, x, y, loss, 2)
        need(run["updates"] != 0, "optimizer.step() was never called. Call it once, after the last backward().")
        need(
            run["updates"] == 2,
            f"optimizer.step() was called {run['updates']} times for 2 batches. Call it once per batch, after the "
            "loop.",
        )
        compare_sizes(run["sizes"][: len(run["sizes"]) // 2], samples, size)
        mistakes = list(mistaken_steps(chain(widths, 4), getattr(nn, loss)(), x, y, size))
        need_gradients(
            run["gradients"],
            gradients,
            [
                *[(when, mistaken) for when, _, mistaken in mistakes],
                (
                    "old gradients (here all ones) are added to the new ones. Clear them before the first backward()",
                    [right + 1 for right in gradients],
                ),
            ],
            "Before the first step, every parameter had an old gradient of ones. Clear the old gradients.",
        )
        strange = [found for found in run["losses"] if not isinstance(found, float)]
        need(not strange, f"train_step returned {strange[0] if strange else ''}. Return a Python float.")
        need(
            np.allclose(run["losses"], losses, rtol=1e-4),
            f"over all samples, the losses of two steps are {losses[0]:.4f} and {losses[1]:.4f}, but train_step "
            f"returned {run['losses'][0]:.4f} and {run['losses'][1]:.4f}."
            + why_loss(run["losses"][0], losses[0], [(when, mistaken) for when, mistaken, _ in mistakes]),
        )
        right = all(same(mine, theirs) for mine, theirs in zip(run["parameters"], parameters, strict=True))
        need(right, "after two steps, the parameters differ from those after training on the whole batch.")
        places = [device0, device0, device1, device1]
        need_places(run["places"], places)
        need_micro_batches(run["flops"], 2 * samples, size, [math.prod(pair) for pair in pairwise(widths)])


def need_places(found, wanted):
    told = (
        f"after the call, the parameters are on {', '.join(found)}, but they should be on {', '.join(wanted)}. Do not "
        "move the stages."
    )
    need(found == wanted, told)


def need_micro_batches(flops, samples, size, products):
    """A kernel's work is that of a micro-batch, all kernels' that of all samples. `products`: each layer's a sample."""
    if flops:
        largest = max(flops) / (2 * max(products))
        need(largest <= size, f"a device processed {largest:g} samples at once, but a micro-batch has at most {size}.")
        # Forward once and back twice, but for the gradient of the samples, which need none.
        least = 2 * samples * (3 * sum(products) - products[0])
        need(
            sum(flops) >= LEAST_WORK * least,
            f"the devices perform only {sum(flops) / least:.2f} times as many operations as the step needs.",
        )


@ex2.fact("with equal micro-batches, train_step updates once, with the gradients and the loss of the whole batch")
def _(student):
    compare_train_step(student, *student.devices, 12, 4)


@ex2.fact("with a smaller last micro-batch, train_step also updates once, with the whole batch's gradients and loss")
def _(student):
    compare_train_step(student, *student.devices, 10, 4)


# --- ex3: a loop that does not overlap ----------------------------------------------------------------------------

ex3 = lab.exercise(
    "ex3",
    points=3,
    title="A loop that does not overlap",
    hints=[
        "A device runs its queue in order. In the given loop, what is queued on device0 after the first forward pass: "
        "another forward pass or a backward pass?",
        "Which result of each iteration must your loop keep so that the backward passes can run later?",
        "Which lines of the loop need a value that a device has not computed yet? Where could you move these lines?",
        "Each loss is a tensor. Collect the losses in a list, and add them up after the loop.",
    ],
)


def run_overlapping(lab, device0, device1, widths, x, y, size, loss):
    import torch
    from torch import nn

    from utils.exercises.facts.probes import array, fill, kind_of
    from utils.exercises.ledger import adding_to

    class Split(nn.Module):
        def __init__(self):
            super().__init__()
            self.device0, self.device1 = torch.device(device0), torch.device(device1)
            self.part0 = nn.Sequential(nn.Linear(widths[0], widths[1]), nn.Tanh()).to(device0)
            self.part1 = nn.Linear(widths[1], widths[2]).to(device1)

        def forward(self, x):
            return self.part1(self.part0(x.to(self.device0)).to(self.device1))

    model = Split()
    fill(model, 6)
    sizes, sizes1 = [], []
    note, note1 = adding_to(sizes), adding_to(sizes1)
    model.part0[0].register_forward_hook(lambda module, inputs, output: note(len(inputs[0])))
    model.part1.register_forward_hook(lambda module, inputs, output: note1(len(inputs[0])))
    x, y = torch.from_numpy(x).to(device0), torch.from_numpy(y).to(device1)
    loss = lab.overlapping(model, getattr(nn, loss)(), x, y, size)
    return {
        "sizes": sizes,
        "sizes of stage 1": sizes1,
        "loss": loss if type(loss) is float else kind_of(loss),
        "gradients": [None if p.grad is None else array(p.grad) for p in model.parameters()],
        "places": [str(p.device) for p in model.parameters()],
    }


def compare_overlapping(student, device0, device1, samples, size, *, widths=(4, 9, 2), loss="MSELoss", seed=5):
    x, y = numbers(samples, widths[0], seed=seed), numbers(samples, widths[2], seed=seed + 1)
    whole = chain(widths, 6)
    loss_fn = getattr(nn, loss)()
    mistakes = list(mistaken_steps(whole, loss_fn, x, y, size))
    squares = nn.functional.mse_loss(whole(torch.from_numpy(x)), torch.from_numpy(y)).item()
    right_loss = loss_fn(whole(torch.from_numpy(x)), torch.from_numpy(y))
    right_loss.backward()
    with case(f"With {samples} samples, size={size} and loss_fn=nn.{loss}()"):
        run = student.run(run_overlapping, device0, device1, list(widths), x, y, size, loss)
        compare_sizes(run["sizes"], samples, size)
        second = run["sizes of stage 1"]
        need(
            sorted(second) == sorted(run["sizes"]),
            f"stage 1 was given {', '.join(map(str, second)) or 'no'} samples, but stage 0 was given "
            f"{', '.join(map(str, run['sizes']))}. Send each micro-batch through both stages.",
        )
        need(isinstance(run["loss"], float), f"`overlapping` returned {run['loss']}. Return a Python float.")
        need(
            loss == "MSELoss" or not math.isclose(run["loss"], squares, rel_tol=1e-4),
            f"`overlapping` returned the mean squared error, {squares:.4f}. Use the given loss_fn.",
        )
        need(
            math.isclose(run["loss"], right_loss.item(), rel_tol=1e-4),
            f"the loss of the whole batch is {right_loss.item():.4f}, but `overlapping` returned {run['loss']:.4f}."
            + why_loss(run["loss"], right_loss.item(), [(when, mistaken) for when, mistaken, _ in mistakes]),
        )
        right = [p.grad.numpy() for p in whole.parameters()]
        need_gradients(run["gradients"], right, [(when, mistaken) for when, _, mistaken in mistakes])
        places = [device0, device0, device1, device1]
        need_places(run["places"], places)


@ex3.fact("the loss and the gradients match those of the whole batch, as in the given loop")
def _(student):
    compare_overlapping(student, *student.devices, 12, 4)
    compare_overlapping(student, *student.devices, 7, 3, loss="L1Loss")


def watch_overlapping(lab, device0, device1, samples, size):
    """How long forward and backward took on the simulated clock, and how long each device had to do."""
    from dataclasses import asdict

    import torch
    from torch import nn

    from utils.exercises.facts.probes import array
    from utils.observe.devices import is_simulated
    from utils.observe.trace import record

    class Split(nn.Module):
        def __init__(self):
            super().__init__()
            self.device0, self.device1 = torch.device(device0), torch.device(device1)
            # A sum of very many numbers for very few results is slow on a GPU and quick here.
            slow = nn.Linear(8, 60_000), nn.Linear(60_000, 8)
            self.part0 = nn.Sequential(nn.Linear(8, 8), *slow).to(device0)
            self.part1 = nn.Sequential(nn.Linear(8, 60_000), nn.Linear(60_000, 8)).to(device1)

        def forward(self, x):
            return self.part1(self.part0(x.to(self.device0)).to(self.device1))

    if not (is_simulated(device0) and is_simulated(device1)):
        return {"watched": False}
    torch.manual_seed(8)
    model = Split()
    x, y = torch.randn(samples, 8).to(device0), torch.randn(samples, 8).to(device1)
    with record(device0, device1) as timeline:
        lab.overlapping(model, nn.MSELoss(), x, y, size)
    one = model.part0[0]
    exact, busy = "virtual clock" in timeline.source, [timeline.busy(device0), timeline.busy(device1)]
    products = [event for event in timeline.events if event.flops]
    forward = [event.launched for event in products if event.phase == "forward"]
    backward = [event.launched or 0.0 for event in products if event.phase == "backward"]
    all_launched = [event.launched or 0.0 for event in timeline.events]
    mixed = bool(forward and backward) and min(backward) < max(forward)
    there = sorted([[event.launched, event.device] for event in products if event.phase == "forward"])
    first, last = (there[0][0], there[-1][0]) if there else (0.0, 0.0)  # what comes before or behind is not in the loop
    return {
        "watched": exact,
        "order": "".join(["0" if device == device0 else "1" for _, device in there]),
        "launched": sorted([event.launched for event in timeline.events if first <= event.launched <= last]),
        "launched back": sorted([moment for moment in all_launched if moment >= min(backward)]) if backward else [],
        "span": timeline.span,
        "busy": busy,
        "mixed": mixed,
        "timeline": asdict(timeline),
        "gradient": None if one.bias.grad is None else array(one.bias.grad),
        "flops": sum([event.flops for event in products]),
    }


@cache
def first_gradient(samples) -> np.ndarray:
    """What the first layer's bias gets in the step that is watched."""
    torch.manual_seed(8)
    # In the order in which the probe makes them.
    wide, narrow, first = nn.Linear(8, 60_000), nn.Linear(60_000, 8), nn.Linear(8, 8)
    whole = nn.Sequential(first, wide, narrow, nn.Linear(8, 60_000), nn.Linear(60_000, 8))
    x, y = torch.randn(samples, 8), torch.randn(samples, 8)
    nn.functional.mse_loss(whole(x), y).backward()
    return first.bias.grad.numpy()


def share_of(run, m) -> float:
    """Of the bound: the busier device's work, and one turn of the other, which fills the pipeline and empties it."""
    return bound_of(run, m) / run["span"] if run["span"] else 0.0


def bound_of(run, m) -> float:
    return max(run["busy"]) + min(run["busy"]) / m


def why_backward_waits(run) -> str:
    """Whether Python waited between backward passes. Their two threads launch in steps that are not quite equal."""
    gaps = np.diff(run["launched back"][:-2])  # what comes last is the result on its way
    if len(gaps) and gaps.max() > 3 * np.median(gaps):
        return "Python waits for a device between two backward passes. Wait only once, after the last backward pass."
    return ""


def need_share(student, device0, device1, samples, size):
    m = number_of(samples, size)
    run = student.run(watch_overlapping, device0, device1, samples, size)
    if run["watched"]:
        share = share_of(run, m)
        why = (
            "A backward pass was launched before the last forward pass. The copy of its gradient is queued on both "
            "devices and delays all later forward passes. Launch all forward passes first. (1F1B alternates forward "
            "and backward passes and needs separate streams for its copies: see lesson 10.)"
            if run["mixed"]
            else lesson.why_serial(run)
            or why_backward_waits(run)
            or "Python does not wait, and the stages are launched in order. Does the loop copy a tensor back to "
            "device0? Such a copy waits for stage 1 and delays the next micro-batch on device0."
        )
        need(
            share >= ENOUGH,
            f"With {m} micro-batches: on the simulated clock, `overlapping` reaches {share:.0%} of the bound, but "
            f"{ENOUGH:.0%} is required. "
            f"{why}",
        )
        with case(f"With {m} micro-batches"):
            compare_gradients([run["gradient"]], [first_gradient(samples)], "")
            need_no_more(run["flops"], 3 * 2 * samples * 4 * 8 * 60_000)


@ex3.fact(f"`overlapping` reaches {ENOUGH:.0%} of the bound that its own kernels allow (checked on simulated devices)")
def _(student):
    need_share(student, *student.devices, 128, 16)


@ex3.timeline
def _(student):
    return student.run(watch_overlapping, *student.devices, 64, 8)["timeline"]


# --- ex4: how near to the bound -------------------------------------------------------------------------------------

ex4 = lab.exercise(
    "ex4",
    points=2,
    title="How near to its bound is a step?",
    hints=[
        "A recording has its own length and the busy time of each device. Which device limits the speed of a pipeline?",
        "The first call of step() may do more work than later calls. Which call do you record?",
        "The busier device is idle during one turn of the other device. How long is this turn, if the other device's "
        "work consists of one turn for each micro-batch?",
        "Test your function. Is the share near 1 for a good pipeline, near 0.5 if the devices take turns, and never "
        "above 1?",
    ],
)


def run_share(lab, device0, device1, how, widths, micro_batches, lazy):
    from functools import partial

    import torch
    from torch import nn

    from utils.exercises.facts.probes import build, kind_of
    from utils.observe.trace import record

    stacks = [[["Linear", 8, width], ["Linear", width, 8]] for width in widths]
    part0, part1 = build(stacks[0]), build(stacks[1])
    part0.to(device0)
    part1.to(device1)
    x = torch.randn(16 * micro_batches, 8).to(device0)
    calls = []

    def steps():
        """A step for each next(): the caller does not see what has been done."""
        if lazy:  # something that is made at its first use
            nn.Linear(3000, 3000, device=device0)(torch.ones(3000, 3000, device=device0))
        while True:
            calls.append(1)
            if how == "pipeline":
                torch.cat([part1(part0(samples).to(device1)) for samples in x.split(16)]).square().mean().backward()
            else:
                for samples in x.split(16):
                    part1(part0(samples).to(device1)).square().mean().backward()
            yield

    step = partial(next, steps())
    found = lab.share_of_bound(step, torch.device(device0), torch.device(device1), micro_batches)
    told = float(found) if isinstance(found, (int, float)) and not isinstance(found, bool) else kind_of(found)
    called = len(calls)
    step()
    with record(device0, device1) as timeline:
        step()
    exact = "virtual clock" in timeline.source
    busy = [timeline.busy(device0), timeline.busy(device1)]
    return {"watched": exact, "told": told, "called": called, "span": timeline.span, "busy": busy}


def why_share(run, m) -> str:
    """The mistake that gives the share which was told, and what to do."""
    (busy0, busy1), span, right = run["busy"], run["span"], share_of(run, m)
    less, more = sorted(run["busy"])
    for mistaken, words in (
        (more / span, "Your bound counts only the busier device. Add one turn of the other device."),
        (
            (more + more / m) / span,
            "Your bound adds a turn of the busier device, but this device is idle during a turn of the other one.",
        ),
        (
            (more + 2 * less / m) / span,
            "Your bound adds two turns of the other device. One turn is enough to fill and drain the pipeline.",
        ),
        ((more + less / 4) / span, "Your bound assumes four micro-batches. Use the given number."),
        (
            (more + less) / span,
            "Your bound adds up the work of both devices. Take the work of the busier one and a turn of the other.",
        ),
        (
            (more + less) * (1 + 1 / m) / span,
            "Your bound adds up the work and a turn of both devices. Count only the work of the busier one.",
        ),
        ((busy0 + busy1 / m) / span, "Your bound treats device0 as the busier device."),
        ((busy1 + busy0 / m) / span, "Your bound treats device1 as the busier device."),
        (
            (more + less) / 2 * (1 + 1 / m) / span,
            "Your bound gives each device half of the work. Use each device's own work.",
        ),
        (
            m / (m + 1),
            "That is the formula for two equally busy devices. Use the busy times of the step's own kernels.",
        ),
        (1 / right, "That is the inverse of the share. Divide the bound by the time."),
        (100 * right, "That is a percentage. Return a float that is 1.0 for a perfect pipeline."),
    ):
        if math.isclose(run["told"], mistaken, rel_tol=1e-3):
            return words
    if run["told"] == 1.0:
        return (
            "Is this 1.0 measured? Measure the step even with one micro-batch, where the bound is the work of both "
            "devices."
        )
    if run["called"] == 1:
        return "You called step() only once. The first call may do extra work, so record a later one."
    return "After the first call, record exactly one call of step(), and use the whole recording's span as its time."


def compare_share(student, device0, device1, how, widths, m, lazy=False):
    words = {"pipeline": "all forward passes, then backward", "serial": "backward after each forward pass"}[how]
    more = ", with extra work in the first call" if lazy else ""
    with case(f"For a step with {m} micro-batch{'es' if m > 1 else ''} ({words}{more})"):
        run = student.run(run_share, device0, device1, how, list(widths), m, lazy)
        told = run["told"]
        need(not isinstance(told, str), f"share_of_bound returned {told}. Return a float.")
        need(run["called"], "share_of_bound never called step(). Call step() to measure its time.")
        if not run["watched"]:
            need(0 < told < 1.3, f"share_of_bound returned {told:.3g}, but a share is between 0 and 1.")
            return
        share, bound = share_of(run, m), bound_of(run, m)
        need(
            math.isclose(told, share, rel_tol=1e-3),
            f"after the first call, the step takes {run['span'] * 1e3:.4g} ms, and the devices are busy for "
            f"{run['busy'][0] * 1e3:.4g} and {run['busy'][1] * 1e3:.4g} ms of this time. The bound is "
            f"{bound * 1e3:.4g} ms, so the share is {share:.4f}, but your function returned {told:.4f}. "
            f"{why_share(run, m)}",
        )


@ex4.fact("the share is the bound of the step's own kernels divided by the step's time, whichever device is busier")
def _(student):
    for widths in ((20_000, 40_000), (40_000, 10_000)):
        compare_share(student, *student.devices, "pipeline", widths, 4)
    compare_share(student, *student.devices, "pipeline", (40_000, 40_000), 2, lazy=True)
