"""Lab 09's visible facts: what `check("ex1")` tells the learner, and the first part of the grade.

A probe runs beside the student's code and tells plain data; the fact judges it here.
"""

import math
from functools import partial
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
compare_sizes = partial(lesson.compare_sizes, first="the first part", unit="rows")
compare_gradients = lesson.compare_gradients


MOST_WORK = 1.05  # times what is needed: a device that is busy with something else proves nothing
EVENT_FLOPS = Event._fields.index("flops")


# --- ex1: the next micro-batch is on its way ------------------------------------------------------------------------

ex1 = lab.exercise(
    "ex1",
    points=2,
    title="The next micro-batch is on its way",
    hints=[
        "A function with yield gives one value at a time, and goes on from there when the next one is asked for. What "
        "should have been launched before each yield?",
        "wait_stream(copying) waits for all that copying has been given until then. When the second copy has been "
        "launched before the first rows are given, what do these rows wait for? An event marks one place in a stream.",
        "Which stream is current while your loop stands at the yield? The caller computes on that one.",
        "Who reads the rows, and when may they be read? Let that stream wait, not the host.",
    ],
)


def run_prefetched(lab, device, x, size):
    import warnings

    import torch

    import simgpu
    from simgpu.streams import Stream
    from utils.exercises.facts.probes import array, kind_of
    from utils.observe.devices import is_simulated

    make = Stream if is_simulated(device) else torch.cuda.Stream
    copying = make(torch.device(device))
    pinned = torch.Tensor.pin_memory(torch.from_numpy(x))
    pieces, wrong = [], ""
    with warnings.catch_warnings(), simgpu.unfinished_reads() as races:
        warnings.simplefilter("ignore")
        for rows in lab.prefetched(pinned, size, torch.device(device), copying):
            if not isinstance(rows, torch.Tensor):
                wrong = kind_of(rows)
                break
            if str(rows.device) != device:
                wrong = f"a tensor on {rows.device}"
                break
            pieces.append(rows * 1.0)  # reads them at once
    return {
        "wrong": wrong,
        "pieces": [array(piece) for piece in pieces],
        "races": len(races),
    }


def compare_prefetched(student, device, rows, size, width=6):
    with case(f"With {rows} rows{f' of {width} numbers' if width > 6 else ''}, size={size} on {device}"):
        x = numbers(rows, width, seed=rows)
        run = student.run(run_prefetched, device, x, size)
        need(not run["wrong"], f"prefetched gave {run['wrong']}. Give the rows, on {device}.")
        need(run["pieces"], "prefetched gave nothing. It has to yield the micro-batches, one after the other.")
        found, wanted = [len(p) for p in run["pieces"]], [min(size, rows - start) for start in range(0, rows, size)]
        need(found == wanted, f"it gave {', '.join(map(str, found))} rows, and not {', '.join(map(str, wanted))}.")
        need(same(np.concatenate(run["pieces"]), x), "the rows are not those of x, in their order.")
        need(
            not run["races"],
            f"the stream that computes read {times(run['races'])} rows that were still on their way. It has to wait "
            "for their copy.",
        )


@ex1.fact("it gives the rows of x, on the device, in their order, and none before they are there")
def _(student):
    compare_prefetched(student, student.devices[0], 12, 4)
    compare_prefetched(student, student.devices[1], 10, 4)


@ex1.fact("no row is read before it is there, also where a copy takes longer than the computing before it")
def _(student):
    compare_prefetched(student, student.devices[0], 6, 2, width=200_000)


def watch_prefetched(lab, device, micro_batches, waits):
    """What happens while somebody computes on each micro-batch, and, if they wait, asks for the result at once."""
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
    part = nn.Linear(60_000, 8).to(device)
    pinned = torch.Tensor.pin_memory(torch.zeros(16 * micro_batches, 60_000))
    pinned[:, 0] = torch.arange(16 * micro_batches)
    copying, results = Stream(torch.device(device)), []
    with torch.no_grad(), record(device) as timeline:
        for rows in lab.prefetched(pinned, 16, torch.device(device), copying):
            results.append(part(rows))
            if waits:
                array(results[-1])
    return {
        "watched": "virtual clock" in timeline.source,
        "timeline": asdict(timeline),
        "results": [array(result) for result in results],
    }


