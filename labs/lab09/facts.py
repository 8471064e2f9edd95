"""Lab 09's visible facts: what `check("ex1")` tells the learner, and the first part of the grade.

A probe runs beside the student's code and tells plain data; the fact judges it here.
"""

import math
from functools import cache
from types import SimpleNamespace

import numpy as np
import torch
from torch import nn

from utils.exercises.facts import Lab, case, need, visible
from utils.exercises.facts.probes import fill
from utils.exercises.facts.reference import need_devices
from utils.observe import intervals
from utils.observe.trace import Event, Timeline

lab = Lab("lab09", "Fast and right")
lesson = visible("lesson08")
same, numbers, times = lesson.same, lesson.numbers, lesson.times
compare_sizes, compare_gradients = lesson.compare_sizes, lesson.compare_gradients

MOST_WORK = 1.05  # times what is needed: a device that is busy with something else proves nothing
EVENT_FLOPS = Event._fields.index("flops")


# --- ex1: prefetch the next micro-batch -----------------------------------------------------------------------------

ex1 = lab.exercise(
    "ex1",
    points=3,
    title="Prefetch the next micro-batch",
    hints=[
        "A generator pauses at each yield until the caller asks for the next value. Which copy must be launched "
        "before this pause?",
        "The computing stream reads the samples, so this stream must wait for their copy. Python and `copying` must "
        "not wait.",
        "The caller computes on the stream that is current at your yield. Which stream is current inside a "
        "`with` block?",
        "wait_stream(copying) waits for everything launched on `copying` so far, including the next copy if you have "
        "already launched that copy. Call wait_stream earlier, or wait for an event, which marks one point in a "
        "stream.",
    ],
    likely={
        "IndexError": "After the last (or only) micro-batch, there is no next one to prefetch.",
    },
)


def run_prefetched(lab, device, x, size, own_stream):
    """What arrives, and how often it was read too early. `own_stream`: the caller computes on a stream of its own."""
    import warnings
    from contextlib import nullcontext

    import torch

    import simgpu
    from simgpu.streams import Stream
    from utils.exercises.facts.probes import array, kind_of
    from utils.observe.devices import is_simulated, synchronize

    make = Stream if is_simulated(device) else torch.cuda.Stream
    copying = make(torch.device(device))
    computing = Stream(torch.device(device)) if own_stream and is_simulated(device) else nullcontext()
    pinned = torch.Tensor.pin_memory(torch.from_numpy(x))
    pieces, wrong = [], ""
    with warnings.catch_warnings(), simgpu.unfinished_reads() as races, computing:
        warnings.simplefilter("ignore")
        for samples in lab.prefetched(pinned, size, torch.device(device), copying):
            if not isinstance(samples, torch.Tensor):
                wrong = kind_of(samples)
                break
            if str(samples.device) != device:
                wrong = f"a tensor on {samples.device}"
                break
            pieces.append(samples * 1.0)  # reads them at once
    synchronize(device)
    return {
        "wrong": wrong,
        "pieces": [array(piece) for piece in pieces],
        "races": len(races),
    }


def compare_prefetched(student, device, samples, size, width=6, own_stream=False):
    many = f" of {width} numbers" if width > 6 else ""
    where = ", in a loop that computes on a stream of its own" if own_stream else ""
    with case(f"With {samples} samples{many} and size={size} on {device}{where}"):
        x = numbers(samples, width, seed=samples)
        run = student.run(run_prefetched, device, x, size, own_stream)
        need(not run["wrong"], f"`prefetched` yielded {run['wrong']}. Yield the micro-batches on {device}.")
        need(run["pieces"], "`prefetched` yielded nothing. Yield the micro-batches one by one.")
        found = [len(piece) for piece in run["pieces"]]
        wanted = [min(size, samples - start) for start in range(0, samples, size)]
        last = " Yield the last micro-batch, too." if found == wanted[:-1] else ""
        told = (
            f"`prefetched` yielded micro-batches of {', '.join(map(str, found))} samples, but the sizes "
            f"should be {', '.join(map(str, wanted))}.{last}"
        )
        need(found == wanted, told)
        need(same(np.concatenate(run["pieces"]), x), "the yielded samples are not the samples of x in order.")
        need(
            not run["races"],
            f"the computing stream read a micro-batch before its copy had finished ({times(run['races'])}). Make the "
            "computing stream wait for the copy before you yield."
            + (" The computing stream is the one that is current when your function starts." if own_stream else ""),
        )


@ex1.fact("`prefetched` yields the samples of x in order, on the device, and none is read before it has been copied")
def _(student):
    compare_prefetched(student, student.devices[0], 12, 4)
    compare_prefetched(student, student.devices[1], 10, 4)


@ex1.fact("no sample is read before it has been copied, even if a copy takes longer than the kernels before it")
def _(student):
    compare_prefetched(student, student.devices[0], 6, 2, width=200_000)


@ex1.fact("no sample is read before it has been copied, even if the caller computes on its own stream")
def _(student):
    compare_prefetched(student, student.devices[0], 6, 2, width=200_000, own_stream=True)


