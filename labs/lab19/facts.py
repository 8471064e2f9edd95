"""Lab 19's visible facts: what `check("ex1")` tells the learner, and the first part of the grade.

A probe makes a new cluster whose ranks are threads (utils/kits/two_nodes.py), so nothing of the notebook is left on it.
A small decoder is compared with one model on the CPU, value by value. The large one has shapes only: its memory and
time are simulated.
"""

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from utils.exercises.facts import Lab, StudentError, Unmet, case, need
from utils.kits.two_nodes import (
    LARGE,
    LENGTH,
    MEMORY,
    PEAK,
    RANKS,
    SEQUENCES,
    SMALL,
    SMALL_LENGTH,
    batches_of,
    needed_flops,
    undivided,
    weight_shapes,
)

lab = Lab("lab19", "Capstone: a language model on eight GPUs", call_seconds=60)

PAR = 43  # percent MFU: the course's own answer, rounded down
GB = 1e9
# Bytes that AdamW moves for a weight at least: it reads the weight, its gradient and two moments, and writes three.
ADAM = 7 * 4
STATE = 3 * 4  # bytes that a run needs of each weight to go on: the weight and two moments
NEAR_LOSS, NEAR_GRADIENT = 0.004, 0.03  # of the undivided model's: bfloat16 rounds by 0.4%
LIKE = 0.1  # of the loss: a run that trains, whatever is wrong with its steps
SAME_RUN = 1e-5  # of the loss: as many ranks add up in the same order
IDLE = 1 / 2  # of an equal share of the operations: a GPU with less takes no part
LEAST_WORK = 0.75  # times the operations that are needed: half of the attention's may be left out
MOST_WORK = 1.6  # times the operations that are needed: all blocks may be recomputed, and no rank computes all
ARITHMETIC = ("add", "sub", "mul", "div", "sum", "mean")  # which joins no pieces


# --- the small model: are the numbers those of one model? -----------------------------------------------------------


def run_small(lab, name, ranks, blocks, batches):
    import torch
    from torch.distributed.tensor import DTensor

    from utils.exercises.facts import StudentError
    from utils.exercises.facts.probes import array, kind_of
    from utils.kits import two_nodes as kit

    names = list(kit.weight_shapes(kit.SMALL._replace(blocks=blocks)))
    found, losses = [], [[] for _ in range(ranks)]

    def make(model, gpu, weights, loss_fn):
        if name == "make_trainer":
            made = lab.make_trainer(model, gpu, weights, loss_fn)
        else:
            made = lab.make_fast(model, gpu, weights, loss_fn)
        if not isinstance(made, tuple) or len(made) != 2:
            found = f"a tuple of {len(made)}" if isinstance(made, tuple) else kind_of(made)
            raise StudentError(f"{name} returned {found}. Return a tuple of two functions, (step, gradients).")
        step, gradients = made
        rank = torch.distributed.get_rank()

        def and_note(tokens, targets):
            loss = step(tokens, targets)
            if not isinstance(loss, (float, torch.Tensor)):
                raise StudentError(
                    f"step returned {kind_of(loss)}. Return the batch's mean loss as a float or a tensor."
                )
            losses[rank].append(array(loss).ravel() if isinstance(loss, torch.Tensor) else torch.tensor([loss]).numpy())
            if len(losses[rank]) == 1:
                first_gradients(rank, gradients())

        return and_note, gradients

    def first_gradients(rank, grads):
        if not isinstance(grads, dict):
            raise StudentError(f"gradients() returned {kind_of(grads)}. Return a dict of gradients.")
        given = [str(key) for key in grads]
        if not given:
            raise StudentError(f"gradients() returned an empty dict on rank {rank}. Return all names on every rank.")
        for key in [key for key in names if key not in given][:1]:
            raise StudentError(
                f"The dict from gradients() lacks {key!r}. It has {', '.join(given[:2])} and so on, {len(given)} in "
                "all. Use the names in dict(model.named_parameters()), taken before you change the model."
            )
        kept = [grads.get(key) for key in names]
        for key, grad in zip(names, kept, strict=True):
            if not isinstance(grad, torch.Tensor):
                raise StudentError(f"The dict from gradients() has {kind_of(grad)} for {key!r} instead of a tensor.")
            if isinstance(grad, DTensor):
                raise StudentError(f"The gradient of {key!r} is a DTensor. Return its full_tensor().")
            if grad.dtype != torch.float32:
                raise StudentError(f"The gradient of {key!r} is {grad.dtype}. Keep weights and gradients in float32.")
            if str(grad.device) != f"simgpu:{rank}":
                raise StudentError(f"The gradient of {key!r} is on {grad.device}. Leave it on the rank's GPU.")
        if rank in (0, ranks - 1):
            found.append([array(grad) for grad in kept if grad is not None])

    run = kit.train(
        make,
        kit.SMALL._replace(blocks=blocks),
        [[torch.from_numpy(x.copy()) for x in b] for b in batches],
        ranks=ranks,
    )
    flops = [0 for _ in range(ranks)]
    place = {f"simgpu:{rank}": rank for rank in range(ranks)}
    for event in run[2].events:
        flops[place[event.device]] += event.flops
    told = {"names": names, "losses": losses, "gradients": found, "flops": flops}
    return told | {"host": kit.host_bytes(run[2]), "exchanged": kit.exchanged(run[2]), "updates": run[3]}


