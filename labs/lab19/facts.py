"""Lab 19's visible facts: what `check("ex1")` tells the learner, and the first part of the grade.

A probe makes a new cluster (utils/kits/small_cluster.py), so nothing of the notebook is left on it. A small twin is
compared with one model on the CPU, value by value. GPT-2 medium has shapes only: its memory and time are simulated.
"""

import math
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from utils.exercises.facts import Lab, StudentError, Unmet, case, need
from utils.exercises.facts.probes import fill
from utils.kits.small_cluster import GPUS, LENGTH, MEMORY, bound, forward_seconds, mean_loss, undivided_work
from utils.models.gpt import GPT
from utils.observe.trace import Event

lab = Lab("lab19", "Capstone: GPT-2 on four small GPUs")

ENOUGH = 0.85  # of the bound
# Times the operations of a twin's products: in attention half of them may be left out, and all done again once.
LEAST_WORK, MOST_WORK = 0.75, 1.6
SOONEST = 0.8  # of the time of its forward pass: the first loss cannot be there before its rows went through all blocks
PAR = 97  # percent of the bound: the course's own answer, rounded down
LEARNING_RATE = 1e-3
VOCAB_SIZE, HIDDEN_SIZE, HEADS, TEXT = 40, 64, 2, 8  # of the twin: its rotary tables are larger than the tokens
IDLE = 1 / 20  # of a step's operations: a GPU with less takes no part. The least of right answers is 0.14
STEPS = 3  # of the twin: that Adam keeps its state from step to step shows in the third
GB = 1e9
# Bytes that Adam moves for a weight at least: it reads the weight, its gradient and two moments, and writes three.
ADAM = 7 * 4
FEW = 0.05  # of the weights' bytes: tables may pass the CPU in exercises 2 and 3, and what is too large for a GPU not
ARITHMETIC = ("add", "sub", "mul", "div", "sum", "mean")  # which joins no pieces
TIMES = 3.0  # weights so large that AdamW's decay changes the next loss by 6e-6 of itself, and rounding by 1e-7


# --- the twin: are the numbers those of one model? ------------------------------------------------------------------


def run_twin(lab, name, blocks, order, batches, times):
    from functools import partial

    import torch

    from utils.exercises.facts.probes import array, fill, kind_of
    from utils.kits.small_cluster import host_bytes, kernels, mean_loss, operations, small_cluster, updated_bytes
    from utils.models.gpt import GPT
    from utils.observe.trace import record

    cluster = small_cluster(compute=True, nodes=3)
    devices = [cluster[number] for number in order]
    places = [str(place) for place in devices]
    model = GPT(40, 64, 2, blocks)
    fill(model, 14)
    for p in model.parameters():
        p.data.copy_(p.data * times)
    names = [name for name, _ in model.named_parameters()]
    weights = sum([p.numel() for p in model.parameters()])
    if name == "make_trainer":
        made = lab.make_trainer(model, devices, partial(mean_loss))
    elif name == "that_fits":
        made = lab.that_fits(model, devices, partial(mean_loss))
    else:
        made = lab.that_is_fast(model, devices, partial(mean_loss))
    wrong, losses, found, hosts, flops, updated, looked = [], [], [], [], [], [], []

    def told():
        return {
            "wrong": "".join(wrong[:1]),
            "names": names,
            "losses": losses,
            "gradients": found,
            "host": hosts,
            "flops": flops,
            "updated": [size / weights for size in updated],
            "looked": looked,
        }

    if not isinstance(made, tuple) or len(made) != 2:
        wrong.append(f"{name} returned {kind_of(made)}. Return a tuple of two functions, (step, gradients).")
        return told()
    step, gradients = made
    for tokens, targets in batches:
        with record(*places) as timeline:
            loss = step(torch.from_numpy(tokens.copy()), torch.from_numpy(targets.copy()))
        hosts.append(host_bytes(timeline))
        flops.append(operations(timeline))
        updated.append(updated_bytes(timeline))
        if not isinstance(loss, (float, torch.Tensor)):
            wrong.append(f"step returned {kind_of(loss)}. Return the batch's mean loss as a float or a tensor.")
            return told()
        losses.append(array(loss).ravel() if isinstance(loss, torch.Tensor) else torch.tensor([loss]).numpy())
        with record(*places) as timeline:
            grads = gradients()
        if not isinstance(grads, dict):
            wrong.append(f"gradients() returned {kind_of(grads)}. Return a dict of gradients.")
            return told()
        if host_bytes(timeline):
            wrong.append("gradients() copies between the CPU and the GPUs. Leave each gradient on its GPU.")
        if sum(operations(timeline)):
            wrong.append("gradients() runs computations. Compute all sums in step, before Adam's update.")
        looked += kernels(timeline)
        given = [str(name) for name in grads]
        for key in [name for name in names if name not in given][:1]:
            near = [name for name in given if name[-len(key) :] == key]
            has = (
                f"It has {near[0]!r} instead" if near else f"It has {len(given)} gradients for {len(names)} parameters"
            )
            wrong.append(
                f"The dict from gradients() lacks {key!r}. {has}. Use the names in dict(model.named_parameters())."
            )
            return told()
        kept = [grads.get(name) for name in names]
        for key, grad in zip(names, kept, strict=True):
            if not isinstance(grad, torch.Tensor):
                wrong.append(f"The dict from gradients() has {kind_of(grad)} for {key!r} instead of a tensor.")
                return told()
            if str(grad.device) not in places:
                wrong.append(f"The gradient of {key!r} is on {grad.device}. Use only the GPUs in `devices`.")
        found.append([array(grad) for grad in kept])
    return told()