def watch_prefetched(lab, device, micro_batches, waits):
    """What happens while the caller computes on each micro-batch, and, if it waits, asks for the result at once."""
    from dataclasses import asdict

    import torch
    from torch import nn

    from simgpu.streams import Stream
    from utils.exercises.facts.probes import array
    from utils.observe.devices import is_simulated
    from utils.observe.trace import record

    if not is_simulated(device):
        return {"watched": False}
    # In simgpu's cost model a sum of very many numbers for very few results is slow; this computer does it quickly.
    torch.manual_seed(2)
    stage = nn.Linear(60_000, 8).to(device)
    pinned = torch.Tensor.pin_memory(torch.zeros(16 * micro_batches, 60_000))
    pinned[:, 0] = torch.arange(16 * micro_batches)
    copying, results = Stream(torch.device(device)), []
    with torch.no_grad(), record(device) as timeline:
        for samples in lab.prefetched(pinned, 16, torch.device(device), copying):
            results.append(stage(samples))
            if waits:
                array(results[-1])
    return {
        "watched": "virtual clock" in timeline.source,
        "timeline": asdict(timeline),
        "results": [array(result) for result in results],
    }


def need_results(run, micro_batches):
    """A run that is watched computes on the samples, and nothing else."""
    torch.manual_seed(2)
    stage, samples = nn.Linear(60_000, 8), torch.zeros(16 * micro_batches, 60_000)
    samples[:, 0] = torch.arange(16 * micro_batches)
    with torch.no_grad():
        right = stage(samples).numpy()
    found = run["results"] or [np.zeros((0, 8), np.float32)]
    need(same(np.concatenate(found), right), "the yielded samples are not the samples of x in order.")
    flops, needed = sum(event[EVENT_FLOPS] for event in run["timeline"]["events"]), 2 * samples.numel() * 8
    need(
        flops <= MOST_WORK * needed,
        f"the device performs {flops / needed:.2f} times the operations of the caller's loop. Launch copies only.",
    )


def recording_of(student, device, micro_batches, waits):
    """The timeline of `watch_prefetched`, and the share of the copies' time in which the device computed."""
    run = student.run(watch_prefetched, device, micro_batches, waits)
    if not run["watched"]:
        return None, 1.0
    events = [Event(*event) for event in run["timeline"]["events"]]
    line = Timeline((device,), tuple(events), run["timeline"]["begin"], run["timeline"]["end"])
    on_their_way = intervals.union((event.start, event.end) for event in events if event.kind == "h2d")
    need(on_their_way, "no micro-batch was copied from the CPU.")
    hidden = intervals.length(intervals.common(on_their_way, line.busy_times(device)))
    need_results(run, micro_batches)
    return line, hidden / intervals.length(on_their_way)


def why_apart(line) -> str:
    """Why copies and kernels did not overlap, by the order of their launches."""
    copies = [event.launched for event in line.events if event.kind == "h2d"]
    first = min((event.launched for event in line.events if event.is_kernel), default=math.inf)
    if len(copies) == 1:
        return "There is only one copy. Copy each micro-batch separately."
    if max(copies) < first:
        return (
            "All copies were launched before the first kernel. Make each kernel wait only for its own micro-batch's "
            "copy."
        )
    return "Does `copying` wait for the computing stream? Only the computing stream should wait."


def need_hidden(student, device, micro_batches):
    """Copies have to run while the device computes."""
    with case(f"With {micro_batches} micro-batches on {device}"):
        line, hidden = recording_of(student, device, micro_batches, False)
        if line is None:
            return
        computing = {event.stream for event in line.events if event.is_kernel}
        need(
            all(event.stream not in computing for event in line.events if event.kind == "h2d"),
            "samples are copied on the stream that computes. Copy on `copying`, but yield while the caller's stream is "
            "current: the caller computes on the stream that is current at the yield.",
        )
        need(
            hidden > 0.5,
            f"kernels ran during {hidden:.0%} of the copy time, but more than 50% is required. {why_apart(line)}",
        )
        need(
            not lesson.host_waited(sorted(event.launched for event in line.events)),
            "the copies overlap with kernels, but Python waits for the device in the loop (synchronize, .item()). Make "
            "the computing stream wait instead.",
        )


def need_ahead(student, device, micro_batches):
    """The next copy has to be launched before these samples are yielded: later may be too late."""
    with case(f"With {micro_batches} micro-batches on {device} and a loop that waits for each result"):
        line, hidden = recording_of(student, device, micro_batches, True)
        if line is None:
            return
        first = min((event.launched for event in line.events if event.is_kernel), default=math.inf)
        early = sum(event.launched < first for event in line.events if event.kind == "h2d") > 1
        why = (
            "The next copy is launched in time, but the kernels of the current micro-batch wait for that copy, too: "
            "wait_stream waits for everything launched on `copying` so far."
            if early
            else "When your function resumes after a yield, the device has already finished its kernels. Launch the "
            "next copy before the yield."
        )
        need(hidden > 0.5, f"kernels ran during {hidden:.0%} of the copy time, but more than 50% is required. {why}")


@ex1.fact("in a loop that does not wait for results, copies overlap with kernels (checked on simulated devices)")
def _(student):
    need_hidden(student, student.devices[0], 6)


@ex1.fact("in a loop that waits for each result, as with .item(), the next copy overlaps with kernels")
def _(student):
    need_ahead(student, student.devices[0], 6)


# --- ex2: how many micro-batches ------------------------------------------------------------------------------------

ex2 = lab.exercise(
    "ex2",
    points=2,
    title="How many micro-batches?",
    hints=[
        "For a given m, how many samples does the largest micro-batch have, and how many turns does the step take?",
        "Try each m from 1 to `samples`. Leave out each m that does not fit, and return the fastest of the others.",
        "min of an empty list raises an error. What must you return in that case?",
    ],
    likely={
        "empty sequence": "If not even one sample fits, there is no m to choose from. Return None.",
    },
)