@cache
def small_batches(sequences, steps, seed):
    return tuple(
        tuple(each.numpy() for each in batch) for batch in batches_of(SMALL, sequences, SMALL_LENGTH, steps, seed)
    )


@cache
def expected(blocks, sequences, steps, seed):
    """Losses of each step of one model on the CPU, and the gradients of the first."""
    sizes = SMALL._replace(blocks=blocks)
    batches = batches_of(sizes, sequences, SMALL_LENGTH, steps, seed)
    _, gradients = undivided(sizes, batches[:1])
    return undivided(sizes, batches)[0], {name: grad.numpy() for name, grad in gradients.items()}


def needed_small(blocks, sequences) -> int:
    return needed_flops(SMALL._replace(blocks=blocks), sequences, SMALL_LENGTH)


def ask_small(student, name, ranks, blocks, steps, seed):
    batches = [list(batch) for batch in small_batches(2 * ranks, steps, seed)]
    return student.run(run_small, name, ranks, blocks, batches)


def compare_small(student, name, ranks=4, blocks=2, steps=3, seed=0):
    sequences = 2 * ranks
    with case(f"With {blocks} blocks, {ranks} ranks and {sequences} sequences"):
        run = ask_small(student, name, ranks, blocks, steps, seed)
        losses, gradients = expected(blocks, sequences, steps, seed)
        compare_losses([own[:1] for own in run["losses"]], losses[:1], "Step 1")
        for found in run["gradients"]:
            compare_gradients(dict(zip(run["names"], found, strict=True)), gradients)
        compare_losses(
            [own[1:] for own in run["losses"]],
            losses[1:],
            "The gradients are right, but the update is wrong: take one step of AdamW on every rank, with a learning "
            "rate of LEARNING_RATE, clear gradients before each step's first backward pass, and create the optimizer "
            "once, after the model is sharded. The next step",
        )
        return run


def compare_losses(by_rank, right, told):
    for rank, own in enumerate(by_rank):
        for found, loss in zip(own, right, strict=True):
            need(found.size == 1, f"step returned {found.size} numbers. Return one number, the mean loss.")
            found = float(found[0])
            need(
                math.isfinite(found),
                f"{told} returned a loss of {found} on rank {rank}. Does every parameter have its initial value, even "
                "in the ranks' shards?",
            )
            times = found / loss if loss else 0.0
            whole = abs(times - round(times)) < 0.01 and times > 1.5
            need(
                abs(found - loss) <= NEAR_LOSS * abs(loss),
                f"{told} returned a loss of {found:.4f} on rank {rank}, but the undivided model's loss is {loss:.4f}."
                + (
                    f" That is {times:.0f} times as much. Return the mean over all tokens of the batch."
                    if whole
                    else ""
                ),
            )


def apart(mine, right) -> float:
    """The length of the difference, as a share of the length of what is right."""
    return float(np.linalg.norm(mine - right) / max(np.linalg.norm(right), 1e-12))


