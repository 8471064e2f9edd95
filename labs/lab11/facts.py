"""Lab 11's visible facts: what `check("ex1")` tells the learner, and the first part of the grade.

A probe runs beside the student's code and returns plain data; the fact judges it here. The notebook asks for four
devices. Where there are fewer real ones, some are in the list twice, and no link is looked at.
"""

import math
import operator
import random
from collections import Counter
from functools import cache
from itertools import chain, pairwise
from typing import Any

import numpy as np
import torch
from torch import nn

from utils.exercises.facts import Lab, StudentError, case, need, visible
from utils.exercises.facts.probes import build, fill
from utils.observe import intervals
from utils.observe.trace import Event, Timeline

lab = Lab("lab11", "Copies of a model")
lesson = visible("lesson08")
numbers, times = lesson.numbers, lesson.times
SIMULATED = [f"simgpu:{number}" for number in range(4)]  # those that the notebook asks for


def places(student, count: int, first: int = 0) -> list[str]:
    """So many of the student's devices, in their order, beginning with the one of number `first`."""
    own = SIMULATED if student.devices[0] in SIMULATED else student.devices
    return [own[(first + number) % len(own)] for number in range(count)]


# What rounding may change: a share of the number, and how much besides.
ROUNDING: dict[str, dict[str, Any]] = {
    "float32": {"rtol": 1e-4, "atol": 1e-5},
    "float64": {"rtol": 1e-10, "atol": 1e-12},
}


def same_numbers(mine, theirs):
    """For each number whether it is the right one, `theirs`, up to what its dtype rounds."""
    return np.isclose(mine, theirs, **ROUNDING[theirs.dtype.name])


def close(mine, theirs) -> bool:
    return mine is not None and mine.shape == theirs.shape and bool(same_numbers(mine, theirs).all())


def all_close(mine, theirs) -> bool:
    return all(close(one, other) for one, other in zip(mine, theirs, strict=True))


# --- ex1: all-reduce in a ring --------------------------------------------------------------------------------------

ex1 = lab.exercise(
    "ex1",
    points=2,
    title="All-reduce in a ring",
    hints=[
        "Draw three devices with three pieces each. After the first N - 1 turns, for which piece does each device have "
        "the full sum?",
        "In each turn, every device sends one piece to its neighbor. The index of the piece depends on the device and "
        "the turn.",
        "In the second N - 1 turns, the devices add nothing. Each device first sends the piece whose full sum it has.",
    ],
    likely={
        "IndexError": "chunk(n) may return fewer than n pieces. tensor_split(n) always returns n.",
    },
)


def run_ring(lab, where, pieces):
    import numpy as np
    import torch

    from utils.exercises.facts.probes import array, kind_of
    from utils.observe.devices import is_simulated
    from utils.observe.trace import record

    given = [torch.from_numpy(piece).to(place) for piece, place in zip(pieces, where, strict=True)]
    ways = None
    if all([is_simulated(place) for place in where]):
        with record(*where) as timeline:
            found = lab.ring_all_reduce(list(given))
        ways = [[source, to, count] for (source, to), count in timeline.moved().items() if source != to]
    else:
        found = lab.ring_all_reduce(list(given))
    if not isinstance(found, (list, tuple)) or not all([isinstance(each, torch.Tensor) for each in found]):
        return {
            "wrong": f"ring_all_reduce returned {kind_of(found)}. Return a list of new tensors, one for each device."
        }
    shown = [str(each.device) for each in found], [array(each).copy() for each in found]
    kept = [array(each).copy() for each in given]
    for each in found:
        each.add_(1)
    return {
        "wrong": "",
        "places": shown[0],
        "values": shown[1],
        "dtypes": [str(each.dtype) for each in found],
        "inputs": kept,
        "same memory": not all([np.array_equal(array(each), old) for each, old in zip(given, kept, strict=True)]),
        "ways": ways,
    }


def compare_ring(student, where, shape, seed=1, dtype="float32"):
    count = len(where)
    pieces = [numbers(math.prod(shape), seed=seed + number).reshape(shape).astype(dtype) for number in range(count)]
    total = np.sum(pieces, axis=0, dtype=dtype)
    with case(f"With {dtype} tensors of shape {tuple(shape)} on {', '.join(where)}"):
        run = student.run(run_ring, list(where), pieces)
        need(not run["wrong"], run["wrong"])
        need(
            len(run["values"]) == count,
            f"ring_all_reduce returned a list of length {len(run['values'])}. Its length must be {count}, one tensor "
            "for each device.",
        )
        need(
            all((mine == theirs).all() for mine, theirs in zip(run["inputs"], pieces, strict=True)),
            "the input tensors have changed. The pieces share memory with the inputs, so add with a + b, not in place.",
        )
        shapes = {each.shape for each in run["values"]}
        need(
            shapes == {tuple(shape)},
            f"the returned sums have shape {', '.join(map(str, sorted(shapes)))}. Each sum must have the inputs' "
            "shape.",
        )
        dtypes = set(run["dtypes"])
        need(
            dtypes == {f"torch.{dtype}"},
            f"the returned sums have dtype {', '.join(sorted(dtypes))}. Each sum must have the inputs' dtype.",
        )
        need(
            run["places"] == list(where),
            f"the returned sums are on {', '.join(run['places'])}, in this order. Return one sum on each device, in "
            "the order of the inputs.",
        )
        need_sums(run["values"], pieces, total)
        need(not run["same memory"], "a returned tensor shares memory with an input. Return new tensors.")
        if run["ways"] is not None and count > 1:
            need_ring(run["ways"], count, math.ceil(total.size / count) * total.itemsize)
            need_sent(run["ways"], count, total.nbytes)


def need_sums(found, pieces, total):
    if all(close(mine, total) for mine in found):
        return
    count = len(pieces)
    need(
        not all(close(mine, total / count) for mine in found),
        f"the result is the mean. Return the sum, which is {count} times as large.",
    )
    wrong = [rank for rank, mine in enumerate(found) if not close(mine, total)]
    right = [int(same_numbers(mine, total).sum()) for mine in found]
    shown = ", ".join(f"{each} of {total.size}" for each in right)
    if not any(right):
        why = (
            "In the second N - 1 turns, each device first sends the piece whose full sum it has, and the devices add "
            "nothing."
        )
    elif len({*right}) == 1 and total.size % count == 0:
        why = "Pass the finished sums around the ring in N - 1 more turns."
    else:
        why = "Do the pieces together cover all elements?"
    need(
        False,
        f"not every device has the full sum. Correct elements on each device: {shown}. The first wrong element has the "
        f"flat index {int(np.argmin(same_numbers(found[wrong[0]], total)))} on device {wrong[0]}. {why}",
    )


def need_sent(ways, count, size):
    """`size`: bytes of the whole. With less, a device cannot have the sum from the other devices."""
    sent = sum(each for _, _, each in ways)
    least = 2 * (count - 1) * size
    need(
        sent >= least,
        f"the devices send each other {sent} bytes, but an all-reduce takes at least {least} bytes.",
    )


