"""The facts about lesson 08's task. Lab 08 asks the same of more than two parts, so it uses these words too."""

import math

import numpy as np
import torch
from torch import nn

from utils.exercises.facts import Lab, case, need
from utils.exercises.facts.probes import build, fill

lab = Lab("lesson08", "Pipeline the batch")

CLOSE = {"rtol": 1e-4, "atol": 1e-6}  # a real GPU adds up in another order than a CPU


def same(mine, theirs) -> bool:
    return mine.shape == theirs.shape and np.allclose(mine, theirs, **CLOSE)


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).numpy()


def times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def compare_sizes(found, rows, size):
    """`found` has how many rows each call of the first part was given."""
    need(found, "the first part was never called.")
    need(
        max(found) <= size,
        f"the first part was given {max(found)} rows at once, and a micro-batch has {size} at most.",
    )
    wanted = [min(size, rows - start) for start in range(0, rows, size)]
    need(
        sorted(found, reverse=True) == wanted,
        f"the first part was given {', '.join(map(str, found))} rows. {rows} rows with size={size} make micro-batches "
        f"of {', '.join(map(str, wanted))}.",
    )


def compare_outputs(found, expected):
    need(
        found.shape == expected.shape,
        f"the output has shape {tuple(found.shape)}, and the whole batch gives {tuple(expected.shape)}.",
    )
    moved = sorted(map(tuple, found.round(4))) == sorted(map(tuple, expected.round(4)))
    need(
        same(found, expected),
        "the rows of the output are right, but in another order than those of the batch."
        if moved
        else "the output differs from that of the whole batch.",
    )


def compare_gradients(found, expected, hint=""):
    """Lists of gradients in the order of the parameters; None where there is none."""
    missing = sum(gradient is None for gradient in found)
    need(
        not missing,
        f"{missing} of {len(found)} parameters have no gradient. What cuts the backward pass off from them?",
    )
    if all(same(mine, right) for mine, right in zip(found, expected, strict=True)):
        return
    ratio = math.sqrt(sum((g**2).sum() for g in found) / sum((g**2).sum() for g in expected))
    need(False, f"the gradients differ from those of the whole batch: they are {ratio:.2f} times as large. {hint}")


def whole_batch(parts, seed, x):
    """The output and the gradients of the whole batch in one go."""
    model = nn.Sequential(*map(build, parts))
    fill(model, seed)
    output = model(torch.from_numpy(x))
    output.square().mean().backward()
    return output.detach().numpy(), [p.grad.numpy() for p in model.parameters()]


# --- which launches made a run what it is ---------------------------------------------------------------------------


def host_waited(launched) -> bool:
    """On the virtual clock the host spends the same time on each launch, and more only where it waits."""
    gaps = np.diff(launched)
    return len(gaps) > 0 and bool(gaps.max() > gaps.min() * 1.1)


def why_serial(run) -> str:
    """What in a forward pass kept the devices from working at once, if that is known: "0" and "1" are products."""
    order = run["order"]
    if host_waited(run["launched"]):
        return (
            "In the loop Python waits for a device before it launches the next micro-batch. Move what waits (.item(), "
            "print, float, if, .cpu(), synchronize) behind the loop."
        )
    if "0" in order and "1" in order and order.rindex("0") < order.index("1"):
        return (
            "The forward pass goes stage by stage: all of part0 was launched before the first part1. Autograd goes "
            "back in the reverse order, all of part1 before the first gradient for device0. Launch the part1 of a "
            "micro-batch right after its part0."
        )
    return ""


def why_no_overlap(run) -> str:
    """What in the order of the launches kept the devices from working at once.

    "0" and "1" are kernels, "c" copies from device0 and "b" copies back to it.
    """
    order = run["order"]
    if host_waited(run["launched"]):
        return "What waits in the loop?"
    if "c" not in order or "1" not in order:
        return "What has each device been given?"
    if "b" in order:
        return (
            "In the loop device1 copies something back to device0. A copy stands in the queues of both devices, so "
            "device0 waits there for part1 before it begins its next part0. Leave the outputs where they are."
        )
    if order.rindex("0") < order.index("c"):
        return (
            "All of part0 was launched before the first copy. A copy waits for everything that device0 was given "
            "before it, so launch the copy of a micro-batch right after its part0."
        )
    if order.rindex("c") < order.index("1"):
        return (
            "All copies were launched before the first part1. A copy stands in the queues of both devices, and a "
            "device works through its queue in order. So device1 has to receive the last micro-batch before it begins "
            "the first."
        )
    return (
        "The host never waits, so look at the order of the launches: what stands before part1 in device1's queue, and "
        "before part0 in device0's?"
    )