def compare_gradients(mine, right):
    for name, gradient in right.items():
        need(
            mine[name].shape == gradient.shape,
            f"The gradient of {name} has the shape {mine[name].shape} instead of {gradient.shape}. Return whole "
            "gradients, on every rank.",
        )
    lengths = [np.linalg.norm(np.concatenate([each[name].ravel() for name in right])) for each in (mine, right)]
    times = lengths[0] / lengths[1]
    same = bool(times) and all(apart(mine[name], times * right[name]) < 2 * NEAR_GRADIENT for name in right)
    need(
        not same or abs(times - 1) < NEAR_GRADIENT,
        f"All gradients are {times:.3g} times those of the undivided model. Weight each micro-batch's mean loss by its "
        "share of the tokens, exactly once. Which averages do FSDP and your loop take?",
    )
    # A gradient that is nearly zero may be off by what is rounded in the others.
    wrong = [
        name
        for name in right
        if np.linalg.norm(mine[name] - right[name]) >= NEAR_GRADIENT * (np.linalg.norm(right[name]) + lengths[1] / 10)
    ]
    need(
        not wrong,
        f"The gradient of {' and '.join(wrong[:2])} differs from that of the undivided model"
        + (f", and {len(wrong) - 2} more" if len(wrong) > 2 else "")
        + ".",
    )


# What torch.optim.AdamW has by default.
DEFAULTS = {"weight_decay": "0.01", "betas": "(0.9, 0.999)", "eps": "1e-08", "amsgrad": "False"}


def updated_weights(run) -> int:
    """How many weights the optimizers of all ranks update: those of replicas count once for each."""
    return sum(group["weights"] for group in run["updates"])


def need_float32(run, weights):
    """Optimizers update all weights, in float32: losses of a model that computes in bfloat16 don't show it."""
    updated = updated_weights(run)
    need(
        updated >= weights,
        f"The optimizers of all ranks update {updated:,} weights, but the model has {weights:,}. Give every parameter "
        "to an optimizer of torch.optim, and keep the optimizer for all steps.",
    )
    for dtype in sorted({dtype for group in run["updates"] for dtype in group["dtypes"]}):
        need(
            dtype == "torch.float32",
            f"The weights that the optimizer updates, or its state, are {dtype}. Keep them in float32, and let FSDP's "
            "MixedPrecisionPolicy(param_dtype=torch.bfloat16) cast a copy for the kernels.",
        )


def need_adamw(run):
    """Each optimizer is an AdamW with its defaults: weight decay is too little to be seen in three losses."""
    for group in run["updates"]:
        settings = group["settings"]
        need(
            settings.get("decoupled_weight_decay") == "True",
            f"An optimizer is {group['kind']}, not AdamW. Use torch.optim.AdamW with its defaults for all weights.",
        )
        for setting, value in DEFAULTS.items():
            own = settings.get(setting)
            need(
                own == value,
                f"For some weights, AdamW has {setting}={own}. Use its default, {value}, for all weights.",
            )


def settings_of(run) -> list:
    """The different kinds and settings of a run's optimizers."""
    return sorted({(group["kind"], *sorted(group["settings"].items())) for group in run["updates"]})


def are_alike(one, other) -> bool:
    """Whether two runs of the small model have the same losses and gradients."""
    losses, gradients = ([np.concatenate([x.ravel() for own in run[of] for x in own]) for run in (one, other)]
                         for of in ("losses", "gradients"))  # fmt: skip
    return all(a.shape == b.shape and apart(a, b) < NEAR_LOSS for a, b in (losses, gradients))


def need_shares(run, ranks, blocks):
    flops, needed = run["flops"], needed_small(blocks, 2 * ranks)
    done = sum(flops) / needed
    need(
        LEAST_WORK <= done <= MOST_WORK,
        f"In a step, the GPUs do {done:.2f} times the operations that are needed. Give each rank a part of the batch, "
        "or a part of the model, and compute on its GPU.",
    )
    given = 2 * 2 * ranks * SMALL_LENGTH * 8 * ranks  # bytes of tokens and targets, on each rank
    need(
        run["host"] <= given,
        f"In a step, {run['host']} bytes are copied between the CPU and the GPUs, but tokens and targets take only "
        f"{given} on all ranks. Keep everything else on the GPUs.",
    )
    least = min(flops) / (sum(flops) / ranks)
    need(least >= IDLE, f"Rank {flops.index(min(flops))} does only {least:.0%} of an equal share of the operations.")


