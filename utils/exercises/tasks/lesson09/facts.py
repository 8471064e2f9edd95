"""The facts about lesson 09's tasks."""

import math
import re

import numpy as np

from utils.exercises.facts import Lab, case, need, visible
from utils.exercises.facts.probes import gradient_of
from utils.observe import intervals
from utils.observe.trace import Event, Timeline

lab = Lab("lesson09", "Fast and right")
lesson = visible("lesson08")

error = lab.exercise(
    "gradient_error",
    points=0,
    title="How far off are the gradients?",
    hints=[
        "Do this twice: set p.grad = None for each parameter, run, and collect the gradients.",
        "torch.cat joins only tensors on one device, so use p.grad.cpu().flatten().",
        "tensor.norm() is the root of the sum of squares.",
    ],
)

REFERENCE, STEP = ([3.0, 0.0], [4.0]), ([3.0, 2.0], [1.0])  # the gradients of two parameters, on a device each
EARLIER = ([7.0, -2.0], [5.0])


def run_error(lab, device0, device1, reference, step, earlier):
    import torch

    from utils.exercises.facts.probes import array, kind_of

    devices = [torch.device(device0), torch.device(device1)]
    parameters = [torch.nn.Parameter(torch.ones(len(g)).to(d)) for g, d in zip(reference, devices, strict=True)]
    if earlier:
        for p, values in zip(parameters, earlier, strict=True):
            p.grad = torch.tensor(values).to(p.device)
    calls = []

    def backward_with(name, gradients):
        def run():
            calls.append(name)
            for p, values in zip(parameters, gradients, strict=True):
                (p * torch.tensor(values).to(p.device)).sum().backward()

        return run

    found = lab.gradient_error(parameters, backward_with("step", step), backward_with("reference", reference))
    if isinstance(found, torch.Tensor):
        found = array(found)
    elif not isinstance(found, float):
        found = kind_of(found)
    return {"found": found, "calls": sorted(calls)}


def norm(*parts):
    return float(np.linalg.norm(np.concatenate(parts)))


def compare_error(student, earlier=()):
    told = student.run(run_error, *student.devices, list(REFERENCE), list(STEP), list(earlier))
    found = told["found"]
    need(
        told["calls"] == ["reference", "step"],
        f"it called {', '.join(told['calls']) or 'neither'}. Call each function once.",
    )
    need(not isinstance(found, str) and np.size(found) == 1, f"it returned {found}. Return the error as a number.")
    found = float(np.ravel(found)[0])
    right, other, before = (np.concatenate(each) for each in (REFERENCE, STEP, earlier or ([0.0] * 2, [0.0])))
    far = norm(other - right)
    uncleared = "backward() adds to .grad. Set p.grad = None before each of the two runs."
    why = [
        (norm(other) / norm(right), uncleared),
        (norm(other) / norm(right + before), uncleared),
        (norm(other - right - before) / norm(right + before), uncleared),
        (norm(right) / norm(other + before), uncleared),
        (norm(other - right - before) / norm(right), uncleared),
        (0.0, "Do both lists hold the same tensors? If you zero gradients in place, clone them."),
        (far, "That is the norm of the difference. Divide it by the norm of the reference's gradients."),
        (far / norm(other), "That is relative to the step's gradients. Divide by the norm of the reference's."),
        (
            abs(norm(other) - norm(right)) / norm(right),
            "Take the norm of the difference, not the difference of the norms.",
        ),
        ((2 / 3 + 3 / 4) / 2, "That is a mean over parameters. Join all gradients in one vector."),
    ]
    near = [hint for value, hint in why if math.isclose(found, value, rel_tol=1e-3, abs_tol=1e-6)]
    need(
        math.isclose(found, far / norm(right), rel_tol=1e-4),
        f"the error is {far / norm(right):.4f}, but you returned {found:.4f}. {near[0] if near else ''}",
    )


@error.fact("it is the norm of the difference divided by the norm of the reference's gradients")
def _(student):
    compare_error(student)


@error.fact("earlier gradients do not count")
def _(student):
    with case("With gradients left from an earlier step"):
        compare_error(student, EARLIER)


# --- fast, and right ------------------------------------------------------------------------------------------------

task = lab.exercise(
    "fast_and_right",
    points=0,
    title="Fast, and right",
    hints=[
        "Two tensors are read too early. What does the copy read, and what writes that? What does stage1 read?",
        "After a.wait_stream(b), new work in a waits for all work already queued in b. Kernels run in the current "
        "streams of the two devices.",
        "Three losses are means over 40, 40 and 10 samples. How much does each count in the batch's mean?",
        "Nothing in the loop needs a number on the host, so there is nothing to synchronize.",
    ],
)


def run_step(lab, device0, device1, widths, x, y, size):
    import warnings

    import torch
    from torch import nn

    from simgpu.streams import Stream
    from utils.exercises.facts.probes import array, fill, kind_of

    stage0 = nn.Sequential(nn.Linear(widths[0], widths[1]), nn.Tanh())
    stage1 = nn.Linear(widths[1], widths[2])
    whole = nn.Sequential(stage0, stage1)
    fill(whole, 4)
    stage0.to(device0)
    stage1.to(device1)
    sizes = []
    stage0[0].register_forward_hook(lambda module, inputs, output: sizes.append(len(inputs[0])))
    stream = torch.cuda.Stream if device0.startswith("cuda") else Stream
    streams = [stream(torch.device(device)) for device in (device0, device1)]
    x, y = torch.from_numpy(x).to(device0), torch.from_numpy(y).to(device1)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        loss = lab.fast_and_right(stage0, stage1, nn.MSELoss(), x, y, size, *streams)
    return {
        "sizes": sizes,
        "loss": array(loss.reshape(-1)) if isinstance(loss, torch.Tensor) else kind_of(loss),
        "gradients": [None if p.grad is None else array(p.grad) for p in whole.parameters()],
        "races": [str(each) for each in warned if "has not finished writing" in str(each)],
    }