def need_ring(ways, count, piece):
    """`piece` is its size in bytes. Each device sends to one other, and no link carries more than 2 (N - 1) pieces."""
    if not ways:
        return
    most = max(ways, key=lambda way: way[2])
    allowed = 2 * (count - 1) * piece
    need(
        most[2] <= allowed,
        f"{most[2]} bytes were sent from {most[0]} to {most[1]}. In a ring, a link carries at most 2 x {count - 1} "
        f"pieces, or {allowed} bytes. Send one piece in each turn, not a whole tensor.",
    )
    sent = Counter(source for source, _, _ in ways)
    device, others = max(sent.items(), key=lambda item: item[1])
    need(
        others == 1,
        f"{device} sends to {others} other devices. In a ring, each device sends to only one neighbor.",
    )


@ex1.fact("with two devices and with four, each device gets the sum, and no link carries more than a ring allows")
def _(student):
    compare_ring(student, places(student, 2), (6,))
    compare_ring(student, places(student, 4), (8,))


@ex1.fact("the sums are right for other shapes, even if N does not divide the number of elements")
def _(student):
    compare_ring(student, places(student, 4), (5,))
    compare_ring(student, places(student, 3), (4, 2))
    compare_ring(student, places(student, 4), (3,))


@ex1.fact("the sums keep the dtype of the inputs")
def _(student):
    compare_ring(student, places(student, 3), (7,), dtype="float64")


# --- ex2: a data parallel step --------------------------------------------------------------------------------------

# Of a device's work what is done while the next one works: 0.2 and more for right answers, 0 for one after another. (A
# target that is copied after the forward pass was launched waits for it, because its memory is not pinned.)
TOGETHER = 0.1

ex2 = lab.exercise(
    "ex2",
    star=True,
    title="One step of many copies",
    hints=[
        "One share has four samples, another has three. What is the weight of each share's mean in the mean of all "
        "seven samples?",
        "Weight the losses before the backward pass or the gradients after it. Weighting the losses takes less code.",
        "Sums of the same numbers in different orders differ in the last bits. On which device do you add, and in "
        "which order?",
        "Python continues while a device computes. Which of your lines needs a value and therefore waits for the "
        "device?",
    ],
)


def run_copies(lab, where, stack, seed, batches, optimizer, frozen):
    import torch

    from utils.exercises.facts.probes import array, build, fill, kind_of

    models = [build(stack) for _ in where]
    for model, place in zip(models, where, strict=True):
        fill(model, seed)
        for number, p in enumerate(model.parameters()):
            p.requires_grad_(number not in frozen)
        model.to(place)
        for p in model.parameters():
            p.grad = torch.ones_like(p) if p.requires_grad else None  # of some step before
    kind = {"Adam": torch.optim.Adam, "AdamW": torch.optim.AdamW, "SGD": torch.optim.SGD}[optimizer]
    optimizers = [kind(model.parameters(), lr=0.05) for model in models]
    steps, rows, losses = [0 for _ in where], [[] for _ in where], []

    def stepped(rank):
        def count(*_):
            steps[rank] += 1

        return count

    for rank, (model, own) in enumerate(zip(models, optimizers, strict=True)):
        own.register_step_post_hook(stepped(rank))
        model[0].register_forward_pre_hook(lambda module, inputs, seen=rows[rank]: seen.append(array(inputs[0]).copy()))
    for x, y in batches:
        found = lab.data_parallel_step(
            list(models), list(optimizers), torch.nn.MSELoss(), torch.from_numpy(x), torch.from_numpy(y)
        )
        if isinstance(found, torch.Tensor) and found.numel() == 1:
            found = float(array(found))
        losses.append(found if type(found) is float else kind_of(found))
    return {
        "losses": losses,
        "steps": steps,
        "rows": rows,
        "parameters": [[array(p) for p in model.parameters()] for model in models],
    }


def expected_copies(stack, seed, batches, optimizer, frozen):
    model = build(stack)
    fill(model, seed)
    for number, p in enumerate(model.parameters()):
        p.requires_grad_(number not in frozen)
    own, losses = getattr(torch.optim, optimizer)(model.parameters(), lr=0.05), []
    for x, y in batches:
        own.zero_grad()
        loss = nn.functional.mse_loss(model(torch.from_numpy(x)), torch.from_numpy(y))
        loss.backward()
        own.step()
        losses.append(loss.item())
    return losses, [p.detach().numpy() for p in model.parameters()]


# What students make of the shares' gradients of a parameter, their samples, and the gradient of the step before.
COMBINED = (
    (
        "all shares have the same weight. Weight each share by its number of samples",
        lambda own, rows, before: sum(own) / len(own),
    ),
    (
        "old gradients are added to the new ones. Clear the old gradients first",
        lambda own, rows, before: before + weighted(own, rows),
    ),
    (
        "old gradients are added to the new ones. Clear the old gradients first",
        lambda own, rows, before: len(own) * before + weighted(own, rows),
    ),
)


def weighted(own, rows):
    return sum(gradient * count for gradient, count in zip(own, rows, strict=True)) / sum(rows)


def combined(stack, seed, batches, optimizer, frozen, count, combine):
    """The parameters after steps in which the gradients of `count` shares are combined like that."""
    model = build(stack)
    fill(model, seed)
    trained = [p for number, p in enumerate(model.parameters()) if number not in frozen]
    optimizer = getattr(torch.optim, optimizer)(trained, lr=0.05)
    for p in trained:
        p.grad = torch.ones_like(p)
    for x, y in batches:
        shares = zip(*(torch.from_numpy(each).tensor_split(count) for each in (x, y)), strict=True)
        own = [torch.autograd.grad(nn.functional.mse_loss(model(a), b), trained) for a, b in shares]
        rows = [len(each) for each in np.array_split(x, count)]
        for p, *gradients in zip(trained, *own, strict=True):
            p.grad = combine(gradients, rows, p.grad)
        optimizer.step()
    return [p.detach().numpy() for p in model.parameters()]


def averaged_weights(stack, seed, batches, optimizer, frozen, count):
    """The parameters where each replica makes its own update, and then the weights are averaged."""
    models, optimizers = [build(stack) for _ in range(count)], []
    for model in models:
        fill(model, seed)
        trained = [p for number, p in enumerate(model.parameters()) if number not in frozen]
        optimizers.append(getattr(torch.optim, optimizer)(trained, lr=0.05))
    for batch in batches:
        shares = zip(*(torch.from_numpy(each).tensor_split(count) for each in batch), strict=True)
        for model, own, (x, y) in zip(models, optimizers, shares, strict=True):
            own.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            own.step()
        for same in zip(*(model.parameters() for model in models), strict=True):
            mean = sum(p.detach() for p in same) / count
            for p in same:
                p.data.copy_(mean)
    return [p.detach().numpy() for p in models[0].parameters()]


def why_not_one_model(found, count, *training) -> str:
    """The known mistake that gives these parameters, or a question."""
    for words, combine in COMBINED:
        if all_close(found, combined(*training, count, combine)):
            return f"You get these weights when {words}."
    if all_close(found, averaged_weights(*training, count)):
        return (
            "You get these weights when each replica steps with its own gradient and the weights are averaged. Average "
            "the gradients instead."
        )
    return "Do all samples have the same weight, and does anything else change the gradient?"


