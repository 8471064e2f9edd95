"""The facts about lesson 11's tasks."""

import numpy as np

from utils.exercises.facts import Lab, case, need
from utils.exercises.tasks.lesson11.measured import LAYERS, on_one_device

lab = Lab("lesson11", "Copies of a model")
STEPS = ("first", "second")


def close(one, other):
    return np.allclose(one, other, rtol=1e-4, atol=1e-5)


# --- a data-parallel step ------------------------------------------------------------------------------------------

step = lab.exercise(
    "train_step",
    points=0,
    title="A data-parallel step",
    hints=[
        "x.chunk(dist.get_world_size())[dist.get_rank()] is this rank's share.",
        "Between backward and step, dist.all_reduce(p.grad, dist.ReduceOp.AVG) replaces a gradient with the mean over "
        "ranks.",
        "The mean loss needs an all-reduce too. Use loss.detach().",
    ],
)


def stepped(lab, ranks, seed, samples):
    from utils.exercises.tasks.lesson11 import measured
    from utils.exercises.tasks.on_ranks import on_ranks

    return on_ranks(ranks, measured.stepped, lab.train_step, seed, samples, 2)


def compare_steps(student, ranks, seed):
    samples = 4 * ranks
    told = student.run(stepped, ranks, seed, samples)
    (before, *right), losses = on_one_device(seed, samples, 2)
    with case(f"On {ranks} ranks"):
        for rank, one in enumerate(told):
            need(not close(one["weights"][0], before), f"the weights of rank {rank} have not changed.")
        apart = max(np.abs(one["weights"][0] - told[0]["weights"][0]).max() for one in told)
        need(
            apart == 0,
            f"weights differ between ranks by {apart:.0e}. Which call before the step gives "
            "all ranks the same gradient?",
        )
        [_, summed], _ = on_one_device(seed, samples, 1, scale=ranks)
        need(
            not close(told[0]["weights"][0], summed),
            "the step uses the sum of the ranks' gradients. Use their mean: ReduceOp.AVG.",
        )
        for number, weights in enumerate(right):
            need(
                close(told[0]["weights"][number], weights),
                f"after the {STEPS[number]} step, the weights are not those of one device with the whole batch. "
                + ("Is zero_grad called?" if number else "Does each rank take a different share?"),
            )
    return told, losses


@step.fact("two steps on two ranks give the same weights as one device with the whole batch")
def _(student):
    compare_steps(student, 2, 1)


@step.fact("the same holds on three ranks")
def _(student):
    compare_steps(student, 3, 2)


@step.fact("each rank computes only its share of the batch")
def _(student):
    told, _ = compare_steps(student, 2, 1)
    for rank, one in enumerate(told):
        need(one["given"] == [4, 4], f"The model on rank {rank} is given {one['given'][0]} of 8 samples in a step.")


@step.fact("every rank returns the mean loss of the whole batch")
def _(student):
    told, losses = compare_steps(student, 2, 1)
    for rank, one in enumerate(told):
        need(
            not isinstance(one["losses"][0], str),
            f"Rank {rank} returns a {one['losses'][0]}, not a loss.",
        )
        need(
            close(one["losses"], losses),
            f"Rank {rank} returns {one['losses'][0]:.4f}, not {losses[0]:.4f}. Over which samples is it the mean?",
        )


# --- behind the backward pass ----------------------------------------------------------------------------------------

hooks = lab.exercise(
    "overlapped",
    points=0,
    title="All-reduces behind the backward pass",
    hints=[
        "p.register_post_accumulate_grad_hook(function) calls function(p) when p.grad is ready.",
        "dist.all_reduce(p.grad, dist.ReduceOp.AVG, async_op=True) returns an object at once. Call its wait() later.",
        "finish() waits for each of these objects and removes them before the next step.",
    ],
)


def watched(lab, ranks, seed):
    from utils.exercises.tasks.lesson11 import measured
    from utils.exercises.tasks.on_ranks import on_ranks

    return on_ranks(ranks, measured.watched, lab.overlapped, seed)


