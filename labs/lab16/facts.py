"""Lab 16's visible facts: what `check("ex1")` tells the learner, and the first part of the grade.

A probe runs beside the student's code and tells plain data; the fact judges it here. Ranks are threads that take turns
(utils/kits/ranks_in_turns.py, in its strict mode), with torch.distributed's own calls, so no process is started.
Values and gradients are compared with those of one device, and bytes are those that the ranks have sent.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

from utils.exercises.facts import Lab, case, need

lab = Lab("lab16", "Attention over several GPUs")

DEADLOCK = (
    "All ranks wait for each other. A send ends when the other rank receives, so not all ranks can send first: let "
    "some receive first, or begin both with dist.batch_isend_irecv and then wait."
)
ENDED = (
    "A rank waits for another one that has ended: does each rank make the same calls, the same number of times and in "
    "the same order?"
)
NO_MESSAGE = (
    "Ranks wait for messages that have not been sent. Not all ranks can receive first, and each message needs the rank "
    "that sends it and the rank that receives it to name each other."
)
NOT_GATHERED = "A collective needs all ranks: does each rank make the same calls, in the same order?"
IN_USE = "Receive into a new tensor, and leave the one that you send unchanged until its wait() has returned."
LIKELY = {
    "has ended": ENDED,
    "until rank": DEADLOCK,
    "for a message from rank": NO_MESSAGE,
    "no rank can go on": NOT_GATHERED,
    "Tensors must be contiguous": "Slices, transposed tensors and gradients may not be contiguous: call .contiguous().",
    "tensor that it is": IN_USE,
    "while it was being sent": IN_USE,
}


def numbers_for(*shapes, seed=0, dtype="float64") -> list[np.ndarray]:
    numbers = np.random.default_rng(seed)
    return [numbers.standard_normal(shape).astype(dtype) for shape in shapes]


def alike(found, right) -> bool:
    if found is None or found.shape != right.shape:
        return False
    near = 1e-6 if found.dtype == np.float64 else 2e-4
    return bool(np.allclose(found, right, rtol=near, atol=near * max(1.0, float(np.abs(right).max()))))


def many(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def same(found: torch.Tensor, array: np.ndarray) -> bool:
    return alike(array, found.detach().numpy())


def the_first(candidates: Iterator[tuple[str, Any]], found: np.ndarray) -> str:
    """The words of the first candidate that is what was found."""
    for words, right in candidates:
        if alike(found, right.detach().numpy() if isinstance(right, torch.Tensor) else right):
            return words
    return ""


def added(tensors: Iterable[torch.Tensor]) -> torch.Tensor:
    return torch.stack(list(tensors)).sum(0)


def need_same_dtype(found: np.ndarray, right: np.ndarray, what: str):
    need(found.dtype == right.dtype, f"{what} has the dtype {found.dtype}. Keep the input's dtype, {right.dtype}.")


# --- ex1: ring attention --------------------------------------------------------------------------------------------

ex1 = lab.exercise(
    "ex1",
    points=3,
    title="Ring attention",
    hints=[
        "Which rank do you send to, and which do you receive from? After how many steps has each rank seen all blocks?",
        "Write one function that sends a tensor `step` ranks further around the ring and returns the tensor that "
        "arrives. Forward, `step` is 1. What is it for the gradient?",
        "Two blocks of outputs o1, o2 with log-sum-exps s1, s2: the log-sum-exp of both is torch.logaddexp(s1, s2). "
        "What share of all exponentials does the first block have?",
        "dist.batch_isend_irecv takes a list of dist.P2POp(dist.isend, tensor, rank) and dist.P2POp(dist.irecv, "
        "tensor, rank). It returns objects with a wait() method. Call it on each.",
    ],
    likely=LIKELY,
)


def run_ring(lab, whole, ranks, backward, upstream, strided):
    import numpy as np
    import torch

    from utils.exercises.facts.probes import array, kind_of
    from utils.kits.ranks_in_turns import in_turns
    from utils.kits.sharded import calls_of

    parts, pulls = np.split(whole, ranks, axis=3), np.split(upstream, ranks, axis=2)
    called = []

    def main(rank):
        order = "F" if strided else "C"
        mine = [torch.from_numpy(np.array(part, order=order)).requires_grad_() for part in parts[rank]]
        output = lab.ring_attention(*mine)
        if not isinstance(output, torch.Tensor):
            return {"wrong": kind_of(output)}
        told = {"output": array(output), "forward": calls_of(rank, called), "backward": [], "gradients": []}
        if backward:
            (output if strided else output * torch.from_numpy(pulls[rank].copy())).sum().backward()
            told["backward"] = calls_of(rank, called)[len(told["forward"]) :]
            told["gradients"] = [None if each.grad is None else array(each.grad) for each in mine]
        told["given"] = [array(each) for each in mine]
        return told

    return in_turns(main, ranks, called=called, strict=True)


def attention(q, k, v):
    return nn.functional.scaled_dot_product_attention(q, k, v)


def mistaken_rings(whole: np.ndarray, ranks: int, rank: int) -> Iterator[tuple[str, torch.Tensor]]:
    q, k, v = torch.from_numpy(whole)
    mine = q.chunk(ranks, 2)[rank]
    keys, values = k.chunk(ranks, 2), v.chunk(ranks, 2)
    order = [(rank - step) % ranks for step in range(ranks)]
    scores = [mine @ keys[n].transpose(-1, -2) / mine.shape[-1] ** 0.5 for n in order]
    outputs = [attention(mine, keys[n], values[n]) for n in order]
    lses = [each.logsumexp(-1, keepdim=True) for each in scores]
    running = outputs[0]
    for each in outputs[1:]:
        running = (running + each) / 2
    average = "It is the average of the blocks' outputs. Weight each block by its share of the exponentials, exp(lse)."
    yield "It is the attention over this rank's own keys only. Do you use the blocks that arrive?", outputs[0]
    yield average, torch.stack(outputs).mean(0)
    yield average, running
    yield "It is the sum of the blocks' outputs. Weight each block by its share of the exponentials.", added(outputs)
    weights = torch.stack(lses)
    yield (
        "The blocks are weighted by lse. The weights are shares of the exponentials: exp(lse).",
        (torch.stack(outputs) * weights).sum(0) / weights.sum(0),
    )
    yield (
        "The blocks are weighted by exp(lse), but the sum is not divided by the sum of these weights.",
        (torch.stack(outputs) * weights.exp()).sum(0),
    )
    merged = "The log-sum-exp of merged blocks must cover all of them: keep torch.logaddexp for the next merge."
    for kept in (0, 1):  # the first block's log-sum-exp, or the last one's
        output, lse = outputs[0], lses[0]
        for more, more_lse in zip(outputs[1:], lses[1:], strict=True):
            both = torch.logaddexp(lse, more_lse)
            output = output * (lse - both).exp() + more * (more_lse - both).exp()
            lse = (lse, more_lse)[kept]
        yield merged, output
    for count in range(1, ranks):
        some = order[:count]
        yield (
            f"It is the attention over {count} of {ranks} blocks. After how many steps has each rank seen all blocks?",
            attention(mine, torch.cat([keys[n] for n in some], 2), torch.cat([values[n] for n in some], 2)),
        )
    yield (
        "This rank's own block counts twice.",
        attention(mine, torch.cat([*keys, keys[rank]], 2), torch.cat([*values, values[rank]], 2)),
    )
    again = [order[0], *[order[1 % ranks]] * (ranks - 1)]
    yield (
        "Each step brings the previous rank's own block. A rank must pass on the block that it has received, not its "
        "own.",
        attention(mine, torch.cat([keys[n] for n in again], 2), torch.cat([values[n] for n in again], 2)),
    )
    yield (
        "The values are this rank's own, whatever keys arrive.",
        attention(mine, k, torch.cat([values[rank]] * ranks, 2)),
    )
    yield (
        "The values are multiplied by the shares of the wrong keys.",
        attention(mine, torch.cat([keys[rank]] * ranks, 2), v),
    )
    mask = torch.ones(mine.shape[2], k.shape[2], dtype=torch.bool)
    first = rank * mine.shape[2]
    mask[:, first : first + mine.shape[2]] = torch.ones(mine.shape[2], mine.shape[2]).tril().bool()
    yield (
        "A causal mask hides keys of this rank's own block. This attention has no mask.",
        nn.functional.scaled_dot_product_attention(mine, k, v, attn_mask=mask),
    )
    yield (
        "The scores are not divided by the square root of the numbers per head.",
        attention(mine * mine.shape[-1] ** 0.5, k, v),
    )
    yield "A causal mask hides keys. This attention has no mask.", causal_part(q, k, v, ranks, rank)


def causal_part(q, k, v, ranks, rank):
    return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).chunk(ranks, 2)[rank]


def why_gradient(found, contributions, name, rank, ranks) -> str:
    """`contributions[i][j]`: the gradient of block j for the outputs of rank i alone."""
    if found is None:
        return f"It is None. Does the path from the output to {name} lead through autograd?"
    total = [sum(each[n] for each in contributions) for n in range(ranks)]
    own = contributions[rank][rank]
    if alike(found, own):
        return (
            f"It has only the part from this rank's queries. Other ranks use this {name}, too: send their gradients "
            f"back."
        )
    for n in range(ranks):
        if n != rank and alike(found, total[n]):
            return f"It is that of rank {n}'s {name}. In the backward pass, gradients travel in the opposite direction."
    forwards = [contributions[(rank - step) % ranks][(rank - 2 * step) % ranks] for step in range(ranks)]
    if alike(found, sum(forwards)):
        return (
            "Gradients are sent onwards, like the blocks. In the backward pass, they travel in the opposite direction."
        )
    if alike(found, ranks * total[rank]):
        return f"It is {ranks} times too large."
    if name == "q":
        return (
            "It is computed from all blocks that arrive, and is never sent. The merge has a gradient, too: leave all "
            "of it to autograd, or compute it by hand from the log-sum-exp and the delta, "
            "(gradient * output).sum(-1), of all blocks."
        )
    if alike(found, sum(contributions[rank])):
        return "It has the parts from this rank's queries for all blocks. Send each part back to the block's owner."
    for other in range(ranks):
        if alike(found, total[rank] - contributions[other][rank]):
            return f"The part of rank {other}'s queries is missing."
    return "In the backward pass, does each gradient go back to the rank from which the block came?"


def compare_ring(student, ranks, shape, *, backward=True, seed=0, dtype="float64", scale=2, strided=False):
    """`shape`: (sequences, heads, tokens on each rank, numbers per head).

    `strided`: q, k and v are not contiguous, and neither is the gradient that backward() brings.
    """
    rows, heads, tokens, width = shape
    whole, pull = numbers_for(
        (3, rows, heads, tokens * ranks, width), (rows, heads, tokens * ranks, width), seed=seed, dtype=dtype
    )
    whole[:2] *= scale  # so that the shares of the blocks differ
    words = f"With {many(ranks, 'rank')} and {many(tokens, 'token')} on each" + (
        "" if dtype == "float64" else f", in {dtype}"
    )
    words += ", large scores" if scale > 2 else ", q, k and v not contiguous" if strided else ""
    with case(words):
        pull = np.ones_like(pull) if strided else pull
        run = student.run(run_ring, whole, ranks, backward, pull, strided)
        for told in run:
            need("wrong" not in told, f"ring_attention returned {told.get('wrong')}. Return a tensor.")
        q, k, v = [torch.from_numpy(each).requires_grad_() for each in whole.copy()]
        right = attention(q, k, v)
        for rank, told in enumerate(run):
            own = right.chunk(ranks, 2)[rank].detach().numpy()
            compare_ring_output(told["output"], own, whole, ranks, rank, large=scale > 2)
        for rank, told in enumerate(run):
            unchanged = all(
                np.array_equal(mine, part)
                for mine, part in zip(told["given"], np.split(whole, ranks, 3)[rank], strict=True)
            )
            need(unchanged, f"rank {rank} has changed its q, k or v. The caller needs them.")
        if backward:
            compare_ring_gradients(run, (q, k, v), right, pull, ranks)
        return run


def compare_ring_output(found, right, whole, ranks, rank, *, large=False):
    need(
        found.shape == right.shape,
        f"the output of rank {rank} has the shape {found.shape} instead of {right.shape}, that of q.",
    )
    need_same_dtype(found, right, "the output")
    if not alike(found, right):
        why = (
            ""
            if np.isfinite(found).all()
            else ("It is not finite. A tensor that is being received has its values only after wait().")
        )
        if large:
            why = "Exponentials overflow: exp(lse) is infinite. Subtract a maximum first, as torch.logaddexp does."
        why = why or the_first(mistaken_rings(whole, ranks, rank), found)
        why = why or "Does each block come with its own log-sum-exp, and is the merged one used for the next block?"
        need(False, f"the output of rank {rank} is not that of one device. {why}")


def compare_ring_gradients(run, given, right, pull, ranks):
    pulls = torch.from_numpy(pull)
    loss = (right * pulls).sum()
    gradients = torch.autograd.grad(loss, given, retain_graph=True)
    for number, (name, gradient) in enumerate(zip("qkv", gradients, strict=True)):
        for rank, told in enumerate(run):
            found = told["gradients"][number]
            if not alike(found, gradient.chunk(ranks, 2)[rank].numpy()):
                parts = []
                for each in range(ranks):
                    one = (right * pulls).chunk(ranks, 2)[each].sum()
                    [part] = torch.autograd.grad(one, given[number], retain_graph=True)
                    parts.append([block.numpy() for block in part.chunk(ranks, 2)])
                why = why_gradient(found, parts, name, rank, ranks)
                need(False, f"the gradient of {name} on rank {rank} is not that of one device. {why}")


@ex1.fact("each rank's output matches that of one device, with 2 and 4 ranks, even if scores are large")
def _(student):
    compare_ring(student, 2, (2, 2, 3, 4), backward=False)
    compare_ring(student, 4, (1, 2, 3, 4), backward=False)
    compare_ring(student, 2, (2, 2, 3, 4), backward=False, scale=40)


@ex1.fact("q, k and v get the gradients of one device, on the rank that has them")
def _(student):
    compare_ring(student, 2, (2, 2, 3, 4))
    compare_ring(student, 4, (1, 2, 3, 4))


def need_ring_bytes(student, ranks, shape, seed=0):
    run = compare_ring(student, ranks, shape, seed=seed)
    rows, heads, tokens, width = shape
    block = 2 * rows * heads * tokens * width * 8
    with case(f"With {many(ranks, 'rank')}"):
        for rank, told in enumerate(run):
            need_ring_way(told["forward"], rank, ranks, block)
        for rank, told in enumerate(run):
            size = sum(wire for _, _, wire, _ in told["backward"])
            need(
                size <= (2 * ranks - 1) * block,
                f"in the backward pass, rank {rank} sends {size:,} bytes: {size / block:g} blocks of keys and "
                "values. At "
                f"most {2 * ranks - 1} are allowed.",
            )


def need_ring_way(calls, rank, ranks, block):
    size = sum(wire for _, _, wire, _ in calls)
    others = sorted({name for name, bytes_, _, _ in calls if name != "send" and bytes_})
    need(
        not others,
        f"in the forward pass, rank {rank} calls {', '.join(others)}. Pass blocks around the ring, so that no rank has "
        "all blocks.",
    )
    if size != (ranks - 1) * block:
        why = ""
        if size == ranks * block:
            why = " That is one block too many: the last one that arrives is not sent on."
        elif 2 * size == 3 * (ranks - 1) * block:
            why = " Queries stay where they are."
        elif 2 * size == (ranks - 1) * block:
            why = " Keys and values both travel."
        need(
            False,
            f"in the forward pass, rank {rank} sends {size:,} bytes, but {ranks - 1} blocks of keys and values take "
            f"{(ranks - 1) * block:,}.{why}",
        )
    wrong = sorted({to for *_, to in calls if to != (rank + 1) % ranks})
    need(
        not wrong,
        f"in the forward pass, rank {rank} sends to rank {', '.join(map(str, wrong))}. It must send only to rank "
        f"{(rank + 1) % ranks}, which passes the block on.",
    )


@ex1.fact("in the forward pass, each rank sends P - 1 blocks of keys and values to the next rank, and nothing else")
def _(student):
    need_ring_bytes(student, 4, (1, 2, 3, 4))


def hold_ring(lab, whole, ranks):
    import numpy as np
    import torch

    from utils.exercises.facts.probes import array
    from utils.kits.ranks_in_turns import in_turns
    from utils.kits.sharded import made_by

    parts = np.split(whole, ranks, axis=3)

    def main(rank):
        mine = [torch.from_numpy(part.copy()) for part in parts[rank]]
        with torch.no_grad():
            output, _, peak = made_by(lambda: lab.ring_attention(*mine))
        changed = not all(np.array_equal(array(each), part) for each, part in zip(mine, parts[rank], strict=True))
        return {"output": array(output), "peak": peak, "changed": changed}

    return in_turns(main, ranks, strict=True)


def need_ring_memory(student, ranks=8, width=64, seed=5):
    [whole] = numbers_for((3, 1, 2, 2 * ranks, width), seed=seed)
    block = 2 * 2 * 2 * width * 8
    with case(f"With {many(ranks, 'rank')}, under torch.no_grad()"):
        run = student.run(hold_ring, whole, ranks)
        right = attention(*torch.from_numpy(whole)).chunk(ranks, 2)
        for rank, told in enumerate(run):
            compare_ring_output(told["output"], right[rank].numpy(), whole, ranks, rank)
            need(not told["changed"], f"rank {rank} has changed its q, k or v. The caller needs them.")
            need(
                told["peak"] < (ranks - 1) * block,
                f"rank {rank} holds up to {told['peak'] / block:.1f} blocks of keys and values besides its own: those "
                "of all ranks. Free each block when the next one has arrived.",
            )


@ex1.fact("under torch.no_grad(), no rank holds the keys and values of all ranks")
def _(student):
    need_ring_memory(student)


# --- ex2: zig-zag ---------------------------------------------------------------------------------------------------

ex2 = lab.exercise(
    "ex2",
    points=2,
    title="Zig-zag",
    hints=[
        "Write down the positions of each rank for 2 ranks and 8 tokens. For each pair of ranks, draw which queries "
        "may attend to which keys.",
        "A token's label and its rotary angles belong to its position in the whole sequence. Compute the positions "
        "first, and use them as indices for everything else.",
        "If the owner's rank is smaller, its first chunk comes before both of yours. Where is its second one?",
        "For in_order: the ranks' first halves are in order. Their second halves are in order from the last rank to "
        "the first.",
    ],
)


def ask_inputs(lab, tokens, cos, sin, ranks):
    import torch

    from utils.exercises.facts.probes import array, kind_of

    found = []
    for rank in range(ranks):
        given = [torch.from_numpy(each.copy()) for each in (tokens, cos, sin)]
        told = lab.rank_inputs(*given, rank, ranks)
        if not isinstance(told, (tuple, list)) or len(told) != 5:
            return {"wrong": f"rank_inputs returned {kind_of(told)}. Return (inputs, labels, positions, cos, sin)."}
        for each in told:
            if not isinstance(each, torch.Tensor):
                return {"wrong": f"rank_inputs returned a sequence with {kind_of(each)}. Return five tensors."}
        found.append([[array(each) for each in told], [array(each) for each in given]])
    return {"found": found}


def positions_on(rank: int, ranks: int, length: int) -> np.ndarray:
    chunks = np.split(np.arange(length), 2 * ranks)
    return np.concatenate([chunks[rank], chunks[2 * ranks - 1 - rank]])


def mistaken_positions(rank, ranks, length) -> Iterator[tuple[str, np.ndarray]]:
    each = length // ranks
    chunks = np.split(np.arange(length), 2 * ranks)
    if rank:
        yield "They are counted within the rank. A position is an index into the whole sequence.", np.arange(each)
    yield (
        f"They are {each} consecutive tokens, so the last rank has the most work.",
        np.arange(rank * each, (rank + 1) * each),
    )
    yield (
        "The second chunk comes first. Rank r holds chunk r and then chunk 2P - 1 - r.",
        np.concatenate([chunks[2 * ranks - 1 - rank], chunks[rank]]),
    )
    yield (
        "The second chunk is chunk r + P. It should be chunk 2P - 1 - r: a rank with an early chunk has a late one, "
        "too.",
        np.concatenate([chunks[rank], chunks[ranks + rank]]),
    )
    yield "They are every P-th token. Take two chunks of consecutive tokens.", np.arange(rank, length, ranks)
    yield (
        "The second chunk is reversed. Keep each chunk in order.",
        np.concatenate([chunks[rank], chunks[2 * ranks - 1 - rank][::-1]]),
    )
    yield "They are 1 too large. The first position is 0.", positions_on(rank, ranks, length) + 1


def why_positions(found: list[np.ndarray], length: int) -> str:
    """The mistake that explains the positions of all ranks."""
    ranks = len(found)
    each = [dict(mistaken_positions(rank, ranks, length)) for rank in range(ranks)]
    for words in each[-1]:
        if all(np.array_equal(one.get(words, found[0]), mine) for one, mine in zip(each, found, strict=True)):
            return words
    return "Rank r holds chunk r and then chunk 2P - 1 - r of the first `length` tokens."


def compare_inputs(student, ranks, length, rows=2, width=3, seed=0):
    numbers = np.random.default_rng(seed)
    tokens = numbers.integers(0, 1000, (rows, length + 1))
    cos, sin = numbers_for((length, width), (length, width), seed=seed)
    with case(f"With {many(ranks, 'rank')} and {many(length, 'token')}"):
        run = student.run(ask_inputs, tokens, cos, sin, ranks)
        need("wrong" not in run, run.get("wrong", ""))
        for rank, (found, given) in enumerate(run["found"]):
            right = positions_on(rank, ranks, length)
            inputs, labels, positions, own_cos, own_sin = found
            need(
                positions.dtype.kind == "i",
                f"the positions of rank {rank} have the dtype {positions.dtype}. Return integers.",
            )
            if positions.shape != right.shape and positions.size == right.size:
                need(
                    False,
                    f"the positions of rank {rank} have the shape {positions.shape} instead of {right.shape}: one for "
                    "each token, whatever the number of sequences.",
                )
            if positions.shape != right.shape or not (positions == right).all():
                why = why_positions([one[2] for one, _ in run["found"]], length)
                need(False, f"the positions of rank {rank} are {brief(positions)}, but should be {brief(right)}. {why}")
            compare_tokens("inputs", inputs, tokens[:, right], rank, why_tokens(inputs, tokens, rank, ranks))
            why = "The label of a token is the next token of the whole sequence."
            inner = np.concatenate([inputs[:, 1:], labels[:, -1:]], 1)
            if labels.shape == inner.shape and (labels[:, :-1] == inputs[:, 1:]).all():
                why = "They are the rank's own next tokens. Where a chunk ends, the next token is on another rank."
            elif np.array_equal(labels, inputs):
                why = "They are the inputs."
            compare_tokens("labels", labels, tokens[:, right + 1], rank, why)
            for name, table, whole in (("cos", own_cos, cos), ("sin", own_sin, sin)):
                why = "Take the rows of its positions."
                if all(np.array_equal(one[3 + (name == "sin")], whole[: len(right)]) for one, _ in run["found"]):
                    why = "They are the first rows, as if each rank's tokens began at position 0."
                elif np.array_equal(table, whole[rank * len(right) : (rank + 1) * len(right)]):
                    why = "They are the rows of consecutive tokens."
                elif np.array_equal(table, whole):
                    why = "They are the rows of all positions."
                need(
                    np.array_equal(table, whole[right]),
                    f"the rows of {name} on rank {rank} are not those of its positions. {why}",
                )
            need(
                all(np.array_equal(*each) for each in zip(given, (tokens, cos, sin), strict=True)),
                "rank_inputs has changed its inputs.",
            )


def why_tokens(inputs, tokens, rank, ranks) -> str:
    length = tokens.shape[1] - 1
    each = length // ranks
    if np.array_equal(inputs, tokens[:, rank * each : (rank + 1) * each]):
        return "They are consecutive tokens, but the positions are not theirs."
    if np.array_equal(inputs, tokens[:, :-1]):
        return "They cover the whole sequence."
    return "Do they belong to its positions?"


def compare_tokens(name, found, right, rank, why):
    need(
        found.shape == right.shape,
        f"the {name} of rank {rank} have the shape {found.shape} instead of {right.shape}.",
    )
    need(
        (found == right).all(),
        f"the {name} of rank {rank} are {brief(found[0])} in the first sequence, but should be "
        f"{brief(right[0])}. {why}",
    )


def brief(numbers: np.ndarray) -> str:
    told = [str(each) for each in np.ravel(numbers).tolist()]
    return ", ".join(told if len(told) <= 8 else [*told[:8], "..."])


@ex2.fact("each rank has its tokens, with the labels, positions and rotary tables of the whole sequence")
def _(student):
    compare_inputs(student, 2, 8)
    compare_inputs(student, 4, 16, seed=1)


def ask_visible(lab, ranks, length):
    import numpy as np
    import torch

    from utils.exercises.facts.probes import array, kind_of

    each, found = length // ranks, []
    for rank in range(ranks):
        for owner in range(ranks):
            told = lab.visible(rank, owner, ranks, length)
            if not isinstance(told, (tuple, list)) or len(told) != 3:
                return {"wrong": f"visible returned {kind_of(told)}. Return (rows, columns, mask)."}
            rows, columns, mask = told
            for one in (rows, columns):
                if not isinstance(one, slice):
                    return {"wrong": f"visible returned {kind_of(one)} for rows or columns. Return a slice."}
            if mask is not None and not isinstance(mask, torch.Tensor):
                return {"wrong": f"visible returned {kind_of(mask)} as the mask. Return a tensor or None."}
            own = [np.arange(each)[rows], np.arange(each)[columns], None if mask is None else array(mask)]
            found.append([rank, owner, own])
    return {"found": found}


def compare_visible(student, ranks, length):
    with case(f"With {many(ranks, 'rank')} and {many(length, 'token')}"):
        run = student.run(ask_visible, ranks, length)
        need("wrong" not in run, run.get("wrong", ""))
        for rank, owner, (rows, columns, mask) in run["found"]:
            compare_square(rank, owner, rows, columns, mask, ranks, length)


def compare_square(rank, owner, rows, columns, mask, ranks, length):
    each = length // ranks
    queries, keys = positions_on(rank, ranks, length), positions_on(owner, ranks, length)
    right = queries[:, None] >= keys[None]
    where = f"for queries of rank {rank} and keys of rank {owner}, "
    size = (len(rows), len(columns))
    if mask is not None:
        need(mask.dtype == np.bool_, f"{where}the mask has the dtype {mask.dtype} instead of bool.")
        need(
            mask.shape == size,
            f"{where}the mask has the shape {mask.shape}, but the slices have {size[0]} queries and {size[1]} keys.",
        )
    found = np.zeros((each, each), dtype=bool)
    found[np.ix_(rows, columns)] = True if mask is None else mask
    if not (found == right).all():
        why = ""
        if mask is not None and (found[np.ix_(rows, columns)] == ~right[np.ix_(rows, columns)]).all():
            why = " The mask is True where a query may attend to a key."
        elif (found == np.tri(each, dtype=bool)).all() and owner != rank:
            why = " That is the mask of a rank's own block."
        row, column = np.argwhere(found != right)[0]
        seen = "attends to" if found[row, column] else "does not attend to"
        need(
            False,
            f"{where}the query at position {queries[row]} {seen} the key at position {keys[column]}. A query "
            "attends to "
            f"keys at its own position and before it.{why}",
        )
    limit = each * each if owner == rank else each * each // 2
    if size[0] * size[1] > limit:
        why = "" if size != (each, each) else " Masked pairs are computed, too: take slices without them."
        need(
            False,
            f"{where}the slices have {size[0]} x {size[1]} pairs, but {limit} are enough: half of the pairs of chunks "
            f"are masked.{why}",
        )


@ex2.fact("visible() selects the causal pairs, and all ranks compute the same number of them")
def _(student):
    compare_visible(student, 2, 8)
    compare_visible(student, 4, 16)


def ask_order(lab, parts, dim):
    import numpy as np
    import torch

    from utils.exercises.facts.probes import array, kind_of

    tensors = [torch.from_numpy(part.copy()) for part in parts]
    given = list(tensors)
    found = lab.in_order(given, dim)
    if not isinstance(found, torch.Tensor):
        return {"wrong": kind_of(found)}
    changed = len(given) != len(parts) or not all(map(np.array_equal, map(array, given), parts))
    return {"found": array(found), "changed": changed}


def compare_order(student, ranks, shape, dim, seed=0):
    [whole] = numbers_for(shape, seed=seed)
    length = shape[dim]
    parts = [np.take(whole, positions_on(rank, ranks, length), dim) for rank in range(ranks)]
    with case(f"With {many(ranks, 'rank')}, a whole tensor of shape {shape} and dim={dim}"):
        run = student.run(ask_order, parts, dim)
        need("wrong" not in run, f"in_order returned {run.get('wrong')}. Return a tensor.")
        found = run["found"]
        need(found.shape == whole.shape, f"in_order returned a tensor of shape {found.shape} instead of {whole.shape}.")
        why = ""
        halves = [np.split(part, 2, dim) for part in parts]
        if np.array_equal(found, np.concatenate(parts, dim)):
            why = "The parts are joined rank by rank, so the late chunks of each rank come too early."
        elif np.array_equal(found, np.concatenate([h[0] for h in halves] + [h[1] for h in halves], dim)):
            why = "The second chunks are in the order of the ranks. The first rank has the last chunk."
        need(np.array_equal(found, whole), f"in_order does not return the sequence in order. {why}")
        need(not run["changed"], "in_order has changed the list `parts` or a tensor in it. The caller needs them.")


def run_zigzag(lab, tokens, ranks):
    import torch

    from utils.exercises.facts.probes import array
    from utils.kits.sharded import loss_on_ranks

    tokens = torch.from_numpy(tokens.copy())
    loss, gradients, logits, pairs = loss_on_ranks(tokens, ranks, lab.rank_inputs, lab.visible, lab.in_order)
    return {
        "loss": loss,
        "gradients": {name: array(each) for name, each in gradients.items()},
        "logits": array(logits),
        "pairs": pairs,
    }


def compare_zigzag(student, ranks, length, rows=2, seed=0):
    from utils.kits.sharded import loss_on_one_device

    tokens = np.random.default_rng(seed).integers(0, 50, (rows, length + 1))
    with case(f"With a causal model on {many(ranks, 'rank')} and {many(length, 'token')}"):
        run = student.run(run_zigzag, tokens, ranks)
        loss, gradients, logits = loss_on_one_device(torch.from_numpy(tokens))
        need(abs(run["loss"] - loss) < 1e-8 * loss, f"the loss is {run['loss']:g} instead of {loss:g}.")
        need(same(logits, run["logits"]), "the logits in order are not those of one device.")
        for name, gradient in gradients.items():
            need(same(gradient, run["gradients"].get(name)), f"the gradient of {name} is not that of one device.")
        need(
            len(set(run["pairs"])) == 1,
            f"the ranks compute {', '.join(map(str, run['pairs']))} pairs of query and key. These numbers should be "
            "equal.",
        )


@ex2.fact("in_order() undoes the zig-zag, and a causal model has the loss and the gradients of one device")
def _(student):
    compare_order(student, 2, (1, 8, 2), 1)
    compare_order(student, 4, (1, 2, 16, 3), 2)
    compare_zigzag(student, 2, 8)
    compare_zigzag(student, 4, 16)


# --- ex3: a loss without the logits ---------------------------------------------------------------------------------

ex3 = lab.exercise(
    "ex3",
    points=2,
    title="A loss without the logits",
    hints=[
        "The loss of a token is log(sum of exp(logits)) - logit of the target. Which of the two needs all ranks?",
        "Subtract the largest logit of all ranks. Does the result depend on that number? If not, the number needs no "
        "gradient.",
        "Only one rank has the target's column. Let the other ranks add 0.",
        "Let total be the all-reduced, detached copy of `mine`, your part. Then total + (mine - mine.detach()) has the "
        "values of all ranks and the gradient of your part.",
    ],
    likely={
        **LIKELY,
        "out of bounds": "A target may be on another rank, or be -100. Which column do you pick then?",
        "out of range": "A target may be on another rank, or be -100. Which column do you pick then?",
        "in-place operation": "Your code changes a tensor that autograd needs. All-reduce a detached copy.",
        "does not require grad": "No tensor on the path to the loss requires a gradient. Values come from all ranks, "
        "but the gradient comes through this rank's own part.",
        "leaf Variable": "Your code changes logits. All-reduce a detached copy.",
    },
)


def run_loss(lab, logits, targets, ranks, scale):
    import numpy as np
    import torch

    from utils.exercises.facts.probes import array, kind_of
    from utils.kits.ranks_in_turns import in_turns
    from utils.kits.sharded import calls_of

    parts, called = np.split(logits, ranks, axis=1), []

    def main(rank):
        mine, wanted = torch.from_numpy(parts[rank].copy()).requires_grad_(), torch.from_numpy(targets.copy())
        loss = lab.sharded_cross_entropy(mine, wanted)
        if not isinstance(loss, torch.Tensor):
            return {"wrong": kind_of(loss)}
        told = {"loss": array(loss), "forward": calls_of(rank, called)}
        if loss.numel() == 1:
            (loss.sum() * scale).backward()
        told["gradient"] = None if mine.grad is None else array(mine.grad)
        told["backward"] = calls_of(rank, called)[len(told["forward"]) :]
        told["changed"] = not np.array_equal(array(mine), parts[rank]) or not np.array_equal(array(wanted), targets)
        return told

    return in_turns(main, ranks, called=called, strict=True)


def loss_of(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(logits, targets)


def mistaken_losses(logits, targets, ranks, rank) -> Iterator[tuple[str, torch.Tensor]]:
    parts = logits.chunk(ranks, 1)
    width, counts = parts[0].shape[1], targets != -100
    lse = logits.logsumexp(1)
    kept = targets.where(counts, 0)
    picked = logits.gather(1, kept[:, None])[:, 0]
    here = (targets // width == rank) & counts
    mine = here * picked

    def mean(each):
        return (each * counts).sum() / counts.sum()

    yield "It is the sum over tokens. Return their mean.", ((lse - picked) * counts).sum()
    if not counts.all():
        yield "Tokens with the target -100 count. Leave them out of the sum.", (lse - picked).mean()
        yield "Tokens with the target -100 count. Leave them out of the sum.", (lse - picked * counts).mean()
        shifted = lse - logits.amax(1)
        missing = "Tokens with the target -100 count. Leave the logarithm of their sums out, too."
        yield missing, (shifted - (picked - logits.amax(1)) * counts).sum() / counts.sum()
        yield missing, (lse - picked * counts).sum() / counts.sum()
        yield (
            "The sum is divided by the number of all tokens. Divide by the number of those that count.",
            ((lse - picked) * counts).mean(),
        )
    yield (
        "It covers only this rank's part of the vocabulary. Where do you sum over all ranks?",
        mean(parts[rank].logsumexp(1) - mine),
    )
    yield "The target's logit is 0 where another rank has it. Add up the ranks' logits of the target.", mean(lse - mine)
    yield "The target's logit is missing.", mean(lse)
    largest = logits.amax(1)
    for words, column, where in (
        (
            "Each rank picks the column target % (V / P). Only one rank has the target: the others add 0.",
            lambda r: kept % width,
            lambda r: counts,
        ),
        (
            "Ranks that do not have the target pick their first or last column. They should add 0.",
            lambda r: (kept - r * width).clamp(0, width - 1),
            lambda r: counts,
        ),
        (
            "Targets in the first column of a rank are found on no rank. Rank r's token ids begin at r * V / P.",
            lambda r: (kept - r * width).clamp(0, width - 1),
            lambda r: (kept > r * width) & (kept < (r + 1) * width) & counts,
        ),
        (
            "Targets in the first column of a rank are found on the rank before, too.",
            lambda r: (kept - r * width).clamp(0, width - 1),
            lambda r: (kept >= r * width) & (kept <= (r + 1) * width) & counts,
        ),
    ):
        each = [where(r) * part.gather(1, column(r)[:, None])[:, 0] for r, part in enumerate(parts)]
        shifted = [where(r) * (one - largest) for r, one in enumerate(each)]
        yield words, mean(lse - each[rank])
        yield words, mean(lse - sum(each))
        yield words, mean(lse - largest - sum(shifted))
    yield (
        "The log-sum-exps of the ranks are added up. Add up the exponentials, and then take the logarithm.",
        mean(sum((part - largest[:, None]).logsumexp(1) for part in parts) + largest - picked),
    )
    yield (
        "The log-sum-exps of the ranks are added up. Add up the exponentials, and then take the logarithm.",
        mean(sum(part.logsumexp(1) for part in parts) - picked),
    )
    yield "The largest logit is subtracted from all logits, but not from the target's.", mean(lse - largest - picked)
    yield (
        "The largest logit is subtracted from the target's only. Add it to the logarithm, too.",
        mean(lse + largest - picked),
    )
    own = [part.amax(1) for part in parts]
    mixed = added((part - most[:, None]).exp().sum(1) for part, most in zip(parts, own, strict=True))
    words = (
        "Each rank subtracts its own largest logit. Sums can be added up only if all ranks subtract the same number."
    )
    yield words, mean(mixed.log() + largest - picked)
    yield words, mean(mixed.log() + own[rank] - picked)
    yield words, mean(mixed.log() + own[rank] - mine)
    yield words, mean(mixed.log() - sum(here_of(targets, width, r, counts) * (picked - own[r]) for r in range(ranks)))
    each = (lse - picked) * counts
    divided = "The sum is divided by the number of targets on this rank. Divide by the number of all tokens that count."
    yield divided, each.sum() / here.sum().clamp(min=1)
    yield divided, (each * here).sum() / here.sum().clamp(min=1)
    yield (
        "It has only the tokens whose target is on this rank. Each rank returns the mean over all tokens.",
        mean(each * here),
    )
    averaged = "The ranks' numbers are averaged. Add them up."
    smaller = math.log(ranks)
    yield averaged, mean(lse - smaller - picked)
    yield averaged, mean(lse - smaller - picked / ranks)
    yield averaged, mean(lse - smaller - largest - (picked - largest) / ranks)
    yield f"It is {ranks} times too large.", ranks * loss_of(logits, targets)
    yield f"It is divided by {ranks} ranks.", loss_of(logits, targets) / ranks


def here_of(targets, width, rank, counts):
    return (targets // width == rank) & counts


def mistaken_loss_gradients(logits, targets, ranks, rank, right) -> Iterator[tuple[str, torch.Tensor]]:
    width, counts = logits.shape[1] // ranks, targets != -100
    share = logits.softmax(1)
    one = nn.functional.one_hot(targets.where(counts, 0), logits.shape[1]) * counts[:, None]
    mine = slice(rank * width, (rank + 1) * width)
    count = counts.sum()
    yield (
        f"It is {ranks} times too large. The loss is the same number on each rank: its gradient counts once, not once "
        "for each rank.",
        ranks * right,
    )
    yield f"It is {ranks} times too small.", right / ranks
    words = "It is 0."
    if not one[:, mine].any():
        words += " The sum of the exponentials has a gradient on each rank, even where all targets are on other ranks."
    yield words, 0 * right
    yield "The gradient of the target's logit is missing.", (share * counts[:, None] / count)[:, mine]
    yield "The gradient of the logarithm of the sum is missing.", (-one / count)[:, mine]
    yield "It is not divided by the number of tokens that count.", right * count
    yield "Tokens with the target -100 have a gradient. It should be 0.", ((share - one) / count)[:, mine]
    local = logits.chunk(ranks, 1)[rank].softmax(1)
    yield (
        "The exponentials are divided by this rank's sum. Divide by that of all ranks.",
        ((local - one[:, mine]) * counts[:, None] / count),
    )
    where = (logits == logits.amax(1, keepdim=True))[:, mine]
    has = one[:, mine].sum(1, keepdim=True)
    for more in (1.0, has, has - share[:, mine].sum(1, keepdim=True), share[:, mine].sum(1, keepdim=True)):
        for sign in (1, -1):
            moved = right + sign * more * where * counts[:, None] / count
            yield "The largest logit has a gradient of its own. Subtract a constant: its detached value.", moved


def compare_loss(
    student,
    ranks,
    tokens,
    vocabulary,
    *,
    ignored=0,
    shift=None,
    token_shift=None,
    only=None,
    spread=3.0,
    seed=0,
    dtype="float64",
    scale=1.0,
):
    """`shift`, `token_shift`: added to the logits, a number for each rank or token; `only`: the rank of all targets."""
    numbers = np.random.default_rng(seed)
    logits = (spread * numbers.standard_normal((tokens, vocabulary))).astype(dtype)
    targets = numbers.integers(0, vocabulary, tokens)
    targets[:ranks] = (np.arange(ranks) * vocabulary // ranks)[:tokens]  # the first column of each rank
    if only is not None:
        targets = targets % (vocabulary // ranks) + only * vocabulary // ranks
    if ignored:
        targets[-ignored:] = -100
    told_shift = "" if only is None else f", all targets on rank {only}"
    if shift is not None:
        logits = (logits + np.repeat(shift, vocabulary // ranks)).astype(dtype)
        told_shift = f", logits up to {np.abs(logits).max():,.0f}"
    if token_shift is not None:
        logits = (logits + np.array(token_shift)[:, None]).astype(dtype)
        told_shift = f", logits from {logits.min():,.0f} to {logits.max():,.0f}"
    words = f"With {many(ranks, 'rank')} and {many(tokens, 'token')}" + (
        f", {ignored} of them with the target -100" if ignored else ""
    )
    with case(words + told_shift + ("" if dtype == "float64" else f", in {dtype}")):
        run = student.run(run_loss, logits, targets, ranks, scale)
        for told in run:
            need("wrong" not in told, f"sharded_cross_entropy returned {told.get('wrong')}. Return a tensor.")
        whole, wanted = torch.from_numpy(logits).requires_grad_(), torch.from_numpy(targets)
        right = loss_of(whole, wanted)
        (scale * right).backward()
        assert whole.grad is not None
        for rank, told in enumerate(run):
            compare_loss_value(told["loss"], right, whole.detach(), wanted, ranks, rank)
        for rank, told in enumerate(run):
            need(not told["changed"], f"rank {rank} has changed its logits or targets. Work on a copy.")
            compare_loss_gradient(told["gradient"], whole, wanted, ranks, rank, scale)
        return run


def compare_loss_value(found, right, logits, targets, ranks, rank):
    need(
        found.size == 1,
        f"the loss of rank {rank} has the shape {found.shape}. Return one number, the mean over tokens.",
    )
    found, value = found.reshape(()), right.detach().numpy()
    need_same_dtype(found, value, "the loss")
    if not alike(found, value):
        why = ""
        if not np.isfinite(found):
            why = (
                "An exponential overflows or a sum is 0. From a token's logits, subtract the largest that any rank has "
                "for this token."
            )
        else:
            why = the_first(mistaken_losses(logits, targets, ranks, rank), found)
            why = why or "A token's loss is log(sum of exp(logits of all ranks)) - logit of the target."
        need(False, f"the loss on rank {rank} is {found:g}, but should be {value:g}. {why}")


def compare_loss_gradient(found, whole, targets, ranks, rank, scale):
    right = whole.grad.chunk(ranks, 1)[rank]
    need(
        found is not None, f"logits has no gradient on rank {rank}. Does the path from the loss lead through autograd?"
    )
    if not same(right, found):
        why = ""
        if scale != 1 and alike(found, (right / scale).numpy()):
            why = "Multiply by the gradient that backward() receives."
        elif not np.isfinite(found).all():
            why = "It has values that are not finite."
        else:
            why = the_first(mistaken_loss_gradients(whole.detach(), targets, ranks, rank, right / scale), found / scale)
            why = why or (
                "It is the softmax over all ranks, minus 1 in the target's column, divided by the number of tokens "
                "that count."
            )
        need(False, f"the gradient of logits on rank {rank} is not this rank's part of one device's. {why}")


@ex3.fact("the loss and the gradient match those of one device, with 2 and 4 ranks")
def _(student):
    compare_loss(student, 2, 5, 12)
    compare_loss(student, 4, 6, 20, seed=1)
    compare_loss(student, 2, 5, 12, only=1, seed=7)


@ex3.fact("tokens with the target -100 do not count")
def _(student):
    compare_loss(student, 2, 6, 12, ignored=2, seed=2)


@ex3.fact("logits can be large on one rank, on all ranks or for one token")
def _(student):
    compare_loss(student, 2, 5, 12, shift=[1e4, 1e4], seed=3)
    compare_loss(student, 2, 5, 12, shift=[-1e4, -1e4], seed=4)
    compare_loss(student, 4, 5, 20, shift=[0.0, 2e3, -2e3, 0.0], seed=5)
    compare_loss(student, 2, 5, 12, token_shift=[1e4, -1e4, 0.0, 2e3, -2e3], seed=8)


NUMBERS = 3  # for each token


def need_few_numbers(student, ranks, tokens, vocabulary, seed=6):
    run = compare_loss(student, ranks, tokens, vocabulary, seed=seed)
    with case(f"With {many(ranks, 'rank')}, {many(tokens, 'token')} and a vocabulary of {vocabulary}"):
        for rank, told in enumerate(run):
            for way in ("forward", "backward"):
                count = sum(size for _, size, _, _ in told[way]) / 8
                # Besides: how many tokens count.
                if count > NUMBERS * tokens + 4:
                    why = ""
                    if count >= vocabulary // ranks * tokens:
                        why = " The logits are gathered. Reduce only what each token needs: a maximum and sums."
                    names = ", ".join(sorted({name for name, *_ in told[way]}))
                    need(
                        False,
                        f"in the {way} pass, rank {rank} puts {count / tokens:g} numbers per token into {names}, but "
                        f"{NUMBERS} are enough.{why}",
                    )


@ex3.fact(f"a rank puts at most {NUMBERS} numbers per token into collectives")
def _(student):
    need_few_numbers(student, 4, 10, 64)


# --- ex4: a block along the sequence --------------------------------------------------------------------------------

ex4 = lab.exercise(
    "ex4",
    points=3,
    title="A block along the sequence",
    hints=[
        "Draw the block's tensors and write beside each whether a rank has all tokens or its own. Where does "
        "one become "
        "the other?",
        "All-gather: each rank's part is used on all ranks. So the gradients of all ranks for this part are added up, "
        "and each rank gets its own part: which collective does this?",
        "Reduce-scatter: a part of the sum has the same gradient on each of the ranks that added to it. Which "
        "collective "
        "takes the parts of the gradient to all ranks?",
        "The forward pass just uses weight. In the backward pass, each rank's gradient is that of its own tokens. "
        "Write an autograd.Function whose forward pass does nothing.",
    ],
    likely={
        **LIKELY,
        "size of tensor a": "Which tensors have all tokens, and which have this rank's own?",
    },
)


def run_block(lab, x, weight, columns, rows, ranks, inner, upstream, calls, strided):
    import numpy as np
    import torch

    from utils.exercises.facts.probes import array, kind_of
    from utils.kits.ranks_in_turns import in_turns
    from utils.kits.sharded import calls_of, made_by

    def attention(h):
        q, k, v = torch.chunk(h, 3, -1)
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    between = {"gelu": torch.nn.functional.gelu, "attention": attention}[inner]
    parts, pulls = np.split(x, ranks, axis=1), np.split(upstream, ranks, axis=1)
    called = []

    def main(rank):
        given = [parts[rank], weight, columns[rank], rows[rank]]
        order = "F" if strided else "C"
        mine = [torch.from_numpy(np.array(each, order=order)).requires_grad_() for each in given]
        told = {}
        for _ in range(calls):
            before = len(calls_of(rank, called))
            output, kept, _ = made_by(lambda: lab.sequence_parallel(*mine, between))
            if not isinstance(output, torch.Tensor):
                return {"wrong": kind_of(output)}
            forward = calls_of(rank, called)[before:]
            told |= {"output": array(output), "kept": kept, "forward": forward}
            if output.shape == mine[0].shape:
                (output if strided else output * torch.from_numpy(pulls[rank].copy())).sum().backward()
            told["backward"] = calls_of(rank, called)[before + len(forward) :]
        told["gradients"] = [None if each.grad is None else array(each.grad) for each in mine]
        told["changed"] = [not np.array_equal(array(one), other) for one, other in zip(mine, given, strict=True)]
        return told

    return in_turns(main, ranks, called=called, strict=True)


def causal(h):
    q, k, v = torch.chunk(h, 3, -1)
    return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


INNER: dict[str, Callable] = {"gelu": nn.functional.gelu, "attention": causal}


class WholeBlock:
    """The block on one device, with the ranks' ways through it kept apart so that mistakes can be told."""

    def __init__(self, x, weight, columns, rows, inner, upstream):
        self.ranks = len(columns)
        self.x = torch.from_numpy(x).requires_grad_()
        self.weights = [torch.from_numpy(weight.copy()).requires_grad_() for _ in columns]  # of each rank's tokens
        self.columns = [torch.from_numpy(each).requires_grad_() for each in columns]
        self.rows = [torch.from_numpy(each).requires_grad_() for each in rows]
        self.between, self.upstream = INNER[inner], torch.from_numpy(upstream)

    def normed(self) -> torch.Tensor:
        parts = zip(self.x.chunk(self.ranks, 1), self.weights, strict=True)
        return torch.cat([nn.functional.rms_norm(part, weight.shape, weight) for part, weight in parts], 1)

    def partial(self, normed: torch.Tensor, rank: int) -> torch.Tensor:
        return nn.functional.linear(self.between(nn.functional.linear(normed, self.columns[rank])), self.rows[rank])

    def output(self, only: int | None = None) -> torch.Tensor:
        """`only`: the rank through whose products gradients reach `normed`."""
        normed = self.normed()
        each = [self.partial(normed if only in (None, n) else normed.detach(), n) for n in range(self.ranks)]
        return self.x + torch.stack(each).sum(0)

    def gradients(self, only: int | None = None, outputs_of: int | None = None) -> dict[str, list[torch.Tensor]]:
        """Of each rank's part; `outputs_of`: only its tokens' outputs have a gradient."""
        loss = (self.output(only) * self.upstream).chunk(self.ranks, 1)
        loss = added(each.sum() for n, each in enumerate(loss) if outputs_of in (None, n))
        found = torch.autograd.grad(loss, [self.x, *self.weights, *self.columns, *self.rows])
        p = self.ranks
        return {
            "x": list(found[0].chunk(p, 1)),
            "weight": list(found[1 : 1 + p]),
            "column": list(found[1 + p : 1 + 2 * p]),
            "row": list(found[1 + 2 * p :]),
        }