def compare_copies(student, where, row_count, *, optimizer="Adam", frozen=(), seed=2, steps=3):
    stack = [["Linear", 5, 7], ["Tanh"], ["Linear", 7, 3]]
    batches = [(numbers(row_count, 5, seed=seed + n), numbers(row_count, 3, seed=seed + 20 + n)) for n in range(steps)]
    also = f" (frozen parameters: {', '.join(map(str, frozen))})" if frozen else ""
    replicas = f"{len(where)} replica{'' if len(where) == 1 else 's'}"
    with case(f"With {replicas}, {row_count} samples and {steps} steps of {optimizer}{also}"):
        run = student.run(run_copies, list(where), stack, seed, batches, optimizer, list(frozen))
        strange = [found for found in run["losses"] if not isinstance(found, float)]
        need(
            not strange,
            f"data_parallel_step returned {strange[0] if strange else ''}. Return the loss as a float or a one-element "
            "tensor.",
        )
        need_shares(run["rows"], batches[0][0])
        often = run["steps"][0] // steps
        need(
            often < 2 or run["steps"] != [often * steps] * len(where),
            f"each optimizer took {run['steps'][0]} steps for {steps} batches. Is every step() call inside a "
            "loop over the replicas?",
        )
        need(
            all(count == steps for count in run["steps"]),
            f"the optimizers took {', '.join(map(str, run['steps']))} steps for {steps} batches. Each optimizer "
            "must take one step per batch.",
        )
        losses, expected = expected_copies(stack, seed, batches, optimizer, frozen)
        first = run["parameters"][0]
        need(
            math.isclose(run["losses"][0], losses[0], rel_tol=1e-4),
            f"the mean loss over all samples is {losses[0]:.5f}, but data_parallel_step returned "
            f"{run['losses'][0]:.5f}. Weight each share's loss by its number of samples.",
        )
        for rank, own in enumerate(run["parameters"]):
            need(
                all_close(own, first),
                f"the replicas on {where[0]} and {where[rank]} have different weights. Give all replicas the "
                "same mean gradient, and do not overwrite a gradient before you add it.",
            )
        moved = [number for number in frozen if not close(first[number], expected[number])]
        need(
            not moved,
            f"parameter {moved[0] if moved else ''} is frozen, but its value has changed. Leave its gradient None: "
            "weight decay changes every parameter that has a gradient, even one of zeros.",
        )
        need(
            all_close(first, expected),
            f"after {steps} steps, the replicas are equal, but a single model trained on the whole batches is "
            f"different. {why_not_one_model(first, len(where), stack, seed, batches, optimizer, frozen)}",
        )
        for rank, own in enumerate(run["parameters"]):
            need(
                all((mine == theirs).all() for mine, theirs in zip(own, first, strict=True)),
                f"the replicas on {where[0]} and {where[rank]} differ in the last bits and would drift apart. Add "
                "the gradients once, or in the same order on every device.",
            )


def need_shares(rows, batch):
    """Each replica has one share of the batch, and together they have it all."""
    given = [own[0] for own in rows if own]
    need(len(given) == len(rows), "a replica received no samples.")
    counts = [len(own) for own in given]
    need(
        sum(counts) == len(batch) and max(counts) - min(counts) <= 1,
        f"the replicas received {', '.join(map(str, counts))} samples of a batch of {len(batch)}. Split the batch with "
        "tensor_split(len(models)).",
    )
    need(
        len({row.tobytes() for own in given for row in own}) == len(batch),
        "the replicas received some samples twice and others not at all. Replica i must compute share i.",
    )


@ex2.fact("two replicas with equal shares stay equal to each other and to one model trained on the whole batch")
def _(student):
    compare_copies(student, places(student, 2), 8)


@ex2.fact("all samples have the same weight, with shares of different sizes and with three replicas")
def _(student):
    compare_copies(student, places(student, 2), 7)
    compare_copies(student, places(student, 3), 5, optimizer="SGD")


@ex2.fact("frozen parameters keep their values, even with weight decay, which changes every parameter with a gradient")
def _(student):
    compare_copies(student, places(student, 2), 5, frozen=(0, 1))
    compare_copies(student, places(student, 2), 5, frozen=(2,), optimizer="AdamW")


def time_copies(lab, where, rows):
    from dataclasses import asdict

    import torch
    from torch import nn

    from utils.exercises.facts.probes import array, kind_of
    from utils.observe.devices import is_simulated
    from utils.observe.trace import record

    if not all([is_simulated(place) for place in where]):
        return {"watched": False}
    # A sum of very many numbers for very few results is slow on a GPU and quick here.
    models = []
    for place in where:
        torch.manual_seed(6)
        layers = [layer for _ in range(3) for layer in (nn.Linear(8, 30_000, bias=False), nn.Linear(30_000, 8))]
        models.append(nn.Sequential(*layers).to(place))
    optimizers = [torch.optim.SGD(model.parameters(), lr=1e-6) for model in models]
    x, y = torch.ones(rows, 8), torch.ones(rows, 8)
    with record(*where) as timeline:
        loss = lab.data_parallel_step(list(models), list(optimizers), nn.MSELoss(), x, y)
    if isinstance(loss, torch.Tensor) and loss.numel() == 1:
        loss = float(array(loss))
    return {
        "watched": "virtual clock" in timeline.source,
        "timeline": asdict(timeline),
        "loss": loss if type(loss) is float else kind_of(loss),
        "flops": [sum([event.flops for event in timeline.events if event.device == place]) for place in where],
    }


@cache
def loss_of_one() -> float:
    """The loss of the replicas that are watched: all samples are alike."""
    torch.manual_seed(6)
    layers = [layer for _ in range(3) for layer in (nn.Linear(8, 30_000, bias=False), nn.Linear(30_000, 8))]
    with torch.no_grad():
        return nn.functional.mse_loss(nn.Sequential(*layers)(torch.ones(1, 8)), torch.ones(1, 8)).item()


def need_share_each(run, where, rows):
    """Each replica does the work of its share, and nothing else."""
    found, one = run["loss"], loss_of_one()
    need(
        isinstance(found, float) and math.isclose(found, one, rel_tol=1e-4),
        f"data_parallel_step returned {found}, but the loss on these samples is {one:.5f}.",
    )
    # Six products forward; back eleven, as the samples need no gradient.
    needed = 17 * 2 * 8 * 30_000 * rows
    for place, flops in zip(where, run["flops"], strict=True):
        need(
            0.9 * needed <= flops <= 1.05 * needed,
            f"the replica on {place} does {flops / needed:.2f} times the forward and backward work of its share. Each "
            "replica must compute its share once.",
        )


def timeline_of(data) -> Timeline:
    events = tuple(Event(*event) for event in data["events"])
    return Timeline(tuple(data["devices"]), events, data["begin"], data["end"], data["source"])


def need_together(student, where, rows=256):
    with case(f"With {len(where)} replicas"):
        run = student.run(time_copies, where, rows * len(where))
        if not run["watched"]:
            return
        line = timeline_of(run["timeline"])
        for one, other in pairwise(where):
            work = [line.busy_times(place) for place in (one, other)]
            least = min(map(intervals.length, work))
            share = intervals.length(intervals.common(*work)) / least if least else 0.0
            need(
                share > TOGETHER,
                f"{one} and {other} compute at the same time for {share:.0%} of their work (simulated). Launch "
                "the work of all replicas before any line that waits for a value, such as .item(), float() or .cpu().",
            )
        need_share_each(run, where, rows)


@ex2.fact("the replicas compute at the same time (checked on simulated devices)")
def _(student):
    need_together(student, places(student, 2))