def twin_batches(rows, steps=STEPS):
    numbers = np.random.default_rng(rows)
    return [[numbers.integers(0, VOCAB_SIZE, (rows, TEXT)) for _ in range(2)] for _ in range(steps)]


def expected_twin(blocks, batches, times=1.0, kind=torch.optim.Adam):
    """Losses and gradients of one model on the CPU that trains with Adam, batch by batch."""
    model = GPT(VOCAB_SIZE, HIDDEN_SIZE, HEADS, blocks)
    fill(model, 14)
    for p in model.parameters():
        p.data *= times
    optimizer = kind(model.parameters(), lr=LEARNING_RATE)
    losses, gradients = [], []
    for tokens, targets in batches:
        model.zero_grad()
        loss = mean_loss(model(torch.from_numpy(tokens)), torch.from_numpy(targets))
        loss.backward()
        losses.append(loss.item())
        gradients.append([p.grad.numpy().copy() for p in model.parameters()])
        optimizer.step()
    return losses, gradients


def untied_gradients(blocks, batches) -> dict[str, list[np.ndarray]]:
    """Gradients of the second step, where embedding and head have a copy each, and one gets another gradient."""
    own = "Adam updated {} with its own gradient only"
    return {
        own.format("the head's copy"): _untied(blocks, batches, lambda embed, head: (embed + head, head)),
        own.format("the embedding's copy"): _untied(blocks, batches, lambda embed, head: (embed, embed + head)),
        own.format("each copy"): _untied(blocks, batches, lambda embed, head: (embed, head)),
        "Adam did not update the head's copy": _untied(blocks, batches, lambda embed, head: (embed + head, None)),
        "the sum for the head's copy counts the head's gradient twice": _untied(
            blocks, batches, lambda embed, head: (embed + head, embed + 2 * head)
        ),
    }


def _untied(blocks, batches, given):
    model = GPT(VOCAB_SIZE, HIDDEN_SIZE, HEADS, blocks)
    fill(model, 14)
    embed = model.embed.weight
    head = model.head.weight = torch.nn.Parameter(embed.detach().clone())
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    for tokens, targets in batches:
        model.zero_grad()
        mean_loss(model(torch.from_numpy(tokens)), torch.from_numpy(targets)).backward()
        found = [(p.grad + head.grad if p is embed else p.grad).numpy() for p in model.parameters() if p is not head]
        embed.grad, head.grad = given(embed.grad, head.grad)
        optimizer.step()
    return found


@cache
def twin_work(blocks, rows) -> int:
    """The operations of the products of a step."""
    model = GPT(VOCAB_SIZE, HIDDEN_SIZE, HEADS, blocks)
    tokens, targets = (torch.from_numpy(each) for each in twin_batches(rows)[0])
    with FlopCounterMode(display=False) as counted:
        mean_loss(model(tokens), targets).backward()
    return counted.get_total_flops()


def ask_twin(student, name, blocks=6, rows=16, order=(0, 1, 2, 3), times=1.0, steps=STEPS):
    """A run of the twin, in which something may be wrong. Its weights are so many times as large as usual."""
    return student.run(run_twin, name, blocks, list(order), twin_batches(rows, steps), times)


def twin(student, *asked, **more):
    run = ask_twin(student, *asked, **more)
    need(not run["wrong"], run["wrong"])
    for kernel in run["looked"]:
        need(
            kernel.removeprefix("_foreach_").rstrip("_") not in ARITHMETIC,
            f"gradients() runs computations, such as the kernel {kernel}. Compute all sums in step, before Adam's "
            "update.",
        )
    return run