# --- the large model: shapes, memory, time --------------------------------------------------------------------------


def run_large(lab):
    import torch

    from utils.exercises.facts import StudentError
    from utils.exercises.facts.probes import kind_of
    from utils.kits import two_nodes as kit

    def make(model, gpu, weights, loss_fn):
        made = lab.make_fast(model, gpu, weights, loss_fn)
        if not isinstance(made, tuple) or len(made) != 2:
            raise StudentError(
                f"make_fast returned {kind_of(made)}. Return a tuple of two functions, (step, gradients)."
            )
        return made

    tokens = torch.zeros(kit.SEQUENCES, kit.LENGTH, dtype=torch.long)
    run = kit.train(make, kit.LARGE, [(tokens, tokens)] * 2, compute=False)
    places = [f"simgpu:{rank}" for rank in range(8)]
    events = run[2].events
    return {
        "peaks": run[1],
        "span": run[2].span,
        "busy": [run[2].busy(place) for place in places],
        "kernels": kit.seconds_of_kernels(run[2]),
        "flops": [sum([event.flops for event in events if event.device == place]) for place in places],
        "exchanged": kit.exchanged(run[2]),
        "updated": sum([e.bytes for e in events if e.phase == "optimizer" and e.kind == "kernel"]),
        "updates": run[3],
        "weights": sum([shape.numel() for _, shape in kit.weight_shapes(kit.LARGE).items()]),
    }


def large(student):
    """A run of the large model that has done the work of a step. Raises Unmet where it did not."""
    try:
        run = student.run(run_large)
    except StudentError as error:
        if "keeps only shapes" in str(error):
            raise Unmet(
                "The large model has only shapes here, but your step reads a value, for example with .item(), print or "
                "if. Return the loss as a tensor."
            ) from None
        if "out of memory" in str(error):
            raise Unmet(
                "The step does not fit in memory: a GPU runs out of it.\nFor each GPU, add 16 bytes for each weight "
                "that it holds, the whole weights of the layers that are gathered, and the activations of a "
                "micro-batch."
            ) from None
        raise
    done = sum(run["flops"]) / needed_flops()
    need(done >= 0.97, f"A step does only {done:.0%} of the floating-point operations that it needs.")
    need_float32(run, run["weights"])
    moved = ADAM * updated_weights(run)
    need(
        run["updated"] >= 0.97 * moved,
        f"AdamW reads and writes {run['updated'] / GB:.1f} GB in a step, but an update in float32 of all weights that "
        f"ranks hold needs at least {moved / GB:.1f} GB. Let the optimizer update every parameter in each step.",
    )
    need_the_same_exchange(student, run)
    for rank, (one_by_one, busy) in enumerate(zip(run["kernels"], run["busy"], strict=True)):
        need(
            one_by_one <= 1.01 * busy,
            f"Kernels on the GPU of rank {rank} overlap: {one_by_one:.2f} s of them run in {busy:.2f} s. Leave the "
            "simulated clock as it is.",
        )
    return run


def need_the_same_exchange(student, run):
    """Each rank exchanges what it does with the small model of as many blocks, whose numbers are right."""
    small = ask_small(student, "make_fast", *LIKE_THE_LARGE)
    times = weights_in(LARGE) / weights_in(SMALL._replace(blocks=LARGE.blocks))  # activations grow by more
    for rank, (own, other) in enumerate(zip(run["exchanged"], small["exchanged"], strict=True)):
        for group, size in other.items():
            need(
                size < FEW or own.get(group, 0) >= 0.8 * times * size,
                f"In a step, rank {rank} exchanges {own.get(group, 0) / GB:.2f} GB in the group of {group}. With the "
                f"small model, it is {size} bytes, and the large one has {times:,.0f} times as many weights. Treat "
                "both models alike.",
            )


@cache
def weights_in(sizes) -> int:
    return sum(shape.numel() for shape in weight_shapes(sizes).values())


LIKE_THE_LARGE = RANKS, LARGE.blocks, 2, 0  # ranks, blocks, steps and seed of a run of the small model
FEW = 500  # bytes: losses and counts


def mfu_of(run) -> float:
    """Percent of the peak of all GPUs."""
    return 100 * needed_flops() / (run["span"] * PEAK * RANKS)