def ask_micro_batches(lab, samples, stages, sample_seconds, launch_seconds, sample_bytes, memory):
    from utils.exercises.facts.probes import kind_of

    found = lab.best_micro_batches(samples, stages, sample_seconds, launch_seconds, sample_bytes, memory)
    if found is None:
        return None
    if isinstance(found, bool) or not hasattr(found, "__index__"):
        return f"{found!r:.40} ({kind_of(found)})"
    return int(found)


def compare_micro_batches(student, samples, stages, sample_seconds, launch_seconds, sample_bytes, memory):
    def largest(m):
        return -(-samples // m)

    def seconds(m):
        return (m + stages - 1) * (launch_seconds + largest(m) * sample_seconds)

    fitting = {m: seconds(m) for m in range(1, samples + 1) if largest(m) * sample_bytes <= memory}
    asked = f"samples={samples}, stages={stages}, sample_seconds={sample_seconds}, launch_seconds={launch_seconds}, "
    with case(f"For {asked}sample_bytes={sample_bytes}, memory={memory}"):
        m = student.run(ask_micro_batches, samples, stages, sample_seconds, launch_seconds, sample_bytes, memory)
        if not fitting:
            need(m is None, f"not even one sample fits, but best_micro_batches returned {m}. Return None.")
            return
        best = min(fitting.values())
        need(
            m is not None,
            f"best_micro_batches returned None, but micro-batches fit if m is at least {min(fitting)}. With the best "
            f"m, a step takes {best:.6g} s.",
        )
        need(not isinstance(m, str), f"best_micro_batches returned {m}. Return an integer.")
        need(1 <= m <= samples, f"best_micro_batches returned {m}, but m must be from 1 to {samples}.")
        need(
            m in fitting,
            f"m={m} does not fit: the largest micro-batch has {largest(m)} samples and needs "
            f"{largest(m) * sample_bytes} bytes.",
        )
        need(
            math.isclose(fitting[m], best, rel_tol=1e-9),
            f"with m={m}, a step takes {fitting[m]:.6g} s: it has {m + stages - 1} turns, and the largest micro-batch "
            f"has {largest(m)} of the {samples} samples. Another m that fits takes only {best:.6g} s.",
        )


@ex2.fact("with enough memory, best_micro_batches returns the m that takes the least time")
def _(student):
    compare_micro_batches(student, 32, 2, 0.001, 0.002, 10, 10_000)
    compare_micro_batches(student, 30, 3, 0.001, 0.004, 10, 10_000)


@ex2.fact("micro-batches that do not fit are ruled out, but a micro-batch may fill the memory exactly")
def _(student):
    compare_micro_batches(student, 30, 2, 0.001, 0.5, 100, 800)


@ex2.fact("if not even one sample fits, best_micro_batches returns None")
def _(student):
    compare_micro_batches(student, 12, 2, 0.001, 0.01, 100, 90)


# --- ex3: replace BatchNorm -----------------------------------------------------------------------------------------

ex3 = lab.exercise(
    "ex3",
    points=2,
    title="Replace BatchNorm",
    hints=[
        "named_children() returns a module's direct children. What must happen to a child that has its own children?",
        "To replace a layer, set the attribute of the same name in its parent module.",
        "A new layer is on the CPU and contains only ones and zeros. Which values did the old layer have, and on which "
        "device?",
        "GroupNorm needs a number of groups that divides the number of channels. Which numbers up to `groups` divide "
        "it?",
    ],
)


def run_without(lab, device0, device1, channels, groups, x, alone):
    import torch
    from torch import nn

    from utils.exercises.facts.probes import array, fill, kind_of

    class Residual(nn.Module):
        def __init__(self, inside):
            super().__init__()
            self.inside = inside

        def forward(self, x):
            return x + self.inside(x)

    a, b = channels
    block = Residual(nn.Sequential(nn.Conv2d(a, a, 3, padding=1), nn.BatchNorm2d(a), nn.ReLU()))
    part0 = nn.Sequential(nn.Conv2d(3, a, 3), nn.BatchNorm2d(a), nn.ReLU(), block)
    part1 = nn.Sequential(nn.Conv2d(a, b, 3), nn.BatchNorm2d(b), nn.Flatten(), nn.LazyLinear(4))
    whole = nn.BatchNorm2d(3) if alone else nn.Sequential(part0, part1)
    whole(torch.from_numpy(x))  # makes the lazy layer
    fill(whole, 3)
    with torch.no_grad():
        for module in whole.modules():
            if type(module) is nn.BatchNorm2d:
                module.weight.add_(1.0)
    part0.to(device0)
    part1.to(device1)
    if alone:
        whole.to(device1)
    found = lab.without_batchnorm(whole, groups)
    if not isinstance(found, nn.Module):
        return {"wrong": f"without_batchnorm returned {kind_of(found)}. Return the model."}
    trains = all([module.training for module in found.modules()])
    found.train()
    if not alone:  # the two stages, of this model or of a copy
        stacks = [module for module in found.modules() if type(module) is nn.Sequential]
        if len(stacks) != 4:
            return {
                "wrong": "the returned model does not have the nn.Sequential modules of the given one. Replace layers, "
                "but keep their parents."
            }
        part0, part1 = stacks[1], stacks[3]

    def outputs(size):
        pieces = torch.from_numpy(x).split(size)
        if alone:
            return torch.cat([found(samples.to(device1)) for samples in pieces])
        return torch.cat([part1(part0(samples.to(device0)).to(device1)) for samples in pieces])

    return {
        "kinds": [type(module).__name__ for module in found.modules()],
        "named": [[name, str(p.device), array(p)] for name, p in found.named_parameters()],
        "outputs": [array(outputs(size)) for size in (len(x), 3, 1)],
        "trains": trains,
    }


def reference(channels, groups, x, alone):
    """The output of the same model with GroupNorm, made here, and its parameters by name."""

    class Residual(nn.Module):
        def __init__(self, inside):
            super().__init__()
            self.inside = inside

        def forward(self, x):
            return x + self.inside(x)

    def norm(count):
        return nn.GroupNorm(max(n for n in range(1, groups + 1) if count % n == 0), count)

    a, b = channels
    block = Residual(nn.Sequential(nn.Conv2d(a, a, 3, padding=1), norm(a), nn.ReLU()))
    part0 = nn.Sequential(nn.Conv2d(3, a, 3), norm(a), nn.ReLU(), block)
    part1 = nn.Sequential(nn.Conv2d(a, b, 3), norm(b), nn.Flatten(), nn.LazyLinear(4))
    whole = norm(3) if alone else nn.Sequential(part0, part1)
    whole(torch.from_numpy(x))
    fill(whole, 3)
    with torch.no_grad():
        for module in whole.modules():
            if type(module) is nn.GroupNorm:
                module.weight.add_(1.0)
        return whole(torch.from_numpy(x)).numpy(), {name: p.numpy() for name, p in whole.named_parameters()}


def compare_without(student, device0, device1, channels, groups, alone=False):
    x = numbers(6, 3, 7, 7, seed=sum(channels))
    what = "a single BatchNorm2d(3)" if alone else f"a split model with {channels[0]} and {channels[1]} channels"
    with case(f"For {what} and groups={groups}"):
        run = student.run(run_without, device0, device1, list(channels), groups, x, alone)
        need("wrong" not in run, run.get("wrong", ""))
        left = run["kinds"].count("BatchNorm2d")
        where = "Return the layer that replaces it." if alone else "Replace BatchNorm2d layers at any depth."
        need(not left, f"{left} BatchNorm2d {'layers are' if left > 1 else 'layer is'} left. {where}")
        expected, values = reference(channels, groups, x, alone)
        names = list(values)
        found = [name for name, _, _ in run["named"]]
        lost = [name for name in names if name not in found]
        need(
            found == names,
            f"the model's parameters are {', '.join(found)}, but they should be {', '.join(names)}."
            if not lost
            else f"{len(lost)} of {len(names)} parameters are missing, such as {', '.join(lost[:2])}. Put a GroupNorm "
            "in place of each BatchNorm2d.",
        )
        places = [device1 if alone or name.startswith("1.") else device0 for name in names]
        strayed = [n for (n, place, _), wanted in zip(run["named"], places, strict=True) if place != wanted]
        need(not strayed, f"{strayed[0] if strayed else ''} is not on the device of the old layer.")
        whole, *cut = run["outputs"]
        need(
            all(np.allclose(each, whole, atol=1e-4) for each in cut),
            "in training mode, the output changes if the batch is split into micro-batches.",
        )
        need(
            np.allclose(whole, expected, rtol=1e-3, atol=1e-4),
            "the output differs from that of the correct model. "
            + (
                f"Does each GroupNorm have as many groups as possible: the largest number up to {groups} that divides "
                "its number of channels?"
                if all(
                    array.shape == values[name].shape and np.allclose(array, values[name])
                    for name, _, array in run["named"]
                )
                else "Give each GroupNorm the weight and the bias of the layer that it replaces."
            ),
        )


@ex3.fact("no BatchNorm2d is left, weights and devices are kept, and micro-batches do not change the output")
def _(student):
    compare_without(student, *student.devices, (8, 12), 4)


@ex3.fact("the number of channels need not be a multiple of `groups`")
def _(student):
    compare_without(student, *student.devices, (6, 9), 4)


@ex3.fact("the returned model is in training mode")
def _(student):
    x = numbers(6, 3, 7, 7, seed=20)
    run = student.run(run_without, *student.devices, [8, 12], 4, x, False)
    need(run["trains"], "A module of the returned model is in evaluation mode. Leave all modules in training mode.")


def replace_among_others(lab):
    from torch import nn

    from utils.exercises.facts.probes import kind_of

    images = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.InstanceNorm2d(6, affine=True), nn.Dropout2d(0.1))
    vectors = nn.Sequential(nn.Linear(24, 8), nn.BatchNorm1d(8), nn.LayerNorm(8))
    model = nn.Sequential(images, nn.Flatten(), vectors, nn.Unflatten(1, (2, 1, 2, 2)), nn.BatchNorm3d(2))
    before = [type(module).__name__ for module in model.modules()]
    found = lab.without_batchnorm(model, 3)
    if not isinstance(found, nn.Module):
        return {"wrong": f"without_batchnorm returned {kind_of(found)}. Return the model."}
    return {"before": before, "now": [type(module).__name__ for module in found.modules()]}