def told_twin(blocks, rows, order) -> str:
    moved = "" if list(order) == sorted(order) else f", on GPUs {', '.join(map(str, order))}"
    return f"With {blocks} blocks and {rows} samples{moved}"


def compare_twin(student, name, blocks=6, rows=16, order=(0, 1, 2, 3), steps=STEPS):
    with case(told_twin(blocks, rows, order)):
        run, batches = twin(student, name, blocks, rows, order, steps=steps), twin_batches(rows, steps)
        losses, gradients = expected_twin(blocks, batches)
        compare_loss(run["losses"][0], losses[0], "step returned")
        compare_gradients(run["names"], run["gradients"][0], gradients[0])
        with case("Step 2"):
            if differing(run["names"], run["gradients"][1], gradients[1], 1e-3):
                need_tied(run, blocks, batches[:2])
            told = "The first update was not one Adam step (lr=1e-3) on every GPU. The next step returned"
            compare_loss(run["losses"][1], losses[1], told)
            need_cleared(run, gradients)
            compare_gradients(run["names"], run["gradients"][1], gradients[1])
        with case("Step 3"):
            for mine, right in zip(run["gradients"][2:], gradients[2:], strict=True):
                need(not differing(run["names"], mine, right, 1e-3), f"After two correct steps, {STATE_LOST}")


STATE_LOST = "the second update is wrong. Create each optimizer once, outside step, so that Adam keeps its state."


def need_tied(run, blocks, batches):
    for said, untied in untied_gradients(blocks, batches).items():
        need(
            differing(run["names"], run["gradients"][1], untied, 1e-3),
            f"Embedding and head share a weight, but your two copies of it are no longer equal: {said}. Give both "
            "copies the sum of the two gradients before Adam's step.",
        )


def need_cleared(run, gradients):
    """The second step's gradients are not added to the first step's. (Those of the shared weight may be so twice.)"""
    names = [number for number, name in enumerate(run["names"]) if name != "embed.weight"]
    need(
        not all(apart(run["gradients"][1][n], gradients[0][n] + gradients[1][n]) < 1e-3 for n in names),
        "The gradients still include those of the first step. Clear the gradients at the beginning of step.",
    )


def compare_loss(found, right, told):
    need(found.size == 1, f"step returned {found.size} numbers. Return one number, the mean loss.")
    found = float(found[0])
    times = found / right
    whole = abs(times - round(times)) < 1e-3 and times > 1.5
    need(
        math.isclose(found, right, rel_tol=1e-4),
        f"{told} a loss of {found:.4f}, but the undivided model's loss is {right:.4f}."
        + (f" That is {times:.0f} times as much. Return the mean over all samples." if whole else ""),
    )


def apart(mine, right) -> float:
    """The length of the difference, as a share of the length of what is right."""
    return float(np.linalg.norm(mine - right) / max(np.linalg.norm(right), 1e-12))


def differing(names, mine, right, most) -> list[str]:
    """The parameters whose gradients differ. One that is nearly zero may be off by what is rounded in the others."""
    size = np.linalg.norm(np.concatenate([each.ravel() for each in right]))
    return [
        name
        for name, one, other in zip(names, mine, right, strict=True)
        if one.shape != other.shape or np.linalg.norm(one - other) > most * (np.linalg.norm(other) + 0.01 * size)
    ]


def compare_gradients(names, mine, right, most=1e-3):
    for name, one, other in zip(names, mine, right, strict=True):
        need(one.shape == other.shape, f"The gradient of {name} has the shape {one.shape} instead of {other.shape}.")
    size = np.linalg.norm(np.concatenate([each.ravel() for each in right]))
    times = np.linalg.norm(np.concatenate([each.ravel() for each in mine])) / size
    same = all(
        np.linalg.norm(one - times * other) <= most * times * size for one, other in zip(mine, right, strict=True)
    )
    need(
        not same or abs(times - 1) < most,
        f"All gradients are {times:.3g} times those of the undivided model. Weight each micro-batch's mean loss by its "
        "share of the samples, exactly once.",
    )
    wrong = differing(names, mine, right, most)
    need(
        wrong != ["embed.weight"],
        "All gradients except that of embed.weight are right. Embedding and head share this weight: add the "
        "gradients of both uses.",
    )
    need(not wrong, f"The gradient of {' and '.join(wrong[:2])} differs from that of the undivided model.")


