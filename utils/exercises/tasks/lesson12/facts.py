"""The facts about lesson 12's tasks."""

from typing import Any

import numpy as np

from utils.exercises.facts import Lab, case, need
from utils.exercises.tasks.lesson12.measured import on_one_device

lab = Lab("lesson12", "Shards of a model")

CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}

# --- the optimizer's state in shards -------------------------------------------------------------------------------

state = lab.exercise(
    "sharded_step",
    points=0,
    title="A step with the optimizer state in shards",
    hints=[
        "torch.cat([p.grad.flatten() for p in model.parameters()]) is the input of reduce_scatter_tensor.",
        "shard.grad = torch.empty_like(shard) is its output. op=dist.ReduceOp.AVG makes it the mean.",
        "dist.all_gather_into_tensor(weights, shard.detach()) fills a tensor as long as all gradients. "
        "vector_to_parameters writes it into the model.",
    ],
)


def sharded(lab, ranks, seed, steps):
    from utils.exercises.tasks.lesson12.measured import steps_with_shards
    from utils.exercises.tasks.on_ranks import on_ranks

    return on_ranks(ranks, steps_with_shards, lab.sharded_step, seed, steps)


def by_the_mean(before, given):
    """The weights after each step of SGD with momentum, by the mean gradients on one device."""
    weights, speed = before, np.zeros_like(before)
    for gradients in given:
        speed = 0.9 * speed + np.mean(gradients, axis=0)
        weights = weights - 0.1 * speed
        yield weights


def compare_shards(student, ranks, seed, steps=2):
    with case(f"On {ranks} ranks"):
        told = student.run(sharded, ranks, seed, steps)
        given = [[one["given"][step] for one in told] for step in range(steps)]
        for step, right in enumerate(by_the_mean(told[0]["before"], given)):
            [summed] = by_the_mean(told[0]["before"], [ranks * np.array(given[0])])
            for rank, one in enumerate(told):
                found = one["after"][step]
                need(not np.allclose(found, one["before"], **CLOSE), f"rank {rank}'s model still has its old weights.")
                need(
                    step or not np.allclose(found, summed, **CLOSE),
                    "the step uses the sum of the ranks' gradients. Use their mean: ReduceOp.AVG.",
                )
                pairs = zip(np.split(found, ranks), np.split(right, ranks), strict=True)
                parts = [r for r, (a, b) in enumerate(pairs) if np.allclose(a, b, **CLOSE)]
                which = ", ".join(map(str, parts))
                need(
                    len(parts) == ranks or not parts,
                    f"after step {step}, only shard {which} of rank {rank}'s model is right. Which call brings it the "
                    "other ranks' new shards?",
                )
                need(bool(parts), f"after step {step}, rank {rank}'s weights do not come from the mean gradient.")
            need(
                not any(one["left"][step] for one in told),
                "shard.grad still takes memory after the step. Call optimizer.zero_grad().",
            )
        return told


@state.fact("after each step both ranks have the weights that one device gets from the mean gradient")
def _(student):
    compare_shards(student, 2, 1)


@state.fact("the same holds on three ranks")
def _(student):
    compare_shards(student, 3, 2)


@state.fact("a step receives no more bytes than an all-reduce of the gradients")
def _(student):
    told = compare_shards(student, 2, 3, 1)
    sent = told[0]["sent"][0]
    most = 2 * told[0]["before"].nbytes
    names = ", ".join(name for name, _ in sent)
    need(
        sum(size for _, size in sent) <= 1.1 * most,
        f"it calls {names}, which move {sum(size for _, size in sent) / most:.1f} times the bytes of one all-reduce. "
        "A rank needs only its own shard of the mean: use reduce_scatter_tensor.",
    )


# --- several micro-batches -----------------------------------------------------------------------------------------

several = lab.exercise(
    "accumulated_step",
    points=0,
    title="A step of several micro-batches",
    hints=[
        "Set both switches before each micro-batch. last = number == len(micro_batches) - 1 tells which is the last.",
        "model.set_requires_gradient_sync(last or not reduce_once). For set_reshard_after_backward it is keep_weights.",
        "Divide each loss by len(micro_batches) before backward. Call zero_grad once, before the first micro-batch.",
    ],
)
MODEL = 2  # layers


def accumulated(lab, seed, count, reduce_once, keep_weights):
    from utils.exercises.tasks.lesson12.measured import steps_with_micro_batches
    from utils.exercises.tasks.on_ranks import on_ranks

    return on_ranks(2, steps_with_micro_batches, lab.accumulated_step, seed, count, reduce_once, keep_weights)


def compare_steps(student, seed, count, reduce_once, keep_weights):
    with case(f"With {count} micro-batches, reduce_once={reduce_once} and keep_weights={keep_weights}"):
        told = student.run(accumulated, seed, count, reduce_once, keep_weights)[0]
        before, right = on_one_device(seed, 2, count)
        far = np.linalg.norm(told["after"] - right) / np.linalg.norm(right - before)
        ask = (
            "Does the last backward pass reduce gradients and free the gathered weights?"
            if reduce_once or keep_weights
            else "Is each loss divided by the number of micro-batches, and is zero_grad called once a step?"
        )
        need(far < 1e-3, f"after two steps, the weights are off by {far:.0%} of the whole batch's change. {ask}")
        return told["sent"]


def times(sent, kind):
    """How often each layer's weights or gradients travel in a step."""
    return sum(name == kind for name, _ in sent) / MODEL


@several.fact("two steps give the same weights as one process with the whole batch")
def _(student):
    compare_steps(student, 1, 3, False, False)
    compare_steps(student, 2, 4, True, True)


@several.fact("with reduce_once, gradients are reduced after the last micro-batch only, and otherwise after each")
def _(student):
    for reduce_once, right in ((True, 1), (False, 4)):
        for number, sent in enumerate(compare_steps(student, 3, 4, reduce_once, False)):
            found = times(sent, "reduce_scatter")
            need(
                found == right,
                f"with reduce_once={reduce_once}, step {number} of 4 micro-batches makes {found:g} reduce-scatters "
                f"per layer, not {right}.",
            )


@several.fact("with keep_weights, weights are gathered once a step, and otherwise for each micro-batch")
def _(student):
    for keep_weights, right in ((True, 1), (False, 4)):
        for number, sent in enumerate(compare_steps(student, 4, 4, True, keep_weights)):
            found = times(sent, "all_gather")
            need(
                right <= found < right + 1,  # after set_is_last_backward(False), FSDP gathers one layer once more
                f"with keep_weights={keep_weights}, step {number} of 4 micro-batches makes {found:g} all-gathers per "
                f"layer, not {right}.",
            )