@ex2.timeline
def _(student):
    return student.run(time_copies, places(student, 2), 512)["timeline"]


# --- ex3: buckets ---------------------------------------------------------------------------------------------------

ex3 = lab.exercise(
    "ex3",
    star=True,
    title="Buckets",
    hints=[
        "Go through the parameters from the last to the first.",
        "Keep one open bucket for each dtype. When do you close it, and what is the limit of the next one?",
        "parameter.nbytes is the size of a parameter in bytes.",
        "Which buckets are still open when every parameter is in a bucket?",
    ],
)


def ask_buckets(lab, given, first, cap):
    import torch

    from utils.exercises.facts.probes import kind_of

    kinds = {"float32": torch.float32, "float16": torch.float16, "float64": torch.float64}
    parameters = [torch.nn.Parameter(torch.zeros(count, dtype=kinds[kind]), wants) for count, kind, wants in given]
    found = lab.buckets(parameters, first, cap)
    if not isinstance(found, (list, tuple)) or not all([isinstance(each, (list, tuple)) for each in found]):
        return f"buckets returned {kind_of(found)}. Return a list of buckets, each a list of parameter indices."
    if not all([hasattr(index, "__index__") for each in found for index in each]):
        return "a bucket contains something other than an integer. Use each parameter's index in `parameters`."
    return [[int(index) for index in each] for each in found]


SIZES = {"float64": 8, "float32": 4, "float16": 2}


def buckets_of(given, first: int, cap: int, *, sizes=SIZES, full=operator.ge, small: str = "each") -> list[list[int]]:
    """DDP's buckets once it has seen in which order gradients come; test_lab11_buckets.py compares them with DDP's own.

    The rest is for mistakes: `small` says of how many dtypes the first bucket is small, "each", "one" or "none".
    """
    done, filling, had, limit = [], {}, Counter(), {}
    for index in reversed(range(len(given))):
        count, kind, wants = given[index]
        if wants:
            filling.setdefault(kind, []).append(index)
            had[kind] += count * sizes[kind]
            if full(had[kind], limit.get(kind, cap if small == "none" or (small == "one" and done) else first)):
                done.append(filling.pop(kind))
                had[kind], limit[kind] = 0, cap
    return done + list(filling.values())


def compare_buckets(student, given, first, cap):
    given = [list(each) for each in given]
    shown = ", ".join(f"{kind}[{count}]{'' if wants else ' (frozen)'}" for count, kind, wants in given)
    shown = shown if len(given) < 10 else f"{len(given)} parameters"
    with case(f"With {shown}, first={first} and cap={cap}"):
        found, wanted = student.run(ask_buckets, given, first, cap), buckets_of(given, first, cap)
        need(not isinstance(found, str), found)
        if found == wanted:
            return
        members = Counter(index for bucket in found for index in bucket)
        strange = sorted(index for index in members if not 0 <= index < len(given))
        need(not strange, f"a bucket contains {strange[0] if strange else ''}, which is not the index of a parameter.")
        frozen = sorted(index for index in members if not given[index][2])
        need(
            not frozen,
            f"a bucket contains parameter {frozen[0] if frozen else ''}, which is frozen and gets no gradient. The "
            "bucket would wait forever.",
        )
        need(all(count == 1 for count in members.values()), "a parameter appears more than once in the buckets.")
        missing = sorted({index for bucket in wanted for index in bucket} - set(members))
        need(not missing, f"parameter {missing[0] if missing else ''} is in no bucket.")
        mixed = [bucket for bucket in found if len({given[index][1] for index in bucket}) > 1]
        need(not mixed, f"the bucket {mixed[0] if mixed else ''} has several dtypes. A bucket must be one tensor.")
        need(
            all(bucket == sorted(bucket, reverse=True) for bucket in found),
            f"at least one bucket in {found} does not follow the order in which the gradients are ready, from the last "
            "parameter to the first.",
        )
        number = next(n for n, pair in enumerate(zip(found, wanted, strict=False)) if pair[0] != pair[1])
        need(
            False,
            f"bucket {number} (counted from 0) is {found[number]} instead of {wanted[number]}. "
            f"{why_bucket(found, wanted, given, first, cap)}",
        )


BUCKET_MISTAKES = {
    "You get these buckets when you count elements. The limits are in bytes.": {"sizes": dict.fromkeys(SIZES, 1)},
    "You get these buckets when every element counts as 4 bytes. A float16 takes 2 bytes.": {
        "sizes": dict.fromkeys(SIZES, 4)
    },
    "You get these buckets when only one bucket is small. Each dtype has a small first bucket.": {"small": "one"},
    "You get these buckets when every limit is `cap`. The first bucket is full at `first` bytes.": {"small": "none"},
    "You get these buckets when you close a bucket only above its limit, not at it.": {"full": operator.gt},
}


def why_bucket(found, wanted, given, first, cap) -> str:
    last = len(given) - 1
    turned = [[last - index for index in reversed(bucket)] for bucket in buckets_of(given[::-1], first, cap)]
    if found == turned[::-1]:
        return "You get these buckets when you start with the first parameter and reverse the buckets at the end."
    for words, mistake in BUCKET_MISTAKES.items():
        if found == buckets_of(given, first, cap, **mistake):
            return words
    if sorted(found) == sorted(wanted):
        return (
            "The buckets are right, but their order is wrong. Buckets that fill up come first, and the others follow."
        )
    if found[0] and found[0][0] != wanted[0][0]:
        return "The last parameter's gradient comes first."
    return "A bucket is full once it reaches its limit in bytes. After that, add no gradient to it."


F32 = "float32"


@ex3.fact("the first gradients are in the small first bucket, and a bucket is full once it reaches its limit")
def _(student):
    compare_buckets(student, [(4, F32, True)] * 6, 4, 32)
    compare_buckets(student, [(6, F32, True), (2, F32, True), (3, F32, True), (1, F32, True)], 16, 28)
    compare_buckets(student, [(2, F32, True), (5, F32, True), (2, F32, True), (9, F32, True), (1, F32, True)], 8, 20)
    compare_buckets(student, [(4, F32, True)] * 4, 16, 32)


@ex3.fact("no bucket has two dtypes, and no bucket contains a frozen parameter")
def _(student):
    given = [
        (5, F32, True),
        (8, "float16", True),
        (2, F32, False),
        (3, F32, True),
        (4, "float16", True),
        (2, F32, True),
    ]
    compare_buckets(student, given, 8, 24)


# --- ex4: behind the backward pass ----------------------------------------------------------------------------------

HIDDEN = 0.6  # of the time of all copies, which the last bucket's can't be; model answer 0.8, after the last kernel 0
BUCKETS, WIDTH = 6, 96  # where times are looked at
WAITED = 1e-3  # seconds of the virtual clock without a launch: 0.04 ms in right answers, 4.7 ms in one that waits

ex4 = lab.exercise(
    "ex4",
    points=5,
    parts={"means": 3, "overlap": 2},
    title="Hidden behind the backward pass",
    hints=[
        "A hook runs when one gradient of one replica is ready. Which counts tell you that a bucket is ready "
        "on one replica, and on all replicas?",
        "The backward passes are launched one after another. When a bucket's last hook runs, the first replica's whole "
        "backward pass is already queued in its stream. An event marks one point in a stream. Wait for the event.",
        "Before mean_on_each launches anything, each stream must wait for the event of its own device's packed bucket.",
        "The optimizers read the gradients on the default streams, so these streams must wait in finish(). Which "
        "counts must start at 0 again for the next step?",
    ],
    likely={
        "'NoneType'": "A gradient in the bucket is still None. Count the ready gradients of each bucket on each "
        "replica, in any order, and register the hooks only once.",
    },
)