def compare_step(student, device0, device1, samples, size, widths=(5, 9, 3)):
    import torch
    from torch import nn

    x, y = lesson.numbers(samples, widths[0], seed=5), lesson.numbers(samples, widths[2], seed=6)
    whole = nn.Sequential(nn.Linear(widths[0], widths[1]), nn.Tanh(), nn.Linear(widths[1], widths[2]))
    lesson.fill(whole, 4)
    loss = nn.functional.mse_loss(whole(torch.from_numpy(x)), torch.from_numpy(y))
    loss.backward()
    with case(f"With {samples} samples, size={size}, x on {device0} and y on {device1}"):
        run = student.run(run_step, device0, device1, list(widths), x, y, size)
        lesson.compare_sizes(run["sizes"], samples, size)
        lesson.compare_gradients(run["gradients"], [gradient_of(p) for p in whole.parameters()])
        need(not isinstance(run["loss"], str), f"it returned {run['loss']}. Return the loss as a tensor.")
        need(
            run["loss"].size == 1 and math.isclose(run["loss"][0], loss.item(), rel_tol=1e-4),
            f"the loss of the whole batch is {loss.item():.4f}, but you returned {run['loss']}.",
        )
        return run


@task.fact("the loss and every gradient equal the whole batch's, even with a smaller last micro-batch")
def _(student):
    compare_step(student, *student.devices, samples=12, size=4)
    compare_step(student, *student.devices[::-1], samples=10, size=4)


@task.fact("no stream reads what another has not finished writing (checked only on simulated devices)")
def _(student):
    races = compare_step(student, *student.devices, samples=12, size=4)["races"]
    # Without the numbers of streams: this check has made them.
    said = re.sub(r" on stream \d+", "", races[0].partition("'On ")[2].partition(". A real")[0]) if races else ""
    need(
        not races,
        f"on {said}. A real GPU would read whatever is there, without a warning. What must wait for what? Take the "
        "computing streams before `with`: inside it, the current stream is the copy stream.",
    )


def watch_step(lab, device0, device1, micro_batches):
    from dataclasses import asdict

    import torch
    from torch import nn

    from simgpu.streams import Stream
    from utils.observe.devices import is_simulated
    from utils.observe.trace import record

    if not (is_simulated(device0) and is_simulated(device1)):
        return {"watched": False}
    # In simgpu's cost model a sum of very many numbers for very few results is slow; this computer does it quickly.
    stage0 = nn.Sequential(nn.Linear(8, 60_000), nn.Linear(60_000, 8)).to(device0)
    stage1 = nn.Sequential(nn.Linear(8, 60_000), nn.Linear(60_000, 8)).to(device1)
    copy0, copy1 = Stream(torch.device(device0)), Stream(torch.device(device1))
    x, y = torch.randn(16 * micro_batches, 8).to(device0), torch.randn(16 * micro_batches, 8).to(device1)
    with record(device0, device1) as timeline:
        lab.fast_and_right(stage0, stage1, nn.MSELoss(), x, y, 16, copy0, copy1)
    return {"watched": True, "timeline": asdict(timeline)}


def shares(told, device0, device1):
    """Of the shorter device's work what is done while the other works, of the forward copies what each device hides."""
    events = [Event(*event) for event in told["events"]]
    line = Timeline(tuple(told["devices"]), tuple(events), told["begin"], told["end"])
    both = intervals.length(intervals.common(line.busy_times(device0), line.busy_times(device1)))
    copies = intervals.union((e.start, e.end) for e in events if e.kind == "d2d" and e.phase == "forward")
    hidden = [intervals.length(intervals.common(copies, line.busy_times(device))) for device in (device0, device1)]
    least = min(line.busy(device0), line.busy(device1))
    return both / least if least else 0.0, [each / intervals.length(copies) if copies else 0.0 for each in hidden]


@task.fact("both devices work at the same time and compute during copies (checked only on simulated devices)")
def _(student):
    m = 6
    run = student.run(watch_step, *student.devices, m)
    if run["watched"]:
        share, hidden = shares(run["timeline"], *student.devices)
        with case(f"With {m} micro-batches"):
            need(
                share > 0.5,
                f"on the simulated clock, both devices worked at the same time for {share:.0%} of the less busy "
                "device's working time. Does something wait for more than it needs?",
            )
            for device, stream, during in zip(student.devices, ("copy0", "copy1"), hidden, strict=True):
                need(
                    during > 0.5,
                    f"{device} computed during {during:.0%} of the copies' time. The numbers are right, but the "
                    f"copies overlap too little. Is `{stream}` its current stream when you launch the copy? What "
                    "does the computing stream wait for?"
                    + (" Does `copy1` wait for the computing stream?" if stream == "copy1" else ""),
                )
