"""The facts about lesson 16's tasks: two blocks of attention merged, and a ring that passes keys and values."""

from __future__ import annotations

from typing import Any

import numpy as np

from utils.exercises.facts import Lab, case, need
from utils.exercises.tasks.lesson16.measured import on_one_device

lab = Lab("lesson16", "Attention over several GPUs")

CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}

# --- two blocks merged ----------------------------------------------------------------------------------------------

merging = lab.exercise(
    "merge",
    points=0,
    title="Two blocks of attention, merged",
    hints=[
        "The denominators are exp(lse) and exp(lse2). Over both blocks, the denominator is their sum. What is its "
        "logarithm?",
        "torch.logaddexp(lse, lse2) is that logarithm, and does not overflow.",
        "A block's share of the whole denominator is (lse - both).exp(). Each output counts with its block's share.",
    ],
)


def run_merge(lab, seed, shift, hidden):
    """The student's merge of two blocks, and the right one. `shift` is added to all scores; with `hidden`, a mask
    hides the whole second block from some queries."""
    import torch

    from utils.exercises.facts.probes import array, kind_of
    from utils.exercises.tasks.lesson16.measured import block, sequence
    from utils.exercises.tasks.lesson16.worked import merge

    q, k, v = sequence(seed, 12)
    seen = torch.ones(12, 12, dtype=torch.bool)
    if hidden:
        seen[:7, 5:] = False
    blocks = [block(q, k[..., cut, :], v[..., cut, :], seen[:, cut]) for cut in (slice(0, 5), slice(5, 12))]
    blocks = [(out, lse + shift) for out, lse in blocks]
    [right, lse], mean = merge(*blocks[0], *blocks[1]), (blocks[0][0] + blocks[1][0]) / 2
    given = [part.clone() for both in blocks for part in both]
    found = lab.merge(*given)
    if not isinstance(found, tuple | list):
        return {"kind": kind_of(found)}
    if len(found) != 2 or not all(isinstance(part, torch.Tensor) for part in found):
        return {"kind": f"{len(found)} values: " + ", ".join(map(kind_of, found))}
    changed = any(not torch.equal(a, b) for a, b in zip(given, [p for both in blocks for p in both], strict=True))
    (out, lse1), (out2, lse2) = blocks
    return {
        "kind": "",
        "changed": changed,
        "found": [array(part) for part in found],
        "right": [array(right), array(lse)],
        "mean": array(mean),
        "weighted": array((out * lse1 + out2 * lse2) / (lse1 + lse2)),
        "sum": array(out + out2),
    }


def compare_merge(student, seed, shift=0.0, hidden=False):
    told = student.run(run_merge, seed, shift, hidden)
    need(not told["kind"], f"it returned {told['kind']}. Return two tensors: the output, and its log-sum-exp.")
    for name, found, right in zip(("output", "log-sum-exp"), told["found"], told["right"], strict=True):
        need(
            found.shape == right.shape,
            f"the {name} has shape {list(found.shape)}. It should be {list(right.shape)}, as for one block.",
        )
    out, lse = told["found"]
    right, right_lse = told["right"]
    words = {
        "mean": "that is the mean of both outputs. The block with the larger denominator counts more.",
        "sum": "that is the sum of both outputs. Their shares of the denominator should add up to 1.",
        "weighted": "you weight by lse itself. It is a logarithm: the denominator is exp(lse).",
    }
    for name, word in words.items():
        need(not np.allclose(out, told[name], **CLOSE), word)
    need(
        bool(np.isfinite(out).all()),
        "the output has values that are inf or nan. exp(lse) overflows for a large lse, and is 0 for a very small one. "
        "Subtract a logarithm before you take exp.",
    )
    far = np.abs(out - right).max()
    need(np.allclose(out, right, **CLOSE), f"the output is off by up to {far:.2g} from attention over both blocks.")
    need(
        np.allclose(lse, right_lse, **CLOSE),
        "the output is right, but the log-sum-exp is not that of both blocks together. The next merge needs it.",
    )
    need(not told["changed"], "it changes the tensors that it was given. Return new ones.")


@merging.fact("two merged blocks give attention over all their keys")
def _(student):
    compare_merge(student, 1)


@merging.fact("the same holds for scores of 200 or -200")
def _(student):
    for shift in (200.0, -200.0):
        with case(f"With {shift:+.0f} added to all scores"):
            compare_merge(student, 2, shift)


