"""The facts about lesson 08's tasks. Lab 08 asks the same of more than two parts, so it uses these words too."""

import math
from typing import Any

import numpy as np
import torch
from torch import nn

from utils.exercises.facts import Lab, case, need
from utils.exercises.facts.probes import build, fill, gradient_of

lab = Lab("lesson08", "Pipeline the batch")

CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-6}  # a real GPU adds up in another order than a CPU


def same(mine, theirs) -> bool:
    return mine.shape == theirs.shape and np.allclose(mine, theirs, **CLOSE)


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).numpy()


def times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def compare_sizes(found, samples, size):
    """`found` has how many samples each call of stage 0 was given."""
    need(found, "stage 0 was never called.")
    need(
        max(found) <= size,
        f"stage 0 was given {max(found)} samples at once, but a micro-batch has at most {size}.",
    )
    wanted = [min(size, samples - start) for start in range(0, samples, size)]
    need(
        sorted(found, reverse=True) == wanted,
        f"stage 0 was given {', '.join(map(str, found))} samples. {samples} samples with size={size} make "
        f"micro-batches of {', '.join(map(str, wanted))}.",
    )


def compare_outputs(found, expected):
    need(
        found.shape == expected.shape,
        f"the output has shape {tuple(found.shape)}, but the whole batch gives {tuple(expected.shape)}.",
    )
    moved = sorted(map(tuple, found.round(4))) == sorted(map(tuple, expected.round(4)))
    need(
        same(found, expected),
        "the output has the right samples, but in a different order from the batch."
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
    return output.detach().numpy(), [gradient_of(p) for p in model.parameters()]


# --- which launches made a run what it is ---------------------------------------------------------------------------


WAITS = (
    "Inside the loop, Python waits for a device before it launches the next micro-batch. Move the line that waits "
    "(.item(), print, float, if, .cpu() or synchronize) after the loop."
)


def host_waited(launched) -> bool:
    """On the virtual clock the host spends the same time on each launch, and more only where it waits."""
    gaps = np.diff(launched)
    return len(gaps) > 0 and bool(gaps.max() > gaps.min() * 1.1)


def why_serial(run) -> str:
    """What in a forward pass kept the devices from working at once, if that is known: "0" and "1" are products."""
    order = run["order"]
    if host_waited(run["launched"]):
        return WAITS
    if "0" in order and "1" in order and order.rindex("0") < order.index("1"):
        return (
            "The forward pass goes stage by stage: all of stage 0 was launched before the first kernel of stage 1. "
            "The backward pass runs in reverse order: all of stage 1 comes before the first gradient for device0. "
            "Launch stage 1 of a micro-batch right after its stage 0."
        )
    return ""


def why_no_overlap(run) -> str:
    """What in the order of the launches kept the devices from working at once.

    "0" and "1" are kernels, "c" copies from device0 and "b" copies back to it.
    """
    order = run["order"]
    if host_waited(run["launched"]):
        return WAITS
    if "c" not in order or "1" not in order:
        return "Which stage is on which device? Nothing was copied from device0 to device1 and then used there."
    if "b" in order:
        return (
            "Inside the loop, device1 copies something back to device0. A copy is queued on both devices, so device0 "
            "waits for stage 1 before it begins the next micro-batch. Leave the outputs where they are."
        )
    if order.rindex("0") < order.index("c"):
        return (
            "All of stage 0 was launched before the first copy. A copy waits for everything already queued on device0. "
            "Launch the copy of a micro-batch right after its stage 0."
        )
    if order.rindex("c") < order.index("1"):
        return (
            "All copies were launched before the first kernel of stage 1. A copy is queued on both devices, and a "
            "device works through its queue in order. So device1 must receive the last micro-batch "
            "before it begins the first."
        )
    return (
        "Python never waits, so look at the order of the launches. What is queued before stage 1 on device1 "
        "and before stage 0 on device0?"
    )


def need_overlap(run, micro_batches):
    if not run["watched"]:
        return
    with case(f"With {micro_batches} micro-batches"):
        need(
            run["share"] > 0.5,
            "on the simulated clock, both devices worked at the same time for "
            f"{run['share']:.0%} of the less busy device's working time. {why_no_overlap(run)}",
        )
        need(
            not host_waited(run["launched"]),
            "the devices work at the same time, but Python waits for one of them inside the loop. Copy straight from "
            "device to device, not through the CPU, and do not synchronize.",
        )
        need(
            not run["races"],
            f"{times(run['races'])}, a stream read what another had not finished writing. Make it wait for the other: "
            "stream.wait_stream(other).",
        )


# --- gradient accumulation ------------------------------------------------------------------------------------------

accumulation = lab.exercise(
    "accumulated",
    points=0,
    title="Micro-batches, one after another",
    hints=[
        "tensor.split(size) gives the micro-batches.",
        "A micro-batch's loss is a mean over its own samples. If all micro-batches have the same size, what is the "
        "mean over all samples?",
        "backward() adds to .grad. When must it run to free a micro-batch's activations before the next one?",
    ],
)

FIRST = [["Linear", 6, 16], ["Tanh"]]
SECOND = [["Linear", 16, 5], ["Tanh"], ["Linear", 5, 3]]


def run_accumulated(lab, first, second, device0, device1, seed, x, size):
    import torch

    from utils.exercises.facts.probes import array, build, fill, kind_of

    stage0, stage1 = build(first), build(second)
    whole = torch.nn.Sequential(stage0, stage1)
    fill(whole, seed)
    stage0.to(device0)
    stage1.to(device1)
    order, sizes = [], []
    stage0[0].register_forward_hook(lambda module, inputs, output: order.append("F"))
    stage0[0].register_forward_hook(lambda module, inputs, output: sizes.append(len(inputs[0])))
    stage0[0].weight.register_post_accumulate_grad_hook(lambda weight: order.append("B"))
    loss = lab.accumulated(stage0, stage1, torch.device(device0), torch.device(device1), torch.from_numpy(x), size)
    is_tensor = isinstance(loss, torch.Tensor)
    return {
        "sizes": sizes,
        "order": "".join(order),
        "loss": array(loss).ravel() if is_tensor else kind_of(loss),
        "has_graph": is_tensor and loss.requires_grad,
        "gradients": [None if p.grad is None else array(p.grad) for p in whole.parameters()],
    }


def compare_accumulated(student, device0, device1, samples, size, seed=1):
    x = numbers(samples, FIRST[0][1], seed=seed)
    with case(f"With {samples} samples, size={size}, device0={device0} and device1={device1}"):
        run = student.run(run_accumulated, FIRST, SECOND, device0, device1, seed, x, size)
        compare_sizes(run["sizes"], samples, size)
        count = samples // size
        need(
            run["order"] == "FB" * count,
            f"forward (F) and backward (B) of stage 0 ran in the order {run['order'] or '(nothing ran)'}. Call "
            "backward() right after the forward pass of each micro-batch, so that only one is in flight.",
        )
        output, gradients = whole_batch([FIRST, SECOND], seed, x)
        compare_gradients(
            run["gradients"],
            gradients,
            "A micro-batch's loss is a mean over its samples. Divide it by the number of micro-batches, and clear no "
            "gradients in between.",
        )
        need(not isinstance(run["loss"], str), f"it returned {run['loss']}. Return the loss as a tensor.")
        right = float((output**2).mean())
        need(
            run["loss"].size == 1 and math.isclose(run["loss"][0], right, rel_tol=1e-4),
            f"the loss of the batch is {right:.4f}, but your function returned {run['loss']}.",
        )
        need(not run["has_graph"], "the returned loss still has its graph. Add up loss.detach().")


@accumulation.fact("loss and gradients equal the whole batch's, and one micro-batch is in flight at a time")
def _(student):
    compare_accumulated(student, *student.devices, samples=12, size=4)


@accumulation.fact("the same holds with other sizes and with the devices swapped")
def _(student):
    compare_accumulated(student, *student.devices[::-1], samples=10, size=2, seed=2)


# --- the pipeline ---------------------------------------------------------------------------------------------------

task = lab.exercise(
    "pipelined",
    points=0,
    title="A pipeline",
    hints=[
        "tensor.split(size) gives the micro-batches. The last one may be smaller.",
        "Which three steps does a micro-batch go through? torch.cat joins the outputs.",
        "List what is queued on each device, in order. Does device1 get its first kernel before device0 finishes the "
        "last micro-batch?",
        "A line in the loop that needs a value (.item(), print, .cpu()) makes Python wait, and so does synchronize.",
    ],
)


def run_pipelined(lab, first, second, device0, device1, seed, x, size):
    import torch

    from utils.exercises.facts.probes import array, build, fill, kind_of

    stage0, stage1 = build(first), build(second)
    whole = torch.nn.Sequential(stage0, stage1)
    fill(whole, seed)
    stage0.to(device0)
    stage1.to(device1)
    sizes = []
    stage0[0].register_forward_hook(lambda module, inputs, output: sizes.append(len(inputs[0])))
    output = lab.pipelined(stage0, stage1, torch.device(device0), torch.device(device1), torch.from_numpy(x), size)
    if not isinstance(output, torch.Tensor):
        return {"wrong": f"pipelined returned {kind_of(output)}. Return one tensor."}
    output.square().mean().backward()
    return {
        "sizes": sizes,
        "output": array(output),
        "device": str(output.device),
        "gradients": [None if p.grad is None else array(p.grad) for p in whole.parameters()],
    }


def compare_pipelined(student, device0, device1, samples, size, seed=1):
    x = numbers(samples, FIRST[0][1], seed=seed)
    with case(f"With {samples} samples, size={size}, device0={device0} and device1={device1}"):
        run = student.run(run_pipelined, FIRST, SECOND, device0, device1, seed, x, size)
        need("wrong" not in run, run.get("wrong", ""))
        compare_sizes(run["sizes"], samples, size)
        need(run["device"] == device1, f"the output is on {run['device']}, not on {device1}.")
        output, gradients = whole_batch([FIRST, SECOND], seed, x)
        compare_outputs(run["output"], output)
        compare_gradients(run["gradients"], gradients)


@task.fact("the output and every gradient equal the whole batch's")
def _(student):
    compare_pipelined(student, *student.devices, samples=12, size=4)


@task.fact("the same holds with a smaller last micro-batch and with the devices swapped")
def _(student):
    compare_pipelined(student, *student.devices[::-1], samples=10, size=4, seed=2)


def watch_pipelined(lab, device0, device1, micro_batches):
    """The share of the shorter device's work that is done while the other works too. Simulated devices only."""
    import warnings
    from operator import attrgetter

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
    products = [event.launched for event in timeline.events if event.flops and event.launched is not None]
    first, last = min(products, default=0.0), max(products, default=0.0)
    launched = [e for e in timeline.events if e.launched is not None and first <= e.launched <= last]
    inside = sorted(launched, key=attrgetter("launched"))
    kernels, copies = {device0: "0", device1: "1"}, {device0: "c", device1: "b"}
    return {
        "watched": True,
        "share": both / least if least else 0.0,
        "launched": [event.launched for event in inside],
        "order": "".join((kernels if e.is_kernel else copies)[e.device] for e in inside),
        "races": sum("has not finished writing" in str(each) for each in warned),
    }


@task.fact("both devices work at the same time (checked only on simulated devices)")
def _(student):
    need_overlap(student.run(watch_pipelined, *student.devices, 6), 6)


# --- peak memory ----------------------------------------------------------------------------------------------------

peak = lab.exercise(
    "peak_memory",
    points=0,
    title="The peak of a step",
    hints=[
        "torch.get_device_module(device) is torch.cuda or torch.simgpu. Both have memory_allocated, "
        "max_memory_allocated and reset_peak_memory_stats.",
        "max_memory_allocated is the peak since the last reset. It counts everything on the device.",
    ],
)

MIB = 2**20
BEFORE, EARLIER, FREED, LEFT = 4, 16, 6, 1  # MiB: there before, freed before, freed in the step, left by the step


def run_peak(lab, device, other, before, earlier, freed, left):
    import torch

    from utils.exercises.facts.probes import kind_of

    def mib(count, where):
        return torch.empty(count * 2**18, device=where)

    kept, calls = [mib(before, device)], []
    mib(earlier, device)

    def step():
        calls.append(1)
        kept.append(mib(left, device))
        mib(freed, device)
        mib(2 * earlier, other)

    found = lab.peak_memory(step, torch.device(device))
    is_number = hasattr(found, "__index__") and not isinstance(found, bool)
    return {"calls": len(calls), "found": int(found) if is_number else kind_of(found)}


@peak.fact("it is the step's peak on the device, less what was there before")
def _(student):
    device, other = student.devices
    run = student.run(run_peak, device, other, BEFORE, EARLIER, FREED, LEFT)
    found, right = run["found"], (FREED + LEFT) * MIB
    need(run["calls"], "step was never called. Call it after the reset and before you read the peak.")
    need(run["calls"] == 1, f"step was called {times(run['calls'])}. Call it once.")
    need(not isinstance(found, str), f"it returned {found}. Return the bytes as a whole number.")
    why = {
        LEFT: "That is what the step leaves behind. Reset before step(), and read max_memory_allocated after it.",
        EARLIER: "That peak is from before the step. Call reset_peak_memory_stats first.",
        EARLIER + BEFORE: "That peak is from before the step. Call reset_peak_memory_stats first.",
        FREED + LEFT + BEFORE: f"{BEFORE} MiB of that was there before the step. Subtract memory_allocated.",
        2 * EARLIER: "That is the peak of the other device. Pass the device to each call.",
        0: "Read memory_allocated before step() and the peak after it.",
    }
    with case(f"With a step that allocates {LEFT} MiB and keeps it, then allocates {FREED} MiB and frees it"):
        need(
            found == right,
            f"the peak is {right / MIB:g} MiB, but you returned {found / MIB:g} MiB. {why.get(found // MIB, '')}",
        )