def need_mfu(student, share):
    run = large(student)
    reached, least = mfu_of(run), share * PAR
    busy = ", ".join(f"{each / run['span']:.0%}" for each in run["busy"])
    need(
        reached >= least,
        f"The step takes {run['span']:.2f} s: {reached:.1f}% MFU, but this part needs {least:.1f}%.\nThe GPUs are busy "
        f"for {busy} of the step, and do {sum(run['flops']) / needed_flops():.2f} times the needed operations. "
        f"{why_slow(run)}",
    )


def why_slow(run) -> str:
    busy = min(run["busy"]) / run["span"]
    if busy > 0.9 and mfu_of(run) < 10:
        return (
            "They compute at a small fraction of their peak, which is the peak of bfloat16. In which dtype are your "
            "products?"
        )
    if busy < 0.85 and max(run["busy"]) - min(run["busy"]) <= 0.15 * run["span"]:
        return (
            "The rest of the time, they wait for communication. How many bytes do your collectives move between the "
            "nodes, in which dtype, how often in a step, and which kernels overlap them?"
        )
    if sum(run["flops"]) > 1.2 * needed_flops():
        return "Recompute less: which blocks must be recomputed for the step to fit?"
    if max(run["busy"]) - min(run["busy"]) > 0.15 * run["span"]:
        return "One GPU has more work than the others, which wait for it."
    return "All GPUs are idle for part of the step. Which communication crosses the network, and how often in a step?"


# --- ex1: right -----------------------------------------------------------------------------------------------------

ex1 = lab.exercise(
    "ex1",
    points=5,
    title="Right",
    hints=[
        "Begin with the shortest way, fully_shard on each block and on the model, and get its loss right.",
        "fully_shard averages gradients over ranks. Which rank has which sequences, and how do you scale its loss?",
        "Parameters of fully_shard are DTensors: full_tensor() is a collective, which all ranks must call.",
        "Print the ratios of your gradients' norms to those of the undivided model. Are all wrong by the same factor?",
    ],
)


@ex1.fact("three steps have the loss and the gradients of the undivided model on every rank")
def _(student):
    compare_small(student, "make_trainer")


@ex1.fact("all ranks share the work")
def _(student):
    run = ask_small(student, "make_trainer", 4, 2, 3, 0)
    with case("With 2 blocks, 4 ranks and 8 sequences"):
        need_shares(run, 4, 2)


@ex1.fact("AdamW uses its defaults, and updates all weights in float32")
def _(student):
    run = ask_small(student, "make_trainer", 4, 2, 3, 0)
    need_adamw(run)
    need_float32(run, weights_in(SMALL._replace(blocks=2)))


# --- ex2: it fits, and it is fast -----------------------------------------------------------------------------------

SHARES = {"70% of par": 0.7, "90% of par": 0.9}

ex2 = lab.exercise(
    "ex2",
    points=5,
    title="It fits, and it is fast",
    parts={"it fits": 2, "70% of par": 1, "90% of par": 2},
    hints=[
        "For each way to shard, add up 16 bytes for each weight of a rank. How much is left for activations, and how "
        "many bytes does a block keep for 8,192 tokens?",
        "The network is far slower than the links of a node. Which of your collectives cross it, and how "
        "many bytes does each move in a step?",
        "Recompute as few blocks as the memory allows: each adds a third to its forward and backward pass.",
        "With several micro-batches, which communication is needed after each, and which only after the last? A "
        "single micro-batch needs less communication, but more recomputation.",
    ],
)


@ex2.fact("on a small model, eight ranks have the loss and the gradients of the undivided model")
def _(student):
    try:
        compare_small(student, "make_fast", *LIKE_THE_LARGE)
    except Unmet:  # what make_trainer does is exercise 1, and who has that wrong may have it wrong here in the same way
        with suppress(StudentError):
            if are_alike(*(ask_small(student, name, *LIKE_THE_LARGE) for name in ("make_fast", "make_trainer"))):
                return
        raise


@ex2.fact("on this model, AdamW uses its defaults, and updates all weights in float32")
def _(student):
    run = ask_small(student, "make_fast", *LIKE_THE_LARGE)
    need_float32(run, weights_in(SMALL._replace(blocks=LARGE.blocks)))
    try:
        need_adamw(run)
    except Unmet:  # as above: make_trainer's optimizer is exercise 1, and here it costs neither memory nor time
        with suppress(StudentError):
            if settings_of(ask_small(student, "make_trainer", *LIKE_THE_LARGE)) == settings_of(run):
                return
        raise