@merging.fact("a block whose keys are all masked counts for nothing")
def _(student):
    with case("If a mask hides the second block from some queries (their lse2 is -inf)"):
        compare_merge(student, 3, hidden=True)


# --- the ring -------------------------------------------------------------------------------------------------------

passing = lab.exercise(
    "ring_attention",
    points=0,
    title="A ring that passes keys and values",
    hints=[
        "torch.stack((k, v)) makes one tensor of both, so that a step needs one message. Receive into a new tensor: "
        "torch.empty_like.",
        "In step 0, a rank has its own keys. In step 1, it has those of rank - 1, so in each step those of "
        "(rank - step) % count.",
        "Start the message, then attend and merge, and only then wait for it. The last step starts none.",
        "The first block starts out and lse. Each later one is merged: out, lse = merge(out, lse, *block).",
    ],
)


def run_ring(lab, count, seed, tokens, causal):
    from utils.exercises.tasks.lesson16.measured import ring_on_a_rank
    from utils.exercises.tasks.on_ranks import on_ranks

    return on_ranks(count, ring_on_a_rank, lab.ring_attention, seed, tokens, causal)


MACHINE: dict[str, Any] = {"gpu": "H100", "nodes": 4, "network": "400G", "compute": False}
LONG = 32768


def run_seconds(lab, tokens, machine):
    from utils.exercises.tasks.lesson16.measured import ring_seconds
    from utils.exercises.tasks.on_ranks import on_ranks

    return on_ranks(4, ring_seconds, lab.ring_attention, tokens, **machine)[0]


def least_seconds():
    from utils.exercises.tasks.lesson16.measured import ring_seconds
    from utils.exercises.tasks.lesson16.worked import ring_attention
    from utils.exercises.tasks.on_ranks import on_ranks

    return on_ranks(4, ring_seconds, ring_attention, LONG, **MACHINE)[0]


def compare_ring(student, count, seed, causal=False):
    tokens = 4 * count
    with case(f"On {count} ranks" + (", with a causal mask" if causal else "")):
        told, whole = student.run(run_ring, count, seed, tokens, causal), on_one_device(seed, tokens, causal)
        for rank, one in enumerate(told):
            right = [(rank - step) % count for step in range(count)]
            need(
                not one["one_tensor"],
                f"rank {rank} receives into the tensor that it is sending, so the next rank may get either's keys. "
                "Receive into another one.",
            )
            calls = len(one["told"])
            need(calls == count, f"rank {rank} calls attend {calls} times. It needs one call for each rank's keys.")
            need(
                sorted(one["told"]) == sorted(right),
                f"rank {rank} tells attend that it has the keys of ranks {', '.join(map(str, one['told']))}, in this "
                f"order. Pass on to rank + 1, and it has those of {', '.join(map(str, right))}.",
            )
            mine = np.split(whole, count, axis=2)[rank]
            need(
                one["out"].shape == mine.shape,
                f"rank {rank} returns a tensor of shape {list(one['out'].shape)}, not {list(mine.shape)}.",
            )
            far = np.abs(one["out"] - mine).max()
            need(
                np.allclose(one["out"], mine, **CLOSE),
                f"rank {rank}'s output is off by up to {far:.2g} from one device's. Are the keys and values those that "
                "attend is told, and is each block merged with all before it?",
            )
        return told


@passing.fact("each rank gets the output that one device computes for its queries")
def _(student):
    compare_ring(student, 2, 1)
    compare_ring(student, 3, 2)


@passing.fact("attend is told whose keys and values it gets, so a causal mask works")
def _(student):
    compare_ring(student, 4, 3, causal=True)


@passing.fact("keys and values are sent count - 1 times")
def _(student):
    told = compare_ring(student, 3, 4)[0]
    times = told["sent"] / told["given"]
    need(times <= 2.01, f"a rank sends {times:g} times its keys and values. After the last step, no rank needs them.")


@passing.fact("the next keys and values travel while attend computes")
def _(student):
    found, least = student.run(run_seconds, LONG, MACHINE), least_seconds()
    need(
        found <= 1.1 * least,
        f"on the simulated clock, {LONG} tokens on four H100s over 400G take {found * 1e3:.1f} ms, but "
        f"{least * 1e3:.1f} ms are possible. Start the message before attend, and wait for it afterwards.",
    )