def mistaken_blocks(block: WholeBlock, rank: int) -> Iterator[tuple[str, torch.Tensor]]:
    p, normed = block.ranks, block.normed().detach()
    mine = [each.chunk(p, 1)[rank] for each in (block.x, *(block.partial(normed, n) for n in range(p)))]
    x, partials = mine[0], torch.stack(mine[1:])
    yield "x is missing: add it to the sum.", partials.sum(0)
    yield (
        f"x counts {p} times: each rank adds it before the sum. Add it after the reduce-scatter.",
        partials.sum(0) + p * x,
    )
    yield "It is the rank's own product, without those of the other ranks: add them up.", partials[rank] + x
    yield "The products are averaged. Add them up.", partials.mean(0) + x
    for scaled in (block.x, block.x * block.weights[0]):
        unnormed = [block.partial(scaled, n).chunk(p, 1)[rank] for n in range(p)]
        yield "The norm is missing.", torch.stack(unnormed).sum(0) + x
    apart = [block.partial(each, n) for n, each in enumerate(block.normed().chunk(p, 1))]
    yield (
        "Products of different tokens are added up. Gather all tokens before the first product.",
        torch.stack(apart).sum(0) + x,
    )
    for other in range(p):
        if other != rank:
            parts = [block.x, *(block.partial(normed, n) for n in range(p))]
            yield (
                f"It has the products of rank {other}'s tokens. Rank r gets the r-th part.",
                x + torch.stack([each.chunk(p, 1)[other] for each in parts[1:]]).sum(0),
            )
    places = torch.arange(normed.shape[1])
    for order in (places.reshape(p, -1).T.flatten(), places.reshape(p, -1).flip(0).flatten()):
        mixed = added(block.partial(normed[:, order], n) for n in range(p))
        for whole in (mixed, mixed[:, order.argsort()]):
            yield (
                "Are the tokens gathered in the order of the ranks, along dimension 1, and scattered in the same way?",
                x + whole.chunk(p, 1)[rank],
            )
    by_rank = torch.cat(normed.chunk(p, 1), 0).reshape(normed.shape)
    products = added(block.partial(by_rank, n) for n in range(p))
    for one in (products.reshape(p, *x.shape)[rank], products.chunk(p, 1)[rank]):
        yield (
            "The tokens are gathered along dimension 0 and reshaped, so they are mixed up. The tokens are dimension 1.",
            x + one,
        )
    local = zip(normed.chunk(p, 1), block.columns, strict=True)
    features = torch.cat([block.between(nn.functional.linear(*each)) for each in local], 1)
    products = added(nn.functional.linear(features, row) for row in block.rows)
    yield (
        "Each token goes through the first weight of its own rank only. Gather the tokens before the first product.",
        x + products.chunk(p, 1)[rank],
    )
    yield (
        "The norm of the tokens is added to the sum. Add x itself.",
        partials.sum(0) + normed.chunk(p, 1)[rank],
    )
    own = block.normed().chunk(p, 1)[rank]
    yield (
        "inner sees the tokens of one rank only. Gather all tokens, along dimension 1, before the first product.",
        x + torch.stack([block.partial(own, n) for n in range(p)]).sum(0),
    )