def need_results(run, micro_batches):
    """What is computed in a run that is watched is what the rows give, and nothing else."""
    torch.manual_seed(2)
    part, rows = nn.Linear(60_000, 8), torch.zeros(16 * micro_batches, 60_000)
    rows[:, 0] = torch.arange(16 * micro_batches)
    with torch.no_grad():
        right = part(rows).numpy()
    found = run["results"] or [np.zeros((0, 8), np.float32)]
    need(same(np.concatenate(found), right), "the rows are not those of x, in their order.")
    flops, needed = sum(event[EVENT_FLOPS] for event in run["timeline"]["events"]), 2 * rows.numel() * 8
    need(
        flops <= MOST_WORK * needed,
        f"the device does {flops / needed:.2f} times the work of the loop. It is to compute on the rows only.",
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


def need_hidden(student, device, micro_batches):
    """Copies have to be on their way while the device computes."""
    with case(f"With {micro_batches} micro-batches on {device}"):
        line, hidden = recording_of(student, device, micro_batches, False)
        if line is None:
            return
        computing = {event.stream for event in line.events if event.is_kernel}
        need(
            all(event.stream not in computing for event in line.events if event.kind == "h2d"),
            "rows are copied on the stream that computes. Which stream is current at each moment, also at the yield?",
        )
        need(
            hidden > 0.5,
            f"the device computed during {hidden:.0%} of the time of the copies. Some stream waits for more than the "
            "rows that come next.",
        )
        need(
            not lesson.host_waited(sorted(event.launched for event in line.events)),
            "the copies are on their way in time, but Python waits for a device in the loop. Let streams wait.",
        )


def need_ahead(student, device, micro_batches):
    """The next copy has to be launched before these rows are given: later may be too late."""
    with case(f"With {micro_batches} micro-batches on {device}, where the loop waits for each result"):
        line, hidden = recording_of(student, device, micro_batches, True)
        if line is None:
            return
        first = min((event.launched for event in line.events if event.is_kernel), default=math.inf)
        early = sum(event.launched < first for event in line.events if event.kind == "h2d") > 1
        why = (
            "The next copy is launched in time, but the rows before it wait for it, too. What had the stream for "
            "copies been given when you called wait_stream?"
            if early
            else "When your function goes on after a yield, the result is there already, and the device has nothing to "
            "do. What has to be launched earlier?"
        )
        need(hidden > 0.5, f"the device computed during {hidden:.0%} of the time of the copies. {why}")


@ex1.fact("in a loop that waits for nothing, the device computes while copies are on their way (if it is simulated)")
def _(student):
    need_hidden(student, student.devices[0], 6)


@ex1.fact("so it does where the loop waits for each result, as .item() does: the next rows are on their way")
def _(student):
    need_ahead(student, student.devices[0], 6)


# --- ex2: how many micro-batches ------------------------------------------------------------------------------------

ex2 = lab.exercise(
    "ex2",
    points=2,
    title="How many micro-batches?",
    hints=[
        "For one m: how many rows has the largest micro-batch? The bubble makes how many turns of it?",
        "There are at most `rows` micro-batches, so try all. Leave out those that do not fit, then take the fastest.",
        "min of an empty list raises. What should come back then?",
    ],
)


def ask_micro_batches(lab, rows, parts, row_seconds, launch_seconds, row_bytes, memory):
    from utils.exercises.facts.probes import kind_of

    found = lab.best_micro_batches(rows, parts, row_seconds, launch_seconds, row_bytes, memory)
    if found is None:
        return None
    if isinstance(found, bool) or not hasattr(found, "__index__"):
        return f"{found!r:.40}, {kind_of(found)}"
    return int(found)


def compare_micro_batches(student, rows, parts, row_seconds, launch_seconds, row_bytes, memory):
    def largest(m):
        return -(-rows // m)

    def seconds(m):
        return (m + parts - 1) * (launch_seconds + largest(m) * row_seconds)

    fitting = {m: seconds(m) for m in range(1, rows + 1) if largest(m) * row_bytes <= memory}
    words = f"rows={rows}, parts={parts}, row_seconds={row_seconds}, launch_seconds={launch_seconds}, "
    with case(f"For {words}row_bytes={row_bytes}, memory={memory}"):
        m = student.run(ask_micro_batches, rows, parts, row_seconds, launch_seconds, row_bytes, memory)
        if not fitting:
            need(m is None, f"not even one row fits, and best_micro_batches returned {m}.")
            return
        need(m is not None, "it returned None, and there are numbers of micro-batches that fit.")
        need(not isinstance(m, str), f"best_micro_batches returned {m}. Return a whole number.")
        need(1 <= m <= rows, f"best_micro_batches returned {m}. There are 1 to {rows} micro-batches.")
        need(
            m in fitting,
            f"with {m} micro-batches the largest has {largest(m)} rows, which need {largest(m) * row_bytes} bytes.",
        )
        best = min(fitting.values())
        need(
            math.isclose(fitting[m], best, rel_tol=1e-9),
            f"{m} micro-batches take {fitting[m]:.6g} s, and another number that fits takes {best:.6g} s.",
        )


@ex2.fact("with enough memory it is the number that takes the least time")
def _(student):
    compare_micro_batches(student, 32, 2, 0.001, 0.002, 10, 10_000)
    compare_micro_batches(student, 30, 3, 0.001, 0.004, 10, 10_000)


@ex2.fact("memory that is short rules out large micro-batches")
def _(student):
    compare_micro_batches(student, 30, 2, 0.001, 0.5, 100, 800)


@ex2.fact("where not even one row fits it is None")
def _(student):
    compare_micro_batches(student, 12, 2, 0.001, 0.01, 100, 90)


# --- ex3: no BatchNorm ----------------------------------------------------------------------------------------------

ex3 = lab.exercise(
    "ex3",
    points=2,
    title="A model that does not mind micro-batches",
    hints=[
        "A module knows its children by name. What has to be done to a child that has children itself?",
        "A layer is replaced by setting its parent's attribute of that name.",
        "A new layer is made on the CPU, with ones and zeros. What did the old one have, and where?",
        "GroupNorm wants a number of groups that divides the channels. Which numbers may you try?",
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
    if not alone:  # the two parts, of this model or of a copy
        stacks = [module for module in found.modules() if type(module) is nn.Sequential]
        if len(stacks) != 4:
            return {"wrong": "its parts are no nn.Sequential any more. Replace layers, and leave what they are in."}
        part0, part1 = stacks[1], stacks[3]

    def outputs(size):
        pieces = torch.from_numpy(x).split(size)
        if alone:
            return torch.cat([found(rows.to(device1)) for rows in pieces])
        return torch.cat([part1(part0(rows.to(device0)).to(device1)) for rows in pieces])

    return {
        "kinds": [type(module).__name__ for module in found.modules()],
        "named": [[name, str(p.device), array(p)] for name, p in found.named_parameters()],
        "outputs": [array(outputs(size)) for size in (len(x), 3, 1)],
        "trains": trains,
    }


def reference(channels, groups, x, alone):
    """The same model with GroupNorm, made here."""

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
        return whole(torch.from_numpy(x)).numpy(), [name for name, _ in whole.named_parameters()]


def compare_without(student, device0, device1, channels, groups, alone=False):
    x = numbers(6, 3, 7, 7, seed=sum(channels))
    what = "one BatchNorm2d(3)" if alone else f"a split model with {channels[0]} and {channels[1]} channels"
    with case(f"For {what}, groups={groups}"):
        run = student.run(run_without, device0, device1, list(channels), groups, x, alone)
        need("wrong" not in run, run.get("wrong", ""))
        left = run["kinds"].count("BatchNorm2d")
        need(not left, f"there is BatchNorm in it still: {times(left)}. Have you looked into the children's children?")
        expected, names = reference(channels, groups, x, alone)
        found = [name for name, _, _ in run["named"]]
        need(found == names, f"its parameters are {', '.join(found)}, and not {', '.join(names)}.")
        places = [device1 if alone or name.startswith("1.") else device0 for name in names]
        strayed = [n for (n, place, _), wanted in zip(run["named"], places, strict=True) if place != wanted]
        need(not strayed, f"{strayed[0] if strayed else ''} is not on the device where its layer was.")
        whole, *cut = run["outputs"]
        need(
            all(np.allclose(each, whole, atol=1e-4) for each in cut),
            "in train mode the outputs change when the batch is cut into micro-batches.",
        )
        need(
            np.allclose(whole, expected, rtol=1e-3, atol=1e-4),
            "it computes something else than the model with nn.GroupNorm of as many groups as are possible up to "
            f"{groups}, with the weights and biases of the old layers.",
        )


@ex3.fact("no BatchNorm is left, weights and devices are kept, and micro-batches change nothing")
def _(student):
    compare_without(student, *student.devices, (8, 12), 4)


@ex3.fact("channels that the number of groups does not divide")
def _(student):
    compare_without(student, *student.devices, (6, 9), 4)


@ex3.fact("the model that comes back is in train mode")
def _(student):
    x = numbers(6, 3, 7, 7, seed=20)
    run = student.run(run_without, *student.devices, [8, 12], 4, x, False)
    need(run["trains"], "a layer of it is in evaluation mode. The model came in train mode, and stays so.")


def replace_among_others(lab):
    from torch import nn

    from utils.exercises.facts.probes import kind_of

    images = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.InstanceNorm2d(6, affine=True), nn.Dropout2d(0.1))
    rows = nn.Sequential(nn.Linear(24, 8), nn.BatchNorm1d(8), nn.LayerNorm(8))
    model = nn.Sequential(images, nn.Flatten(), rows, nn.Unflatten(1, (2, 1, 2, 2)), nn.BatchNorm3d(2))
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
    need(len(seen["now"]) == len(wanted), f"a model of {len(wanted)} modules has {len(seen['now'])} now.")
    for before, now, right in zip(seen["before"], seen["now"], wanted, strict=True):
        need(now == right, f"where {before} was there is {now} now, and {right} is wanted.")


# --- ex4: words that count ------------------------------------------------------------------------------------------

ex4 = lab.exercise(
    "ex4",
    points=2,
    title="Words that count",
    hints=[
        "Which words does the whole batch's mean go over? Are they shared out evenly over the micro-batches?",
        "A mean over no word at all is 0 / 0. Which other reduction does the loss know?",
        "How many words count can be known before anything is computed, and without asking a device.",
        "cross_entropy wants the classes in the second place, or one long list of words.",
    ],
)

IGNORED = -100


def run_words(lab, device0, device1, x, y, size, features, classes, steps):
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
    note = adding_to(sizes)
    model.part0[0].register_forward_hook(lambda module, inputs, output: note(len(inputs[0])))
    optimizer.register_step_post_hook(
        lambda *_: seen.append([None if p.grad is None else array(p.grad).copy() for p in parameters])
    )
    simulated = is_simulated(device0) and is_simulated(device1)
    with record(device0, device1) if simulated else contextlib.nullcontext() as timeline:
        for _ in range(steps):
            found = lab.train_step_words(model, optimizer, torch.from_numpy(x), torch.from_numpy(y), size)
            losses.append(found if type(found) is float else kind_of(found))
    return {
        "largest": max([event.flops for event in timeline.events]) if simulated else None,
        "sizes": sizes[: len(sizes) // steps],
        "updates": len(seen),
        "gradients": seen[0] if seen else [],
        "losses": losses,
        "parameters": [array(p) for p in parameters],
    }


def words(rows, length, counted, classes, seed):
    """Inputs and targets; `counted` has how many words of each row count, and its pattern is repeated."""
    x = numbers(rows, length, 5, seed=seed)
    y = torch.randint(classes, (rows, length), generator=torch.Generator().manual_seed(seed + 1))
    for row in range(rows):
        y[row, counted[row % len(counted)] :] = IGNORED
    return x, y.numpy()


def expected_words(x, y, classes, steps):
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
    sums, counts, rows = [], [], []
    for piece, target in zip(torch.from_numpy(x).split(size), torch.from_numpy(y).split(size), strict=True):
        output, target = model(piece).flatten(0, 1), target.flatten()
        loss = nn.functional.cross_entropy(output, target, reduction="sum", ignore_index=IGNORED)
        sums.append([g.numpy() for g in torch.autograd.grad(loss, list(model.parameters()))])
        counts.append(max(1, int((target != IGNORED).sum())))
        rows.append(len(piece))
    weights = {
        "when each micro-batch counts by its rows, and not by its words": [
            n / sum(rows) / count for n, count in zip(rows, counts, strict=True)
        ],
        "when every micro-batch counts alike, however few of its words count": [
            1 / len(rows) / count for count in counts
        ],
        "when the means of the micro-batches are added up, and not weighted": [1 / count for count in counts],
        "when the losses of the words are added up, and not divided by the number of those that count": [1] * len(rows),
        "when the sum is divided by the number of all words, those too that do not count": [1 / y.size] * len(rows),
    }
    return {
        words: [sum(w * g for w, g in zip(each, same_one, strict=True)) for same_one in zip(*sums, strict=True)]
        for words, each in weights.items()
    }


def what_came_out(found, mistakes) -> str:
    """The known mistake that gives these gradients, in a sentence."""
    known = [
        words
        for words, wrong in mistakes.items()
        if all(mine is not None and same(mine, theirs) for mine, theirs in zip(found, wrong, strict=True))
    ]
    return f"They are what comes out {known[0]}." if known else ""


def compare_words(student, device0, device1, rows, size, counted, *, classes=4, length=6, seed=7):
    x, y = words(rows, length, counted, classes, seed)
    with case(f"With {rows} rows of {length} words, size={size}, and {int((y != IGNORED).sum())} words that count"):
        run = student.run(run_words, device0, device1, x, y, size, 5, classes, 2)
        need(run["updates"] == 2, f"for 2 batches optimizer.step() was called {times(run['updates'])}.")
        pieces = torch.from_numpy(y).split(size)
        if run["sizes"] != [len(piece) for piece in pieces if (piece != IGNORED).any()]:  # the others may be left out
            compare_sizes(run["sizes"], rows, size)
        losses, gradients, parameters = expected_words(x, y, classes, 2)
        need(
            not any(np.isnan(g).any() for g in run["gradients"] if g is not None),
            "the gradients are not a number (nan). Is there a micro-batch in which no word counts?",
        )
        mistakes = known_mistakes(x, y, size, classes)
        mistakes["when old gradients, here of ones, are added to the new ones"] = [right + 1 for right in gradients]
        compare_gradients(run["gradients"], gradients, what_came_out(run["gradients"], mistakes))
        strange = [found for found in run["losses"] if not isinstance(found, float)]
        need(not strange, f"train_step_words returned {strange[0] if strange else ''}. Return a Python float.")
        need(
            np.allclose(run["losses"], losses, rtol=1e-4),
            f"the mean losses over the words that count are {losses[0]:.4f} and {losses[1]:.4f}, and it returned "
            f"{run['losses'][0]:.4f} and {run['losses'][1]:.4f}.",
        )
        right = all(same(mine, theirs) for mine, theirs in zip(run["parameters"], parameters, strict=True))
        need(right, "after two steps the parameters differ from those that the whole batch gives.")
        at_once = (run["largest"] or 0) / (2 * length * max(5 * 11, 11 * classes))
        need(at_once <= size, f"a device computed with {at_once:g} rows at once, and a micro-batch has {size} at most.")


@ex4.fact("one update, with the gradients and the loss of the mean over all words that count")
def _(student):
    compare_words(student, *student.devices, 14, 4, (6, 1, 3, 2, 5))


@ex4.fact("a micro-batch in which no word counts is no trouble, nor is one whose first row has none")
def _(student):
    compare_words(student, *student.devices, 8, 2, (4, 5, 0, 0))
    compare_words(student, *student.devices, 8, 2, (0, 5, 4, 3))


# --- ex5: less memory -----------------------------------------------------------------------------------------------

ENOUGH = 0.8  # of the ordinary pipeline's memory: checkpoint of each part needs about half, checkpoint_sequential 0.73
LEAST_AGAIN, MOST_AGAIN = 1.1, 1.45  # times the operations of an ordinary step: 1.17 where the last third is kept
AS_BEFORE = 0.7  # of the overlap without recomputing: model answer 1.0, a checkpoint around the whole model 0.5
PAR = 29  # percent: what the model answer takes, measured by the scored function below

ex5 = lab.exercise(
    "ex5",
    points=2,
    title="Compute again, instead of keeping",
    hints=[
        "checkpoint(function, input, use_reentrant=False) computes function(input), and keeps the input.",
        "Both parts have activations, each on its own device. Which lines of your loop make them?",
        "A row of the batch needs no gradient, but the weights that it meets do. With use_reentrant=True the first "
        "part gets none.",
        "What is kept of each micro-batch should be what goes into a part, and little more.",
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
    called = [], []  # how many rows each call of a part was given
    for first, rows_of in ((model.part0[0], called[0]), (model.part1[0], called[1])):
        note = adding_to(rows_of)
        first.register_forward_pre_hook(lambda module, inputs, note=note: note(len(inputs[0])))
    simulated = watch and is_simulated(device0) and is_simulated(device1)
    gpu = torch.get_device_module(device0) if simulated else None
    x, before, peaks = torch.from_numpy(x), [], []
    for device in (device0, device1) if simulated else ():
        before.append(gpu.memory_allocated(device))
        gpu.reset_peak_memory_stats(device)
    with record(device0, device1) if simulated else contextlib.nullcontext() as timeline:
        output = lab.recomputed(model, x, size)
        before_backward = [len(rows) for rows in called]
        if not isinstance(output, torch.Tensor):
            return {"wrong": f"recomputed returned {kind_of(output)}. Return one tensor."}
        output.square().mean().backward()
    for device in (device0, device1) if simulated else ():
        peaks.append(gpu.max_memory_allocated(device))
    return {
        "output": array(output),
        "device": str(output.device),
        "gradients": [None if p.grad is None else array(p.grad) for p in model.parameters()],
        "sizes": called[0],
        "again": [sum(rows[start:]) for rows, start in zip(called, before_backward, strict=True)],
        "took": [peak - start for peak, start in zip(peaks, before, strict=True)],
        "flops": sum([event.flops for event in timeline.events]) if simulated else None,
    }


def keeping(model, x, size):
    return torch.cat([model(piece) for piece in x.to(model.device0).split(size)])


# A notebook in which nothing is computed again.
ORDINARY = SimpleNamespace(recomputed=keeping)


def recompute(student, device0, device1, rows, size, seed=3):
    """A run of the student's, and what an ordinary pipeline gives and takes."""
    asked = device0, device1, numbers(rows, 4, seed=seed), size, True
    run = student.run(run_recomputed, *asked)
    need("wrong" not in run, run.get("wrong", ""))
    need_devices(student)
    return run, run_recomputed(ORDINARY, *asked)


def compare_values(run, right, device1):
    need(run["device"] == device1, f"the output is on {run['device']}, not on {device1}.")
    need(
        same(run["output"], right["output"]),
        "the output differs from that of the whole batch. Is every micro-batch there, in its place?",
    )
    compare_gradients(run["gradients"], right["gradients"], "")


def need_one_more_pass(found, right):
    """Operations: of a forward and a backward pass, and of most of a forward pass once more."""
    if found is None:  # devices that are not simulated do not count operations
        return
    need(
        LEAST_AGAIN * right <= found <= MOST_AGAIN * right,
        f"the devices do {found / right:.2f} times the operations of an ordinary step. To compute once more all that "
        "lies in the parts makes it 1.33 times.",
    )


def compare_recomputed(student, device0, device1, rows, size, seed=3):
    with case(f"With {rows} rows and size={size}"):
        run, right = recompute(student, device0, device1, rows, size, seed)
        need(run["sizes"], "the first part was never called.")
        need(
            max(run["sizes"]) <= size,
            f"the first part was given {max(run['sizes'])} rows at once, and a micro-batch has {size} at most.",
        )
        compare_values(run, right, device1)
        for part, again in zip(("part0", "part1"), run["again"], strict=True):
            need(
                again >= rows,
                f"in backward() {part} was given {again} of the {rows} rows again. Its activations are to be computed "
                "again there, and kept nowhere.",
            )
        need_one_more_pass(run["flops"], right["flops"])


@ex5.fact("the output and every gradient are as without recomputing, and both parts compute again in backward")
def _(student):
    compare_recomputed(student, *student.devices, 24, 6)
    compare_recomputed(student, *student.devices, 10, 4)


def watch_dropout(lab, device0, device1, x, size):
    """Which numbers the dropout of each part dropped in forward, and which in backward: a mask for each call."""
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


def compare_dropout(student, device0, device1, rows, size):
    run = student.run(watch_dropout, device0, device1, numbers(rows, 4), size)
    for part, first, again in zip(("part0", "part1"), run["forward"], run["backward"], strict=True):
        need(
            all(mask.any() for mask in first),
            f"the dropout of {part} drops nothing in the forward pass. Leave the model in train mode.",
        )
        known = {mask.tobytes() for mask in first}
        need(
            {mask.tobytes() for mask in again} <= known,
            f"With dropout in it, {part} dropped other numbers when it was computed again than in the forward pass. So "
            "the gradients are not those of the output. (checkpoint keeps what random numbers come next on the devices "
            "of the tensors that it is given, and on no other device.)",
        )
    need(run["trains"], "afterwards the model is in evaluation mode. Leave it in train mode.")


@ex5.fact("dropout drops the same numbers when a part is computed again")
def _(student):
    compare_dropout(student, *student.devices, 10, 4)


def need_less_memory(student, device0, device1, rows, size):
    with case(f"With {rows} rows and size={size}"):
        run, right = recompute(student, device0, device1, rows, size)
        for device, kept, mine in zip((device0, device1), right["took"], run["took"], strict=False):
            need(
                mine <= ENOUGH * kept,
                f"at its fullest moment {device} held {mine} bytes more than before, and {kept} without recomputing. "
                f"It should be less than {ENOUGH:.0%} of that. What is still kept there?",
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
            "Is there a copy inside a checkpoint? That is computed again as one piece, one device after the other: "
            "give each part a checkpoint of its own, and copy between them."
        )
        need(
            run["share"] > AS_BEFORE * right["share"],
            f"With {micro_batches} micro-batches: on the simulated clock both devices worked at once for "
            f"{run['share']:.0%} of the time that they work, and without recomputing for {right['share']:.0%}. {why}",
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