@ex2.fact(f"sequences of {LENGTH:,} tokens fit in {MEMORY / GB:.0f} GB of each GPU")
def _(student):
    large(student)


def _needs_share(name, share):
    @ex2.fact(f"the step reaches {share:.0%} of par, {share * PAR:.1f}% MFU", part=name)
    def _(student):
        need_mfu(student, share)


for _name, _share in SHARES.items():
    _needs_share(_name, _share)


@ex2.scored(par=PAR, unit="% MFU; higher is better")
def _(student):
    return mfu_of(large(student))


# --- ex3: it goes on ------------------------------------------------------------------------------------------------

ex3 = lab.exercise(
    "ex3",
    points=4,
    title="It goes on with fewer GPUs",
    hints=[
        "Which numbers does AdamW keep from step to step, besides the weights?",
        "Whole tensors fit any number of ranks, and so do files of torch.distributed.checkpoint.",
        "A new AdamW has no state yet, and dcp.load fills only the entries of the given dict. get_state_dict creates "
        "it.",
        "load is called on a trainer that was made for a different number of ranks. Which state must it replace?",
    ],
)


def run_resumed(lab, ranks, others, blocks, batches, later):
    import tempfile

    import torch

    from utils.exercises.facts import StudentError
    from utils.exercises.facts.probes import array, kind_of
    from utils.kits import two_nodes as kit

    sizes, kept = kit.SMALL._replace(blocks=blocks), []
    saves = [True]  # in the first run, which goes on as if nothing had been saved

    def make(model, gpu, weights, loss_fn):
        made = lab.make_resumable(model, gpu, weights, loss_fn)
        if not isinstance(made, tuple) or len(made) != 3:
            found = f"a tuple of {len(made)}" if isinstance(made, tuple) else kind_of(made)
            raise StudentError(f"make_resumable returned {found}. Return three functions, (step, save, load).")
        step, save, load = made
        taken = []

        def and_note(tokens, targets):
            if saves and len(taken) == len(batches):
                save(folder)
            loss = step(tokens, targets)
            taken.append(1)
            if not isinstance(loss, (float, torch.Tensor)):
                raise StudentError(
                    f"step returned {kind_of(loss)}. Return the batch's mean loss as a float or a tensor."
                )
            if torch.distributed.get_rank() == 0:
                kept.append(array(loss).ravel() if isinstance(loss, torch.Tensor) else torch.tensor([loss]).numpy())

        return and_note, save, load

    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as second:

        def loaded_and_saved(made):
            made[2](folder)
            made[1](second)

        def loaded(made):
            made[2](second)

        first, then = [[[torch.from_numpy(x.copy()) for x in batch] for batch in some] for some in (batches, later)]
        whole = kit.train(make, sizes, first + then, ranks=ranks)
        saves.clear()
        kit.train(make, sizes, then[:1], loaded_and_saved, None, ranks=others)
        kit.train(make, sizes, then, loaded, None, ranks=ranks)
        size = kit.file_bytes(folder)
    moved = sum([e.bytes for e in whole[2].events if e.phase == "optimizer" and e.kind == "kernel"])
    return {"losses": kept, "updated": moved, "saved": size}