def why_block_gradient(name: str, found, block: WholeBlock, right: list[torch.Tensor], rank: int) -> str:
    if found is None:
        return "It is None. Does the path from the output lead through autograd?"
    p = block.ranks
    own = block.gradients(only=rank)
    of_own_outputs = block.gradients(outputs_of=rank)
    without_gather = "The backward pass of a reduce-scatter is an all-gather: each rank added to all parts of the sum."
    if name == "weight":
        each = block.gradients()["weight"]
        if same(each[rank], found):
            return "It is that of this rank's tokens only. Add it up over the ranks."
        if same(added(each) / p, found):
            return "It is averaged over the ranks. Add it up."
        if same(added(block.gradients(only=rank)["weight"]), found):
            return (
                "It has only the part that comes through this rank's products, for all tokens. Let each rank compute "
                "the norm of its own tokens, and then add up the gradients."
            )
    if name in ("column", "row") and same(added(right), found):
        return "It is added up over the ranks, but each rank has a different part of this weight."
    if same(right[rank] * p, found):
        return f"It is {p} times too large. Is it added up once too often?"
    if same(right[rank] / p, found):
        return f"It is {p} times too small."
    if name in ("x", "weight"):
        if name == "x" and same(own["x"][rank], found):
            return (
                "It has only the part that comes through this rank's products. The backward pass of an all-gather is a "
                "reduce-scatter: the gradients of all ranks are added up."
            )
        if name == "weight" and same(added(block.gradients(only=n)["weight"][n] for n in range(p)), found):
            return "The backward pass of an all-gather is a reduce-scatter: the gradients of all ranks are added up."
        pulls = block.upstream.chunk(p, 1)[rank]
        if name == "x" and same(right[rank] - pulls, found):
            return "The part that bypasses the block, in `x + ...`, is missing."
        if name == "x" and same(pulls, found):
            return "It has only the part that bypasses the block: nothing comes back through the products."
    if same(of_own_outputs[name][rank], found):
        return f"It is that of this rank's outputs only. {without_gather}"
    return (
        "The backward pass of an all-gather is a reduce-scatter, and that of a reduce-scatter is an all-gather, along "
        "the same dimension."
    )