@ex3.fact("only BatchNorm2d layers are replaced, and all other layers stay as they are")
def _(student):
    seen = student.run(replace_among_others)
    need("wrong" not in seen, seen.get("wrong", ""))
    wanted = ["GroupNorm" if kind == "BatchNorm2d" else kind for kind in seen["before"]]
    need(
        len(seen["now"]) == len(wanted),
        f"A model with {len(wanted)} modules has {len(seen['now'])} modules after the call.",
    )
    for before, now, right in zip(seen["before"], seen["now"], wanted, strict=True):
        need(now == right, f"{before} became {now}, but it should be {right}. Replace only BatchNorm2d layers.")


# --- ex4: tokens that count -----------------------------------------------------------------------------------------

ex4 = lab.exercise(
    "ex4",
    star=True,
    title="Tokens that count",
    hints=[
        "Which tokens are in the mean over the whole batch? Does each micro-batch have the same number of such tokens?",
        "The mean over zero tokens is 0 / 0. Which other reductions does cross_entropy offer?",
        "y is on the CPU, so you can count the targets other than -100 before any device computes.",
        "cross_entropy expects the classes in dimension 1, unless all tokens are flattened into one dimension.",
    ],
)

IGNORED = -100


def run_tokens(lab, device0, device1, x, y, size, features, classes, steps):
    import contextlib

    import numpy as np
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
            self.part0 = nn.Sequential(nn.Linear(features, 11), nn.Tanh()).to(device0)
            self.part1 = nn.Linear(11, classes).to(device1)

        def forward(self, x):
            return self.part1(self.part0(x.to(self.device0)).to(self.device1))

    model = Split()
    fill(model, 4)
    parameters = list(model.parameters())
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)  # left over from earlier
    optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
    sizes, seen, losses = [], [], []
    targets = torch.from_numpy(y.copy())
    note = adding_to(sizes)
    model.part0[0].register_forward_hook(lambda module, inputs, output: note(len(inputs[0])))
    optimizer.register_step_post_hook(
        lambda *_: seen.append([None if p.grad is None else array(p.grad).copy() for p in parameters])
    )
    simulated = is_simulated(device0) and is_simulated(device1)
    with record(device0, device1) if simulated else contextlib.nullcontext() as timeline:
        for _ in range(steps):
            found = lab.train_step_tokens(model, optimizer, torch.from_numpy(x), targets, size)
            losses.append(found if type(found) is float else kind_of(found))
    return {
        "largest": max([event.flops for event in timeline.events]) if simulated else None,
        "sizes": sizes[: len(sizes) // steps],
        "updates": len(seen),
        "gradients": seen[0] if seen else [],
        "losses": losses,
        "parameters": [array(p) for p in parameters],
        "kept": np.array_equal(array(targets), y),
    }


def padded(samples, length, counted, classes, seed):
    """Inputs and targets; `counted` has how many tokens of each sample count, and its pattern is repeated."""
    x = numbers(samples, length, 5, seed=seed)
    y = torch.randint(classes, (samples, length), generator=torch.Generator().manual_seed(seed + 1))
    for sample in range(samples):
        y[sample, counted[sample % len(counted)] :] = IGNORED
    return x, y.numpy()


def expected_tokens(x, y, classes, steps):
    model = nn.Sequential(nn.Linear(x.shape[2], 11), nn.Tanh(), nn.Linear(11, classes))
    fill(model, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses, gradients = [], None
    for _ in range(steps):
        output = model(torch.from_numpy(x)).flatten(0, 1)
        loss = nn.functional.cross_entropy(output, torch.from_numpy(y).flatten(), ignore_index=IGNORED)
        optimizer.zero_grad()
        loss.backward()
        gradients = gradients or [p.grad.numpy().copy() for p in model.parameters()]
        optimizer.step()
        losses.append(loss.item())
    return losses, gradients, [p.detach().numpy() for p in model.parameters()]


def known_mistakes(x, y, size, classes) -> dict[str, list]:
    """The gradients of the first step of what students write, by how they weigh the micro-batches."""
    model = nn.Sequential(nn.Linear(x.shape[2], 11), nn.Tanh(), nn.Linear(11, classes))
    fill(model, 4)

    def gradients_of(piece, target):
        output = model(piece).flatten(0, 1)
        loss = nn.functional.cross_entropy(output, target.flatten(), reduction="sum", ignore_index=IGNORED)
        return [g.numpy() for g in torch.autograd.grad(loss, list(model.parameters()))]

    sums, counts, sizes = [], [], []
    for piece, target in zip(torch.from_numpy(x).split(size), torch.from_numpy(y).split(size), strict=True):
        sums.append(gradients_of(piece, target))
        counts.append(max(1, int((target != IGNORED).sum())))
        sizes.append(len(piece))
    weights = {
        "when each micro-batch is weighted by its number of samples. Use its share of the tokens that count.": [
            n / sum(sizes) / count for n, count in zip(sizes, counts, strict=True)
        ],
        "when all micro-batches have the same weight. Weight each by its share of the tokens that count.": [
            1 / len(sizes) / count for count in counts
        ],
        "when the mean losses are added up without weights. Weight each by its share of the tokens that count.": [
            1 / count for count in counts
        ],
        "when the sum of the token losses is not divided. Divide it by the number of tokens that count.": [1]
        * len(sizes),
        "when the sum is divided by the number of all tokens. Divide it by the number of tokens that count.": [
            1 / y.size
        ]
        * len(sizes),
    }
    positive = max(1, int((y > 0).sum()))
    weights["when tokens of class 0 are left out of the divisor. All targets except -100 count."] = [
        1 / positive
    ] * len(sizes)
    known = {
        when: [sum(w * g for w, g in zip(each, same_one, strict=True)) for same_one in zip(*sums, strict=True)]
        for when, each in weights.items()
    }
    as_class_0 = gradients_of(torch.from_numpy(x), torch.from_numpy(y).clamp(min=0))
    known["when padding counts as class 0. Leave the padding out with ignore_index."] = [g / y.size for g in as_class_0]
    return known


def what_came_out(found, mistakes) -> str:
    """The known mistake that gives these gradients, and what to do."""
    known = [
        when
        for when, wrong in mistakes.items()
        if all(mine is not None and same(mine, theirs) for mine, theirs in zip(found, wrong, strict=True))
    ]
    return f"You get these gradients {known[0]}" if known else ""


def compare_tokens(student, device0, device1, samples, size, counted, *, classes=4, length=6, seed=7):
    x, y = padded(samples, length, counted, classes, seed)
    with case(
        f"With {samples} samples of {length} tokens, size={size} and {int((y != IGNORED).sum())} tokens that count"
    ):
        run = student.run(run_tokens, device0, device1, x, y, size, 5, classes, 2)
        need(
            run["updates"] == 2,
            f"optimizer.step() was called {times(run['updates'])} for 2 batches. Call it once per batch.",
        )
        pieces = torch.from_numpy(y).split(size)
        counting = [len(piece) for piece in pieces if (piece != IGNORED).any()]
        if run["sizes"] != counting:  # the others may be left out
            need(
                not 0 < len(run["sizes"]) < len(counting) or max(run["sizes"]) > size,
                f"{len(counting)} micro-batches have tokens that count, but the model computed only "
                f"{len(run['sizes'])}. Leave out a micro-batch only if none of its tokens counts.",
            )
            compare_sizes(run["sizes"], samples, size)
        losses, gradients, parameters = expected_tokens(x, y, classes, 2)
        need(
            not any(np.isnan(g).any() for g in run["gradients"] if g is not None),
            "some gradients are NaN. The mean over zero tokens is 0 / 0, so use sums.",
        )
        mistakes = known_mistakes(x, y, size, classes)
        mistakes["when the old gradients (here all ones) are kept. Clear them before the first backward()."] = [
            right + 1 for right in gradients
        ]
        compare_gradients(run["gradients"], gradients, what_came_out(run["gradients"], mistakes))
        strange = [found for found in run["losses"] if not isinstance(found, float)]
        need(not strange, f"train_step_tokens returned {strange[0] if strange else ''}. Return a Python float.")
        why = " The mean over zero tokens is 0 / 0, so use sums." if np.isnan(run["losses"]).any() else ""
        why = why or ("" if run["kept"] else " Your function changed y, and the second call gets the same y.")
        need(
            np.allclose(run["losses"], losses, rtol=1e-4),
            f"the mean losses over the tokens that count are {losses[0]:.4f} and {losses[1]:.4f}, but "
            f"your function returned {run['losses'][0]:.4f} and {run['losses'][1]:.4f}.{why}",
        )
        right = all(same(mine, theirs) for mine, theirs in zip(run["parameters"], parameters, strict=True))
        need(right, "after two steps, the parameters differ from those after training on the whole batch.")
        at_once = (run["largest"] or 0) / (2 * length * max(5 * 11, 11 * classes))
        need(at_once <= size, f"a device processed {at_once:g} samples at once, but a micro-batch has at most {size}.")


@ex4.fact("train_step_tokens makes one update with the mean loss over all tokens that count and returns this loss")
def _(student):
    compare_tokens(student, *student.devices, 14, 4, (6, 1, 3, 2, 5))


@ex4.fact("train_step_tokens also works if no token of a micro-batch, or of its first sample, counts")
def _(student):
    compare_tokens(student, *student.devices, 8, 2, (4, 5, 0, 0))
    compare_tokens(student, *student.devices, 8, 2, (0, 5, 4, 3))


# --- ex5: recompute activations -------------------------------------------------------------------------------------

ENOUGH = 0.8  # of the ordinary pipeline's memory: checkpoint of each stage needs about half, checkpoint_sequential 0.73
LEAST_AGAIN, MOST_AGAIN = 1.1, 1.45  # times the operations of an ordinary step: 1.17 where the last third is kept
AS_BEFORE = 0.7  # of the overlap without recomputing: model answer 1.0, a checkpoint around the whole model 0.5
PAR = 29  # percent: what the model answer takes, measured by the scored function below

ex5 = lab.exercise(
    "ex5",
    points=3,
    title="Recompute activations",
    hints=[
        "checkpoint(function, input, use_reentrant=False) computes function(input) and saves only the input.",
        "Both stages have activations, each on its own device. Which lines of your loop compute these activations?",
        "The samples need no gradient, but the weights do. With use_reentrant=True, the weights of the first stage get "
        "none.",
        "For each micro-batch, only the inputs of both stages should be saved. How many checkpoints does a micro-batch "
        "need, and where does the copy between the devices belong?",
    ],
)


def run_recomputed(lab, device0, device1, x, size, layers):
    import contextlib

    import torch
    from torch import nn

    from utils.exercises.facts.probes import array, kind_of
    from utils.exercises.ledger import adding_to
    from utils.observe.devices import is_simulated
    from utils.observe.trace import record

    class Split(nn.Module):
        def __init__(self):
            super().__init__()
            self.device0, self.device1 = torch.device(device0), torch.device(device1)
            stack = [layer for _ in range(layers) for layer in (nn.Linear(32, 32), nn.Tanh())]
            self.part0 = nn.Sequential(nn.Linear(4, 32), *stack[:layers]).to(device0)
            self.part1 = nn.Sequential(*stack[layers:], nn.Linear(32, 3)).to(device1)

        def forward(self, x):
            return self.part1(self.part0(x.to(self.device0)).to(self.device1))

    torch.manual_seed(8)
    model = Split()
    called = [], []  # how many samples each call of a stage was given
    for first, given in ((model.part0[0], called[0]), (model.part1[0], called[1])):
        note = adding_to(given)
        first.register_forward_pre_hook(lambda module, inputs, note=note: note(len(inputs[0])))
    simulated = is_simulated(device0) and is_simulated(device1)
    gpu = torch.get_device_module(device0) if simulated else None
    x, before, peaks = torch.from_numpy(x), [], []
    for device in (device0, device1) if simulated else ():
        before.append(gpu.memory_allocated(device))
        gpu.reset_peak_memory_stats(device)
    with record(device0, device1) if simulated else contextlib.nullcontext() as timeline:
        output = lab.recomputed(model, x, size)
        before_backward = [len(samples) for samples in called]
        if not isinstance(output, torch.Tensor):
            return {"wrong": f"`recomputed` returned {kind_of(output)}. Return one tensor."}
        if not output.requires_grad:
            return {
                "wrong": "the output needs no gradient, so the model cannot be trained. Did you pass "
                "use_reentrant=True?"
            }
        output.square().mean().backward()
    for device in (device0, device1) if simulated else ():
        peaks.append(gpu.max_memory_allocated(device))
    return {
        "output": array(output),
        "device": str(output.device),
        "gradients": [None if p.grad is None else array(p.grad) for p in model.parameters()],
        "sizes": called[0],
        "again": [sum(samples[start:]) for samples, start in zip(called, before_backward, strict=True)],
        "took": [peak - start for peak, start in zip(peaks, before, strict=True)],
        "flops": sum([event.flops for event in timeline.events]) if simulated else None,
    }


def keeping(model, x, size):
    return torch.cat([model(piece) for piece in x.to(model.device0).split(size)])


# A notebook in which nothing is computed again.
ORDINARY = SimpleNamespace(recomputed=keeping)


@cache
def ordinary(device0, device1, samples, size, seed, layers) -> dict:
    """What an ordinary pipeline gives and takes."""
    return run_recomputed(ORDINARY, device0, device1, numbers(samples, 4, seed=seed), size, layers)


def recompute(student, device0, device1, samples, size, seed=3, layers=12):
    """A run of the student's, and what an ordinary pipeline gives and takes. `layers`: of both stages."""
    run = student.run(run_recomputed, device0, device1, numbers(samples, 4, seed=seed), size, layers)
    need("wrong" not in run, run.get("wrong", ""))
    need_devices(student)
    return run, ordinary(device0, device1, samples, size, seed, layers)


def compare_values(run, right, device1):
    need(run["device"] == device1, f"the output is on {run['device']}, but it should be on {device1}.")
    need(
        same(run["output"], right["output"]),
        "the output differs from that of the whole batch. Does it contain all micro-batches, in order?",
    )
    compare_gradients(run["gradients"], right["gradients"], "")


def need_one_more_pass(found, right):
    """Operations: of a forward and a backward pass, and of most of a forward pass once more."""
    if found is None:  # devices that are not simulated do not count operations
        return
    need(
        LEAST_AGAIN * right <= found <= MOST_AGAIN * right,
        f"the devices perform {found / right:.2f} times the operations of an ordinary step. One more forward pass of "
        "both stages should make this number about 1.33.",
    )


def compare_recomputed(student, device0, device1, samples, size, seed=3):
    with case(f"With {samples} samples and size={size}"):
        run, right = recompute(student, device0, device1, samples, size, seed, layers=6)
        need(run["sizes"], "stage 0 was never called.")
        need(
            max(run["sizes"]) <= size,
            f"stage 0 was given {max(run['sizes'])} samples at once, but a micro-batch has at most {size}.",
        )
        compare_values(run, right, device1)
        for part, again in zip(("part0", "part1"), run["again"], strict=True):
            need(
                again >= samples,
                f"backward() recomputed {part} for only {again} of the {samples} samples. Run {part} in a checkpoint "
                "for each micro-batch.",
            )
        need_one_more_pass(run["flops"], right["flops"])


@ex5.fact("output and gradients are the same as without recomputation, and backward() recomputes both stages")
def _(student):
    compare_recomputed(student, *student.devices, 24, 6)
    compare_recomputed(student, *student.devices, 10, 4)


def watch_dropout(lab, device0, device1, x, size):
    """Which numbers the dropout of each stage dropped in forward, and which in backward: a mask for each call."""
    import torch
    from torch import nn

    from utils.exercises.facts.probes import array

    class Split(nn.Module):
        def __init__(self):
            super().__init__()
            self.device0, self.device1 = torch.device(device0), torch.device(device1)
            self.part0 = nn.Sequential(nn.Linear(4, 16), nn.Dropout(), nn.Linear(16, 16), nn.Tanh()).to(device0)
            self.part1 = nn.Sequential(nn.Linear(16, 16), nn.Dropout(), nn.Linear(16, 3)).to(device1)

        def forward(self, x):
            return self.part1(self.part0(x.to(self.device0)).to(self.device1))

    torch.manual_seed(9)
    model = Split()
    dropped = [], []
    for part, masks in ((model.part0, dropped[0]), (model.part1, dropped[1])):
        part[1].register_forward_hook(lambda module, inputs, output, masks=masks: masks.append(array(output == 0)))
    output = lab.recomputed(model, torch.from_numpy(x), size)
    forward = [len(masks) for masks in dropped]
    trains = all([module.training for module in model.modules()])
    output.square().mean().backward()
    return {
        "forward": [masks[:count] for masks, count in zip(dropped, forward, strict=True)],
        "backward": [masks[count:] for masks, count in zip(dropped, forward, strict=True)],
        "trains": trains,
    }


def compare_dropout(student, device0, device1, samples, size):
    run = student.run(watch_dropout, device0, device1, numbers(samples, 4), size)
    for part, first, again in zip(("part0", "part1"), run["forward"], run["backward"], strict=True):
        need(
            all(mask.any() for mask in first),
            f"Dropout in {part} dropped no activations in a forward pass. Leave the model in training mode.",
        )
        known = {mask.tobytes() for mask in first}
        need(
            {mask.tobytes() for mask in again} <= known,
            f"Dropout in {part} dropped different activations in the recomputation. With preserve_rng_state, "
            "checkpoint restores the random state of its inputs' devices only. Use a separate checkpoint for each "
            "stage, with inputs on that stage's device.",
        )
    need(
        run["trains"], "A module is in evaluation mode after the forward pass. Leave the whole model in training mode."
    )


@ex5.fact("dropout drops the same activations when a stage is recomputed")
def _(student):
    compare_dropout(student, *student.devices, 10, 4)


def need_less_memory(student, device0, device1, samples, size):
    with case(f"With {samples} samples and size={size}"):
        run, right = recompute(student, device0, device1, samples, size)
        for device, kept, mine in zip((device0, device1), right["took"], run["took"], strict=False):
            need(
                mine <= ENOUGH * kept,
                f"the peak memory of {device} is {mine} bytes, but it should be less than {ENOUGH:.0%} of the {kept} "
                "bytes without recomputation. Which list, hook or variable still keeps activations?",
            )
        compare_values(run, right, device1)
        need_one_more_pass(run["flops"], right["flops"])


def watch_recomputed(lab, device0, device1, micro_batches):
    """Of the shorter device's work what is done while the other works."""
    import torch
    from torch import nn

    from utils.exercises.facts.probes import array
    from utils.observe import intervals
    from utils.observe.devices import is_simulated
    from utils.observe.trace import record

    def slow():  # a sum of very many numbers for very few results is slow on a GPU and quick here
        return nn.Sequential(nn.Linear(8, 60_000), nn.Linear(60_000, 8), nn.Linear(8, 60_000), nn.Linear(60_000, 8))

    class Split(nn.Module):
        def __init__(self):
            super().__init__()
            self.device0, self.device1 = torch.device(device0), torch.device(device1)
            self.part0, self.part1 = slow().to(device0), slow().to(device1)

        def forward(self, x):
            return self.part1(self.part0(x.to(self.device0)).to(self.device1))

    if not (is_simulated(device0) and is_simulated(device1)):
        return {"watched": False}
    torch.manual_seed(3)
    model, x = Split(), torch.randn(16 * micro_batches, 8)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)  # as in all steps but the first
    with record(device0, device1) as timeline:
        output = lab.recomputed(model, x, 16)
        output.square().mean().backward()
    there = sorted([[e.launched, e.device] for e in timeline.events if e.flops and e.phase == "forward"])
    first, last = (there[0][0], there[-1][0]) if there else (0.0, 0.0)  # what comes before or behind is not in the loop
    both = intervals.length(intervals.common(timeline.busy_times(device0), timeline.busy_times(device1)))
    least = min(timeline.busy(device0), timeline.busy(device1))
    return {
        "watched": True,
        "share": both / least if least else 0.0,
        "order": "".join(["0" if device == device0 else "1" for _, device in there]),
        "launched": sorted([event.launched for event in timeline.events if first <= event.launched <= last]),
        "output": array(output),
        "flops": sum([event.flops for event in timeline.events]),
    }


@cache
def ordinary_pipeline(device0, device1, micro_batches) -> dict:
    return watch_recomputed(ORDINARY, device0, device1, micro_batches)


def need_pipeline(student, device0, device1, micro_batches):
    run = student.run(watch_recomputed, device0, device1, micro_batches)
    if run["watched"]:
        need_devices(student)
        right = ordinary_pipeline(device0, device1, micro_batches)
        why = lesson.why_serial(run) or (
            "Does a checkpoint contain a copy, or does the loop copy a tensor back to device0? Use a separate "
            "checkpoint for each stage, copy between the checkpoints, and leave the outputs on device1."
        )
        need(
            run["share"] > AS_BEFORE * right["share"],
            f"With {micro_batches} micro-batches: on the simulated clock, both devices worked at the same time for "
            f"{run['share']:.0%} of the less busy device's working time. Without recomputation, this share is "
            f"{right['share']:.0%}. {why}",
        )
        need(same(run["output"], right["output"]), "The output differs from that of the whole batch.")
        need(
            run["flops"] <= MOST_AGAIN * right["flops"],
            f"The devices perform {run['flops'] / right['flops']:.2f} times the operations of an ordinary step. One "
            "more forward pass of both stages should make this number about 1.33.",
        )


@ex5.fact("the devices still work at the same time, forward and backward (checked on simulated devices)")
def _(student):
    need_pipeline(student, *student.devices, 5)


@ex5.fact(
    f"both devices need less than {ENOUGH:.0%} of the ordinary pipeline's peak memory (checked on simulated devices)"
)
def _(student):
    need_less_memory(student, *student.devices, 4096, 512)


@ex5.scored(
    par=PAR, unit="% of the ordinary pipeline's peak memory, on the device with the larger share; lower is better"
)
def _(student):
    run, right = recompute(student, *student.devices, 4096, 512)
    shares = [mine / kept for mine, kept in zip(run["took"], right["took"], strict=True) if kept]
    return 100 * max(shares, default=math.nan)