def compare_resumed(student, ranks, others, seed=0):
    """In the end as many ranks as in the beginning train, so that only what was lost makes a difference, and no
    rounding: another number of ranks adds up in another order."""
    sequences, before, steps = 2 * math.lcm(ranks, others), 2, 4
    told = (
        f"With a checkpoint of {ranks} ranks after step {before}, which {others} ranks load and save, and {ranks} load"
    )
    with case(told):
        batches = [list(batch) for batch in small_batches(sequences, steps, seed)]
        run = student.run(run_resumed, ranks, others, 2, batches[:before], batches[before:])
        found = run["losses"]
        for own in found:
            need(own.size == 1, f"step returned {own.size} numbers. Return one number, the mean loss.")
        numbers = [float(own[0]) for own in found]
        losses, _ = expected(2, sequences, steps, seed)
        undisturbed, resumed = numbers[:steps], numbers[before - steps :]
        # What a step does is exercise 1. Here it has to train.
        need(
            all(abs(own - loss) <= LIKE * loss for own, loss in zip(undisturbed[:3], losses, strict=False))
            and run["updated"] >= 0.9 * ADAM * weights_in(SMALL._replace(blocks=2)),
            "Without the interruption, the run does not train the model: its losses are "
            f"{', '.join(f'{own:.4f}' for own in undisturbed[:3])}. See exercise 1.",
        )
        for number, (own, loss) in enumerate(zip(resumed, undisturbed[before:], strict=True), before + 1):
            why = "Save and load all weights."
            if number > before + 1:
                why = (
                    "The weights were right, but the update after them is not: save and load all of AdamW's state too."
                )
            need(
                abs(own - loss) <= SAME_RUN * loss,
                f"Step {number} has a loss of {own:.5f}, but without the interruption it has {loss:.5f}. {why}",
            )
        least = STATE * weights_in(SMALL._replace(blocks=2))
        need(
            run["saved"] >= least,
            f"After save, the folder has {run['saved']:,} bytes, but weights and AdamW's state take {least:,}. Keep "
            "nothing in memory alone: after a crash, only files are left.",
        )


@ex3.fact("training that four ranks save and two load continues as if nothing had happened")
def _(student):
    compare_resumed(student, 4, 2)


# --- ex4: the ledger ------------------------------------------------------------------------------------------------

ex4 = lab.exercise(
    "ex4",
    points=3,
    title="Where the step goes",
    hints=[
        "Sort the starts and ends of one kind of event, and add up the time in which at least one of them is open.",
        "Exposed communication is the time in which communication runs and no kernel does: the union of both, less "
        "the union of kernels.",
        "Time counts only from begin to end. Cut off events at these two times.",
        "HFU counts all operations that the GPU performs, MFU only those that the model needs.",
    ],
)


def ask_ledger(lab, events, begin, end, needed, peak):
    from utils.exercises.facts.probes import kind_of

    found = lab.ledger([dict(event) for event in events], begin, end, needed, peak)
    if not isinstance(found, dict):
        return kind_of(found)
    return {
        key if isinstance(key, str) else kind_of(key): float(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool)
        else kind_of(value)
        for key, value in found.items()
    }


def covered(spans, begin, end) -> float:
    """Seconds from begin to end in which at least one span is open."""
    total, until = 0.0, begin
    for start, stop in sorted(spans):
        start, stop = max(start, until), min(stop, end)
        if stop > start:
            total, until = total + stop - start, stop
    return total


def right_ledger(events, begin, end, needed, peak) -> dict[str, float]:
    def of(*kinds):
        return covered([(e["start"], e["end"]) for e in events if (e["kind"], e["phase"] == "optimizer") in kinds],
                       begin, end)  # fmt: skip

    kernels = (("kernel", False), ("kernel", True))
    busy, span = of(*kernels), end - begin
    working = of(*kernels, ("comm", False), ("comm", True))
    compute = of(("kernel", False))
    return {
        "compute": compute,
        "optimizer": busy - compute,
        "exposed": working - busy,
        "idle": span - working,
        "mfu": needed / span / peak,
        "hfu": sum(e["flops"] * covered([(e["start"], e["end"])], begin, end) / (e["end"] - e["start"]) for e in events)
        / span
        / peak,
    }


WHAT = {
    "compute": "the time in which a kernel of a phase other than the optimizer runs",
    "optimizer": "the time in which only kernels of the optimizer run",
    "exposed": "the time in which communication is in progress and no kernel runs",
    "idle": "the time in which neither runs",
    "mfu": "needed / (span * peak)",
    "hfu": "the operations from begin to end / (span * peak)",
}


def compare_ledger(student, events, told, begin=0.0, end=10.0, needed=4e12, peak=1e12):
    with case(told):
        found = student.run(ask_ledger, events, begin, end, needed, peak)
        need(not isinstance(found, str), f"ledger returned {found}. Return a dict.")
        right = right_ledger(events, begin, end, needed, peak)
        for key, value in right.items():
            need(key in found, f"The dict from ledger lacks {key!r}.")
            own = found[key]
            need(isinstance(own, float), f"{key!r} is {own}. It must be a number.")
            need(
                math.isclose(own, value, rel_tol=1e-6, abs_tol=1e-9),
                f"{key!r} is {own:.4g}, but must be {value:.4g}: {WHAT[key]}."
                + why_ledger(key, own, events, begin, end, peak),
            )