def block_numbers(ranks, shape, inner, features, seed, dtype="float64"):
    """`shape`: (sequences, tokens on each rank, hidden size); `features` of each rank."""
    rows, tokens, hidden = shape
    wide = 3 * features if inner == "attention" else features
    whole = (rows, tokens * ranks, hidden)
    x, weight, up, down, pull = numbers_for(
        whole, (hidden,), (ranks, wide, hidden), (ranks, hidden, features), whole, seed=seed, dtype=dtype
    )
    return x, weight + 1.5, list(up / hidden**0.5), list(down), pull


def compare_block(
    student,
    ranks,
    shape,
    *,
    inner="gelu",
    features=5,
    seed=0,
    dtype="float64",
    calls=1,
    backward=True,
    strided=False,
):
    """`strided`: x and the weights are not contiguous, and neither is the gradient that backward() brings."""
    x, weight, columns, rows, pull = block_numbers(ranks, shape, inner, features, seed, dtype)
    words = f"With {many(ranks, 'rank')}, {many(shape[0], 'sequence')}, {many(shape[1], 'token')} on each rank"
    words += f" and inner={inner}"
    words += ("" if dtype == "float64" else f", in {dtype}") + (f", called {calls} times" if calls > 1 else "")
    words += ", x and the weights not contiguous" if strided else ""
    pull = np.ones_like(pull) if strided else pull
    with case(words):
        run = student.run(run_block, x, weight, columns, rows, ranks, inner, pull, calls, strided)
        for told in run:
            need("wrong" not in told, f"sequence_parallel returned {told.get('wrong')}. Return a tensor.")
        block = WholeBlock(x.copy(), weight, columns, rows, inner, pull)
        output = block.output().detach()
        for rank, told in enumerate(run):
            right = output.chunk(ranks, 1)[rank].numpy()
            need(
                told["output"].shape == right.shape,
                f"the output of rank {rank} has the shape {told['output'].shape}, but should have that of x: "
                f"{right.shape}.",
            )
            need_same_dtype(told["output"], right, "the output")
            if not alike(told["output"], right):
                why = the_first(mistaken_blocks(block, rank), told["output"])
                why = why or (
                    "Compare each step with one device's: the norm of each token by itself, all tokens in their order, "
                    "both products, the sum over the ranks, and x."
                )
                need(False, f"the output of rank {rank} is not this rank's part of one device's. {why}")
            need(not any(told["changed"]), f"rank {rank} has changed x or a weight. Work on a copy.")
        if backward:
            compare_block_gradients(run, block, calls)
        return run


