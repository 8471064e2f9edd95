"""Lab 12's visible facts: what `check("ex1")` tells the learner, and the first part of the grade.

A probe runs beside the student's code and tells plain data; the fact judges it here. What is right is computed by the
unsharded layers on the CPU. Memory and bytes are those that simulated devices have counted; on real ones they are not
looked at, for libraries need memory of their own there.
"""

import math
from collections import Counter
from itertools import cycle, pairwise, permutations, product
from typing import Any

import numpy as np
import torch
from torch import nn

from utils.exercises.facts import Lab, StudentError, case, need, visible
from utils.exercises.facts.probes import build, fill

lab = Lab("lab12", "Shards of a model")
lesson = visible("lesson08")
numbers = lesson.numbers

CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}
BLOCK = 512  # bytes: a tensor takes whole blocks of memory
ROUNDED = 1.05  # times the bytes that have to be moved: what does not divide is rounded up somewhere
MOST_OF = 0.9  # of the bytes that have to be moved: fewer are not all, or have not gone from device to device


def close(mine, theirs) -> bool:
    return mine.shape == theirs.shape and np.allclose(mine, theirs, **CLOSE)


def name_devices(lab, count):
    from utils.observe.devices import devices

    return [str(device) for device in devices(count, quiet=True)]


def places_of(student, count) -> list[str]:
    """The names of as many devices as the notebook has, or fewer."""
    return student.run(name_devices, 4)[:count]


def megabytes(size) -> str:
    return f"{size / 1e6:.2f} MB"


# --- ex1: the switches of FSDP2 -------------------------------------------------------------------------------------

ex1 = lab.exercise(
    "ex1",
    star=True,
    title="Choose the switches",
    hints=[
        "For one micro-batch with the default switches, in which passes is each layer all-gathered? Which of these "
        "all-gathers does each switch save, and in which micro-batches?",
        "What does a rank hold as shards, whatever the switches? Which switch makes gradients whole, and which "
        "switches leave weights whole from one layer to the next?",
        "There are only eight combinations. Compute received and held for each before you choose.",
        "Of the combinations with held <= cap, return the one with the fewest bytes received.",
    ],
)

SWITCHES = ("reshard_after_forward", "reduce_once", "keep_weights")
COUNTS = ("received", "held")
ALL_WAYS = list(product((True, False), (False, True), (False, True)))


def expected_counts(setting, way) -> tuple[float, float]:
    """Bytes that a rank receives in a step, and those that it holds at the peak. `way`: a value for each switch."""
    parameters, layers, count, steps = setting
    reshard, once, keep = way
    whole, others = 4 * parameters, (count - 1) / count
    gathers = (1 if keep else steps) + (steps if reshard else 0)
    gradients = whole if once else whole / count
    weights = whole + 2 * whole / layers if keep or not reshard else 4 * whole / layers
    return others * whole * (gathers + (1 if once else steps)), 3 * whole / count + gradients + weights


def best_way(setting, cap):
    fits = [way for way in ALL_WAYS if expected_counts(setting, way)[1] <= cap]
    return min(fits, key=lambda way: expected_counts(setting, way), default=None)


def ask_switches(lab, setting, cap):
    from utils.exercises.facts.probes import kind_of

    found = lab.choose_switches(*setting, cap)
    if found is None or not isinstance(found, dict):
        return None if found is None else kind_of(found)
    return {
        key if isinstance(key, str) else kind_of(key): value
        if isinstance(value, (bool, int, float))
        else kind_of(value)
        for key, value in found.items()
    }


def told_setting(setting, cap) -> str:
    names = ("parameters", "layers", "ranks", "micro_batches", "cap")
    return "With " + ", ".join(f"{name}={value}" for name, value in zip(names, (*setting, cap), strict=True))


def compare_switches(student, setting, cap):
    """What the student has chosen and counted. That FSDP2 agrees with the counts, a test on simulated ranks says."""
    with case(told_setting(setting, cap)):
        found, best = student.run(ask_switches, list(setting), cap), best_way(setting, cap)
        if best is None:
            return need(found is None, "choose_switches returned a combination, but none fits. Return None.")
        need(found is not None, "choose_switches returned None, but a combination fits.")
        need(not isinstance(found, str), f"choose_switches returned {found}. Return a dict, or None.")
        for key in (*SWITCHES, *COUNTS):
            need(key in found, f"the returned dict has no key {key!r}. Its keys: {', '.join(found) or 'none'}.")
        for key in SWITCHES:
            need(isinstance(found[key], bool), f"the value of {key!r} is {found[key]!r}. It must be True or False.")
        for key in COUNTS:
            number = isinstance(found[key], (int, float)) and not isinstance(found[key], bool)
            need(number, f"the value of {key!r} is {found[key]!r}. It must be a number of bytes.")
        way = tuple(found[key] for key in SWITCHES)
        *first, last = (f"{switch}={value}" for switch, value in zip(SWITCHES, way, strict=True))
        chosen = f"{', '.join(first)} and {last}"
        for key, right, why in zip(COUNTS, expected_counts(setting, way), (why_received, why_held), strict=True):
            need(
                math.isclose(found[key], right, rel_tol=1e-9),
                f"for {chosen}, {key!r} is {found[key]:,.0f} bytes, not {right:,.0f}. "
                f"{why(found[key], right, setting, way)}".strip(),
            )
        received, held = expected_counts(setting, way)
        need(held <= cap, f"{chosen} does not fit: a rank holds {held:,.0f} bytes at its peak.")
        fewest, holds = expected_counts(setting, best)
        other = "One that needs exactly the cap" if holds == cap else "Another combination that fits"
        need(
            received <= fewest,
            f"{chosen} fits, but a rank receives {received:,.0f} bytes a step. {other} receives {fewest:,.0f}.",
        )


def why_received(found, right, setting, way) -> str:
    """The mistake that gives this number of bytes received, where it is known."""
    parameters, _, count, steps = setting
    reshard, once, keep = way
    once_around = 4 * parameters * (count - 1) / count
    reductions = 1 if once else steps
    forward, backward = 1 if keep else steps, steps if reshard else 0

    def is_(value) -> bool:
        return math.isclose(found, value, rel_tol=1e-9)

    if is_(right / 4):
        return "That is a number of elements. A float32 number takes 4 bytes."
    if is_(right / 2):
        return "That is half the right number. Do you count all-gathers, reduce-scatters, and 4 bytes per number?"
    if is_(right * count / (count - 1)):
        return "That includes the rank's own shard, which it does not receive."
    if is_(right * count):
        return "That is what all ranks receive together."
    if backward == steps and not once and is_(2 * steps * once_around):
        return "In each micro-batch, a layer's weights or gradients must be sent one more time."
    if backward and is_(once_around * (forward + reductions)):
        return "All-gathers of the backward pass are missing."
    if is_(once_around * (forward + backward)):
        return "The reduce-scatters of the gradients are missing."
    if is_(once_around * (forward + backward + (steps if once else 1))):
        return f"With reduce_once={once}, how often are a layer's gradients reduced in a step?"
    if is_(once_around * (1 + reshard + reductions)):
        return f"How often is a layer all-gathered in {steps} micro-batches?"
    if is_(2 * once_around) or is_(2 * reductions * once_around):
        return "With DDP's all-reduces, a rank receives that much, but FSDP also all-gathers weights."
    if is_(once_around * (2 * steps + reductions)) or is_(once_around * (steps + backward + reductions)):
        return "For some of these all-gathers, the weights are whole already, and nothing is sent."
    return "Count the all-gathers and the reduce-scatters of one layer in a step."


def why_held(found, right, setting, way) -> str:
    """The mistake that gives this number of bytes held, where it is known."""
    parameters, layers, count, _ = setting
    reshard, once, keep = way
    whole = 4 * parameters
    shard, layer = whole / count, whole / layers
    stays = keep or not reshard

    def differs(by) -> bool:
        return math.isclose(found - right, by, abs_tol=1e-6 * whole)

    if math.isclose(found, right / 4, rel_tol=1e-9):
        return "That is a number of elements. A float32 number takes 4 bytes."
    if once and differs(shard - whole):
        return (
            "With reduce_once, gradients are not reduced until the last backward pass. What does a rank hold by then?"
        )
    if stays and (differs(-whole) or differs(2 * layer - whole)):
        return f"With reshard_after_forward={reshard} and keep_weights={keep}, whole weights stay in memory."
    if differs(-shard):
        kept = "three shards: of the weights and" if once else "four shards: of the weights, the gradients and"
        return f"One shard of {shard:,.0f} bytes is missing. A rank always keeps {kept} Adam's two moments."
    if differs(-2 * shard):
        return "Adam's two moments are missing."
    if differs(2 * (whole - shard)):
        return "That includes Adam's moments of the whole model."
    if differs((-2 if stays else -4) * layer):
        return "Layers in flight are missing."
    if once and differs(shard):
        return "At the peak, gradients are either whole or in shards, not both."
    return "Add up weights, gradients and Adam's moments, each whole or in shards, and the layers in flight."