def compare_with_own(student, name, blocks=6, rows=16, order=(0, 1, 2, 3), steps=STEPS):
    """The loss and the gradients are those of the undivided model, or of make_trainer: what that does is exercise 1."""
    with case(told_twin(blocks, rows, order)):
        run = ask_twin(student, name, blocks, rows, order, steps=steps)
        idle = idle_gpus(order, run)
        if not run["wrong"] and not idle and is_undivided(run, blocks, twin_batches(rows, steps)):
            return
        own = ask_twin(student, "make_trainer", blocks, rows, order, steps=steps)
        need(run["wrong"] in ("", own["wrong"].replace("make_trainer", name)), run["wrong"])
        why = {
            2: " Check that every optimizer takes one step and that you clear the gradients.",
            3: f" After two correct steps, {STATE_LOST}",
        }
        for step, (one, two) in enumerate(zip(run["losses"], own["losses"], strict=False), 1):
            loss, other = float(one.mean()), float(two.mean())
            need(
                math.isclose(loss, other, rel_tol=1e-4),
                f"Step {step} returned a loss of {loss:.4f}, but the one from your make_trainer returned {other:.4f}."
                f"{why.get(step, '')}",
            )
        for step, (mine, right) in enumerate(zip(run["gradients"], own["gradients"], strict=False), 1):
            wrong = differing(run["names"], mine, right, 1e-3)
            need(
                not wrong,
                f"After step {step}, the gradient of {' and '.join(wrong[:2])} differs from that of your make_trainer."
                f"{why.get(step, '')}",
            )
        need_no_idle([gpu for gpu in idle if gpu not in idle_gpus(order, own)])


def is_undivided(run, blocks, batches) -> bool:
    losses, gradients = expected_twin(blocks, batches)
    return all(
        one.size == 1 and math.isclose(float(one[0]), other, rel_tol=1e-4)
        for one, other in zip(run["losses"], losses, strict=True)
    ) and not any(
        differing(run["names"], mine, right, 1e-3) for mine, right in zip(run["gradients"], gradients, strict=True)
    )


def idle_gpus(order, run) -> list[int]:
    """The GPUs that take no part in the last step of a run of the twin."""
    if not run["flops"]:
        return []
    flops = run["flops"][-1]
    return [gpu for gpu, own in zip(order, flops, strict=True) if own <= IDLE * sum(flops)]


def need_no_idle(gpus):
    need(
        not gpus,
        f"GPU {gpus[0] if gpus else ''} does almost no computation. Give each GPU a share of the blocks, however many "
        "the model has.",
    )


def need_all_four(student, name, blocks=6, rows=16, order=(0, 1, 2, 3), steps=STEPS):
    run = twin(student, name, blocks, rows, order, steps=steps)
    with case(told_twin(blocks, rows, order)):
        need_no_idle(idle_gpus(order, run))
    given = 2 * rows * TEXT * 8  # bytes of tokens and targets
    need(
        run["host"][-1] <= 5 * given,
        f"In a step, {run['host'][-1]} bytes are copied between the CPU and the GPUs, but tokens and targets have only "
        f"{given}. Copy everything else (weights, rotary tables) to the GPUs once, before the first step.",
    )
    done = sum(run["flops"][-1]) / twin_work(blocks, rows)
    need(
        LEAST_WORK <= done <= MOST_WORK,
        f"In a step, the GPUs do {done:.2f} times the operations that are needed. Is some work done elsewhere, or "
        "twice?",
    )


# --- GPT-2 medium: shapes, memory, time -----------------------------------------------------------------------------


def run_medium(lab, fits, rows):
    from dataclasses import asdict

    import torch

    import simgpu
    from utils.exercises.ledger import adding_to
    from utils.kits.small_cluster import (
        LENGTH,
        gpt2_medium,
        host_bytes,
        mean_loss,
        operations,
        outline,
        small_cluster,
        updated_bytes,
    )
    from utils.observe.trace import record

    cluster = small_cluster()
    places, model, asked, counted = [str(place) for place in cluster], gpt2_medium(), [], []
    note, count = adding_to(asked), adding_to(counted)
    weights = sum(p.numel() for p in model.parameters())

    def loss_fn(output, targets):
        note(str(output.device))
        count(targets.numel())
        with simgpu.label("loss"):
            return mean_loss(output, targets)

    gpu = torch.get_device_module(cluster[0])
    step, _ = lab.that_fits(model, cluster, loss_fn) if fits else lab.that_is_fast(model, cluster, loss_fn)
    tokens = torch.zeros(16, LENGTH, dtype=torch.long)
    step(tokens, tokens)  # so that Adam's state is there
    tokens = torch.zeros(rows, LENGTH, dtype=torch.long)
    first = len(asked)  # of the step before, which is not looked at
    for place in cluster:
        gpu.reset_peak_memory_stats(place)
    with record(*places) as timeline:
        step(tokens, tokens)
    return {
        "places": places,
        "asked": asked[first:],
        "rows": [tokens / LENGTH for tokens in counted[first:]],
        "sent": sum([event.bytes for event in timeline.events if event.kind == "d2d"]),
        "flops": sum(operations(timeline)),
        "weights": weights,
        "updated": updated_bytes(timeline),
        "busy": [timeline.busy(place) for place in places],
        "host": host_bytes(timeline),
        "given": 2 * rows * LENGTH * 8,
        "peaks": [gpu.max_memory_allocated(place) for place in cluster],
        "span": timeline.span,
        "timeline": asdict(outline(timeline)),
    }