def compare_block_gradients(run, block: WholeBlock, calls):
    gradients = block.gradients()
    gradients["weight"] = [torch.stack(gradients["weight"]).sum(0)] * block.ranks
    for number, name in ((3, "row"), (2, "column"), (0, "x"), (1, "weight")):
        for rank, told in enumerate(run):
            found = told["gradients"][number]
            found = None if found is None else found / calls
            if not same_or_none(gradients[name][rank], found):
                why = why_block_gradient(name, found, block, gradients[name], rank)
                if calls > 1:
                    why = (
                        "It is right in the first call. A hook on the weight itself, for example, stays for the next "
                        "call."
                    )
                need(False, f"the gradient of {name} on rank {rank} is not that of one device. {why}")


def same_or_none(right: torch.Tensor, found) -> bool:
    return found is not None and same(right, found)


@ex4.fact("each rank's output is its part of one device's, with 2 and 4 ranks")
def _(student):
    compare_block(student, 2, (2, 3, 6), backward=False)
    compare_block(student, 4, (2, 2, 6), inner="attention", backward=False)


@ex4.fact("all gradients match those of one device, including that of the norm's weight")
def _(student):
    compare_block(student, 2, (2, 3, 6))
    compare_block(student, 4, (2, 2, 6), inner="attention")


