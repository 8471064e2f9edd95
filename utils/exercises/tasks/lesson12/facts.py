"""The facts about lesson 12's tasks."""

from typing import Any

import numpy as np

from utils.exercises.facts import Lab, case, need
from utils.exercises.tasks.lesson12.measured import WIDTH, on_one_device

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


# --- a model that is never whole -----------------------------------------------------------------------------------

fsdp = lab.exercise(
    "sharded_model",
    points=0,
    title="A model that no rank ever holds whole",
    hints=[
        "with torch.device('meta'): model = make()",
        "fully_shard(layer, mp_policy=policy) for each nn.Linear, then fully_shard(model, mp_policy=policy). "
        "MixedPrecisionPolicy has param_dtype and reduce_dtype.",
        "Then model.to_empty(device=gpu), and layer.reset_parameters() for each nn.Linear.",
    ],
)


def built(lab):
    from utils.exercises.tasks.lesson12.measured import building
    from utils.exercises.tasks.on_ranks import on_ranks

    return on_ranks(2, building, lab.sharded_model)


LAYER = WIDTH * WIDTH + WIDTH  # parameters


@fsdp.fact("every parameter is an initialized float32 shard on the rank's GPU")
def _(student):
    told = student.run(built)[0]
    need(bool(told["parameters"]), f"it returned a {told['kind']}. Return the model.")
    for name, is_sharded, kind, dtype, spread in told["parameters"]:
        need(is_sharded, f"{name} is a plain parameter on {kind}: fully_shard has not reached it.")
        need(kind != "meta", f"{name} is on the meta device and has no memory. Allocate it with to_empty(device=gpu).")
        need(kind == "simgpu", f"{name} is on {kind}. The shards belong on `gpu`.")
        need(dtype == "torch.float32", f"{name} is {dtype}. The policy computes in bfloat16; shards stay float32.")
        drawn = spread is not None and 0.5 < spread * WIDTH**0.5 < 1.01
        need(drawn, f"{name} does not look initialized: to_empty leaves whatever is in memory. Call reset_parameters.")


@fsdp.fact("no rank holds the whole model while it is built")
def _(student):
    share = student.run(built)[0]["most"] / (3 * LAYER * 4)
    need(
        share < 0.8,
        f"a rank held {share:.1f} times the bytes of the whole model. Is it built on the meta device, and does "
        "to_empty come after fully_shard?",
    )


@fsdp.fact("layers are all-gathered one at a time in bfloat16, and gradients are reduced in float32")
def _(student):
    told = student.run(built)[0]
    gathered = [size for name, size in told["sent"] if name == "all_gather"]
    reduced = [size for name, size in told["sent"] if name == "reduce_scatter"]
    need(
        bool(gathered and reduced),
        "a pass of this model lacks an all-gather or a reduce-scatter. Did fully_shard wrap the model?",
    )
    need(
        len(gathered) >= 3,
        f"{len(gathered)} all-gathers fetch all three layers. Call fully_shard on each nn.Linear before you call "
        "it on the model.",
    )
    need(max(gathered) < LAYER * 4, "weights are all-gathered in float32. Which argument of the policy prevents that?")
    need(
        max(reduced) > LAYER * 2,
        "gradients are reduced in bfloat16, which loses small ones. Which argument of the policy sets their dtype?",
    )


# --- several micro-batches -----------------------------------------------------------------------------------------

several = lab.exercise(
    "accumulated_step",
    points=0,
    title="A step of several micro-batches",
    hints=[
        "model.set_requires_gradient_sync(False) before a backward pass keeps its gradients on this rank.",
        "Set it to True for the last micro-batch: number == len(micro_batches) - 1.",
        "Divide each loss by len(micro_batches) before backward. Call torch.nn.utils.clip_grad_norm_ once, before "
        "optimizer.step().",
    ],
)


def accumulated(lab, seed, count, max_norm, steps):
    from utils.exercises.tasks.lesson12.measured import steps_with_micro_batches
    from utils.exercises.tasks.on_ranks import on_ranks

    return on_ranks(2, steps_with_micro_batches, lab.accumulated_step, seed, count, max_norm, steps)


def compare_steps(student, seed, count, max_norm, why):
    with case(f"With {count} micro-batches and max_norm={max_norm:g}"):
        told = student.run(accumulated, seed, count, max_norm, 2)
        before, *after = on_one_device(seed, 2, count, max_norm, 2)
        for step, right in enumerate(after):
            far = np.linalg.norm(told[0]["after"][step] - right) / np.linalg.norm(right - before)
            need(far < 1e-3, f"after step {step} the weights are off by {far:.0%} of the whole batch's change. {why}")


@several.fact("two steps give the same weights as one process with the whole batch")
def _(student):
    why = "Is each loss divided by the number of micro-batches, and is zero_grad called once a step?"
    compare_steps(student, 1, 3, 1e6, why)


@several.fact("gradients are clipped by the norm of the whole batch's gradient")
def _(student):
    why = "Clip once, after the last backward pass and before the optimizer's step."
    compare_steps(student, 2, 4, 0.05, why)


@several.fact("gradients are reduce-scattered once a step, after the last micro-batch")
def _(student):
    for number, sent in enumerate(student.run(accumulated, 3, 4, 1.0, 2)[0]["sent"]):
        times = sum(name == "reduce_scatter" for name, _ in sent) / 2  # two layers
        need(times == 1, f"in step {number} each layer's gradients are reduce-scattered {times:g} times.")