def why_ledger(key, own, events, begin, end, peak) -> str:
    if key == "hfu" and math.isclose(own, sum(e["flops"] for e in events) / (end - begin) / peak, rel_tol=1e-6):
        return " Yours counts whole kernels. If begin or end cuts a kernel, count the share that lies between them."
    kinds = {"exposed": ("comm",), "compute": ("kernel",)}.get(key, ())
    spans = [(e["start"], e["end"]) for e in events if e["kind"] in kinds]
    if spans and math.isclose(own, sum(stop - start for start, stop in spans), rel_tol=1e-6):
        return " Yours is the sum of all durations. Events overlap each other and the ends of the step."
    if key == "exposed" and math.isclose(own, covered(spans, begin, end), rel_tol=1e-6):
        return " Yours counts communication that kernels hide."
    return ""


def event(kind, start, end, phase="forward", flops=0.0):
    return {"kind": kind, "phase": phase, "start": float(start), "end": float(end), "flops": flops}


@ex4.fact("kernels, communication and the optimizer of a short step are told apart")
def _(student):
    events = [
        event("kernel", 0, 3, flops=2e12),
        event("comm", 2, 5),
        event("kernel", 4, 6, "backward", 3e12),
        event("comm", 5.5, 7, "backward"),
        event("kernel", 8, 9, "optimizer", 1e9),
    ]
    compare_ledger(student, events, "For a step with two collectives")


@ex4.fact("events that overlap each other, or the ends of the step, count once, and only inside the step")
def _(student):
    events = [
        event("comm", -1, 2),
        event("kernel", 1, 4, flops=1e12),
        event("kernel", 2, 3, flops=1e12),
        event("comm", 3, 6),
        event("comm", 5, 8),
        event("kernel", 7, 12, "optimizer", 1e12),
        event("kernel", 8, 9, "optimizer", 1e10),
        event("comm", 6.5, 7, "optimizer"),
    ]
    compare_ledger(student, events, "For a step with overlapping events")


# --- ex5: the cheapest cluster --------------------------------------------------------------------------------------

ex5 = lab.exercise(
    "ex5",
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
        return f"a tuple of {len(found)}" if isinstance(found, tuple) else kind_of(found)
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


@ex5.fact("the cheapest cluster, or None, is returned for two models and several deadlines")
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
A_MODEL = MODELS["a small model"]


@ex5.fact("a GPU holds 16 bytes for each weight of its shard, and its activations")
def _(student):
    needs = A_NODE.needs(A_MODEL, 1)
    for memory, told in ((1.01 * needs, "a little more"), (0.99 * needs, "a little less")):
        told = f"a small model and one node, whose GPUs have {told} memory than it needs"
        compare_cheapest(student, A_MODEL, [replace(A_NODE, memory=memory)], 110, told)


@ex5.fact("the GPUs of one node use the link, however slow the network is")
def _(student):
    compare_cheapest(student, A_MODEL, [replace(A_NODE, network=1e8)], 110, "a small model and one node")


@ex5.fact("several nodes communicate no faster than the link, however fast the network is")
def _(student):
    offer = Offer("F", 11e12, 16e9, 2, 8, 1e9, 12e9, 0.5)
    compare_cheapest(student, A_MODEL, [offer], 30, "a small model and nodes with a slow link")


@ex5.fact("the last step takes as long as the others, even if its batch is smaller")
def _(student):
    steps = A_MODEL | {"tokens": 1.2e9, "batch": 1e9}
    compare_cheapest(
        student, steps, [A_NODE], 20, "a small model, one node, and 1.2 billion tokens in batches of a billion"
    )


@ex5.fact("training that ends within the last hour is done in time")
def _(student):
    node = replace(A_NODE, link=1e15)
    took = node.seconds(A_MODEL, 1) / 3600
    compare_cheapest(student, A_MODEL, [node], math.ceil(took), "a small model and one node")
    between = math.ceil(10 * took) / 10  # is over before the last hour that is paid
    compare_cheapest(student, A_MODEL, [node], between, "a small model and one node")