def run_overlapped(lab, where, sizes, buckets, batches, order):
    import warnings
    from itertools import pairwise

    import torch
    from torch import nn

    import simgpu
    from utils.exercises.facts.probes import array, fill, kind_of

    models = []
    for place in where:
        models.append(nn.Sequential(*[nn.Linear(*pair) for pair in pairwise(sizes)]))
        fill(models[-1], 3)
        models[-1].to(place, torch.from_numpy(batches[0][0]).dtype)
    with warnings.catch_warnings(), simgpu.unfinished_reads() as races:
        warnings.simplefilter("ignore")
        finish = lab.overlapped_mean(list(models), [list(bucket) for bucket in buckets])
        if not callable(finish):
            return {"wrong": f"overlapped_mean returned {kind_of(finish)}. Return the function finish."}
        found = []
        for batch in batches:
            losses = []
            for model, x, place in zip(models, batch, where, strict=True):
                model.zero_grad()
                losses.append(model(torch.from_numpy(x).to(place)).square().mean())
            for rank in order:
                losses[rank].backward()
            finish()
            used = [[None if p.grad is None else p.grad * 1.0 for p in model.parameters()] for model in models]
            found.append([[None if g is None else array(g) for g in own] for own in used])
    return {"wrong": "", "gradients": found, "races": list(races)}


def expected_overlapped(sizes, buckets, batches):
    """For each step the gradients of each replica by itself, and the means of those in buckets."""
    model = nn.Sequential(*[nn.Linear(*pair) for pair in pairwise(sizes)])
    fill(model, 3)
    model.to(torch.from_numpy(batches[0][0]).dtype)
    averaged, found = {index for bucket in buckets for index in bucket}, []
    for batch in batches:
        own = []
        for x in batch:
            loss = model(torch.from_numpy(x)).square().mean()
            own.append([g.numpy() for g in torch.autograd.grad(loss, list(model.parameters()))])
        means = [np.mean(same, axis=0) for same in zip(*own, strict=True)]
        wanted = [[means[n] if n in averaged else g for n, g in enumerate(each)] for each in own]
        found.append((own, wanted))
    return found


def compare_overlapped(student, where, sizes, buckets, *, steps=2, order=None, seed=4, dtype="float32", races=False):
    """The gradients after each step, and where `races`, whether a stream has read what another still wrote."""
    count = len(where)
    order = list(range(count)) if order is None else order
    batches = [
        [numbers(6, sizes[0], seed=seed + 10 * n + rank).astype(dtype) for rank in range(count)] for n in range(steps)
    ]
    turns = "" if order == sorted(order) else f", with backward passes in the order {', '.join(map(str, order))}"
    also = "" if dtype == "float32" else f" in {dtype}"
    with case(f"With {count} replica{'' if count == 1 else 's'}{also} and the buckets {buckets}{turns}"):
        run = student.run(run_overlapped, list(where), list(sizes), buckets, batches, order)
        need(not run["wrong"], run["wrong"])
        expected = expected_overlapped(sizes, buckets, batches)
        for step, (found, (own, wanted)) in enumerate(zip(run["gradients"], expected, strict=True)):
            with case(f"after step {step + 1}"):
                need_means(found, own, wanted, buckets, again=step > 0)
        if not races:
            return
        own = [one for one in run["races"] if "on the default stream reads" not in one]
        need(
            not own,
            f"one of your streams read memory {times(len(own))} while another stream was still writing it. Make the "
            "reading stream wait for an event that you record on the writing stream after a bucket is packed or has "
            "arrived.",
        )
        need(
            not run["races"],
            f"the default stream read memory {times(len(run['races']))} while another stream was still writing it. In "
            "finish(), make each default stream wait for the streams that write the gradients. Those streams must wait "
            "for the arriving buckets.",
        )


def need_means(found, own, wanted, buckets, again=False):
    averaged = {index for bucket in buckets for index in bucket}
    why = "Does finish() reset your counts to 0?" if again else "Did you average it and write the mean back?"
    for rank, (mine, alone, means) in enumerate(zip(found, own, wanted, strict=True)):
        for index, (gradient, first, mean) in enumerate(zip(mine, alone, means, strict=True)):
            which = f"the gradient of parameter {index} on replica {rank}"
            need(gradient is not None, f"{which} is None after finish().")
            if close(gradient, mean):
                continue
            need(index in averaged, f"{which} has changed, although the parameter is in no bucket.")
            need(not close(gradient, first), f"{which} is still the replica's own. {why}")
            need(not close(gradient, mean * len(found)), f"{which} is the sum over the replicas instead of their mean.")
            need(
                not close(gradient, mean + first),
                f"{which} is the mean plus the replica's own gradient. Replace the gradient instead of adding to it.",
            )
            need(
                gradient.shape != mean.shape or not np.allclose(gradient, mean, **ROUNDING["float32"]),
                f"{which} is the mean rounded to float32. Pack a bucket in the dtype of its gradients.",
            )
            need(
                False,
                f"{which} is not the mean over the replicas. Do you wait for all replicas, divide by their number, "
                "and unpack in the order in which you packed?",
            )


@ex4.fact("in each of two steps, two replicas have the mean gradients after finish()")
def _(student):
    compare_overlapped(student, places(student, 2), (5, 6, 4, 3), [[5], [4, 3, 2], [1, 0]])


@ex4.fact("three replicas have the means, and parameters in no bucket keep their own gradients")
def _(student):
    compare_overlapped(student, places(student, 3), (4, 7, 5, 2), [[5, 4], [2, 1, 0]], steps=3)


@ex4.fact("float64 gradients keep their precision")
def _(student):
    compare_overlapped(student, places(student, 2), (5, 4, 3), [[3, 2], [1, 0]], steps=1, dtype="float64")


def time_overlapped(lab, where, spare, buckets, width):
    """The backward pass of replicas whose layers wait for the beats of another device, so that their GPUs have time.

    What is launched later on another stream finds room between two beats, as on a GPU that does several things at once.
    """
    import warnings
    from dataclasses import asdict
    from functools import partial

    import torch
    from torch import nn

    import simgpu
    from simgpu.streams import Stream
    from utils.exercises.facts.probes import array
    from utils.observe.devices import is_simulated
    from utils.observe.trace import record

    if not all([is_simulated(place) for place in (*where, spare)]):
        return {"watched": False}

    def in_time(place, event, _):
        Stream.wait_event(torch.simgpu.current_stream(torch.device(place)), event)

    models, outputs = [], []
    torch.manual_seed(7)
    for place in where:
        parts = [nn.Sequential(nn.Linear(width, width), nn.Linear(width, width)) for _ in range(buckets)]
        models.append(nn.Sequential(*parts).to(place))
    last = 4 * buckets - 1
    finish = lab.overlapped_mean(list(models), [[last - 4 * n - k for k in range(4)] for n in range(buckets)])
    for model, place in zip(models, where, strict=True):
        outputs.append([torch.ones(4, width).to(place)])
        for part in model:
            outputs[-1].append(part(outputs[-1][-1]))
    # A sum of very many numbers for very few results is slow on a GPU and quick here.
    beat, x = nn.Linear(60_000, 8).requires_grad_(False).to(spare), torch.zeros(16, 60_000).to(spare)
    losses = [own[-1].square().mean() for own in outputs]
    with warnings.catch_warnings(), simgpu.unfinished_reads() as races, record(*where) as timeline:
        warnings.simplefilter("ignore")
        for number in range(buckets):
            for _ in range(8):
                beat(x)
            event = Stream.record_event(torch.simgpu.current_stream(torch.device(spare)))
            for own, place in zip(outputs, where, strict=True):
                torch.Tensor.register_hook(own[buckets - number], partial(in_time, place, event))
        for loss in losses:
            loss.backward()
        called = simgpu.now()
        finish()
        returned = simgpu.now()
    # The biases are enough, and travel quickly.
    biases = [[p.grad for p in model.parameters() if len(p.shape) == 1] for model in models]
    return {
        "watched": "virtual clock" in timeline.source,
        "timeline": asdict(timeline),
        "races": len(races),
        "called": called,
        "returned": returned,
        "biases": [[None if g is None else array(g) for g in own] for own in biases],
    }