def compare_gradients(student, ranks, seed):
    told = student.run(watched, ranks, seed)
    kind = told[0]["kind"]
    need(kind is None, f"It returns a {kind}. Return finish itself; do not call it.")
    with case(f"On {ranks} ranks"):
        for number, each in enumerate(zip(*(one["steps"] for one in told), strict=True)):
            mean = np.mean([alone for alone, _, _ in each], axis=0)
            for rank, (alone, found, _) in enumerate(each):
                need(not close(found, alone), f"in the {STEPS[number]} step, rank {rank} keeps its own gradients.")
                need(not close(found, ranks * mean), "the gradients are sums over ranks, not means. Use ReduceOp.AVG.")
                need(
                    close(found, mean),
                    f"in the {STEPS[number]} step, the gradients of rank {rank} are not the mean over ranks."
                    + (" Does finish() remove the handles of the first step?" if number else ""),
                )
    return [happened for _, _, happened in told[0]["steps"]]


@hooks.fact("in each of two steps, every gradient is the mean over ranks after finish()")
def _(student):
    compare_gradients(student, 2, 1)
    compare_gradients(student, 3, 2)


@hooks.fact("each all-reduce is launched as soon as its gradient is ready")
def _(student):
    for happened in compare_gradients(student, 2, 1):
        during = happened[: happened.index("backward ends")]
        reduces = [at for at, what in enumerate(during) if what.startswith("all-reduce")]
        need(bool(reduces), "Every all-reduce is launched after the backward pass, so nothing hides it.")
        last = len(during) - 1 - during[::-1].index("layer")
        need(
            reduces[0] < last,
            f"The first all-reduce is launched in the last of {LAYERS} layers of the backward pass. Use a hook on each "
            "parameter.",
        )


@hooks.fact("the backward pass waits for no all-reduce, and finish() waits for all")
def _(student):
    for happened in compare_gradients(student, 2, 1):
        end = happened.index("backward ends")
        waits = [what for what in happened[:end] if what.endswith("waits for") or what == "wait"]
        need(not waits, "The backward pass waits for an all-reduce. Use async_op=True, and call wait() only in finish.")
        missing = happened.count("all-reduce") - happened[end:].count("wait")
        need(missing <= 0, f"finish() returns while {missing} all-reduces may still be running. Call wait() on each.")


# --- several micro-batches -------------------------------------------------------------------------------------------

once = lab.exercise(
    "one_sync_step",
    points=0,
    title="Several micro-batches, one all-reduce",
    hints=[
        "Forward and backward passes inside model.no_sync() add to the gradients, and DDP all-reduces nothing.",
        "Run the last micro-batch outside no_sync. Its backward pass all-reduces the sums.",
        "Divide each loss by len(micro_batches), and call zero_grad once, before the first micro-batch.",
    ],
)


def accumulated(lab, seed, count):
    from utils.exercises.tasks.lesson11 import measured
    from utils.exercises.tasks.on_ranks import on_ranks

    return on_ranks(2, measured.accumulated, lab.one_sync_step, seed, count, 2)


def compare_accumulated(student, seed, count):
    told = student.run(accumulated, seed, count)
    (_, *right), _ = on_one_device(seed, 4 * count, 2)
    with case(f"With {count} micro-batches"):
        apart = max(np.abs(a - b).max() for a, b in zip(*(one["weights"] for one in told), strict=True))
        need(apart == 0, "the ranks' weights differ. Run the last micro-batch outside no_sync: DDP then all-reduces.")
        for number, weights in enumerate(right):
            need(
                close(told[0]["weights"][number], weights),
                f"after the {STEPS[number]} step, the weights are not those of one device with the whole batch. Is "
                "each loss divided by the number of micro-batches, and zero_grad called once?",
            )
    return told[0]["reduced"]


@once.fact("two steps give the same weights as one device with the whole batch")
def _(student):
    compare_accumulated(student, 1, 3)
    compare_accumulated(student, 2, 1)


@once.fact("gradients are all-reduced once a step")
def _(student):
    for times in compare_accumulated(student, 3, 4):
        need(
            times < 1.1,
            f"In a step of 4 micro-batches, gradients are all-reduced {times:.0f} times. Do the forward passes run in "
            "no_sync too?",
        )
