"""Lab 09's visible facts: what `check("ex1")` tells the learner, and the first part of the grade.

A probe runs beside the student's code and tells plain data; the fact judges it here.
"""

import math
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
        "A generator stops at each yield until the caller asks for the next value. Which copy must be launched "
        "before it stops?",
        "The computing stream reads the samples, so it must wait for their copy. Python and `copying` wait for "
        "nothing.",
        "The caller computes on the stream that is current at your yield. Which one is that inside a `with` block?",
        "wait_stream(copying) waits for everything launched on `copying` so far, including the next copy if it is "
        "already launched. Call it earlier, or wait for an event, which marks one place in a stream.",
    ],
    likely={
        "IndexError": "With a single micro-batch there is no next one to prefetch.",
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
    where = ", in a loop that does not compute on the default stream" if own_stream else ""
    with case(f"With {samples} samples{many}, size={size} on {device}{where}"):
        x = numbers(samples, width, seed=samples)
        run = student.run(run_prefetched, device, x, size, own_stream)
        need(not run["wrong"], f"prefetched yielded {run['wrong']}. Yield the samples, on {device}.")
        need(run["pieces"], "prefetched yielded nothing. Yield the micro-batches one by one.")
        found = [len(piece) for piece in run["pieces"]]
        wanted = [min(size, samples - start) for start in range(0, samples, size)]
        last = " Yield the last one, too." if found == wanted[:-1] else ""
        told = f"it yielded {', '.join(map(str, found))} samples, not {', '.join(map(str, wanted))}.{last}"
        need(found == wanted, told)
        need(same(np.concatenate(run["pieces"]), x), "the samples are not those of x, in order.")
        need(
            not run["races"],
            f"the computing stream read a micro-batch {times(run['races'])} before its copy had finished. Let the "
            "computing stream wait for the copy, before you yield."
            + (" It is the stream that is current when your function begins." if own_stream else ""),
        )


@ex1.fact("it yields the samples of x, on the device, in order, and none before its copy has finished")
def _(student):
    compare_prefetched(student, student.devices[0], 12, 4)
    compare_prefetched(student, student.devices[1], 10, 4)


@ex1.fact("no sample is read early, also where a copy takes longer than the kernels before it")
def _(student):
    compare_prefetched(student, student.devices[0], 6, 2, width=200_000)


@ex1.fact("no sample is read early, also where the caller computes on its own stream")
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
    need(same(np.concatenate(found), right), "the samples are not those of x, in order.")
    flops, needed = sum(event[EVENT_FLOPS] for event in run["timeline"]["events"]), 2 * samples.numel() * 8
    need(
        flops <= MOST_WORK * needed,
        f"the device does {flops / needed:.2f} times the operations of the loop. Launch copies only.",
    )


def recording_of(student, device, micro_batches, waits):
    """The timeline of `watch_prefetched`, and the share of the copies' time in which the device computed."""
    run = student.run(watch_prefetched, device, micro_batches, waits)
    if not run["watched"]:
        return None, 1.0
    events = [Event(*event) for event in run["timeline"]["events"]]
    line = Timeline((device,), tuple(events), run["timeline"]["begin"], run["timeline"]["end"])
    on_their_way = intervals.union((event.start, event.end) for event in events if event.kind == "h2d")
    need(on_their_way, "nothing was copied from the CPU.")
    hidden = intervals.length(intervals.common(on_their_way, line.busy_times(device)))
    need_results(run, micro_batches)
    return line, hidden / intervals.length(on_their_way)


def why_apart(line) -> str:
    """Why copies and kernels did not overlap, by the order of their launches."""
    copies = [event.launched for event in line.events if event.kind == "h2d"]
    first = min((event.launched for event in line.events if event.is_kernel), default=math.inf)
    if len(copies) == 1:
        return "There is only one copy: copy each micro-batch separately."
    if max(copies) < first:
        return "The first kernel waited for all copies. Let it wait for its own micro-batch's copy only."
    return "Does `copying` wait for the computing stream? Only the computing stream must wait."


def need_hidden(student, device, micro_batches):
    """Copies have to run while the device computes."""
    with case(f"With {micro_batches} micro-batches on {device}"):
        line, hidden = recording_of(student, device, micro_batches, False)
        if line is None:
            return
        computing = {event.stream for event in line.events if event.is_kernel}
        need(
            all(event.stream not in computing for event in line.events if event.kind == "h2d"),
            "samples are copied on the computing stream. Copy on `copying`, but yield when the computing stream is "
            "current: the caller computes on the stream of the yield.",
        )
        need(
            hidden > 0.5,
            f"the device computed during {hidden:.0%} of the time of the copies. {why_apart(line)}",
        )
        need(
            not lesson.host_waited(sorted(event.launched for event in line.events)),
            "the copies overlap, but Python waits for a device in the loop (synchronize, .item()). Let a stream wait.",
        )


def need_ahead(student, device, micro_batches):
    """The next copy has to be launched before these samples are yielded: later may be too late."""
    with case(f"With {micro_batches} micro-batches on {device}, where the loop waits for each result"):
        line, hidden = recording_of(student, device, micro_batches, True)
        if line is None:
            return
        first = min((event.launched for event in line.events if event.is_kernel), default=math.inf)
        early = sum(event.launched < first for event in line.events if event.kind == "h2d") > 1
        why = (
            "The next copy is launched in time, but the samples before it wait for it, too: wait_stream waits for "
            "everything launched on `copying` so far."
            if early
            else "When your function resumes after a yield, the device is already done. Launch the next copy before "
            "the yield."
        )
        need(hidden > 0.5, f"the device computed during {hidden:.0%} of the time of the copies. {why}")


@ex1.fact("in a loop that waits for nothing, copies overlap with kernels (watched where the device is simulated)")
def _(student):
    need_hidden(student, student.devices[0], 6)


@ex1.fact("in a loop that waits for each result, as .item() does, the next copy overlaps with kernels")
def _(student):
    need_ahead(student, student.devices[0], 6)


# --- ex2: how many micro-batches ------------------------------------------------------------------------------------

ex2 = lab.exercise(
    "ex2",
    points=2,
    title="How many micro-batches?",
    hints=[
        "For one m, how many samples does the largest micro-batch have, and how many turns does the step take?",
        "There are at most `samples` micro-batches. Try all, leave out those that do not fit, and take the fastest.",
        "min of an empty list raises an error. What do you return then?",
    ],
    likely={
        "empty sequence": "Where not even one sample fits, no m is left to choose from: return None.",
    },
)


def ask_micro_batches(lab, samples, stages, sample_seconds, launch_seconds, sample_bytes, memory):
    from utils.exercises.facts.probes import kind_of

    found = lab.best_micro_batches(samples, stages, sample_seconds, launch_seconds, sample_bytes, memory)
    if found is None:
        return None
    if isinstance(found, bool) or not hasattr(found, "__index__"):
        return f"{found!r:.40}, {kind_of(found)}"
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
            need(m is None, f"not even one sample fits, and best_micro_batches returned {m}. Return None.")
            return
        best = min(fitting.values())
        need(
            m is not None,
            f"it returned None, but micro-batches fit from m={min(fitting)} on. The best m takes {best:.6g} s.",
        )
        need(not isinstance(m, str), f"best_micro_batches returned {m}. Return an integer.")
        need(1 <= m <= samples, f"best_micro_batches returned {m}. There are 1 to {samples} micro-batches.")
        need(
            m in fitting,
            f"m={m} does not fit: the largest micro-batch has {largest(m)} samples, {largest(m) * sample_bytes} bytes.",
        )
        need(
            math.isclose(fitting[m], best, rel_tol=1e-9),
            f"m={m} takes {fitting[m]:.6g} s: {m + stages - 1} turns, and the largest micro-batch has {largest(m)} of "
            f"the {samples} samples. Another m that fits takes {best:.6g} s.",
        )


@ex2.fact("with enough memory, it returns the m that takes the least time")
def _(student):
    compare_micro_batches(student, 32, 2, 0.001, 0.002, 10, 10_000)
    compare_micro_batches(student, 30, 3, 0.001, 0.004, 10, 10_000)


@ex2.fact("little memory rules out large micro-batches, but a micro-batch may fill it")
def _(student):
    compare_micro_batches(student, 30, 2, 0.001, 0.5, 100, 800)


@ex2.fact("if not even one sample fits, it returns None")
def _(student):
    compare_micro_batches(student, 12, 2, 0.001, 0.01, 100, 90)


# --- ex3: replace BatchNorm -----------------------------------------------------------------------------------------

ex3 = lab.exercise(
    "ex3",
    points=2,
    title="Replace BatchNorm",
    hints=[
        "named_children() gives a module's own children. What must happen to a child that itself has children?",
        "Replace a layer by setting its parent's attribute of that name.",
        "A new layer is on the CPU and has ones and zeros. Which numbers did the old one have, and on which device?",
        "GroupNorm needs a number of groups that divides the channels. Which numbers up to `groups` do?",
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
            return {"wrong": "the model's nn.Sequentials are gone. Replace layers, but keep their parents."}
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
    what = "one BatchNorm2d(3)" if alone else f"a split model with {channels[0]} and {channels[1]} channels"
    with case(f"For {what}, groups={groups}"):
        run = student.run(run_without, device0, device1, list(channels), groups, x, alone)
        need("wrong" not in run, run.get("wrong", ""))
        left = run["kinds"].count("BatchNorm2d")
        where = "Return the layer that replaces it." if alone else "Replace each, including children of children."
        need(not left, f"{left} BatchNorm2d {'layers are' if left > 1 else 'is'} left. {where}")
        expected, values = reference(channels, groups, x, alone)
        names = list(values)
        found = [name for name, _, _ in run["named"]]
        lost = [name for name in names if name not in found]
        need(
            found == names,
            f"its parameters are {', '.join(found)}, not {', '.join(names)}."
            if not lost
            else f"{len(lost)} parameters are gone, such as {', '.join(lost[:2])}. Put a GroupNorm in their place.",
        )
        places = [device1 if alone or name.startswith("1.") else device0 for name in names]
        strayed = [n for (n, place, _), wanted in zip(run["named"], places, strict=True) if place != wanted]
        need(not strayed, f"{strayed[0] if strayed else ''} is not on the device where the old layer was.")
        whole, *cut = run["outputs"]
        need(
            all(np.allclose(each, whole, atol=1e-4) for each in cut),
            "in train mode the outputs change when the batch is cut into micro-batches.",
        )
        need(
            np.allclose(whole, expected, rtol=1e-3, atol=1e-4),
            "its output differs from that of the right model. "
            + (
                f"Give each GroupNorm as many groups as possible: the largest number up to {groups} that divides its "
                "channels."
                if all(
                    array.shape == values[name].shape and np.allclose(array, values[name])
                    for name, _, array in run["named"]
                )
                else "Give each GroupNorm the weight and the bias of the layer that it replaces."
            ),
        )


@ex3.fact("no BatchNorm is left, weights and devices are kept, and micro-batches change nothing")
def _(student):
    compare_without(student, *student.devices, (8, 12), 4)


@ex3.fact("channels that the number of groups does not divide")
def _(student):
    compare_without(student, *student.devices, (6, 9), 4)


@ex3.fact("the returned model is in train mode")
def _(student):
    x = numbers(6, 3, 7, 7, seed=20)
    run = student.run(run_without, *student.devices, [8, 12], 4, x, False)
    need(run["trains"], "a layer of it is in evaluation mode. The given model is in train mode: leave it so.")


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


@ex3.fact("only BatchNorm2d is replaced: all other layers stay as they are")
def _(student):
    seen = student.run(replace_among_others)
    need("wrong" not in seen, seen.get("wrong", ""))
    wanted = ["GroupNorm" if kind == "BatchNorm2d" else kind for kind in seen["before"]]
    need(len(seen["now"]) == len(wanted), f"a model of {len(wanted)} modules now has {len(seen['now'])}.")
    for before, now, right in zip(seen["before"], seen["now"], wanted, strict=True):
        need(now == right, f"{before} became {now}. It should be {right}: replace BatchNorm2d only.")


# --- ex4: tokens that count -----------------------------------------------------------------------------------------

ex4 = lab.exercise(
    "ex4",
    star=True,
    title="Tokens that count",
    hints=[
        "Which tokens does the whole batch's mean go over? Does each micro-batch have as many of them?",
        "The mean over no token is 0 / 0. Which other reduction does cross_entropy have?",
        "y is on the CPU, so you can count its tokens before any device computes.",
        "cross_entropy needs the classes in dimension 1, or all tokens in one dimension.",
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
        "when each micro-batch counts by its samples. Weight it by its tokens that count.": [
            n / sum(sizes) / count for n, count in zip(sizes, counts, strict=True)
        ],
        "when every micro-batch counts alike. Weight it by its tokens that count.": [
            1 / len(sizes) / count for count in counts
        ],
        "when the means of the micro-batches are added up. Weight each by its tokens that count.": [
            1 / count for count in counts
        ],
        "when the losses of the tokens are added up. Divide the sum by the number of tokens that count.": [1]
        * len(sizes),
        "when the sum is divided by the number of all tokens. Divide it by the number of those that count.": [
            1 / y.size
        ]
        * len(sizes),
    }
    positive = max(1, int((y > 0).sum()))
    weights["when class 0 is not counted. All targets but -100 count."] = [1 / positive] * len(sizes)
    known = {
        when: [sum(w * g for w, g in zip(each, same_one, strict=True)) for same_one in zip(*sums, strict=True)]
        for when, each in weights.items()
    }
    as_class_0 = gradients_of(torch.from_numpy(x), torch.from_numpy(y).clamp(min=0))
    known["when padding counts as class 0. Leave these tokens out: ignore_index."] = [g / y.size for g in as_class_0]
    return known


def what_came_out(found, mistakes) -> str:
    """The known mistake that gives these gradients, and what to do."""
    known = [
        when
        for when, wrong in mistakes.items()
        if all(mine is not None and same(mine, theirs) for mine, theirs in zip(found, wrong, strict=True))
    ]
    return f"You get that {known[0]}" if known else ""


def compare_tokens(student, device0, device1, samples, size, counted, *, classes=4, length=6, seed=7):
    x, y = padded(samples, length, counted, classes, seed)
    with case(
        f"With {samples} samples of {length} tokens, size={size}, and {int((y != IGNORED).sum())} tokens that count"
    ):
        run = student.run(run_tokens, device0, device1, x, y, size, 5, classes, 2)
        need(
            run["updates"] == 2,
            f"for 2 batches optimizer.step() was called {times(run['updates'])}. Call it once per batch.",
        )
        pieces = torch.from_numpy(y).split(size)
        counting = [len(piece) for piece in pieces if (piece != IGNORED).any()]
        if run["sizes"] != counting:  # the others may be left out
            need(
                not 0 < len(run["sizes"]) < len(counting) or max(run["sizes"]) > size,
                f"{len(run['sizes'])} micro-batches were computed, but only {len(counting)} have tokens that count. "
                "Leave one out only if none of its tokens counts.",
            )
            compare_sizes(run["sizes"], samples, size)
        losses, gradients, parameters = expected_tokens(x, y, classes, 2)
        need(
            not any(np.isnan(g).any() for g in run["gradients"] if g is not None),
            "the gradients are not a number (nan): the mean over no token is 0 / 0. Use sums.",
        )
        mistakes = known_mistakes(x, y, size, classes)
        mistakes["when old gradients (here all ones) stay. Clear them before the first backward()."] = [
            right + 1 for right in gradients
        ]
        compare_gradients(run["gradients"], gradients, what_came_out(run["gradients"], mistakes))
        strange = [found for found in run["losses"] if not isinstance(found, float)]
        need(not strange, f"train_step_tokens returned {strange[0] if strange else ''}. Return a Python float.")
        why = " The mean over no token is 0 / 0: use sums." if np.isnan(run["losses"]).any() else ""
        why = why or ("" if run["kept"] else " It has changed y, which the second call gets, too.")
        need(
            np.allclose(run["losses"], losses, rtol=1e-4),
            f"the mean losses over the tokens that count are {losses[0]:.4f} and {losses[1]:.4f}, but "
            f"your function returned {run['losses'][0]:.4f} and {run['losses'][1]:.4f}.{why}",
        )
        right = all(same(mine, theirs) for mine, theirs in zip(run["parameters"], parameters, strict=True))
        need(right, "after two steps the parameters differ from those that the whole batch gives.")
        at_once = (run["largest"] or 0) / (2 * length * max(5 * 11, 11 * classes))
        need(at_once <= size, f"a device computed {at_once:g} samples at once, but a micro-batch has at most {size}.")


@ex4.fact("one update, with the gradients and the loss of the mean over all tokens that count")
def _(student):
    compare_tokens(student, *student.devices, 14, 4, (6, 1, 3, 2, 5))


@ex4.fact("right also with a micro-batch in which no token counts, or none of its first sample")
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
        "Both stages have activations, each on its own device. Which lines of your loop compute them?",
        "The samples need no gradient, but the weights do. With use_reentrant=True the first stage gets none.",
        "For each micro-batch, only the inputs of both stages are saved. So how many checkpoints does it need, and "
        "where is the copy between the devices?",
    ],
)


def run_recomputed(lab, device0, device1, x, size, watch):
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
            stack = [[nn.Linear(32, 32), nn.Tanh()] for _ in range(12)]
            layers = [layer for pair in stack for layer in pair]
            self.part0 = nn.Sequential(nn.Linear(4, 32), *layers[:12]).to(device0)
            self.part1 = nn.Sequential(*layers[12:], nn.Linear(32, 3)).to(device1)

        def forward(self, x):
            return self.part1(self.part0(x.to(self.device0)).to(self.device1))

    torch.manual_seed(8)
    model = Split()
    called = [], []  # how many samples each call of a stage was given
    for first, given in ((model.part0[0], called[0]), (model.part1[0], called[1])):
        note = adding_to(given)
        first.register_forward_pre_hook(lambda module, inputs, note=note: note(len(inputs[0])))
    simulated = watch and is_simulated(device0) and is_simulated(device1)
    gpu = torch.get_device_module(device0) if simulated else None
    x, before, peaks = torch.from_numpy(x), [], []
    for device in (device0, device1) if simulated else ():
        before.append(gpu.memory_allocated(device))
        gpu.reset_peak_memory_stats(device)
    with record(device0, device1) if simulated else contextlib.nullcontext() as timeline:
        output = lab.recomputed(model, x, size)
        before_backward = [len(samples) for samples in called]
        if not isinstance(output, torch.Tensor):
            return {"wrong": f"recomputed returned {kind_of(output)}. Return one tensor."}
        if not output.requires_grad:
            return {"wrong": "the output needs no gradient, so nothing can be trained. Is it use_reentrant=True?"}
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


def recompute(student, device0, device1, samples, size, seed=3):
    """A run of the student's, and what an ordinary pipeline gives and takes."""
    asked = device0, device1, numbers(samples, 4, seed=seed), size, True
    run = student.run(run_recomputed, *asked)
    need("wrong" not in run, run.get("wrong", ""))
    need_devices(student)
    return run, run_recomputed(ORDINARY, *asked)


def compare_values(run, right, device1):
    need(run["device"] == device1, f"the output is on {run['device']}, not on {device1}.")
    need(
        same(run["output"], right["output"]),
        "the output differs from that of the whole batch. Is every micro-batch there, in order?",
    )
    compare_gradients(run["gradients"], right["gradients"], "")


def need_one_more_pass(found, right):
    """Operations: of a forward and a backward pass, and of most of a forward pass once more."""
    if found is None:  # devices that are not simulated do not count operations
        return
    need(
        LEAST_AGAIN * right <= found <= MOST_AGAIN * right,
        f"the devices do {found / right:.2f} times the operations of an ordinary step. One more forward pass of both "
        "stages makes it 1.33 times.",
    )


def compare_recomputed(student, device0, device1, samples, size, seed=3):
    with case(f"With {samples} samples and size={size}"):
        run, right = recompute(student, device0, device1, samples, size, seed)
        need(run["sizes"], "stage 0 was never called.")
        need(
            max(run["sizes"]) <= size,
            f"stage 0 was given {max(run['sizes'])} samples at once, but a micro-batch has at most {size}.",
        )
        compare_values(run, right, device1)
        for part, again in zip(("part0", "part1"), run["again"], strict=True):
            need(
                again >= samples,
                f"backward() recomputed {part} for {again} of the {samples} samples. Give {part} a checkpoint for each "
                "micro-batch.",
            )
        need_one_more_pass(run["flops"], right["flops"])


@ex5.fact("output and gradients are as without recomputation, and backward recomputes both stages")
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
            f"the dropout of {part} drops nothing in the forward pass. Leave the model in train mode.",
        )
        known = {mask.tobytes() for mask in first}
        need(
            {mask.tobytes() for mask in again} <= known,
            f"dropout in {part} dropped other numbers when it was recomputed. checkpoint restores the random numbers "
            "of its inputs' devices only (with preserve_rng_state): give each stage a checkpoint, with inputs on its "
            "own device.",
        )
    need(run["trains"], "afterwards the model is in evaluation mode. Leave it in train mode.")


@ex5.fact("dropout drops the same numbers when a stage is recomputed")
def _(student):
    compare_dropout(student, *student.devices, 10, 4)


def need_less_memory(student, device0, device1, samples, size):
    with case(f"With {samples} samples and size={size}"):
        run, right = recompute(student, device0, device1, samples, size)
        for device, kept, mine in zip((device0, device1), right["took"], run["took"], strict=False):
            need(
                mine <= ENOUGH * kept,
                f"the peak of {device} is {mine} bytes, against {kept} without recomputation. It must be less than "
                f"{ENOUGH:.0%} of that. Which list, hook or variable still keeps activations?",
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


def need_pipeline(student, device0, device1, micro_batches):
    run = student.run(watch_recomputed, device0, device1, micro_batches)
    if run["watched"]:
        need_devices(student)
        right = watch_recomputed(ORDINARY, device0, device1, micro_batches)
        why = lesson.why_serial(run) or (
            "Is there a copy inside a checkpoint, or back to device0 in the loop? Give each stage its own "
            "checkpoint, copy between them, and leave the outputs where they are."
        )
        need(
            run["share"] > AS_BEFORE * right["share"],
            f"With {micro_batches} micro-batches: on the simulated clock both devices worked at once for "
            f"{run['share']:.0%} of their working time; without recomputation it is {right['share']:.0%}. {why}",
        )
        need(same(run["output"], right["output"]), "the output differs from that of the whole batch.")
        need(
            run["flops"] <= MOST_AGAIN * right["flops"],
            f"the devices do {run['flops'] / right['flops']:.2f} times the operations of an ordinary step.",
        )


@ex5.fact("the devices still work at the same time, also in backward (watched where devices are simulated)")
def _(student):
    need_pipeline(student, *student.devices, 6)


@ex5.fact(f"both devices need less than {ENOUGH:.0%} of the ordinary pipeline's memory (where devices are simulated)")
def _(student):
    need_less_memory(student, *student.devices, 4096, 512)


@ex5.scored(par=PAR, unit="% of the ordinary pipeline's memory on the fuller device; less is better")
def _(student):
    run, right = recompute(student, *student.devices, 4096, 512)
    shares = [mine / kept for mine, kept in zip(run["took"], right["took"], strict=True) if kept]
    return 100 * max(shares, default=math.nan)