HIDDEN = 192
LAYER = 4 * HIDDEN**2  # its bytes
TEN = (10 * HIDDEN**2, 10, 4, 4)  # parameters, layers, ranks, micro-batches


@ex1.fact("with memory for everything, the switches minimize the bytes received")
def _(student):
    compare_switches(student, TEN, 100 * LAYER)


@ex1.fact("with little memory, the chosen switches fit, and the bytes received and held are right")
def _(student):
    compare_switches(student, TEN, 20 * LAYER)


@ex1.fact("with a cap in between, no other combination that fits receives fewer bytes")
def _(student):
    compare_switches(student, TEN, 25 * LAYER)
    compare_switches(student, (4 * HIDDEN**2, 4, 4, 5), 12 * LAYER)


@ex1.fact("a combination that needs exactly the cap fits, and if none fits, the result is None")
def _(student):
    compare_switches(student, TEN, 59 * LAYER // 2)
    compare_switches(student, TEN, 13 * LAYER)


# --- ex2: column and row --------------------------------------------------------------------------------------------

ex2 = lab.exercise(
    "ex2",
    points=5,
    parts={"outputs and gradients": 3, "memory and bytes": 2},
    title="One MLP over several devices",
    hints=[
        "nn.Linear stores its weight as (outputs, inputs). Which dimension do you shard in the first layer, and which "
        "in the second, so that each device computes its hidden features without communication?",
        "Each device's output of the second layer is one term of a sum. Which bias do you add before the sum, and "
        "which after it?",
        "You need two autograd.Functions. One sums in forward() and changes nothing in backward(). The other does the "
        "opposite. Which one comes before the first layer, and which one after the second?",
        "apply(*tensors) takes any number of tensors. forward() returns a tuple, and backward() takes and returns one "
        "gradient for each tensor.",
    ],
    likely={
        "shapes cannot be multiplied": "nn.Linear stores its weight as (outputs, inputs) and computes x @ weight.T + "
        "bias. Which dimension do you shard in each layer?",
        "IndexError": "The list of devices may have only one entry.",
    },
)


def run_parallel(lab, places, sizes, seed, batches, lr):
    import numpy as np
    import torch
    from torch import nn

    from utils.exercises.facts.probes import array, fill, kind_of
    from utils.observe.devices import is_simulated
    from utils.observe.trace import record

    ins, hidden, outs = sizes
    first, last = nn.Linear(ins, hidden), nn.Linear(hidden, outs)
    fill(first, seed)
    fill(last, seed + 1)
    devices, simulated = [torch.device(place) for place in places], all([is_simulated(place) for place in places])
    gpu = torch.get_device_module(devices[0])
    before = [gpu.memory_allocated(device) for device in devices] if simulated else []

    def of_layers():
        return [array(p).copy() for layer in (first, last) for p in layer.parameters()]

    names, as_given = ("first.weight", "first.bias", "last.weight", "last.bias"), of_layers()
    model = lab.ParallelMLP(first, last, list(devices))
    held = [gpu.memory_allocated(d) - b for d, b in zip(devices, before, strict=True)] if simulated else []
    if not isinstance(model, nn.Module):
        return {"wrong": f"ParallelMLP(...) is {kind_of(model)}. Make ParallelMLP a subclass of nn.Module."}
    parameters = list(model.parameters())
    if not parameters:
        return {
            "wrong": "PyTorch sees no parameters in the model. An ordinary list hides them, but nn.ParameterList does "
            "not."
        }
    away = [str(p.device) for p in parameters if str(p.device) not in places]
    if away:
        return {
            "wrong": f"the model has {len(parameters)} parameters, {len(away)} of them on another device, such as "
            f"{away[0]}. Move each shard to its device in __init__, so that a step sends no weights."
        }
    pairs = zip(names, as_given, of_layers(), strict=False)
    changed = [name for name, old, new in pairs if not np.array_equal(old, new)]
    if changed:
        return {
            "wrong": f"ParallelMLP has changed {', '.join(changed)}. Copy the values and leave `first` and `last` "
            "unchanged, because the caller may still use these layers."
        }
    # In C: a loop over 300,000 numbers takes longer in a kernel that is watched than the whole exercise.
    begun, given = np.concatenate([array(p).ravel() for p in parameters]), {}
    for name, values in zip(names, as_given, strict=True):
        given[name] = [len(np.flatnonzero(np.isin(values, begun))), len(values.ravel())]
    optimizer, steps, bytes_moved = torch.optim.SGD(parameters, lr=lr), [], []
    for x, y in batches:
        xs = [torch.from_numpy(x).to(device).requires_grad_() for device in devices]
        ys = [torch.from_numpy(y).to(device) for device in devices]
        with record(*places) as there:
            outputs = model(xs)
        if not isinstance(outputs, (list, tuple)):
            return {"wrong": f"the model returned {kind_of(outputs)}. Return a list with an output for each device."}
        for output in outputs:
            if not isinstance(output, torch.Tensor):
                return {"wrong": f"the list that the model returned contains {kind_of(output)}. Return only tensors."}
        if [str(output.device) for output in outputs] != list(places):
            where = ", ".join([str(output.device) for output in outputs])
            return {
                "wrong": f"the outputs are on {where}. Return one output on each device, in the order of the devices."
            }
        for output in outputs:
            if not output.requires_grad:
                return {
                    "wrong": "an output has no autograd graph, so backward() reaches no weight. Where is the output "
                    "detached?"
                }
        losses = [(output - target).square().mean() for output, target in zip(outputs, ys, strict=True)]
        with record(*places) as back:
            torch.autograd.backward(losses)
        moved = [sum([event.bytes for event in each.events if event.kind == "d2d"]) for each in (there, back)]
        bytes_moved = moved if simulated else []
        by_host = [event.bytes for each in (there, back) for event in each.events if event.kind in ("h2d", "d2h")]
        steps.append(
            {
                "outputs": [array(output) for output in outputs],
                "gradients": [None if each.grad is None else array(each.grad) for each in xs],
                "missing": len([p for p in parameters if p.grad is None]),
                "by host": sum(by_host) if simulated else 0,
            }
        )
        optimizer.step()
        for p in parameters:
            p.grad = None
    return {"wrong": "", "steps": steps, "held": held, "moved": bytes_moved, "given": given}


def expected_parallel(sizes, seed, batches, lr, bias_times=1.0):
    """Outputs and gradients of the input, step by step. `bias_times`: how often the last bias gets its gradient."""
    ins, hidden, outs = sizes
    first, last = nn.Linear(ins, hidden), nn.Linear(hidden, outs)
    fill(first, seed)
    fill(last, seed + 1)
    steps = []
    for x, y in batches:
        x = nn.Parameter(torch.from_numpy(x))
        output = last(nn.functional.gelu(first(x)))
        loss = (output - torch.from_numpy(y)).square().mean()
        parameters = [*first.parameters(), *last.parameters()]
        to_x, *found = torch.autograd.grad(loss, [x, *parameters])
        found[-1] = found[-1] * bias_times
        steps.append((output.detach().numpy(), to_x.numpy()))
        with torch.no_grad():
            for p, gradient in zip(parameters, found, strict=True):
                p -= lr * gradient
    return steps, last.bias.detach().numpy()


def mistaken_outputs(sizes, seed, x):
    """Outputs of the unsharded MLP with one mistake in it, and the mistake."""
    ins, hidden, outs = sizes
    first, last = nn.Linear(ins, hidden), nn.Linear(hidden, outs)
    fill(first, seed)
    fill(last, seed + 1)
    x, functional = torch.from_numpy(x), nn.functional
    with torch.no_grad():
        right = last(functional.gelu(first(x)))
        found = {
            "with relu instead of gelu": last(functional.relu(first(x))),
            "with approximate='tanh' in gelu": last(functional.gelu(first(x), approximate="tanh")),
            "without gelu": last(first(x)),
            "without the bias of `last`": right - last.bias,
            "without the bias of `first`": last(functional.gelu(first(x) - first.bias)),
        }
    return {said: output.numpy() for said, output in found.items()}


def why_short(given, what_to_do) -> str:
    """Which tensor the model's parameters do not have whole when training begins; empty where they have all."""
    for name, (there, of_all) in given.items():
        if there < of_all:
            return f"At first, the model's parameters contain {there} of the {of_all} values of {name}. {what_to_do}"
    return ""


def why_output(mine, sizes, seed, x, count, given) -> str:
    """The mistake that gives this output in the first step. `given`: of each tensor, how many numbers the model has."""
    for said, output in mistaken_outputs(sizes, seed, x).items():
        if close(mine, output):
            return f"You get this output {said}."
    if short := why_short(given, "Copy all of them."):
        return short
    for terms in range(1, count):
        if close(mine, summed_terms(sizes, seed, x, count, terms)):
            return f"The sum includes {terms} of the {count} devices' terms. Sum over all devices."
    steps, _ = expected_parallel(sizes, seed, [[x, np.zeros((len(x), sizes[2]), np.float32)]], 0.0)
    if close(mine, count * steps[0][0]):
        return f"The output is {count} times as large as it should be. Sum over the devices once."
    return (
        "Compare each device's hidden features with its part of gelu(first(x)). Do its weight and bias belong together?"
    )


def summed_terms(sizes, seed, x, count, terms):
    """The output of the unsharded MLP with the hidden features of the first devices only."""
    ins, hidden, outs = sizes
    first, last = nn.Linear(ins, hidden), nn.Linear(hidden, outs)
    fill(first, seed)
    fill(last, seed + 1)
    with torch.no_grad():
        features = nn.functional.gelu(first(torch.from_numpy(x)))
        features[:, hidden * terms // count :] = 0
        return last(features).numpy()


def parallel(student, places, sizes, rows, seed, steps=2, lr=0.5):
    batches = [[numbers(rows, sizes[n], seed=seed + 10 * k + n) for n in (0, 2)] for k in range(steps)]
    return student.run(run_parallel, list(places), list(sizes), seed, batches, lr), batches


def told_parallel(places, sizes, rows) -> str:
    return (
        f"With {sizes[0]} input, {sizes[1]} hidden and {sizes[2]} output features and batch size {rows} on "
        f"{', '.join(places)}"
    )


def compare_parallel(student, places, sizes, rows, *, seed=3, lr=0.5):
    count = len(places)
    with case(told_parallel(places, sizes, rows)):
        run, batches = parallel(student, places, sizes, rows, seed, lr=lr)
        need(not run["wrong"], run["wrong"])
        expected, _ = expected_parallel(sizes, seed, batches, lr)
        mean_bias, _ = expected_parallel(sizes, seed, batches, lr, bias_times=float(count))
        last = nn.Linear(sizes[1], sizes[2])
        fill(last, seed + 1)
        bias = last.bias.detach().numpy()
        for number, (step, (output, to_x)) in enumerate(zip(run["steps"], expected, strict=True)):
            for place, mine in zip(places, step["outputs"], strict=True):
                if number:
                    need(
                        count == 1 or not close(mine, mean_bias[number][0]),
                        "after a step of SGD, the last bias has moved "
                        f"{count} times as far as it should, as if it were a sum of {count} terms that each get the "
                        "whole gradient. Keep the last bias whole, on one device or on each.",
                    )
                    why = why_short(run["given"], "PyTorch registers neither plain tensors nor plain lists.")
                    need(
                        close(mine, output),
                        f"after a step of SGD, the output on {place} differs from that of the unsharded MLP. "
                        + (why or "Which parameter has no gradient or a wrong gradient?"),
                    )
                need(
                    not close(mine, output + (count - 1) * bias) or count == 1,
                    f"the output on {place} includes the last bias {count} times. Each device adds this bias before "
                    "the sum.",
                )
                if not close(mine, output):
                    why = why_output(mine, sizes, seed, batches[0][0], count, run["given"])
                    need(False, f"the output on {place} differs from that of the unsharded MLP. {why}")
            compare_inputs(step["gradients"], to_x, places, run["moved"], one_sum(places, rows, sizes[2]))
            need(
                not step["missing"], f"after backward(), the gradient is None for {step['missing']} of the parameters."
            )


def one_sum(places, rows, size) -> int:
    """The bytes that all devices send for one sum of float32 tensors of this size."""
    return 2 * (len(places) - 1) * 4 * rows * size


def compare_inputs(found, right, places, moved, of_outputs):
    """`moved`: bytes in each pass. `of_outputs`: those of the sum of the outputs."""
    why = "Each output already gets the whole gradient, so the backward pass of the sum must not sum again."
    if moved and moved[0] > ROUNDED * of_outputs:
        why = (
            f"In the forward pass, the devices send each other {moved[0]} bytes, but the all-reduce of the outputs "
            f"takes {of_outputs}. Autograd sums the gradients of all tensors sent from one device to others."
        )
    for place, mine in zip(places, found, strict=True):
        need(mine is not None, f"after backward(), x on {place} has no gradient.")
        need(
            len(places) == 1 or not close(mine / len(places), right),
            f"the gradient of x on {place} is {len(places)} times as large as that of the unsharded MLP. Every device "
            f"has the same loss. {why}",
        )
    total = sum(found)
    need(
        len(places) == 1 or not close(total, right),
        "each gradient of x comes from only one device's part of the MLP. The previous layer needs the whole gradient "
        "on each device. Sum these gradients in the backward pass.",
    )
    for place, mine in zip(places, found, strict=True):
        need(close(mine, right), f"the gradient of x on {place} differs from that of the unsharded MLP.")


@ex2.fact(
    "on two devices, the outputs and the gradient of x match those of the unsharded MLP, and the outputs still match "
    "after a step of SGD"
)
def _(student):
    compare_parallel(student, places_of(student, 2), (5, 8, 3), 4)


@ex2.fact("on four devices, the outputs and the gradient of x match those of the unsharded MLP")
def _(student):
    compare_parallel(student, places_of(student, 4), (6, 16, 5), 7)


def need_parts(student, places, sizes, rows=8):
    """No device holds more than its parts, and each pass sends one all-reduce."""
    ins, hidden, outs = sizes
    with case(told_parallel(places, sizes, rows)):
        run, batches = parallel(student, places, sizes, rows, 4, steps=1)
        need(not run["wrong"], run["wrong"])
        whole = 4 * hidden * (ins + 1 + outs)
        room = whole / len(places) * ROUNDED + 4 * outs + 8 * BLOCK
        for place, held in zip(places, run["held"], strict=False):
            need(
                held <= room,
                f"{place} holds {megabytes(held)} of weights, but its shards of the MLP are "
                f"{megabytes(whole / len(places))} of {megabytes(whole)}. Does it hold a whole weight or a view of "
                "one?",
            )
        for words, size, moved in zip(("forward", "backward"), (outs, ins), run["moved"], strict=False):
            least = one_sum(places, rows, size)
            what = "output" if words == "forward" else "input"
            need(
                moved <= ROUNDED * least + BLOCK,
                f"in the {words} pass, the devices send each other {moved} bytes. One all-reduce of a tensor of the "
                f"{what}'s size sends 2 (N - 1) times its bytes, here {least}. Do you send hidden features, weights, "
                "or every term to every device?",
            )
            need(
                moved >= MOST_OF * least,
                f"in the {words} pass, the devices send each other {moved} bytes, but an all-reduce of the {what}'s "
                f"size sends {least}. Do the tensors go through the CPU?",
            )
        [(output, to_x)], _ = expected_parallel(sizes, 4, batches, 0.5)
        [step] = run["steps"]
        for place, mine in zip(places, step["outputs"], strict=True):
            need(close(mine, output), f"the output on {place} differs from that of the unsharded MLP.")
        compare_inputs(step["gradients"], to_x, places, run["moved"], one_sum(places, rows, outs))
        need(
            step["by host"] <= BLOCK,
            f"{step['by host']} bytes pass between the CPU and the devices. Copy directly from device to device.",
        )


@ex2.fact(
    "each device holds only its own shards, and each pass communicates with one all-reduce (checked on simulated "
    "devices)",
    part="memory and bytes",
)
def _(student):
    need_parts(student, places_of(student, 2), (128, 512, 128))
    need_parts(student, places_of(student, 4), (128, 512, 128))


def record_parallel(lab, places, width):
    from dataclasses import asdict

    import torch
    from torch import nn

    from utils.observe.trace import record

    devices = [torch.device(place) for place in places]
    # Long sums of few results are slow on a GPU and quick here.
    model = lab.ParallelMLP(nn.Linear(8, width), nn.Linear(width, 8), devices)
    xs = [torch.ones(64, 8, device=device).requires_grad_() for device in devices]
    with record(*places) as timeline:
        outputs = model(xs)
        torch.autograd.backward([output.square().mean() for output in outputs])
    return asdict(timeline)


@ex2.timeline
def _(student):
    return student.run(record_parallel, places_of(student, 4), 120_000)


# --- ex3: Adam in shards --------------------------------------------------------------------------------------------

ex3 = lab.exercise(
    "ex3",
    points=5,
    parts={"Adam's weights": 3, "float32": 1, "memory and bytes": 1},
    title="Adam's state in shards",
    hints=[
        "tensor.view(-1).tensor_split(N)[n] is the shard of device n, as a view of the tensor. In which dtype do you "
        "update it, and where do its float32 values stay until the next step?",
        "Follow one shard through a step. What does its owner receive, what does the owner compute, and which devices "
        "need the result?",
        "torch.optim.Adam takes any list of tensors and reads the .grad of each tensor.",
        "List everything that a device holds after a step. Each of its shards needs three float32 tensors. Does it "
        "hold anything else?",
    ],
)


def run_sharded(lab, places, stack, frozen, seed, batches, lr, scale, large):
    import torch

    from utils.exercises.facts.probes import array, build, fill, kind_of
    from utils.observe.devices import is_simulated
    from utils.observe.trace import record

    copies, gradients, simulated = [], [], all([is_simulated(place) for place in places])
    for place in places:
        copy = build(stack)
        fill(copy, seed)
        for number, p in enumerate(copy.parameters()):
            p.data.copy_(p.data * large)
            p.requires_grad_(number >= frozen)
        copies.append(copy.to(place).to(torch.bfloat16))
    gpu = torch.get_device_module(places[0])
    before = [gpu.memory_allocated(place) for place in places] if simulated else []
    step, steps, bytes_moved, held = lab.sharded_adam(list(copies), lr), [], [], []
    if not callable(step):
        return {"wrong": f"sharded_adam returned {kind_of(step)}. Return the function step, which takes no arguments."}
    for x, y in batches:
        xs, ys = (
            torch.tensor_split(torch.from_numpy(x), len(places)),
            torch.tensor_split(torch.from_numpy(y), len(places)),
        )
        for copy, place, share, target in zip(copies, places, xs, ys, strict=True):
            loss = (copy(share.to(place).to(torch.bfloat16)) - target.to(place)).square().mean() * scale
            loss.backward()
        del loss
        found = [[None if p.grad is None else array(p.grad.float()).copy() for p in c.parameters()] for c in copies]
        gradients.append(found)
        with record(*places) as timeline:
            step()
        for copy in copies:
            for p in copy.parameters():
                p.grad = None
        if simulated:
            bytes_moved.append(sum([event.bytes for event in timeline.events if event.kind == "d2d"]))
        steps.append([[array(p.float()).copy() for p in copy.parameters()] for copy in copies])
    if simulated:
        held = [gpu.memory_allocated(place) - b for place, b in zip(places, before, strict=True)]
    where = [[str(p.device) for p in copy.parameters()] for copy in copies]
    return {"wrong": "", "steps": steps, "gradients": gradients, "moved": bytes_moved, "held": held, "where": where}


def expected_sharded(stack, frozen, seed, gradients, lr, large, rounded=0.0, mistake=""):
    """The rounded weights before and after each step: Adam in float32, with the mean of the replicas' gradients.

    Without `lr` it is Adam's own. `rounded` is the error of each mean, as a share of the mean size. `mistake` is one
    of MISTAKEN.
    """
    make = torch.optim.AdamW if mistake == "decay" else torch.optim.Adam
    model = build(stack)
    fill(model, seed)
    for p in model.parameters():
        p.data *= large
    model.to(torch.bfloat16).float()
    parameters = list(model.parameters())
    optimizer = make(parameters) if lr is None else make(parameters, lr=lr)
    steps = [[p.detach().bfloat16().float().numpy() for p in parameters]]
    for copies in gradients:
        for number, p in enumerate(parameters):
            p.grad = None
            if number >= frozen:
                mean, size = (
                    np.mean([f(c[number]) for c in copies], axis=0, dtype=np.float32) for f in (np.array, np.abs)
                )
                times = len(copies) if mistake == "the sum" else 1
                p.grad = times * torch.from_numpy(mean + np.float32(rounded) * size)
        if mistake == "fresh" and lr is not None:
            optimizer = make(parameters, lr=lr)
        optimizer.step()
        for p in parameters if mistake == "rounded" else ():
            p.data = p.data.bfloat16().float()
        steps.append([p.detach().bfloat16().float().numpy() for p in parameters])
    return steps


def sharded(student, places, stack, rows, *, frozen=0, steps=3, seed=5, lr=0.05, scale=1.0, large=1.0, again=False):
    """A run of the student's, and the weights of an unsharded one before and after each step."""
    sizes = [each[1:] for each in stack if each[0] == "Linear"]
    shapes = (rows * len(places), sizes[0][0]), (rows * len(places), sizes[-1][1])
    seeds = [seed if again else seed + 9 * k for k in range(steps)]
    batches = [[numbers(*shape, seed=each + n) for n, shape in enumerate(shapes)] for each in seeds]
    run = student.run(run_sharded, list(places), stack, frozen, seed, batches, lr, scale, large)
    need(not run["wrong"], run["wrong"])
    expected, low, high = (
        expected_sharded(stack, frozen, seed, run["gradients"], lr, large, rounded) for rounded in (0.0, -EPS, EPS)
    )
    unsure = [[np.abs(a - b) > 0.02 * lr for a, b in zip(*steps, strict=True)] for steps in zip(low, high, strict=True)]
    return run | {"batches": batches, "before": expected[0], "unsure": unsure}, expected


def need_gradients(run, stack, scale=1.0):
    """The gradients before each step are those of the copies' own losses. A hook may have changed them."""
    before = run["before"]
    for number, (gradients, (x, y)) in enumerate(zip(run["gradients"], run["batches"], strict=True), 1):
        xs, ys = (torch.tensor_split(torch.from_numpy(each), len(gradients)) for each in (x, y))
        for mine, share, target in zip(gradients, xs, ys, strict=True):
            copy = build(stack)
            for p, weights, found in zip(copy.parameters(), before, mine, strict=True):
                p.data.copy_(torch.from_numpy(weights))
                p.requires_grad_(found is not None)
            copy.to(torch.bfloat16)
            ((copy(share.to(torch.bfloat16)) - target).square().mean() * scale).backward()
            right = [p.grad.float().numpy() for p in copy.parameters() if p.requires_grad]
            found = [gradient for gradient in mine if gradient is not None]
            off = math.sqrt(sum(((a - b) ** 2).sum() for a, b in zip(found, right, strict=True)))
            need(
                off <= AS_ROUNDED * math.sqrt(sum((g**2).sum() for g in right)),
                f"before step {number}, the gradients of a replica are not those of its loss. Which code changes them?",
            )
        before = run["steps"][number - 1][0]


def told_sharded(places, stack, frozen=0) -> str:
    sizes = [f"{ins} to {outs}" for kind, *(ins, outs) in (each for each in stack if each[0] == "Linear")]
    also = f" (frozen parameters: {frozen})" if frozen else ""
    return f"With linear layers {', '.join(sizes)}{also} on {', '.join(places)}"


def compare_sharded(student, places, stack, rows, *, frozen=0, lr=0.05, **asked):
    with case(told_sharded(places, stack, frozen)):
        run, expected = sharded(student, places, stack, rows, frozen=frozen, lr=lr, **asked)
        for place, where in zip(places, run["where"], strict=True):
            away = [each for each in where if each != place]
            need(not away, f"after the steps, a parameter of the replica on {place} is on {away[0] if away else ''}.")
        seed, large = asked.get("seed", 5), asked.get("large", 1.0)
        of_its_own = expected_sharded(stack, frozen, seed, run["gradients"][:1], None, large)[1]
        need(
            not mostly_equal(run["steps"][0][0], of_its_own) or mostly_equal(of_its_own, expected[1]),
            f"after step 1, the weights are those of torch.optim.Adam with its default lr. Pass lr={lr}.",
        )

        def why(number):
            return why_adam(run, stack, frozen, seed, lr, large, number)

        for number, copies in enumerate(run["steps"]):
            compare_after(copies, expected, run["unsure"], places, number + 1, lr, why)
        need_gradients(run, stack, asked.get("scale", 1.0))


MISTAKEN = {
    "the sum": "You get these weights with the sum of the gradients. Divide the sum by the number of replicas.",
    "decay": "You get these weights with AdamW, whose weight_decay shrinks all weights. Use Adam.",
    "rounded": "You get these weights when you round them to bfloat16 after each step. Keep float32 shards from "
    "step to step, and round only copies.",
    "fresh": "You get these weights with a new optimizer in each step. Keep Adam's moments from step to step.",
}


def why_adam(run, stack, frozen, seed, lr, large, number) -> str:
    """The mistake that gives the first replica's weights after this step."""
    for mistake, said in MISTAKEN.items():
        steps = expected_sharded(stack, frozen, seed, run["gradients"][:number], lr, large, mistake=mistake)
        if mostly_equal(run["steps"][number - 1][0], steps[number]):
            return said
    return "Take the mean over all replicas before the update. Does each shard have its own moments and step count?"


def mostly_equal(mine, right) -> bool:
    """Float32 numbers may differ in their last bits, and a few of them are rounded to another bfloat16 then."""
    equal = [one == other for one, other in zip(mine, right, strict=True) if one.shape == other.shape]
    return len(equal) == len(right) and np.mean(np.concatenate([each.ravel() for each in equal])) > 0.95


def compare_after(copies, expected, unsure, places, number, lr, why=lambda number: ""):
    """The replicas' weights after a step, beside those of the unsharded model before and after it.

    Where gradients cancel, the mean is what rounding has left, and Adam makes a step of any size of it: `unsure`.
    """
    after, before = f"after step {number}", expected[number - 1]
    for k, wanted in enumerate(expected[number]):
        each = [copy[k] for copy in copies]
        what = f"the parameter of shape {wanted.shape}"
        near = {"rtol": ULP, "atol": 0.02 * lr}
        for place, mine in zip(places, each, strict=True):
            need(
                mine.shape == wanted.shape,
                f"{after}, {what} on {place} now has shape {mine.shape}.",
            )
            same = np.isclose(mine, wanted, **near) | unsure[number][k]
            still = (mine == before[k]) & ~same
            elsewhere = any((copy[still] != before[k][still]).any() for copy in each if copy.shape == mine.shape)
            need(
                not still.any(),
                f"{after}, {still.sum()} of the {wanted.size} elements of {what} on {place} are unchanged. "
                f"{'Another device has updated them. Send the new weights to every replica.' if elsewhere else ''}"
                f"{'' if elsewhere else 'No device has updated them. Do the shards cover all elements?'}",
            )
        need(
            all(np.array_equal(mine, each[0]) for mine in each),
            f"{after}, {what} is not the same on all devices from {' to '.join((places[0], places[-1]))}. Send each "
            "shard's new weights to every replica, with the same rounding.",
        )
        if not (np.isclose(each[0], wanted, **near) | unsure[number][k]).all():
            far = np.abs(each[0] - wanted).max() / lr
            told = f"{after}, {what} differs from the result of torch.optim.Adam in float32 with the mean gradient by"
            need(False, f"{told} up to {far:.2f} times the learning rate. {why(number)}".strip())


ULP = 2**-7  # two neighbours in bfloat16 differ by so much of themselves at most
EPS = 3e-7  # of the gradients' mean size: what a mean in float32 may be off
AS_ROUNDED = 0.05  # of the length of all gradients: devices may round in bfloat16 at other places
EVEN = [["Linear", 8, 16], ["Tanh"], ["Linear", 16, 4]]
ODD = [["Linear", 5, 7], ["Tanh"], ["Linear", 7, 1]]  # of 35, 7, 7 and 1 numbers
LARGE = [["Linear", 256, 256], ["Tanh"], ["Linear", 256, 8]]  # nearly all is one parameter


@ex3.fact("on two devices, all replicas have the rounded weights of torch.optim.Adam after each of three steps")
def _(student):
    compare_sharded(student, places_of(student, 2), EVEN, 3)


@ex3.fact("on four devices, parameters may have any number of elements, even a single one")
def _(student):
    compare_sharded(student, places_of(student, 4), ODD, 3, steps=2)


@ex3.fact("a frozen parameter keeps its values")
def _(student):
    compare_sharded(student, places_of(student, 2), EVEN, 3, frozen=2, steps=2)


@ex3.fact("Adam gets the mean of the gradients, not their sum (gradients so small that eps, 1e-8, matters)")
def _(student):
    compare_sharded(student, places_of(student, 4), EVEN, 3, scale=1e-7, steps=2)


@ex3.fact("many updates are not lost, although each is too small for bfloat16", part="float32")
def _(student):
    compare_sharded(student, places_of(student, 2), EVEN[:1], 3, steps=8, lr=3e-4, again=True)


@ex3.fact("an update depends only on the gradients, even if the weights are large")
def _(student):
    compare_sharded(student, places_of(student, 2), [["Linear", 8, 4]], 3, steps=4, lr=1.0, large=100.0)


def run_given(lab, places, gradients, lr):
    """The weights of the first copy, which are `lr` at first, after steps with these gradients."""
    import torch
    from torch import nn

    from utils.exercises.facts.probes import array

    copies = []
    for place in places:
        copy = nn.Linear(4, 5)
        for p in copy.parameters():
            p.data.copy_(torch.tensor(lr))
        copies.append(copy.to(place).to(torch.bfloat16))
    step = lab.sharded_adam(list(copies), lr)
    for each in gradients:
        for copy, place, (of_weight, of_bias) in zip(copies, places, each, strict=True):
            for p, gradient in zip(copy.parameters(), (of_weight, of_bias), strict=True):
                (p.float() * torch.from_numpy(gradient).to(place)).sum().backward()
        step()
        for copy in copies:
            for p in copy.parameters():
                p.grad = None
    return [array(p.float()).ravel() for p in copies[0].parameters()]


def after_adam(means, lr) -> float:
    """A number that is `lr` at first, after steps of Adam in float32 with these gradients."""
    number = nn.Parameter(torch.tensor([lr]))
    optimizer = torch.optim.Adam([number], lr=lr)
    for mean in means:
        number.grad = torch.tensor([mean])
        optimizer.step()
    return number.item()


@ex3.fact(
    "gradients are summed in float32, which keeps the small gradients that a bfloat16 sum would lose", part="float32"
)
def _(student):
    places, lr, (large, small, second) = places_of(student, 4), 2.0**-4, (1.0, 2.0**-9, -115 / 128)
    count = len(places)
    if count < 2:
        return
    # The first update takes a number to nearly zero. In the second the moment of the first gradients nearly cancels
    # with the new ones, so that a small error of the first sum is large in what is left.
    first, then = np.zeros((2, count, 25), np.float32)
    for number, (one, other) in zip(range(25), cycle(permutations(range(count), 2)), strict=False):
        first[one, number], first[other, number], then[other, number] = large, small, second
    gradients = [[[own[:20].reshape(5, 4), own[20:]] for own in each] for each in (first, then)]
    found = np.concatenate(student.run(run_given, places, gradients, lr))
    right, lost = (after_adam([total / count, second / count], lr) for total in (large + small, large))
    off = ~np.isclose(found, right, rtol=0.05)
    why = "that of a bfloat16 sum, which is 1. Convert each gradient to float32 before you sum."
    need(
        not off.any(),
        f"on {', '.join(places)}: two replicas have the gradients 1 and 2^-9 for a weight. For {off.sum()} of 25 such "
        "weights, the update is "
        f"{why if np.isclose(found[off], lost, rtol=0.05).all() else 'not that of torch.optim.Adam in float32.'}",
    )


def need_shards(student, places, stack, rows=1):
    """Each device holds three float32 tensors of its shards, and a step sends 2 (N - 1) times the weights."""
    with case(told_sharded(places, stack)):
        lr = 0.05
        run, expected = sharded(student, places, stack, rows, steps=2, lr=lr)
        count, whole = len(expected[0]), 2 * sum(p.size for p in expected[0])
        state = 6 * whole / len(places)
        for place, held in zip(places, run["held"], strict=False):
            need(
                held <= ROUNDED * state + 3 * count * BLOCK,
                f"after two steps, {place} holds {megabytes(held)} besides the bfloat16 weights, but three float32 "
                f"tensors of its shards take {megabytes(state)} ({megabytes(6 * whole)} for all parameters). Does it "
                f"keep {'averaged gradients' if held < 1.5 * state else 'more than its shards'}?",
            )
        least = 2 * (len(places) - 1) * whole
        for moved in run["moved"]:
            need(
                moved <= ROUNDED * least,
                f"in a step, the devices send each other {megabytes(moved)}, {moved / whole:.1f} times the weights, "
                f"but 2 (N - 1) = {2 * (len(places) - 1)} times is enough. Send a shard's gradients only to its "
                "owner, and send weights in bfloat16.",
            )
            need(
                moved >= MOST_OF * least,
                f"in a step, the devices send each other {megabytes(moved)}, but sending gradients to the owners and "
                f"new weights to all devices takes {megabytes(least)}. Does any tensor go through the CPU?",
            )
        for number, copies in enumerate(run["steps"]):
            compare_after(copies, expected, run["unsure"], places, number + 1, lr)
        need_gradients(run, stack)


@ex3.fact(
    "each device holds only its shards of the optimizer state and sends only the necessary bytes (simulated devices)",
    part="memory and bytes",
)
def _(student):
    need_shards(student, places_of(student, 4), LARGE)


# --- ex4: weights in shards -----------------------------------------------------------------------------------------

ex4 = lab.exercise(
    "ex4",
    star=True,
    title="FSDP by hand",
    hints=[
        "What does autograd save for the backward pass of a linear layer? A whole weight that is saved stays in memory "
        "until then.",
        "In an autograd.Function, you choose the saved tensors. Which small tensors are enough for the second "
        "all-gather?",
        "backward() returns a gradient for each shard, on the shard's device. What does autograd do when one shard "
        "gets several gradients, one from each device?",
        "Each share's loss is a mean over that share. What is the mean over the whole batch if all shares are equal?",
        "A Python variable that refers to a whole weight also keeps it in memory. del removes the variable.",
    ],
    likely={
        "zero-dimensional": "A share of one sample still has shape (1, inputs). Keep its first dimension.",
    },
)
PAR = 68  # percent of the whole layers: what the model answer holds, measured by the scored function below
FORWARD, BETWEEN, BACKWARD = 4, 1, 5  # layers that a device may have beyond its shards; the model answer has 2, 0 and 2


def run_chain(lab, places, width, depth, seed, batches, lr):
    """Steps of SGD with a chain of the student's layers: outputs, memory, bytes and work."""
    import torch
    from torch import nn

    from utils.exercises.facts.probes import array, fill, kind_of
    from utils.observe.devices import is_simulated
    from utils.observe.trace import record

    devices, simulated = [torch.device(place) for place in places], all([is_simulated(place) for place in places])
    gpu, chain = torch.get_device_module(devices[0]), []

    def memory():
        return [gpu.memory_allocated(device) for device in devices] if simulated else []

    def peak():
        return [gpu.max_memory_allocated(device) for device in devices] if simulated else []

    def begin_peak():
        for device in devices if simulated else ():
            gpu.reset_peak_memory_stats(device)

    before = memory()
    for number in range(depth):
        layer = nn.Linear(*width)
        fill(layer, seed + number)
        chain.append(lab.ShardedLinear(layer, list(devices)))
        if not isinstance(chain[-1], nn.Module):
            return {"wrong": f"ShardedLinear(...) is {kind_of(chain[-1])}. Make ShardedLinear a subclass of nn.Module."}
    parameters = [p for layer in chain for p in layer.parameters()]
    if not parameters:
        return {
            "wrong": "PyTorch sees no parameters in the layer. An ordinary list hides them, but nn.ParameterList does "
            "not."
        }
    held, steps = memory(), []
    optimizer = torch.optim.SGD(parameters, lr=lr)
    for x, y in batches:
        inputs = [
            s.to(d).requires_grad_()
            for s, d in zip(torch.tensor_split(torch.from_numpy(x), len(places)), devices, strict=True)
        ]
        ys = [s.to(d) for s, d in zip(torch.tensor_split(torch.from_numpy(y), len(places)), devices, strict=True)]
        start, xs, told = memory(), inputs, {}
        begin_peak()
        with record(*places) as there:
            for layer in chain:
                xs = layer(xs)
                if not isinstance(xs, (list, tuple)):
                    return {"wrong": f"forward() returned {kind_of(xs)}. Return a list with an output for each share."}
                for output in xs:
                    if not isinstance(output, torch.Tensor):
                        return {
                            "wrong": f"the list that forward() returned contains {kind_of(output)}. Return only "
                            "tensors."
                        }
                if [str(output.device) for output in xs] != list(places):
                    where = ", ".join([str(output.device) for output in xs])
                    return {"wrong": f"the outputs are on {where}. Each output must be on its share's device."}
                xs = [output.tanh() for output in xs]
        told["forward"], told["between"] = peak(), memory()
        told["outputs"] = [array(output).copy() for output in xs]
        losses = [(output - target).square().mean() for output, target in zip(xs, ys, strict=True)]
        del output, xs
        begin_peak()
        with record(*places) as back:
            torch.autograd.backward(losses)
        told["backward"] = peak()
        del losses
        told["after"], told["start"] = memory(), start
        told["moved"] = [sum([event.bytes for event in each.events if event.kind == "d2d"]) for each in (there, back)]
        told["flops"] = [sum([event.flops for event in each.events]) for each in (there, back)]
        told["to inputs"] = [None if each.grad is None else array(each.grad) for each in inputs]
        told["gradients"] = [None if p.grad is None else array(p.grad) for p in parameters]
        steps.append(told)
        optimizer.step()
        for p in parameters:
            p.grad = None
    sizes = [p.numel() for p in parameters]
    return {
        "wrong": "",
        "steps": steps,
        "held": [h - b for h, b in zip(held, before, strict=True)],
        "sizes": sizes,
        "where": [str(p.device) for p in parameters],
        "simulated": simulated,
    }


def expected_chain(width, depth, seed, batches, lr, shares):
    chain = [nn.Linear(*width) for _ in range(depth)]
    for number, layer in enumerate(chain):
        fill(layer, seed + number)
    parameters, steps = [p for layer in chain for p in layer.parameters()], []
    for x, y in batches:
        x = nn.Parameter(torch.from_numpy(x))
        output = x
        for layer in chain:
            output = layer(output).tanh()
        loss = (output - torch.from_numpy(y)).square().mean()
        to_x, *found = (g.numpy() for g in torch.autograd.grad(loss, [x, *parameters]))
        steps.append((np.array_split(output.detach().numpy(), shares), np.array_split(to_x * shares, shares), found))
        with torch.no_grad():
            for p, gradient in zip(parameters, found, strict=True):
                p -= lr * torch.from_numpy(gradient)
    return steps


def chain_of(student, places, width, depth, rows, *, steps=3, seed=2, lr=0.5):
    batches = [[numbers(rows * len(places), width, seed=seed + 9 * k + n) for n in (0, 1)] for k in range(steps)]
    run = student.run(run_chain, list(places), [width, width], depth, seed, batches, lr)
    need(not run["wrong"], run["wrong"])
    return run, expected_chain((width, width), depth, seed, batches, lr, len(places))


def told_chain(places, width, depth, rows) -> str:
    layers = "With one layer" if depth == 1 else f"With a chain of {depth} layers"
    return f"{layers} of {width} to {width} features and shares of {samples(rows)} on {', '.join(places)}"


def samples(count) -> str:
    return f"{count} sample{'' if count == 1 else 's'}"


def compare_chain(student, places, width, depth, rows, *, seed=2):
    count = len(places)
    with case(told_chain(places, width, depth, rows)):
        run, expected = chain_of(student, places, width, depth, rows, seed=seed)
        whole = depth * (width * width + width)
        compare_numbers(run, expected, places)
        size = sum(run["sizes"])
        need(
            size <= whole + 2 * depth * count,
            f"the layers have {whole} elements, but all their shards together have {size}. Keep each element on only "
            "one device, and pad the weight and the bias with fewer than N zeros each.",
        )


def compare_numbers(run, expected, places):
    """Outputs, gradients of the shards and of the inputs, step by step."""
    for number, (told, (outputs, to_x, gradients)) in enumerate(zip(run["steps"], expected, strict=True)):
        when = f"after {number} {'step' if number == 1 else 'steps'} of SGD, " if number else ""
        for place, mine, right in zip(places, told["outputs"], outputs, strict=True):
            need(
                close(mine, right),
                f"{when}the output on {place} differs from that of the unsharded layers"
                f"{'. Do you all-gather the weights again, from the updated shards?' if number else '.'}",
            )
        compare_shards(told["gradients"], gradients, len(places), rows=len(outputs[0]))
        for place, mine, right in zip(places, told["to inputs"], to_x, strict=True):
            need(mine is not None, f"after backward(), x on {place} has no gradient.")
            need(
                close(mine, right),
                f"the gradient of x on {place} is wrong. Its norm is {ratio_of([mine], [right]):.2f} times the right "
                "one. It must be the gradient of this share's own loss, neither divided nor summed.",
            )


def ratio_of(found, right) -> float:
    return math.sqrt(sum((g**2).sum() for g in found) / sum((g**2).sum() for g in right))


def why_shards(found, right, rows) -> str:
    """Which gradients are wrong where some are right, however they are cut. `right`: weights and biases in turns."""
    numbers = np.sort(np.concatenate([each.ravel() for each in found]))

    def there(gradients, times=1.0) -> bool:
        wanted = times * np.concatenate([each.ravel() for each in gradients])
        above = np.searchsorted(numbers, wanted).clip(1, len(numbers) - 1)
        near = np.isclose(numbers[above - 1], wanted, **CLOSE) | np.isclose(numbers[above], wanted, **CLOSE)
        return bool(near.all())

    weights, biases = right[::2], right[1::2]
    if there(weights) and there(biases, 1 / rows):
        return (
            f" Those of the weights are right, but those of the biases are means over the {samples(rows)} of a share. "
            "Sum over the samples, because the loss is already a mean."
        )
    if there(weights) != there(biases):
        names = ("weights", "biases") if there(weights) else ("biases", "weights")
        return " Those of the {} are right, but those of the {} are wrong.".format(*names)
    return " Sum each shard's gradients over all shares, and divide the sum by the number of shares."


def compare_shards(found, right, count, rows):
    missing = sum(each is None for each in found)
    need(
        not missing,
        f"after backward(), the gradient is None for {missing} of {len(found)} shards. Does your all-gather detach "
        "them?",
    )
    ratio = ratio_of(found, right)
    need(
        count == 1 or abs(ratio - count) > 0.01 * count,
        f"the gradients of the shards are {ratio:.2f} times as large as the mean over the whole batch, and there are "
        f"{count} shares. Each share's loss is a mean, so divide the sum of the shares' gradients by {count}.",
    )
    if abs(ratio - 1) >= 1e-3:
        told = f"the gradients of all shards together are {ratio:.3f} times as large as the mean over the whole batch."
        need(False, told + why_shards(found, right, rows))


@ex4.fact("one layer on two devices has the right outputs and mean gradients in three steps of SGD")
def _(student):
    compare_chain(student, places_of(student, 2), 6, 1, 3)


@ex4.fact("a chain of layers on four devices has the right outputs and gradients, even if N does not divide the sizes")
def _(student):
    compare_chain(student, places_of(student, 4), 7, 3, 2)


def need_even(student, places, width):
    with case(told_chain(places, width, 1, 1)):
        run, _ = chain_of(student, places, width, 1, 1, steps=1)
        held = Counter()
        for place, size in zip(run["where"], run["sizes"], strict=True):
            held[place] += size
        most = sum(math.ceil(size / len(places)) for size in (width * width, width))
        told = ", ".join(f"{held[place]} on {place}" for place in places)
        need(
            max(held.values()) <= most,
            f"the layer's elements are distributed like this: {told}. No device needs more than {most}. Shard the "
            "weight and the bias evenly.",
        )


@ex4.fact("no device has more elements of the weight or of the bias than necessary")
def _(student):
    need_even(student, places_of(student, 2), 8)
    need_even(student, places_of(student, 4), 8)


def need_freed(student, places, width, depth, rows=2):
    count = len(places)
    with case(told_chain(places, width, depth, rows)):
        run, expected = chain_of(student, places, width, depth, rows, steps=2)
        if not run["simulated"]:
            return
        layer = 4 * (width * width + width)
        shards, small = depth * layer / count, 4 * depth * BLOCK + 6 * depth * rows * width * 4
        for place, held in zip(places, run["held"], strict=True):
            need(
                held <= ROUNDED * shards + small,
                f"before the first step, {place} holds {megabytes(held)}, but its shards of {depth} layers are "
                f"{megabytes(shards)}. Is a shard a view, which keeps the whole weight in memory? If so, use clone().",
            )
        for told in run["steps"]:
            for n, place in enumerate(places):
                peak, between, back, after = (
                    told[k][n] - told["start"][n] for k in ("forward", "between", "backward", "after")
                )
                need(
                    between <= BETWEEN * layer + small,
                    f"between the forward and the backward pass, {place} holds {between / layer:.1f} layers besides "
                    "its shards. Which references keep whole weights? (Autograd keeps every tensor that it saves.)",
                )
                need(
                    peak <= FORWARD * layer + small,
                    f"in the forward pass, {place} holds up to {peak / layer:.1f} layers besides its shards. Free each "
                    "whole layer before you all-gather the next.",
                )
                need(
                    back <= BACKWARD * layer + ROUNDED * shards + small,
                    f"in the backward pass, {place} holds up to {back / layer:.1f} layers besides its shards. The "
                    f"shards' gradients account for {shards / layer:.1f}. Free the whole weight and gradient of each "
                    "layer.",
                )
                need(
                    after <= ROUNDED * shards + small,
                    f"after the backward pass, {place} holds {after / layer:.1f} layers besides its shards, but the "
                    f"shards' gradients are only {shards / layer:.1f}. Which whole weight or gradient is left?",
                )
            need_bytes(told["moved"], (count - 1) * depth * layer)
            there, back = told["flops"]
            need(
                back <= 2.4 * there,
                f"the backward pass performs {back / there:.1f} times the operations of the forward pass, but the "
                "gradients of the weight and the input need only 2 times as many. All-gather the weight again, but "
                "do not recompute the layer.",
            )
        compare_numbers(run, expected, places)


def need_bytes(moved, once):
    """`once`: the bytes of an all-gather of all layers."""
    for words, found, times in zip(("forward", "backward"), moved, (1, 2), strict=True):
        back = ", and the reduce-scatter of the gradients sends as much again" if times == 2 else ""
        need(
            found <= ROUNDED * times * once,
            f"in the {words} pass, the devices send each other {megabytes(found)}. An all-gather of each layer sends "
            f"(N - 1) times its bytes, {megabytes(once)} in total{back}. "
            f"{'Send each gradient only to its own shard.' if times == 2 else 'Send each shard once to each device.'}",
        )
        need(
            found >= MOST_OF * times * once,
            f"in the {words} pass, the devices send each other {megabytes(found)}. An all-gather of each layer sends "
            f"{megabytes(once)} in total{back}. All-gather the weights{' again' if times == 2 else ''} from "
            "the other devices' shards, not through the CPU.",
        )


@ex4.fact(
    "one layer at a time is whole, and the backward pass all-gathers it without recomputing it (simulated devices)"
)
def _(student):
    need_freed(student, places_of(student, 4), 128, 12)


@ex4.scored(par=PAR, unit="% of the whole layers at peak memory; less is better")
def _(student):
    run, _ = chain_of(student, places_of(student, 4), 128, 12, 2, steps=2)
    if not run["simulated"]:
        return math.nan
    told, whole = run["steps"][-1], 12 * 4 * (128 * 128 + 128)
    fullest = max(
        max(f, b) - s + h
        for f, b, s, h in zip(told["forward"], told["backward"], told["start"], run["held"], strict=True)
    )
    return 100 * fullest / whole


# --- ex5: a recipe that leaks ---------------------------------------------------------------------------------------

ex5 = lab.exercise(
    "ex5",
    star=True,
    title="Fix a recipe that leaks",
    hints=[
        "leaky has five mistakes. Look at how it builds the model, when it creates the optimizer, which norm it clips, "
        "what it keeps after a step, and which losses it adds up.",
        "Lesson 12 builds the model on the meta device, shards it, and calls to_empty. set_model_state_dict with "
        "full_state_dict=True then fills the shards.",
        "fully_shard replaces parameters with DTensors. An optimizer created earlier has the old parameters.",
        "nn.utils.clip_grad_norm_ accepts DTensors, and communicates a norm, not the gradients.",
        "A loss keeps its graph, and the graph keeps the activations. A held-out loss needs no graph: use "
        "torch.no_grad(), and add up .item().",
    ],
    likely={
        "mixed torch.Tensor and DTensor": "After fully_shard, parameters are DTensors, but `weights` are whole: "
        "set_model_state_dict shards them.",
        "inference tensor": "Use torch.no_grad(), not inference_mode(), which simulated tensors do not support.",
        "value was None when it should not be": "Call fully_shard for each layer first, and for the model after them.",
        "ranks in turns cannot reduce by": "FSDP2 averages gradients by itself. Leave its divide factor unchanged.",
    },
)
RECIPE = (4, 64, 4, 1)  # layers, hidden, steps, seed
DEEP = (16, 128, 3, 1)  # so many layers that a few whole ones are little
TOGETHER = (3, 32, 4, 1, 2)  # and the batches whose gradients are shorter than CLIP
ALIKE = 5e-5  # of a loss
FLOAT32 = 4  # bytes
GROWN = 0.1  # of the activations of `held_out`'s forward pass: what a rank may hold more before each batch


def most_held(ranks, layers, hidden) -> float:
    """Bytes per parameter: shards of weights, gradients and momentum, six layers, and a forward pass's activations."""
    from utils.kits.recipe import SAMPLES

    return 12 / ranks + 24 / layers + 4 * SAMPLES / hidden


def run_recipe(lab, ranks, recipe):
    from utils.kits.recipe import watched_alone

    return watched_alone(ranks, lab.train, *recipe)


def compare_losses(student, recipe):
    from utils.kits.recipe import one_process

    run, right, steps = student.run(run_recipe, 1, recipe), one_process(*recipe), recipe[2]
    loss = need_number(run["loss"], run["kind"])

    def is_(value) -> bool:
        return math.isclose(loss, value, rel_tol=ALIKE)

    mistakes = {
        "That is the loss with the initial weights. Which parameters does the optimizer have, or is the gradient "
        "cleared before the step?": {"lr": 0.0},
        "That is the loss without momentum. Keep one optimizer, with its momentum, for all steps.": {"momentum": 0.0},
        "That is the loss after the last step. Return the mean of the losses after all steps.": {"last": True},
        "That is the loss without clipping. Clip the norm of the gradients before the step.": {"clip": math.inf},
    }
    why = [words for words, mistake in mistakes.items() if is_(one_process(*recipe, **mistake))]
    if is_(steps * right):
        why.append("Return the mean of the losses, not their sum.")
    why += [
        f"That is the sum of {steps} losses divided by {count}. Divide it by len(batches)."
        for count in range(2, 20)
        if count != steps and is_(steps * right / count)
    ]
    if not loss < 1000:
        why.append(
            "The training diverges. Do the shards get `weights`, is the norm of the gradients clipped before the step, "
            "and does each pass all-gather the new weights?"
        )
    why.append(
        "Compare the initial weights, clipping, momentum, zero_grad and the dtype with the recipe's. Is each loss "
        "computed on `held_out`, after the step?"
    )
    need(is_(right), f"train returned {in_digits(loss)}, but one process without shards has {right:.4f}. {why[0]}")


def in_digits(loss) -> str:
    return f"{loss:.4f}" if abs(loss) < 1000 else f"{loss:.4g}"


def need_number(loss, kind) -> float:
    need(not kind, f"train returned a value of type {kind}. Return a number: the mean of the losses of `held_out`.")
    return loss


def run_together(lab, ranks, recipe):
    from utils.kits.recipe import losses_together

    return losses_together(lab.train, ranks, *recipe)


def compare_losses_together(student, ranks, recipe):
    """What depends on ranks: their data, the norm of all shards, and gradients that are averaged once."""
    from utils.kits.recipe import CLIP, LR, one_process

    with case(f"On {ranks} ranks"):
        losses = [need_number(*run) for run in student.run(run_together, ranks, recipe)]
        right, first = one_process(*recipe), losses[0]
        told = f"train returned {' and '.join(map(in_digits, losses))}, but one process has {right:.4f}."
        need(
            all(math.isclose(loss, first, rel_tol=ALIKE) for loss in losses) or any(map(math.isnan, losses)),
            f"{told} `held_out` and the trained weights are the same on each rank. The loss must therefore be the "
            "same, too.",
        )
        why = "Does each rank get its own rows of `weights`, and train on all its pairs? Is the norm that of all "
        why += "shards together? Are gradients averaged only once, by FSDP2?"
        for count, words in ((ranks, "multiplied"), (1 / ranks, "divided")):
            if math.isclose(first, count * right, rel_tol=ALIKE):
                why = f"That is the mean loss {words} by the number of ranks, but each rank has the whole `held_out`."
            for name, setting in (("learning rate", {"lr": LR * count}), ("CLIP", {"clip": CLIP * count})):
                if math.isclose(first, one_process(*recipe, **setting), rel_tol=ALIKE):
                    why = f"That is the loss with the {name} {words} by the number of ranks. Keep it as it is."
        if math.isclose(first, one_process(*recipe, always=True), rel_tol=ALIKE):
            why = "A gradient whose norm is at most CLIP stays as it is: scale by at most 1, and use the mean loss."
        need(math.isclose(first, right, rel_tol=ALIKE), f"{told} {why}")


def need_mended(student, ranks, recipe):
    from utils.kits.recipe import SAMPLES

    layers, hidden, steps, _ = recipe
    run = student.run(run_recipe, ranks, recipe)
    held, most = run["held"], run["most"]
    cap, activations = most_held(ranks, layers, hidden), 4 * SAMPLES / hidden
    with case(f"On {ranks} ranks, with {layers} layers, in bytes per parameter"):
        need(len(held) == steps, "iterate once over `batches`: for x, y in batches.")
        need(
            most[0] <= cap,
            f"a rank holds {most[0]:.2f} before the first batch, but may hold at most {cap:.2f}. The whole model "
            "takes 4. Where is it built, and when is it sharded? Or does a whole copy of the weights remain?",
        )
        need(
            run["small"] >= steps or run["gathers"] >= 4 * layers * steps,  # or gradients besides weights, three times
            "no collective adds up the norm over the ranks. Clip the norm of the whole gradient, not of a rank's "
            "shards.",
        )
        need(
            not 0 < run["reduced"] < FLOAT32,
            f"reduce-scatters take {run['reduced']:.1f} in a step, but float32 gradients take {FLOAT32}. Reduce them "
            "in float32, too.",
        )
        grown = max(b - a for a, b in pairwise(held[1:]))
        need(
            grown <= GROWN * activations,
            f"a rank holds {grown:.2f} more with each batch. The activations of a forward pass take "
            f"{activations:.2f}: what keeps the graph of each held-out loss, or of another pass?",
        )
        need(
            max(most) <= cap,
            f"a rank holds {max(most):.2f} in a step, but may hold at most {cap:.2f}. Which weights or gradients are "
            f"whole then, how many layers at a time, and which old gradients are kept? Between the steps it holds "
            f"{max(held[1:]):.2f}, and its shards take {12 / ranks:.2f}.",
        )


@ex5.fact("on one rank, the mean loss matches that of one process without shards")
def _(student):
    compare_losses(student, RECIPE)


@ex5.fact(
    "on two ranks that exchange data, each returns the mean loss of one process, even where gradients have "
    "norms below CLIP"
)
def _(student):
    compare_losses_together(student, 2, TOGETHER)


@ex5.fact("on eight ranks, each holds only its shards, a few layers and one pass's activations (simulated devices)")
def _(student):
    need_mended(student, 8, DEEP)