@cache
def mean_biases(count, buckets, width) -> list[np.ndarray]:
    """The mean gradients of the biases of the replicas that are watched, each of which has weights of its own."""
    torch.manual_seed(7)
    found = []
    for _ in range(count):
        parts = [nn.Sequential(nn.Linear(width, width), nn.Linear(width, width)) for _ in range(buckets)]
        model = nn.Sequential(*parts)
        model(torch.ones(4, width)).square().mean().backward()
        found.append([p.grad.numpy() for p in model.parameters() if p.dim() == 1])
    return [np.mean(same, axis=0) for same in zip(*found, strict=True)]


def timed_overlapped(student, where):
    [spare] = [place for place in SIMULATED if place not in where][:1] or [where[0]]
    return student.run(time_overlapped, list(where), spare, BUCKETS, WIDTH)


def need_hidden(student, where):
    count = len(where)
    with case(f"With {count} replicas and {BUCKETS} buckets of 4 parameters"):
        run = timed_overlapped(student, where)
        if not run["watched"]:
            return
        events = timeline_of(run["timeline"]).events
        copies = [event for event in events if event.kind == "d2d"]
        need(copies, "no data was copied between the devices.")
        launched = sorted(event.launched for event in events)
        need_no_waiting([*launched, run["returned"]])
        most = 2 * count * (count - 1)  # a ring's; a star has 2 (N - 1)
        need(
            len(copies) <= BUCKETS * most,
            f"there were {len(copies)} copies between devices, but each bucket needs at most {most}. Pack the "
            "gradients of a bucket into one tensor.",
        )
        computing = [event for event in events if event.phase == "backward" and event.module]
        streams = {(event.device, event.stream) for event in computing}
        need(
            not any((event.device, event.stream) in streams for event in copies),
            "some copies between devices run on a computing stream, so the later kernels of that stream wait. "
            "Make your own streams current on both devices.",
        )
        end = max(event.end for event in computing)
        on_their_way = sum(event.end - event.start for event in copies)
        early = sum(max(0.0, min(event.end, end) - event.start) for event in copies)
        why = (
            "wait_stream waits for everything queued, which is a whole backward pass. Once a bucket is ready on all "
            "replicas, wait for the events recorded when it was packed. (A stream that waits in every hook waits for "
            "all buckets of the first replica. It is also too late to pack after the last replica's hook, or to copy "
            "with the default stream at one end.)"
            if min(event.launched for event in copies) < max(event.launched for event in computing)
            else "The first copy was launched after the last kernel of the backward passes. Launch the copies in the "
            "hooks."
        )
        need(
            early > HIDDEN * on_their_way,
            f"{early / on_their_way:.0%} of the copy time is before the end of the backward passes (simulated), "
            f"but at least {HIDDEN:.0%} must be. {why}",
        )
        before = sum(event.launched < run["called"] for event in copies)
        need(
            before >= BUCKETS * (count - 1),
            f"before finish(), you launched {before} of the copies between devices, but {BUCKETS} buckets need at "
            f"least {BUCKETS * (count - 1)}. Launch a bucket's copies in the hook, once it is ready on all replicas.",
        )
        right = mean_biases(count, BUCKETS, WIDTH)
        for place, own in zip(where, run["biases"], strict=True):
            need(
                all(close(mine, mean) for mine, mean in zip(own, right, strict=True)),
                f"after finish(), some gradients on {place} are not means over the replicas.",
            )
        # In a ring, and in a star, the gradients go around 2 (N - 1) times. What each sends to all others is more.
        whole = 4 * BUCKETS * 2 * (WIDTH + 1) * WIDTH
        moved = sum(event.bytes for event in copies)
        need(
            moved <= count * (count - 1) * whole * 1.05,
            f"the devices send each other {moved / whole:.1f} times the bytes of a replica's gradients, but "
            f"{count * (count - 1)} times is enough to average them.",
        )


def need_no_waiting(moments):
    """`moments`: when Python launched something, and at the end, when finish() returned."""
    gaps = np.diff(moments)
    where = "in finish()" if gaps.argmax() == len(gaps) - 1 else "between two launches"
    need(
        gaps.max() <= WAITED,
        f"Python waits {where} for {gaps.max() * 1e3:.1f} ms (simulated). Make a stream wait for an event instead, "
        "with stream.wait_event and not with event.synchronize.",
    )


@ex4.fact("after finish(), the default streams can safely use the means (checked on simulated devices)", part="overlap")
def _(student):
    compare_overlapped(student, places(student, 2), (5, 6, 4, 3), [[5], [4, 3, 2], [1, 0]], races=True)
    compare_overlapped(student, places(student, 3), (4, 7, 5, 2), [[5, 4], [2, 1, 0]], steps=3, races=True)


@ex4.fact(
    f"each bucket is copied as one tensor, and at least {HIDDEN:.0%} of copy time is hidden (checked on simulated "
    "devices)",
    part="overlap",
)
def _(student):
    need_hidden(student, places(student, 2))


@ex4.fact(
    "no stream reads a bucket before the backward pass has written it (checked on simulated devices)",
    part="overlap",
)
def _(student):
    run = timed_overlapped(student, places(student, 2))
    need(
        not run["watched"] or not run["races"],
        f"a stream read memory {times(run['races'] if run['watched'] else 0)} while another stream was still writing "
        "it. When a hook runs, the gradient's kernels are launched, but not finished. Wait for an event recorded after "
        "them.",
    )


@ex4.timeline
def _(student):
    return timed_overlapped(student, places(student, 2))["timeline"]


# --- ex5: a training that goes on -----------------------------------------------------------------------------------

ex5 = lab.exercise(
    "ex5",
    points=3,
    title="Training that can be resumed",
    hints=[
        "List everything that changes from step to step. Dropout and the order of the samples depend on random "
        "numbers.",
        "The CPU and each GPU have their own random number generator. torch.get_rng_state() reads the CPU's state, and "
        "get_rng_state(device) in torch's module for the device reads the GPU's.",
        "In the middle of an epoch, the next process needs to know which samples are still to come.",
        "If the process is killed while it writes the file, only half a file is left. os.replace puts a complete file "
        "in place at once.",
        "Compare the number of updates that the saved weights have received with the number of steps in the file.",
    ],
)