def need_overlap(run, micro_batches):
    if not run["watched"]:
        return
    with case(f"With {micro_batches} micro-batches"):
        need(
            run["share"] > 0.5,
            "on the simulated clock both devices worked at once for "
            f"{run['share']:.0%} of the time that they work. {why_no_overlap(run)}",
        )
        need(
            not host_waited(run["launched"]),
            "the devices work at once, but in the loop Python waits for one of them before it launches more. A copy "
            "between devices needs no waiting.",
        )
        need(
            not run["races"],
            f"a stream read {times(run['races'])} what another had not finished writing, and may have read anything. "
            "Let it wait for the other: stream.wait_stream(other)",
        )


# --- the task -------------------------------------------------------------------------------------------------------

task = lab.exercise(
    "pipelined",
    points=0,
    title="A pipeline",
    hints=[
        "A tensor has a method that cuts it into pieces of so many rows. The last piece may be smaller.",
        "What does one micro-batch have to go through, and where does it have to be before each part?",
        "Say aloud what each device is given, in which order. Does device1 get its first part1 before device0 is done?",
        "A line in the loop that wants a value (.item(), print, .cpu(), synchronize) stops everything until it is "
        "there.",
    ],
)

FIRST = [["Linear", 6, 16], ["Tanh"]]
SECOND = [["Linear", 16, 5], ["Tanh"], ["Linear", 5, 3]]


def run_pipelined(lab, first, second, device0, device1, seed, x, size):
    import torch

    from utils.exercises.facts.probes import array, build, fill, kind_of

    part0, part1 = build(first), build(second)
    whole = torch.nn.Sequential(part0, part1)
    fill(whole, seed)
    part0.to(device0)
    part1.to(device1)
    sizes = []
    part0[0].register_forward_hook(lambda module, inputs, output: sizes.append(len(inputs[0])))
    output = lab.pipelined(part0, part1, torch.device(device0), torch.device(device1), torch.from_numpy(x), size)
    if not isinstance(output, torch.Tensor):
        return {"wrong": f"pipelined returned {kind_of(output)}. Return one tensor."}
    output.square().mean().backward()
    return {
        "sizes": sizes,
        "output": array(output),
        "device": str(output.device),
        "gradients": [None if p.grad is None else array(p.grad) for p in whole.parameters()],
    }


def compare_pipelined(student, device0, device1, rows, size, seed=1):
    x = numbers(rows, FIRST[0][1], seed=seed)
    with case(f"With {rows} rows, size={size}, device0={device0} and device1={device1}"):
        run = student.run(run_pipelined, FIRST, SECOND, device0, device1, seed, x, size)
        need("wrong" not in run, run.get("wrong", ""))
        compare_sizes(run["sizes"], rows, size)
        need(run["device"] == device1, f"the output is on {run['device']}, not on {device1}.")
        output, gradients = whole_batch([FIRST, SECOND], seed, x)
        compare_outputs(run["output"], output)
        compare_gradients(run["gradients"], gradients)


@task.fact("the output and every gradient are those of the whole batch")
def _(student):
    compare_pipelined(student, *student.devices, 12, 4)


@task.fact("so they are with a smaller last micro-batch, and with the devices swapped")
def _(student):
    compare_pipelined(student, *student.devices[::-1], 10, 4, seed=2)


def watch_pipelined(lab, device0, device1, micro_batches):
    """The share of the shorter device's work that is done while the other works too. Simulated devices only."""
    import warnings

    import torch

    from utils.exercises.facts.probes import build
    from utils.observe import intervals
    from utils.observe.devices import is_simulated
    from utils.observe.trace import record

    if not (is_simulated(device0) and is_simulated(device1)):
        return {"watched": False}
    # In simgpu's cost model a sum of very many numbers for very few results is slow; this computer does it quickly.
    slow = [["Linear", 8, 60_000], ["Linear", 60_000, 8]]
    part0, part1 = build(slow), build(slow)
    part0.to(device0)
    part1.to(device1)
    x = torch.randn(16 * micro_batches, 8).to(device0)
    with torch.no_grad(), record(device0, device1) as timeline, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        lab.pipelined(part0, part1, torch.device(device0), torch.device(device1), x, 16)
    both = intervals.length(intervals.common(timeline.busy_times(device0), timeline.busy_times(device1)))
    least = min(timeline.busy(device0), timeline.busy(device1))
    # The parts are products of matrices: what the host does before the first or after the last is not in the loop.
    products = [event.launched for event in timeline.events if event.flops]
    first, last = min(products, default=0.0), max(products, default=0.0)
    inside = sorted((e for e in timeline.events if first <= e.launched <= last), key=lambda e: e.launched)
    kernels, copies = {device0: "0", device1: "1"}, {device0: "c", device1: "b"}
    return {
        "watched": True,
        "share": both / least if least else 0.0,
        "launched": [event.launched for event in inside],
        "order": "".join((kernels if e.is_kernel else copies)[e.device] for e in inside),
        "races": sum("has not finished writing" in str(each) for each in warned),
    }


@task.fact("both devices work at the same time (watched where devices are simulated)")
def _(student):
    need_overlap(student.run(watch_pipelined, *student.devices, 6), 6)