def medium(student, name, rows):
    """A run of GPT-2 medium that has done the work of a step. Raises Unmet where it did not."""
    seconds, flops = undivided_work(rows)
    try:
        run = student.run(run_medium, name == "that_fits", rows)
    except StudentError as error:
        if "keeps only shapes" in str(error):
            raise Unmet(
                "GPT-2 medium has only shapes here, but your step reads a value, for example with .item(), print or "
                "if. Return the loss as a tensor."
            ) from None
        if "out of memory" in str(error):
            raise Unmet(
                f"The step does not fit in memory. {error}\nFor this GPU, add 16 bytes per weight and the activations "
                "of all micro-batches in flight."
            ) from None
        raise
    need(run["asked"], "step did not call loss_fn.")
    run |= {"bound": bound(seconds, run["asked"]), "ideal": seconds / GPUS, "needed": flops}
    need(
        run["flops"] >= 0.99 * run["needed"],
        f"A step does only {run['flops'] / run['needed']:.0%} of the floating-point operations that it needs.",
    )
    if run["updated"] < ADAM * run["weights"] or run["host"] > 5 * run["given"]:
        need_no_more_than_own(student, run)
    need(
        sum(run["rows"]) >= rows,
        f"In a step, loss_fn received {sum(run['rows']):g} samples in total, but the batch has {rows}.",
    )
    # What lies between two stages of a pipeline crosses there and its gradient comes back. Other ways send more.
    crossing = 2 * (GPUS / len({*run["asked"]}) - 1) * rows * LENGTH * 1024 * 4
    need(
        run["sent"] >= crossing,
        f"In a step, the GPUs send each other only {run['sent'] / 1e6:.0f} MB. The activations between the stages of a "
        f"pipeline and their gradients take {crossing / 1e6:.0f} MB for all samples. Use all four GPUs.",
    )
    return run


def need_no_more_than_own(student, run):
    """Adam moves all that it has to, and little passes the CPU. What make_trainer does on the twin is exercise 1."""
    own = ask_twin(student, "make_trainer")
    moved = min(ADAM, *own["updated"]) if own["updated"] else ADAM
    need(
        run["updated"] >= moved * run["weights"],
        f"Adam reads and writes {run['updated'] / GB:.1f} GB in a step, but an update of all weights needs at least "
        f"{ADAM * run['weights'] / GB:.1f} GB. Give every parameter to an optimizer, and call step() on each "
        "optimizer.",
    )
    given = 2 * 16 * TEXT * 8  # bytes of the twin's tokens and targets
    brings = any(size > 5 * given for size in own["host"])
    need(
        run["host"] <= (FEW * 4 * run["weights"] if brings else 5 * run["given"]),
        f"In a step, {run['host'] / 1e6:.0f} MB are copied between the CPU and the GPUs. Copy only tokens and targets "
        "in a step, and everything else once, before the first step.",
    )


def need_fit(student, name, rows):
    with case(f"With GPT-2 medium and {rows} samples"):
        return medium(student, name, rows)


def need_room(student, name, some, more, rows):
    """It fits with `some` rows and with `more`, and to go on like that would leave room for `rows`."""
    few, many = (need_fit(student, name, each)["peaks"] for each in (some, more))
    for gpu, (one, other) in enumerate(zip(few, many, strict=True)):
        at_last = one + (other - one) * (rows - some) / (more - some)
        need(
            at_last <= MEMORY,
            f"The peak memory of GPU {gpu} is {one / GB:.2f} GB with {some} samples and {other / GB:.2f} GB with "
            f"{more}. With {rows}, it would be {at_last / GB:.2f} GB, but the GPU has {MEMORY / GB:.2f} GB. Fix the "
            "size of the micro-batches, not their number.",
        )