def need_block_bytes(student, ranks, shape, seed=0, **more):
    run = compare_block(student, ranks, shape, seed=seed, **more)
    rows, tokens, hidden = shape
    unit = rows * tokens * hidden * 8 * (ranks - 1)  # an all-gather of the tokens, or a reduce-scatter
    for_weight = hidden * 8 * (ranks - 1) + 8 * ranks
    with case(f"With {many(ranks, 'rank')}"):
        for rank, told in enumerate(run):
            for way in ("forward", "backward"):
                calls = told[way]
                gathers = sum(wire >= unit for name, _, wire, _ in calls if name == "all_gather")
                most = 3 if way == "backward" and gathers > 1 else 2
                limit = most * unit + (for_weight if way == "backward" else 0)
                size = sum(wire for _, _, wire, _ in calls)
                if size > limit:
                    need(
                        False,
                        f"in the {way} pass, rank {rank} sends {size:,} bytes, but an all-gather and a "
                        "reduce-scatter of "
                        f"the tokens send {2 * unit:,}. {why_block_bytes(calls, unit, way)}",
                    )


def why_block_bytes(calls, unit, way) -> str:
    if any(name == "all_reduce" and wire >= 2 * unit for name, _, wire, _ in calls):
        return "An all-reduce sends twice as much as a reduce-scatter. A rank needs only its own part of the sum."
    if sum(wire >= unit for name, _, wire, _ in calls if name == "all_gather") > 1:
        return "Is something gathered twice?" + (" The result stays sharded." if way == "forward" else "")
    return f"It calls {', '.join(name for name, *_ in calls)}."


@ex4.fact("each direction takes one all-gather and one reduce-scatter: the bytes of tensor parallelism")
def _(student):
    need_block_bytes(student, 4, (2, 2, 6))


def need_block_memory(student, ranks=8, shape=(2, 4, 32), features=4, seed=7):
    run = compare_block(student, ranks, shape, features=features, seed=seed)
    rows, tokens, hidden = shape
    whole = rows * tokens * ranks * hidden * 8
    inside = rows * tokens * ranks * features * 8
    limit = whole + 3 * inside + 4 * whole // ranks + 4096
    with case(f"With {many(ranks, 'rank')}"):
        for rank, told in enumerate(run):
            need(
                told["kept"] <= limit,
                f"after the forward pass, rank {rank} holds {told['kept'] / whole:.1f} times the bytes of all "
                "tokens' hidden "
                f"states besides x, and {limit / whole:.1f} times are enough. Compute the norm of this rank's "
                "tokens, gather "
                "its result, and keep no other tensor with all tokens.",
            )


@ex4.fact("for the backward pass, a rank keeps at most one tensor with the hidden states of all tokens")
def _(student):
    need_block_memory(student)