def run_lives(lab, place, row_count, size, steps, dropout, stops, seed, again):
    """Trains once uninterrupted, and once in several lives: each stopped at (what, which time), the last one not.

    A stop is as hard as a process that is killed: the folder is left as it was at that moment. A copy of a file is
    stopped when half of it is written.
    """
    import io
    import os
    import shutil
    import tempfile
    from collections import OrderedDict
    from contextlib import contextmanager
    from pathlib import Path

    import torch
    from torch import nn

    from utils.exercises.facts.probes import array, fill, kind_of

    class Killed(BaseException):
        pass

    class Pickled:
        def __reduce__(self):
            passes("save")
            return OrderedDict, ()

        def cpu(self, *_, **__):
            return self

        clone = detach = to = cpu  # what one may do with each tensor of a state_dict

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 2))

        def forward(self, x):
            rows.append(array(x[:, 0]).copy())
            weights.append([array(p).copy() for p in self.parameters()])
            passes("forward")
            return self.layers(x)

        def get_extra_state(self):
            return Pickled()

        def set_extra_state(self, state):
            pass

    rows, losses, weights, passed, until, disk, strayed = [], [], [], {}, [None], [], []

    def passes(what):
        passed[what] = passed.get(what, 0) + 1
        if until[0] == [what, passed[what]]:
            for place, _, names in os.walk(folder):
                disk.append((place, None))
                for name in names:
                    disk.append((os.path.join(place, name), Path.read_bytes(Path(place, name))))
            raise Killed

    def note_strayed(names):
        """Of two files, one of which takes the place of the other: those that are not next to the checkpoint."""
        near = [name.startswith(os.path.realpath(path)) for name in names]
        if any(near):
            for name, is_near in zip(names, near, strict=True):
                if not is_near:
                    strayed.append(name)

    def stopping(work):
        def stops_before(*given, **more):
            note_strayed([os.path.realpath(os.fsdecode(each)) for each in given if not isinstance(each, int)])
            passes("file")
            return work(*given, **more)

        return stops_before

    def sending_half(out, source, offset, count):
        """os.sendfile, which shutil copies with."""
        if offset:
            return kept["sendfile"](out, source, offset, count)
        sent = kept["sendfile"](out, source, 0, (os.path.getsize(source) + 1) // 2)
        passes("copy")
        return sent

    def copying_half(source, out, *length, **more):
        """shutil.copyfileobj, which copies where there is no os.sendfile, and between open files."""
        if not isinstance(source, io.BufferedReader) or not isinstance(out, io.BufferedWriter):
            return by_hand(source, out, *length, **more)
        content = io.BufferedReader.read(source)
        io.BufferedWriter.write(out, content[: len(content) // 2])
        io.BufferedWriter.flush(out)
        passes("copy")
        io.BufferedWriter.write(out, content[len(content) // 2 :])

    changing = ("remove", "rename", "replace", "unlink", "sendfile")
    kept = {name: getattr(os, name) for name in changing if name in dir(os)}
    by_hand = shutil.copyfileobj

    @contextmanager
    def stopped_where_files_change():
        try:
            for name, work in kept.items():
                setattr(os, name, sending_half if name == "sendfile" else stopping(work))
            shutil.copyfileobj = copying_half
            yield
        finally:
            for name, work in kept.items():
                setattr(os, name, work)
            shutil.copyfileobj = by_hand

    def loss_fn(output, target):
        loss = nn.functional.mse_loss(output, target)
        losses.append(float(array(loss)))
        return loss

    def live(stop, number):
        """One process: it knows nothing but the file."""
        rows.clear(), losses.clear(), weights.clear(), passed.clear(), disk.clear(), strayed.clear()
        until[0] = stop
        torch.manual_seed(seed + 100 * number)
        model = Model()
        fill(model, seed + number)
        model.to(place)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
        optimizer.register_step_post_hook(lambda *_: passes("step"))
        found, killed = None, ""
        try:
            with stopped_where_files_change():
                found = lab.train_resumably(model, optimizer, loss_fn, x, y, size, steps, path)
        except Killed:
            killed = stop[0]
            shutil.rmtree(folder)
            for name, content in disk:
                if content is None:
                    os.mkdir(name)
                else:
                    Path.write_bytes(Path(name), content)
        if isinstance(found, list) and all([isinstance(each, float) for each in found]):
            found = [float(each) for each in found]
        else:
            found = kind_of(found)
        return {
            "returned": found,
            "killed": killed,
            "rows": [[int(row) for row in batch] for batch in rows],
            "losses": list(losses),
            "updates": passed.get("step", 0),
            "saved": any([all([bytes(p) in file for p in own]) for own in weights[-2:] for _, file in disk if file]),
            "strayed": [os.path.dirname(name) != os.path.dirname(os.path.realpath(path)) for name in strayed],
            "files": [name for _, _, names in os.walk(folder) for name in sorted(names)],
            "parameters": [] if killed else [array(p).copy() for p in model.parameters()],
        }

    x = torch.randn(row_count, 3, generator=torch.Generator().manual_seed(seed))
    x[:, 0] = torch.arange(row_count)
    y = torch.randn(row_count, 2, generator=torch.Generator().manual_seed(seed + 1))
    lives = []
    for plan in ([None], [*stops, None, *([None] if again else [])]):
        folder = tempfile.mkdtemp()
        path = os.path.join(folder, "checkpoint")
        try:
            lives.append([live(stop, number) for number, stop in enumerate(plan)])
        finally:
            shutil.rmtree(folder)
    return {"alone": lives[0][0], "lives": lives[1]}


MOMENTS = {
    "forward": "in forward pass",
    "step": "after update",
    "save": "in the middle of save",
    "file": "before file removal or rename",
    "copy": "in the middle of file copy",
}
RARE = ("file", "copy")  # there are ways to save that come by none of these


HALF_A_FILE = {
    "save": "The process was stopped during a save and left half a file at `path`. Save to another file first, then "
    "move that file to `path` with os.replace.",
    "copy": "The process was stopped while it copied a file to `path` and left only half of it there. A copy takes "
    "time. Use os.replace.",
}


def compare_lives(student, place, rows, size, steps, stops, *, dropout=0.5, seed=5, again=False):
    told = ", then ".join(f"{MOMENTS[what]} number {which}" for what, which in stops)
    with case(f"With {rows} samples, size={size}, steps={steps}{', stopped ' if stops else ''}{told}"):
        asked = [list(stop) for stop in stops]
        try:
            run = student.run(run_lives, place, rows, size, steps, dropout, asked, seed, again)
        except StudentError as error:
            if not any(word in str(error) for word in ("Error: PytorchStream", "EOFError", "[Errno 22]")):
                raise
            for what in [what for what, _ in stops if what in HALF_A_FILE]:
                raise StudentError(f"{error}\n{HALF_A_FILE[what]}") from None
            raise
        alone, lives = run["alone"], run["lives"]
        need_training(alone, rows, size, steps)
        if not dropout:
            need_weights(alone, rows, seed)
        need(
            lives[0]["rows"],
            "with a new `path`, where no file exists, train_resumably ran no steps. Resume only from the file.",
        )
        done = lives[: len(stops) + 1]
        for life, stop in zip(done, stops, strict=False):
            need(
                life["killed"] or stop[0] in RARE,
                f"the process never reached the planned stop {MOMENTS[stop[0]]} number {stop[1]}. Save after every "
                "step.",
            )
        need_same(alone, done[-1], steps, first=lives[0])
        passes = sum(len(life["rows"]) for life in done)
        need(
            passes <= steps + len(stops),
            f"{steps} steps took {passes} forward passes. Save after every step, and repeat only the step that was "
            "interrupted.",
        )
        if again:
            need(
                not lives[-1]["rows"] and lives[-1]["returned"] == alone["returned"],
                "called again after all steps are done, train_resumably does not return the same losses at once. Do "
                "you keep the file?",
            )
            need(
                equal(lives[-1]["parameters"], alone["parameters"]),
                "called again after all steps are done, train_resumably does not load the trained weights into the "
                "model.",
            )
        for life in done:
            need(
                not life["killed"] or life["updates"] < 2 or life["saved"],
                "when the process was stopped, no file contained the weights from the start of either of the last two "
                "steps. The next process has only the file.",
            )


def equal(mine, theirs) -> bool:
    return all((one == other).all() for one, other in zip(mine, theirs, strict=True))


def need_training(run, rows, size, steps):
    """It trains as the task says, when it is not stopped."""
    returned = run["returned"]
    need(
        not isinstance(returned, str),
        f"train_resumably returned {returned}. Return a list of floats, one loss for each step.",
    )
    need(
        len(run["rows"]) == steps and run["updates"] == steps,
        f"Each step takes one forward pass and one update, but in {steps} steps your code made {len(run['rows'])} "
        f"forward passes and {run['updates']} updates.",
    )
    need(len(returned) == steps, f"train_resumably returned {len(returned)} losses for {steps} steps.")
    need(returned == run["losses"], "the returned losses are not those that loss_fn computed.")
    a_round = -(-rows // size)
    epochs = [list(chain(*run["rows"][n : n + a_round])) for n in range(0, steps, a_round)]
    for number, epoch in enumerate(epochs):
        whole = len(epoch) == rows
        need(
            len(set(epoch)) == len(epoch) and (whole or number == len(epochs) - 1),
            f"epoch {number + 1} used the samples {', '.join(map(str, epoch))}. Use each sample once per epoch.",
        )
    sizes = [len(batch) for batch in run["rows"][:a_round]]
    need(
        sizes == [min(size, rows - start) for start in range(0, rows, size)][:steps],
        f"the batches of the first epoch have {', '.join(map(str, sizes))} samples. Only the last batch may have fewer "
        "than `size` samples.",
    )
    need(
        epochs[0] != sorted(epochs[0]),
        "the samples of the first epoch are not shuffled. Draw a new order for each epoch.",
    )
    need(
        len(epochs) < 2 or epochs[0][: len(epochs[1])] != epochs[1],
        "the first two epochs have the same order. Draw a new order for each epoch.",
    )


def need_weights(run, rows, seed):
    """Without dropout: the weights that these batches give."""
    x = torch.randn(rows, 3, generator=torch.Generator().manual_seed(seed))
    x[:, 0] = torch.arange(rows)
    y = torch.randn(rows, 2, generator=torch.Generator().manual_seed(seed + 1))
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
    fill(model, seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for batch in run["rows"]:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x[batch]), y[batch]).backward()
        optimizer.step()
    need(
        all_close(run["parameters"], [p.detach().numpy() for p in model.parameters()]),
        "in uninterrupted training, the final weights are not the result of one update for each batch. Is zero_grad "
        "missing?",
    )


def need_same(alone, last, steps, first):
    found, wanted = last["returned"], alone["returned"]
    need(not isinstance(found, str), f"after resuming, train_resumably returned {found}. Return a list of floats.")
    need(
        len(found) == steps,
        f"after resuming, train_resumably returned {len(found)} losses. Return the losses of all {steps} steps, "
        "including those of earlier processes.",
    )
    known = len(first["losses"])
    need(
        first["losses"] == wanted[:known],
        "even before the first stop, the losses differ from those of uninterrupted training.",
    )
    if found != wanted:
        step = next(number for number, pair in enumerate(zip(found, wanted, strict=True)) if pair[0] != pair[1])
        why = "The resumed process started over, as if there were no file at `path`."
        if len(last["rows"]) < steps:
            why = why_other(last, alone, steps, step)
            if first["killed"] == "file" and len(alone["files"]) > 1:
                why = (
                    f"Your code writes the files {', '.join(alone['files'])}. If the run is interrupted between two of "
                    "them, one file is left a step ahead. Save everything in one file, which os.replace puts in place "
                    "in a single step."
                )
        need(False, f"from step {step + 1} on, the losses differ from those of uninterrupted training. {why}")
    need(
        equal(last["parameters"], alone["parameters"]),
        "the losses are right, but the weights after the last step differ from those of uninterrupted training.",
    )


def why_other(last, alone, steps, step) -> str:
    """What may be behind another loss in this step."""
    ahead = len(last["rows"]) - (steps - step)  # where in the last life that step was
    rows = last["rows"][ahead] if 0 <= ahead < len(last["rows"]) else alone["rows"][step]
    if rows == alone["rows"][step]:
        return (
            "The samples of this step are right. Restore the weights, the optimizer state and the generators of the "
            "CPU and this GPU, all as they were after the same update."
        )
    return (
        f"This step used the samples {', '.join(map(str, rows))}, but in uninterrupted training it uses "
        f"{', '.join(map(str, alone['rows'][step]))}. "
        "Restore the epoch's order, the position in it and the generator that draws the orders."
    )


@ex5.fact(
    "uninterrupted training shuffles each epoch, makes one update for each batch and returns the losses of all steps"
)
def _(student):
    compare_lives(student, student.devices[0], 10, 4, 7, [], dropout=0.0)


@ex5.fact("all files are next to the checkpoint, and their names begin with `path`")
def _(student):
    run = student.run(run_lives, student.devices[0], 10, 4, 7, 0.0, [], 5, False)
    strayed = run["alone"]["strayed"]
    need(
        not strayed,
        f"a file {'in another folder' if any(strayed) else 'with another name'} takes the checkpoint's place. Begin "
        "its name with `path`. A move from another disk copies the file, and a copy can stop in the middle.",
    )


@ex5.fact("a stop in a forward pass does not change a single bit of the losses and weights")
def _(student):
    compare_lives(student, student.devices[0], 10, 4, 8, [("forward", random.Random(1).randrange(4, 7))])


@ex5.fact("a stop right after an update or during a save does not change the losses and weights")
def _(student):
    compare_lives(student, student.devices[0], 10, 4, 7, [("step", 5)])
    compare_lives(student, student.devices[0], 10, 4, 7, [("save", 5)])


@ex5.fact("a stop before a file is removed or renamed does not change the losses and weights")
def _(student):
    compare_lives(student, student.devices[0], 10, 4, 7, [("file", 4), ("file", 2)])


@ex5.fact("called again after all steps are done, train_resumably returns at once")
def _(student):
    compare_lives(student, student.devices[0], 8, 4, 4, [("forward", 3)], again=True)


@ex5.fact("a stop in the middle of a file copy does not change the losses and weights")
def _(student):
    compare_lives(student, student.devices[0], 10, 4, 7, [("copy", 4), ("copy", 2)])