def share_of(run) -> float:
    return run["bound"] / run["span"]


def why_slow(run) -> str:
    busy = [each / run["span"] for each in run["busy"]]
    if run["flops"] > 1.1 * run["needed"]:
        return "Find the work that is done twice or is not needed."
    if max(busy) - min(busy) > 0.15:
        return f"GPU {busy.index(max(busy))} has the most work, and the other GPUs wait for it. Rebalance the work."
    return (
        "All GPUs are idle for part of the step. Look for a bubble, copies that delay kernels, or kernels too small to "
        "keep a GPU busy."
    )


def need_share(student, name, rows=64):
    with case(f"With GPT-2 medium and {rows} samples"):
        run = medium(student, name, rows)
        copies = len({*run["asked"]})
        counted = (
            f"{copies} replica{'' if copies == 1 else 's'}, {len(run['asked']) / copies:g} micro-batches per replica"
        )
        busy = ", ".join(f"{each / run['span']:.0%}" for each in run["busy"])
        need(
            share_of(run) >= ENOUGH,
            f"The step reaches {share_of(run):.0%} of its bound, but must reach {ENOUGH:.0%}. It takes "
            f"{run['span']:.2f} s, and the bound is {run['bound']:.2f} s ({counted}).\nThe utilization of the GPUs is "
            f"{busy}. They do {run['flops'] / run['needed']:.2f} times the needed operations. {why_slow(run)}",
        )
        events = (Event(*event) for event in run["timeline"]["events"])
        first = min(event.start for event in events if event.label == "loss") - run["timeline"]["begin"]
        soonest = forward_seconds(run["rows"][0])
        need(
            first >= SOONEST * soonest,
            f"The first loss is ready after {first:.3f} s, but the forward pass of its samples takes {soonest:.3f} s. "
            "Give each stage the output of the previous stage.",
        )


# --- ex1: right -----------------------------------------------------------------------------------------------------

ex1 = lab.exercise(
    "ex1",
    points=8,
    title="Right",
    hints=[
        "Start from an answer to lab 10, 11 or 12 that already gives correct gradients on several devices. Which part "
        "of this model is new?",
        "embed.weight and head.weight are one parameter. Which GPUs use it, and how do you get its gradient from the "
        "gradients of both uses?",
        "For each parameter, print how far its gradient is from that of the model on one GPU. Are all gradients wrong "
        "or only one, and by which factor?",
        "If step 2 is the first wrong one, are gradients cleared, and are both copies of the shared weight equal after "
        "Adam's update? If step 3 is the first wrong one, does Adam keep its state?",
    ],
)


@ex1.fact("three steps of a small model have the loss and the gradients of the undivided model")
def _(student):
    compare_twin(student, "make_trainer")


@ex1.fact("all four GPUs compute, and only tokens and targets come from the CPU")
def _(student):
    need_all_four(student, "make_trainer")


@ex1.fact("the update is that of torch.optim.Adam, even for large weights")
def _(student):
    with case(f"With weights {TIMES:g} times as large"):
        run, batches = twin(student, "make_trainer", blocks=4, times=TIMES, steps=2), twin_batches(16, 2)
        losses, decayed = (expected_twin(4, batches, TIMES, k)[0] for k in (torch.optim.Adam, torch.optim.AdamW))
        loss = float(run["losses"][1].mean())
        need(
            abs(loss - losses[1]) <= abs(loss - decayed[1]),
            "The loss of step 2 is closer to that of torch.optim.AdamW than to that of Adam. AdamW's weight decay "
            "shrinks every weight in each step. Use torch.optim.Adam.",
        )


# --- ex2: it fits ---------------------------------------------------------------------------------------------------

ex2 = lab.exercise(
    "ex2",
    points=4,
    title="It fits",
    hints=[
        "For each GPU, write down 16 bytes per weight and Adam's temporary memory during an update. How much is left "
        "for activations?",
        "How many micro-batches does the fullest GPU have in flight, and does that number grow with the batch?",
        "Print max_memory_allocated(device) after make_trainer, after the first step and after the second. How large "
        "are the logits of a micro-batch, and how many tensors of that size exist at once?",
    ],
)


@ex2.fact("on a small model, the loss and the gradients are those of make_trainer")
def _(student):
    compare_with_own(student, "that_fits", blocks=5)


@ex2.fact("GPT-2 medium trains with a batch of 64 samples, and no GPU runs out of memory")
def _(student):
    need_fit(student, "that_fits", 64)


# --- ex3: it is fast ------------------------------------------------------------------------------------------------

ex3 = lab.exercise(
    "ex3",
    points=5,
    title="It is fast",
    hints=[
        "Plot the step. Which GPU is busy longest, and which GPUs wait? How many blocks take as long as the head?",
        "Idle time at the beginning and the end is the bubble: use more micro-batches. Idle time in between comes from "
        "copies: on which streams do they run? With replicas, does Python launch the whole step of the first replica "
        "before that of the second?",
        "Compare the floating-point operations with those of the undivided model. Is any work done twice?",
    ],
)


@ex3.fact("on a small model, the loss and the gradients are those of make_trainer")
def _(student):
    compare_with_own(student, "that_is_fast", blocks=7)


@ex3.fact(f"GPT-2 medium reaches {ENOUGH:.0%} of its bound with a batch of 64 samples")
def _(student):
    need_share(student, "that_is_fast")


@ex3.timeline
def _(student):
    return medium(student, "that_is_fast", 64)["timeline"]


@ex3.scored(par=PAR, unit="% of its bound; higher is better")
def _(student):
    return 100 * share_of(medium(student, "that_is_fast", 64))


# --- ex4: the cheapest cluster --------------------------------------------------------------------------------------

ex4 = lab.exercise(
    "ex4",
    points=3,
    title="The cheapest cluster",
    hints=[
        "There are few combinations of an offer and a number of nodes. Compute the price of each one.",
        "Drop the combinations that do not fit or are too slow. For the others, count whole hours and all GPUs.",
        "More nodes can make a step slower, and a later finish can cost less. Compare all combinations.",
    ],
    likely={
        "empty sequence": "If nothing that fits is done in time, no combination is left. Return None.",
    },
)

MODELS = {
    "a small model": {"weights": 354e6, "tokens": 7e9, "batch": 262_144, "kept": 2e9},
    "a model with 6.7 billion weights": {"weights": 6.7e9, "tokens": 140e9, "batch": 4_194_304, "kept": 12e9},
}


@dataclass(frozen=True)
class Offer:
    """GPUs for rent, in whole nodes."""

    name: str
    flops: float
    memory: float
    per_node: int
    most_nodes: int
    link: float
    network: float
    dollars: float  # a GPU and an hour

    def step(self, model, nodes) -> tuple[float, float]:
        """Seconds of computing and of sending in a step."""
        gpus = nodes * self.per_node
        bandwidth = self.link if nodes == 1 else min(self.link, self.per_node * self.network)
        computing = 6 * model["weights"] * model["batch"] / (gpus * self.flops)
        return computing, 3 * 2 * model["weights"] * (gpus - 1) / gpus / bandwidth

    def seconds(self, model, nodes) -> float:
        return math.ceil(model["tokens"] / model["batch"]) * sum(self.step(model, nodes))

    def needs(self, model, nodes) -> float:
        """Bytes on each GPU."""
        return 16 * model["weights"] / (nodes * self.per_node) + model["kept"]

    def fits(self, model, nodes) -> bool:
        return self.needs(model, nodes) <= self.memory

    def price(self, model, nodes) -> float:
        return math.ceil(self.seconds(model, nodes) / 3600) * nodes * self.per_node * self.dollars


def choices(model, offers, hours) -> list[tuple[float, str, int]]:
    """Price, name and nodes of all that fits and is done in time, the cheapest first."""
    return sorted(
        (offer.price(model, nodes), offer.name, nodes)
        for offer in offers
        for nodes in range(1, offer.most_nodes + 1)
        if offer.fits(model, nodes) and offer.seconds(model, nodes) <= 3600 * hours
    )


OFFERS = (
    Offer("A", 11e12, 16e9, 4, 8, 11e9, 1.5e9, 0.5),
    Offer("B", 110e12, 40e9, 8, 16, 230e9, 3e9, 2.5),
    Offer("C", 350e12, 80e9, 8, 8, 370e9, 6e9, 6.0),
    Offer("D", 60e12, 24e9, 2, 32, 22e9, 12e9, 1.1),
    Offer("E", 90e12, 12e9, 4, 64, 22e9, 12e9, 0.9),
)


def ask_cheapest(lab, model, offers, hours):
    from utils.exercises.facts.probes import kind_of, text_or_kind

    found = lab.cheapest(dict(model), [dict(offer) for offer in offers], hours)
    if found is None:
        return None
    if not isinstance(found, tuple) or len(found) != 2:
        return kind_of(found)
    name, nodes = found
    if not isinstance(name, str) or not isinstance(nodes, int):
        return f"({text_or_kind(name)}, {kind_of(nodes)})"
    return [name, nodes]


def nodes_of(number: int) -> str:
    return f"{number} node{'' if number == 1 else 's'}"


def told_hours(model, offer: Offer, nodes: int) -> str:
    """How long it takes, with the numbers to compare one's own with."""
    steps, (computing, sending) = math.ceil(model["tokens"] / model["batch"]), offer.step(model, nodes)
    return (
        f"takes {offer.seconds(model, nodes) / 3600:.1f} hours: {steps} steps, each with {computing:.4g} s of "
        f"computation and {sending:.4g} s of communication"
    )


def compare_cheapest(student, model, offers, hours, told):
    with case(f"For {told}, with a deadline of {hours} hours"):
        found = student.run(ask_cheapest, model, [vars(offer) for offer in offers], hours)
        right = choices(model, offers, hours)
        if found is None:
            for _, name, nodes in right[:1]:
                [offer] = [each for each in offers if each.name == name]
                late = offer.seconds(model, nodes) > 3600 * (hours - 1)
                paid = " That is in time, because only the price rounds hours up." if late else ""
                need(
                    False,
                    f"cheapest returned None, but {name} with {nodes_of(nodes)} fits and "
                    f"{told_hours(model, offer, nodes)}.{paid}",
                )
            return
        need(not isinstance(found, str), f"cheapest returned {found}. Return a tuple of a name and a number of nodes.")
        name, nodes = found
        [offer] = [each for each in offers if each.name == name] or [None]
        need(offer is not None, f"cheapest returned {name!r}, but no offer has this name.")
        need(
            1 <= nodes <= offer.most_nodes,
            f"You can rent {name} with 1 to {offer.most_nodes} nodes, but not with {nodes}.",
        )
        said = f"{name} with {nodes_of(nodes)}"
        need(
            offer.fits(model, nodes),
            f"{said} does not fit. Each GPU needs {offer.needs(model, nodes) / GB:.2f} GB ({model['kept'] / GB:.2f} "
            f"GB of it for activations), but has only {offer.memory / GB:.2f} GB.",
        )
        need(offer.seconds(model, nodes) <= 3600 * hours, f"{said} is too slow. It {told_hours(model, offer, nodes)}.")
        price = offer.price(model, nodes)
        need(
            price <= right[0][0] * (1 + 1e-9),
            f"{said} costs {price:.0f} dollars, but another choice costs {right[0][0]:.0f}. {said} "
            f"{told_hours(model, offer, nodes)}. You pay for whole hours and {nodes * offer.per_node} GPUs.",
        )


@ex4.fact("the cheapest cluster, or None, is returned for two models and several deadlines")
def _(student):
    for told, model in MODELS.items():
        for hours in (24, 100, 400):
            compare_cheapest(student, model, OFFERS[:4], hours, f"{told} and four offers")
            compare_cheapest(student, model, OFFERS, hours, f"{told} and five offers")
    compare_cheapest(
        student,
        MODELS["a model with 6.7 billion weights"],
        OFFERS[:1],
        1000,
        "a model with 6.7 billion weights and one offer",
    )


A_NODE = replace(OFFERS[0], most_nodes=1)
SMALL = MODELS["a small model"]


@ex4.fact("the GPUs of one node use the link, however slow the network is")
def _(student):
    compare_cheapest(student, SMALL, [replace(A_NODE, network=1e8)], 110, "a small model and one node")


@ex4.fact("several nodes communicate no faster than the link, however fast the network is")
def _(student):
    offer = Offer("F", 11e12, 16e9, 2, 8, 1e9, 12e9, 0.5)
    compare_cheapest(student, SMALL, [offer], 30, "a small model and nodes with a slow link")


@ex4.fact("the last step takes as long as the others, even if its batch is smaller")
def _(student):
    steps = SMALL | {"tokens": 1.2e9, "batch": 1e9}
    compare_cheapest(
        student, steps, [A_NODE], 20, "a small model, one node, and 1.2 billion tokens in batches of a billion"
    )


@ex4.fact("training that ends within the last hour is done in time")
def _(student):
    node = replace(A_NODE, link=1e15)
    took = node.seconds(SMALL, 1) / 3600
    compare_cheapest(student, SMALL, [node], math.ceil(took), "a small model and one node")
    between = math.ceil(10 * took) / 10  # is over before the last hour that is paid
    compare_cheapest(student, SMALL, [node], between, "a small model and one node")
