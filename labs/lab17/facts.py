"""Lab 17's visible facts: what `check("ex1")` tells the learner, and the first part of the grade.

A probe runs beside the student's code and tells plain data; the fact judges it here. Ranks are threads that take turns
(utils/kits/ranks_in_turns.py): torch.distributed works on them, and what they send to each other is noted.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import nn

from utils.exercises.facts import Lab, case, need
from utils.exercises.facts.probes import build, fill
from utils.kits.experts import step_seconds

lab = Lab("lab17", "Experts, and the network under them")


def counted(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def listed(words: Sequence) -> str:
    words = [str(word) for word in words]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def tolerance(right) -> dict[str, Any]:
    return {"rtol": 1e-9, "atol": 1e-11} if right.dtype == np.float64 else {"rtol": 1e-4, "atol": 1e-5}


def close(mine, right) -> bool:
    return mine.shape == right.shape and bool(np.allclose(mine, right, **tolerance(right)))


def rounded(mine, right) -> bool:
    """Right up to rounding, in bfloat16 or better."""
    return mine.shape == right.shape and right.size > 0 and bool(abs(mine - right).max() < 0.01 * abs(right).max())


# --- ex1: dispatch and combine --------------------------------------------------------------------------------------

ex1 = lab.exercise(
    "ex1",
    points=4,
    title="Dispatch and combine",
    hints=[
        "Sort the pairs of a token and one of its experts by expert. Then the pairs for rank 0 come first, and those "
        "for rank 1 come next. How many are there for each expert?",
        "A rank cannot allocate what it receives before it knows how many rows come from each rank. Exchange the "
        "counts first. Each rank sends the same number of counts.",
        "The backward pass of an all-to-all is an all-to-all with the two lists of split sizes exchanged. An "
        "autograd.Function can do this.",
        "If an expert has no tokens, which rank's backward pass has no path to the all-to-all that the others wait in? "
        "A layer can be called with 0 rows.",
    ],
    likely={
        "no rank can go on": "A rank does not take part in a collective, forward or backward. All ranks make the same "
        "calls, even with 0 tokens. Each rank's experts are called with 0 rows, too, so that the backward pass reaches "
        "every all-to-all.",
        "in the same group": "The ranks make different calls. Does a call depend on a rank's own number of tokens?",
        "different dtypes": "Allocate the output in the dtype of x.",
        "split sizes": "Output splits say how many rows come from each rank, and input splits say how many go to it. "
        "In the backward pass, the two are exchanged.",
        "equal pieces": "Without split sizes, every rank gets the same number of rows. Pass both lists when you send "
        "rows. Exchange a count for each expert of all ranks, even for one without tokens (minlength).",
        "which expects": "The split sizes do not fit together: a rank does not send the number of rows that the other "
        "one expects. "
        "Exchange the counts.",
        "does not require grad": "The output has no path back. Autograd does not see dist.all_to_all_single.",
    },
)


def run_experts(lab, hidden, experts, top_k, inputs, gradients, seed, bias, double, first_layer, sizes):
    import torch

    from utils.exercises.facts.probes import array, build, fill, kind_of
    from utils.kits.ranks_in_turns import in_turns

    ranks = len(inputs)
    each = experts // ranks
    dtype = torch.float64 if double else torch.float32

    def main(rank):
        router = build([["Linear", hidden, experts]])
        fill(router, seed)
        with torch.no_grad():
            [*router.parameters()][1].copy_(torch.tensor(bias))
        own = [
            build([["Linear", hidden, sizes[expert]], ["Tanh"], ["Linear", sizes[expert], hidden]])
            for expert in range(rank * each, rank * each + each)
        ]
        for place, layer in enumerate(own):
            fill(layer, seed + 1 + rank * each + place)
        for layer in [router, *own]:
            layer.to(dtype)
        x = torch.from_numpy(inputs[rank].copy()).to(dtype).requires_grad_(not first_layer)
        found = lab.expert_layer(x, router[0], list(own), top_k)
        if not isinstance(found, torch.Tensor):
            return {"wrong": f"expert_layer returned {kind_of(found)}. Return a tensor."}
        if list(found.shape) != list(x.shape):
            return {
                "wrong": f"expert_layer returned a tensor of shape {list(found.shape)} for tokens of {list(x.shape)}."
            }
        if found.dtype != dtype:
            return {"wrong": f"expert_layer returned {found.dtype} for tokens of {dtype}."}
        loss = (found * torch.from_numpy(gradients[rank]).to(dtype)).sum()
        if not loss.requires_grad:
            return {"wrong": "the output requires no gradient. Autograd does not see dist.all_to_all_single."}
        loss.backward()
        nothing = torch.zeros(0)
        given = [x, *router.parameters()]
        theirs = [p for layer in own for p in layer.parameters()]
        return {
            "wrong": "",
            "output": array(found),
            "x": array(x.grad if x.grad is not None else nothing),
            "router": [array(p.grad if p.grad is not None else nothing) for p in given[1:]],
            "experts": [array(p.grad if p.grad is not None else nothing) for p in theirs],
            "kept": array(x),
        }

    sent = []
    found = in_turns(main, ranks, sent=sent)
    return {"ranks": found, "sent": [list(one) for one in sent]}


class Layer:
    """The layer on one device, with all experts and all ranks' tokens."""

    def __init__(self, hidden, experts, top_k, inputs, gradients, seed, bias, double, sizes):
        dtype = torch.float64 if double else torch.float32
        self.top_k, self.ranks, self.each = top_k, len(inputs), experts // len(inputs)
        self.router = build([["Linear", hidden, experts]])
        fill(self.router, seed)
        with torch.no_grad():
            [*self.router.parameters()][1].copy_(torch.tensor(bias))
        self.experts = [build([["Linear", hidden, size], ["Tanh"], ["Linear", size, hidden]]) for size in sizes]
        for place, layer in enumerate(self.experts):
            fill(layer, seed + 1 + place)
        for layer in (self.router, *self.experts):
            layer.to(dtype)
        self.inputs = [torch.from_numpy(each).to(dtype).requires_grad_() for each in inputs]
        self.gradients = [torch.from_numpy(each).to(dtype) for each in gradients]

    def probabilities(self, x, over=-1) -> tuple[torch.Tensor, torch.Tensor]:
        top = self.router(x).softmax(over).topk(self.top_k, dim=-1)
        return top.values, top.indices

    def output(self, x, way: str | tuple = "") -> torch.Tensor:
        """The right one, or what a mistake makes of it. A tuple has a factor for each choice."""
        weights, chosen = self.probabilities(x, 0 if way == "softmax over the tokens" else -1)
        if isinstance(way, tuple):
            weights = weights * torch.tensor(way)
        elif way == "unweighted":
            weights = torch.ones_like(weights)
        elif way == "renormalized":
            weights = weights / weights.sum(-1, keepdim=True)
        elif way == "softmax of the chosen logits":
            weights = self.router(x).topk(self.top_k, dim=-1).values.softmax(-1)
        elif way == "mean":
            weights = torch.ones_like(weights) / self.top_k
        elif way == "detached":
            weights = weights.detach()
        elif way == "first expert of the rank":
            chosen = chosen // self.each * self.each
        elif way == "dealt like cards":
            chosen = chosen % self.ranks * self.each + chosen // self.ranks
        found = torch.zeros_like(x)
        for share, expert in zip(
            weights.T[..., None], chosen.T[:, :, None, None].expand(-1, -1, 1, x.shape[1]), strict=True
        ):
            given = x * share if way == "tokens scaled, too" else x
            outputs = torch.stack([one(given) for one in self.experts], 1)  # (tokens, experts, hidden)
            found = found + outputs.gather(1, expert)[:, 0] * share
        return found

    def gradients_of(self, rank: int | None = None, way="") -> tuple[list, list, list]:
        """Of each rank's tokens, of the router for each rank, and of all experts, by all ranks' losses or one."""
        router, total, tokens = [], [torch.zeros_like(p) for e in self.experts for p in e.parameters()], []
        for number, (x, upstream) in enumerate(zip(self.inputs, self.gradients, strict=True)):
            wanted = [x, *self.router.parameters(), *(p for e in self.experts for p in e.parameters())]
            loss = (self.output(x, way) * upstream).sum()
            found = torch.autograd.grad(loss, wanted, allow_unused=True)
            found = [torch.zeros_like(p) if g is None else g for p, g in zip(wanted, found, strict=True)]
            tokens.append(found[0].numpy())
            router.append([each.numpy() for each in found[1:3]])
            if rank in (None, number):
                total = [one + other for one, other in zip(total, found[3:], strict=True)]
        return tokens, router, [each.numpy() for each in total]

    def rows(self) -> np.ndarray:
        """How many rows each rank sends to each other one."""
        found = np.zeros((self.ranks, self.ranks), int)
        for rank, x in enumerate(self.inputs):
            for expert in self.probabilities(x)[1].flatten().tolist():
                found[rank, expert // self.each] += 1
        return found

    def counts(self) -> list[int]:
        """How many tokens each expert gets."""
        chosen = torch.cat([self.probabilities(x)[1].flatten() for x in self.inputs])
        return torch.bincount(chosen, minlength=len(self.experts)).tolist()


def compare_experts(
    student, tokens, experts, top_k, *, hidden=6, seed=5, bias=None, double=False, first_layer=False, words=""
):
    """`tokens` of each rank. `bias` of the router, for experts that are never or always chosen."""
    numbers = np.random.default_rng(seed)
    inputs, gradients = ([numbers.normal(size=(count, hidden)).astype("float32") for count in tokens] for _ in range(2))
    bias = [float(each) for each in bias or [0] * experts]
    sizes = [7 + 2 * expert for expert in range(experts)]
    layer = Layer(hidden, experts, top_k, inputs, gradients, seed, bias, double, sizes)
    told = f"On {counted(len(tokens), 'rank')} with {listed(tokens)} tokens, {experts} experts and top_k={top_k}{words}"
    with case(told):
        run = student.run(
            run_experts, hidden, experts, top_k, inputs, gradients, seed, bias, double, first_layer, sizes
        )
        for rank, found in enumerate(run["ranks"]):
            need(not found["wrong"], f"on rank {rank}, {found['wrong']}")
        for rank, found in enumerate(run["ranks"]):
            need(
                np.array_equal(found["kept"], layer.inputs[rank].detach().numpy()),
                f"x has changed on rank {rank}. Write to new tensors.",
            )
            compare_output(rank, found["output"], layer)
        compare_gradients(run["ranks"], layer, first_layer)
        need_bytes(run["sent"], layer, hidden * (8 if double else 4))


WEIGHTS = {
    "unweighted": "They are not multiplied by the router's probabilities.",
    "mean": "They are means of the experts' outputs. Multiply each by its probability.",
    "renormalized": "The probabilities of the chosen experts are divided by their sum. Use those of the softmax over "
    "all experts as they are.",
    "softmax of the chosen logits": "The softmax is over the chosen experts. It must be over all experts.",
    "softmax over the tokens": "The softmax is over the tokens. It must be over the experts, the last dimension.",
}
OTHER_EXPERTS = {
    "first expert of the rank": "All rows of a rank go through its first expert. Each rank has several.",
    "dealt like cards": "Rows go to experts that their tokens did not choose: rank r has the experts r n to r n + n - "
    "1.",
    "tokens scaled, too": "The tokens are multiplied by the probabilities before the experts. Multiply the "
    "outputs only.",
}


def compare_output(rank: int, mine: np.ndarray, layer: Layer):
    with torch.no_grad():
        x = layer.inputs[rank]
        right = layer.output(x).numpy()
        if close(mine, right):
            return
        first = tuple(float(choice == 0) for choice in range(layer.top_k))
        like = [way for way in (*WEIGHTS, first, *OTHER_EXPERTS) if close(mine, layer.output(x, way).numpy())]
        some = [layer.output(x, way).numpy() for way in itertools.product((0.0, 1.0), repeat=layer.top_k)]
    wrong = [token for token in range(len(right)) if not close(mine[token], right[token])]
    none = [token for token in wrong if not mine[token].any()]
    whose = {token: [n for n in range(len(right)) if close(mine[token], right[n])] for token in wrong}
    if like:
        why = {
            first: "They are the outputs of the first choice. Add up all top_k outputs.",
            **WEIGHTS,
            **OTHER_EXPERTS,
        }[like[0]]
        if layer.top_k == 1 and like[0] == "unweighted":
            why = "They are not multiplied by the router's probabilities, those of the softmax over all experts."
    elif rounded(mine, right):
        why = "They are rounded. Compute in the dtype of x, and allocate rows in that dtype."
    elif len(none) == len(wrong):
        why = f"{counted(len(none), 'token')} came back as zeros. Drop no token, however many choose one expert."
    elif all(any(close(mine[token], part[token]) for part in some) for token in wrong):
        why = (
            "Outputs of some of their experts are missing. Add up all outputs, and drop no token, however many "
            "choose one expert."
        )
    elif all(whose.values()):
        why = "These are the outputs of other tokens. Undo the sorting: put each row back where its token was."
    else:
        why = (
            "Does each row go through the expert that its token chose? Undo each sorting. Undo the one on the "
            "expert's rank before the rows go back."
        )
    need(
        False,
        f"on rank {rank}, {len(wrong)} of {len(right)} outputs are wrong, beginning with token {wrong[0]}'s. {why}",
    )


NO_PATH = (
    "There is no path back to it: autograd does not see dist.all_to_all_single, and detach, data and no_grad cut the "
    "graph."
)


def compare_gradients(found: list[dict], layer: Layer, first_layer: bool):
    tokens, router, experts = layer.gradients_of()
    per_expert = 4
    for rank, run in enumerate(found):
        for mine, right in zip(run["router"], router[rank], strict=True):
            if not right.any() and not mine.any():
                continue
            need(
                mine.any() or close(mine, right),
                f"the router has no gradient on rank {rank}. Multiply the outputs by probabilities that are not "
                "detached.",
            )
        if not all(close(mine, right) for mine, right in zip(run["router"], router[rank], strict=True) if right.any()):
            all_of_them = [sum(each) for each in zip(*router, strict=True)]
            summed = all(close(mine, right) for mine, right in zip(run["router"], all_of_them, strict=True))
            why = (
                "It is the sum over all ranks. The layer returns the part of each rank's own tokens; the caller adds "
                "up the parts."
                if summed and layer.ranks > 1
                else "It must be that of this rank's own tokens."
            )
            need(False, f"the router's gradient is wrong on rank {rank}. {why}")
    need_own_part(found, layer, experts)
    for rank, run in enumerate(found):
        own = experts[rank * layer.each * per_expert : (rank + 1) * layer.each * per_expert]
        pairs = list(zip(run["experts"], own, strict=True))
        right_ones = [close(mine, right) if mine.size else not right.any() for mine, right in pairs]
        if all(right_ones):
            continue
        expert = rank * layer.each + right_ones.index(False) // per_expert
        need(
            any(mine.any() for mine, _ in pairs[right_ones.index(False) // per_expert * per_expert :][:per_expert]),
            f"expert {expert} on rank {rank} has no gradient. {NO_PATH}",
        )
        alone = layer.gradients_of(rank)[2][rank * layer.each * per_expert : (rank + 1) * layer.each * per_expert]
        like_alone = all(
            close(mine, right) if mine.size else not right.any() for (mine, _), right in zip(pairs, alone, strict=True)
        )
        nearly = all(rounded(mine, right) for mine, right in pairs if mine.size and right.any())
        ratios = {
            factor: all(close(mine, (right * factor).astype(right.dtype)) for mine, right in pairs if mine.size)
            for factor in (layer.ranks, 1 / layer.ranks)
        }
        why = "It must be that of the sum of all ranks' losses."
        if like_alone:
            why = f"It is that of rank {rank}'s own tokens. {NO_PATH}"
        elif nearly:
            why = "It is rounded. Gradients are sent in the dtype of x."
        elif ratios[layer.ranks] and layer.ranks > 1:
            why = f"It is {layer.ranks} times as large as it should be."
        elif ratios[1 / layer.ranks] and layer.ranks > 1:
            why = "It is the mean over the ranks. All tokens contribute to it, each of them once."
        need(False, f"the gradient of expert {expert} on rank {rank} is wrong. {why}")
    for rank, run in enumerate(found):
        right = tokens[rank]
        if first_layer or close(run["x"], right):
            continue
        detached = layer.gradients_of(way="detached")
        why = "Does each row's gradient come back to its token?"
        if not run["x"].any():
            why = NO_PATH
        elif close(run["x"], detached[0][rank]):
            why = "The part that comes through the router's probabilities is missing."
        elif close(run["x"], right - detached[0][rank]):
            why = f"The part that comes through the experts is missing. {NO_PATH}"
        need(False, f"the gradient of x is wrong on rank {rank}. {why}")


def need_own_part(found: list[dict], layer: Layer, experts: list):
    """The experts' gradients, if they are those of the other ranks' tokens alone on every rank."""
    per_rank = len(experts) // layer.ranks
    mine = [each for run in found for each in run["experts"]]
    alone = [
        part
        for rank in range(layer.ranks)
        for part in layer.gradients_of(rank)[2][rank * per_rank : (rank + 1) * per_rank]
    ]
    need(
        not any(part.any() for part in alone)
        or not any(each.any() for each in mine)
        or not all(
            close(each, right - part) if each.size else close(right, part)
            for each, right, part in zip(mine, experts, alone, strict=True)
        ),
        "the experts have gradients of the other ranks' tokens only. The rows that stay on their rank need a path "
        "back, too.",
    )


def need_bytes(sent: list, layer: Layer, row: int):
    """Four times each row that goes to another rank: to the expert and back, forward and backward."""
    rows = layer.rows()
    away = int(rows.sum() - rows.trace())
    # by, source, to, bytes, whether they are whole numbers
    floats = sum(size for _, _, _, size, counts in sent if not counts)
    most = 4 * away * row
    if floats > most:
        padded = rows.max() * layer.ranks * (layer.ranks - 1)
        by = sorted({name for name, _, _, _, counts in sent if not counts} - {"all_to_all", "send"})
        sizes = [size for _, _, _, size, counts in sent if not counts]
        numbers = [size for size in sizes if size == layer.each * row / layer.inputs[0].shape[1]]
        why = "Is a row sent that the other rank does not need?"
        if numbers and floats - sum(numbers) <= most:
            why = "Are counts sent in floating point? Send integers."
        elif {size / row for size in sizes} == {len(x) for x in layer.inputs}:
            why = "Each rank sends all its tokens. Send each row to the rank of its expert only."
        elif by:
            why = f"Some of them are sent by {listed(by)}. Send each row to the rank of its expert only."
        elif away < padded and math.isclose(floats, 4 * padded * row):
            why = "All ranks send the largest number of rows. Give all_to_all_single the split sizes."
        elif floats <= most * (1 + 4 / layer.inputs[0].shape[1]):
            why = "Rows contain more than their tokens' values. The token's rank multiplies by the probabilities."
        need(
            False,
            f"the ranks send each other {floats:,.0f} bytes of floating-point numbers, but {away} rows that go to "
            f"another rank and back, forward and backward, take {most:,} bytes. {why}",
        )


@ex1.fact(
    "on two ranks with one expert each, outputs and gradients match those of one device, and the ranks send "
    "the right number of bytes"
)
def _(student):
    compare_experts(student, [5, 3], 2, 1)


@ex1.fact(
    "on four ranks with two experts each, outputs, gradients and bytes are also right with two experts for each token"
)
def _(student):
    compare_experts(student, [4, 2, 6, 3], 8, 2)


@ex1.fact("a rank may have no tokens, and an expert may get no tokens or all of them")
def _(student):
    compare_experts(student, [4, 0, 3], 3, 1, bias=[0, 0, -50], words=", where no token chooses expert 2")
    compare_experts(student, [5, 4], 4, 2, bias=[0, -50, 0, 0], words=", where no token chooses expert 1")
    compare_experts(student, [6, 2], 2, 1, bias=[-50, 0], words=", where all tokens choose expert 1")
    compare_experts(student, [12, 5], 8, 1, bias=[0] * 5 + [9, 0, 0], words=", where all tokens choose expert 5")


# --- ex2: crossover -------------------------------------------------------------------------------------------------

ex2 = lab.exercise(
    "ex2",
    points=1,
    title="Ring or tree",
    hints=[
        "Write the time of each way as (steps x latency) + (bytes over one link / bandwidth).",
        "At the crossover, both times are equal. Which bytes remain on one side, and which steps on the other?",
        "3 and 4 ranks need a tree of 2 levels. How many levels do 6 ranks need?",
    ],
)


def ask_crossover(lab, fabric):
    import numbers

    from utils.exercises.facts.probes import called, kind_of

    found, changed = called(lab.crossover, fabric)
    if isinstance(found, bool) or not isinstance(found, numbers.Real):
        return {"wrong": f"crossover returned {kind_of(found)}. Return a number of bytes."}
    return {"found": float(found), "changed": changed}


def crossing(ranks: int, latency: float, rate: float, *, steps=None, levels=None) -> float:
    """`rate` in bytes a second."""
    steps = ranks - 1 if steps is None else steps
    levels = math.ceil(math.log2(ranks)) if levels is None else levels
    return ranks * rate * latency * (steps - levels)


def compare_crossover(student, ranks, latency, gigabits):
    fabric = {"ranks": ranks, "latency": latency, "gigabits": gigabits}
    with case(f"With {fabric}"):
        run = student.run(ask_crossover, fabric)
        need("wrong" not in run, run.get("wrong", ""))
        need(not run["changed"], "crossover changed the dict that it was given.")
        found, right = run["found"], crossing(ranks, latency, gigabits * 1e9 / 8)
        if math.isclose(found, right, rel_tol=1e-5, abs_tol=1):  # rounded to whole bytes, up or down
            return
        need(
            not math.isnan(found) and found >= 0,
            f"crossover returned {found:,.1f}. Return 0 where the tree is never faster.",
        )
        why = why_crossover(found, ranks, latency, gigabits)
        need(
            False,
            f"crossover returned {told_bytes(found)}, but both take the same time with {told_bytes(right)}. {why}",
        )


def told_bytes(size: float) -> str:
    return f"{size:,.0f} bytes" if math.isfinite(size) and not 0 < size < 10 else f"{size:.2g} bytes"


def why_crossover(found: float, ranks: int, latency: float, gigabits: float) -> str:
    rate, log = gigabits * 1e9 / 8, math.log2(ranks)
    right = crossing(ranks, latency, rate)
    if 0 < found < 1:
        return "That is less than one byte. Did you return seconds?"
    same = [
        (0.0, "The tree has fewer steps, so with few bytes it takes less time."),
        (8 * right, "gigabits count bits: a byte has 8."),
        (right / 8, "Divide the bits by 8 once."),
        (64 * right, "gigabits count bits: a byte has 8. Divide, do not multiply."),
        (8e-9 * right, "gigabits are 10^9 bits a second."),
        (right * 2**30 / 1e9, "A gigabit has 10^9 bits, not 2^30."),
        (right / 1e6, "Return bytes, not megabytes. The latency is in seconds."),
        (right / 1e9, "Return bytes, not gigabytes. gigabits are 10^9 bits a second."),
        (crossing(ranks, latency, rate, levels=log), "A tree has whole levels: round log2 up."),
        (
            crossing(ranks, latency, rate, levels=round(log)),
            "A tree has whole levels: round log2 up, not to the nearest.",
        ),
        (crossing(ranks, latency, rate, levels=math.floor(log)), "A tree has whole levels: round log2 up, not down."),
        (crossing(ranks, latency, rate, steps=ranks), "A ring of P ranks has P - 1 steps in each of its two rounds."),
        (right / 2, "The steps of both rounds and of both ways cost latency, and their bytes cost time."),
        (right * 2, "Both rounds of a ring pass bytes on, and so do both ways of a tree."),
        (crossing(ranks, latency, rate, steps=2 * (ranks - 1)), "A tree pays for both ways, up and down."),
        (
            crossing(ranks, latency, rate, levels=ranks.bit_length()),
            f"A tree of {ranks} ranks has {counted(math.ceil(log), 'level')}.",
        ),
        (crossing(ranks, latency, rate, levels=math.ceil(log) / 2), "The way down the tree costs latency, too."),
        (2 * right / max(1, ranks - 2), "The way down the tree passes the bytes on once more."),
        (
            crossing(ranks, latency, rate, steps=2 * (ranks - 1)) / max(1, ranks - 2),
            "A tree pays for both ways, up and down, with latency and bytes.",
        ),
        (right / ranks, "A step of the ring passes bytes / ranks on, not all bytes."),
    ]
    levels = math.ceil(log)
    unpiped = 2 * rate * latency * (ranks - 1 - levels) / (2 * levels - 2 * (ranks - 1) / ranks)
    same.append(
        (
            unpiped,
            "In a tree the pieces follow each other: the bytes pass once up and once down, not once for each level.",
        )
    )
    for number, why in same:
        if math.isclose(found, number, rel_tol=1e-6, abs_tol=1e-6) and not math.isclose(number, right, rel_tol=1e-6):
            return why
    return "Set the two times equal, and solve for the bytes."


@ex2.fact("the size is right for 16 and 64 ranks")
def _(student):
    compare_crossover(student, 16, 5e-6, 400)
    compare_crossover(student, 64, 2e-6, 3600)


@ex2.fact(
    "the size is right for numbers of ranks that are not powers of two, and it is 0 where the tree is never faster"
)
def _(student):
    compare_crossover(student, 6, 5e-6, 200)
    compare_crossover(student, 4, 5e-6, 200)
    compare_crossover(student, 3, 5e-6, 200)
    compare_crossover(student, 2, 5e-6, 200)


# --- ex3: placing experts -------------------------------------------------------------------------------------------

ex3 = lab.exercise(
    "ex3",
    points=2,
    title="Where each expert lives",
    hints=[
        "Begin with any placement that has the same number of experts on each rank. Which change keeps these numbers?",
        "Swap two experts if that reduces step_seconds. Repeat until no swap helps.",
        "Swaps can end in a placement that no single swap improves. Start several times, and keep the best.",
    ],
    likely={
        "list index out of range": "tokens has a list for each rank, with a number for each expert.",
    },
)
MOST = 0.05  # above the best placement that is known

# tokens of each rank for each expert, ranks in a node, microseconds of a token in an expert and on the network, and the
# best placement that we know: of random starts, each improved by swaps
BUSY_NETWORK = (
    [
        [36, 12, 32, 23, 13, 127, 18, 120, 89, 4, 36, 71],
        [49, 8, 61, 4, 5, 64, 7, 46, 26, 11, 20, 6],
        [859, 71, 12, 90, 6, 383, 96, 269, 464, 59, 31, 9],
        [23, 13, 9, 16, 9, 64, 125, 404, 318, 43, 20, 10],
        [65, 7, 22, 7, 39, 50, 18, 70, 33, 5, 37, 8],
        [125, 8, 37, 6, 8, 63, 40, 36, 41, 17, 58, 16],
    ],
    (2, 1e-6, 3e-6),
    [2, 5, 5, 0, 0, 1, 2, 3, 3, 4, 4, 1],
)
BUSY_EXPERTS = (
    [
        [65, 21, 4, 15, 89, 42, 23, 52, 15, 65, 119, 7],
        [33, 178, 16, 14, 228, 56, 17, 26, 19, 41, 42, 8],
        [6, 66, 5, 222, 36, 41, 8, 188, 248, 28, 22, 5],
        [11, 54, 7, 172, 32, 36, 18, 124, 272, 64, 19, 5],
        [2, 60, 11, 12, 30, 89, 8, 57, 13, 27, 22, 15],
        [9, 15, 5, 17, 8, 18, 27, 67, 22, 19, 18, 7],
    ],
    (2, 2e-6, 1e-6),
    [0, 4, 5, 3, 1, 5, 2, 0, 2, 3, 1, 4],
)
SMALL = (
    [
        [34, 16, 10, 2, 23, 7, 176, 25],
        [57, 33, 13, 51, 307, 23, 143, 217],
        [459, 19, 15, 12, 125, 11, 125, 16],
        [32, 160, 11, 15, 47, 52, 34, 42],
    ],
    (2, 1e-6, 1e-6),
    None,
)
THREE_EACH = (
    [
        [22, 15, 24, 106, 72, 15, 26, 59, 13, 271, 1, 50],
        [17, 47, 52, 135, 33, 3, 49, 57, 11, 501, 2, 53],
        [91, 126, 168, 14, 334, 75, 128, 292, 152, 67, 20, 17],
        [83, 123, 111, 20, 313, 54, 162, 167, 107, 62, 32, 8],
    ],
    (2, 1e-6, 2e-6),
    [0, 2, 3, 0, 2, 0, 3, 3, 2, 1, 1, 1],
)


def ask_placement(lab, tokens, per_node, expert_seconds, network_seconds):
    import numpy as np

    from utils.exercises.facts.probes import called, kind_of

    found, changed = called(lab.place_experts, tokens, per_node, expert_seconds, network_seconds)
    if not isinstance(found, (list, tuple)):
        return {"wrong": f"place_experts returned {kind_of(found)}. Return a list with the rank of each expert."}
    for rank in found:
        if isinstance(rank, bool) or not isinstance(rank, (int, np.integer)):
            return {"wrong": f"place_experts returned a list that contains {kind_of(rank)}. Put in each expert's rank."}
    return {"found": [int(rank) for rank in found], "changed": changed}


def placements(experts: int, ranks: int) -> Iterator[list[int]]:
    """All with the same number of experts on each rank."""

    def rest(left: list[int], rank: int):
        if rank == ranks:
            yield {}
            return
        for chosen in itertools.combinations(left, experts // ranks):
            for others in rest([each for each in left if each not in chosen], rank + 1):
                yield {**dict.fromkeys(chosen, rank), **others}

    for found in rest(list(range(experts)), 0):
        yield [found[expert] for expert in range(experts)]


@cache
def shortest(tokens: tuple, given: tuple) -> list[int]:
    """The best of all placements."""
    return min(placements(len(tokens[0]), len(tokens)), key=lambda each: step_seconds(tokens, each, *given))


def compare_placement(student, problem):
    tokens, given, known = problem
    ranks, experts = len(tokens), len(tokens[0])
    per_node, expert_seconds, network_seconds = given
    told = (
        f"With {experts} experts on {ranks} ranks, {per_node} in a node, {expert_seconds * 1e6:g} us in an expert and "
    )
    with case(f"{told}{network_seconds * 1e6:g} us on the network"):
        run = student.run(ask_placement, tokens, *given)
        need("wrong" not in run, run.get("wrong", ""))
        found = run["found"]
        need(len(found) == experts, f"place_experts returned {len(found)} ranks for {experts} experts.")
        wrong = [rank for rank in found if not 0 <= rank < ranks]
        need(not wrong, f"place_experts puts an expert on rank {(wrong or [0])[0]}. Ranks are 0 to {ranks - 1}.")
        on_rank = [found.count(rank) for rank in range(ranks)]
        nodes = max(found) < ranks // per_node
        need(
            len({*on_rank}) == 1,
            f"the ranks have {', '.join(map(str, on_rank))} experts. Each has memory for {experts // ranks}."
            + (" Are these nodes, not ranks?" if nodes else ""),
        )
        need(not run["changed"], "place_experts changed a list that it was given. Work on a copy.")
        known = known or shortest(tuple(map(tuple, tokens)), given)
        took, best = (step_seconds(tokens, each, *given) for each in (found, known))
        if took > (1 + MOST) * best:
            (mine, own), (least, there) = parts(tokens, given, found), parts(tokens, given, known)
            need(
                False,
                f"the step takes {took * 1e3:.3f} ms, {mine * 1e3:.3f} in experts and {own * 1e3:.3f} on the network. "
                f"There is a placement with {best * 1e3:.3f} ms, {least * 1e3:.3f} and {there * 1e3:.3f}; {MOST:.0%} "
                f"more is allowed. {why_slow(tokens, given, found, known)}",
            )


def parts(tokens, given, placement) -> tuple[float, float]:
    """The seconds in experts and those on the network."""
    per_node, expert_seconds, network_seconds = given
    return (
        step_seconds(tokens, placement, per_node, expert_seconds, 0),
        step_seconds(tokens, placement, per_node, 0, network_seconds),
    )


def wrong_times(tokens, given) -> dict[str, Callable]:
    """What a search may make small in place of the step's seconds, by what to say then."""
    per_node, expert_seconds, network_seconds = given

    def counts(placement) -> tuple[int, np.ndarray, np.ndarray]:
        load, table = [0] * len(tokens), np.zeros((len(tokens) // per_node,) * 2, int)
        for source, row in enumerate(tokens):
            for rank, count in zip(placement, row, strict=True):
                load[rank] += count
                table[source // per_node, rank // per_node] += count
        np.fill_diagonal(table, 0)
        return max(load), table.sum(1), table.sum(0)

    def seconds(tell: Callable) -> Callable:
        return lambda placement: tell(*counts(placement))

    found = {
        "Tokens that leave a node count, but so do tokens that arrive.": seconds(
            lambda load, leave, _: load * expert_seconds + max(leave) * network_seconds
        ),
        "Tokens that arrive at a node count, but so do tokens that leave.": seconds(
            lambda load, _, arrive: load * expert_seconds + max(arrive) * network_seconds
        ),
        "A step takes the sum of its two parts, not the longer one.": seconds(
            lambda load, leave, arrive: max(load * expert_seconds, max(*leave, *arrive) * network_seconds)
        ),
        "The busiest node decides, not the sum over all nodes.": seconds(
            lambda load, leave, _: load * expert_seconds + sum(leave) * network_seconds
        ),
        "Each part has its own seconds per token.": seconds(lambda load, leave, arrive: load + max(*leave, *arrive)),
    }
    for other in (1, 2, 4):
        if other != per_node and len(tokens) % other == 0:
            found[f"A node has {counted(per_node, 'rank')} here, not {other}."] = lambda placement, other=other: (
                step_seconds(tokens, placement, other, expert_seconds, network_seconds)
            )
    return found


def swapped(placement) -> Iterator[tuple[int, int, list[int]]]:
    """Two experts on different ranks, and the placement with these exchanged."""
    for one, two in itertools.combinations(range(len(placement)), 2):
        if placement[one] != placement[two]:
            other = list(placement)
            other[one], other[two] = other[two], other[one]
            yield one, two, other


def better_swap(tokens, given, placement) -> tuple[int, int, float] | None:
    """Two experts that should be swapped, and the share of the time that this saves."""
    now, best = step_seconds(tokens, placement, *given), None
    for one, two, other in swapped(placement):
        saved = 1 - step_seconds(tokens, other, *given) / now
        if saved > (best[2] if best else 0.01):
            best = one, two, saved
    return best


def why_slow(tokens, given, found, known) -> str:
    """The part of the time that has been looked at too little."""
    (experts, network), (computing, there) = parts(tokens, given, found), parts(tokens, given, known)
    for why, time in wrong_times(tokens, given).items():
        least = min(time(known), *(time(other) for _, _, other in swapped(found)))
        if time(found) <= least * (1 + 1e-9):
            return why
    if experts + network <= 1.2 * (computing + there) and (pair := better_swap(tokens, given, found)):
        return f"Swapping experts {pair[0]} and {pair[1]} alone saves {pair[2]:.0%}. Keep searching."
    if experts <= 1.1 * computing and network > there:
        return "The ranks' tokens are balanced. Which nodes do the tokens come from?"
    if network <= 1.1 * there and experts > computing:
        return "Few tokens cross the network, but the rank with the most tokens decides, too."
    return "Both parts count, each with its own seconds. In each, the busiest rank or node decides."


@ex3.fact("each rank has the same number of experts, and the step takes at most 5% longer than with the best placement")
def _(student):
    compare_placement(student, SMALL)


@ex3.fact("with twelve experts and a slow network, the step is at most 5% longer than with the best known placement")
def _(student):
    compare_placement(student, BUSY_NETWORK)


@ex3.fact("with twelve slow experts, the step is at most 5% longer than with the best known placement")
def _(student):
    compare_placement(student, BUSY_EXPERTS)


@ex3.fact("with three experts on each rank, the step is at most 5% longer than with the best known placement")
def _(student):
    compare_placement(student, THREE_EACH)


# --- ex4: two-level all-reduce --------------------------------------------------------------------------------------

ex4 = lab.exercise(
    "ex4",
    points=3,
    title="All-reduce on two levels",
    hints=[
        "For two nodes with three ranks each, write down all groups of both kinds. Every rank calls new_group for all "
        "of them, in the same order, and keeps the two that it is in.",
        "After the reduce-scatter in the node, what does each rank have? Which ranks of other nodes have the same "
        "shard of their nodes' sums?",
        "reduce_scatter_tensor and all_gather_into_tensor take flat tensors whose length is a multiple of the "
        "group's size. Pad, and cut the padding off at the end.",
    ],
    likely={
        "no rank can go on": "The ranks do not make the same calls on a group. Every rank must call new_group for "
        "every group, in the same order.",
        "equal pieces": "The group's size does not divide the number of elements. Pad first.",
        "view size is not compatible": "A tensor need not be contiguous. flatten or reshape copies it where necessary.",
        "is not part of group": "Return the groups that this rank is in.",
    },
)


def run_levels(lab, ranks, per_node, inputs, transposed):
    import torch
    import torch.distributed as dist

    from utils.exercises.facts.probes import array, kind_of
    from utils.kits.ranks_in_turns import in_turns

    marks = []

    def ranks_of(group):
        try:
            return dist.get_process_group_ranks(group)
        except KeyError:
            raise ValueError("node_groups returned a group of an earlier run. Make new groups in each call.") from None

    def main(rank):
        groups = lab.node_groups(per_node)
        if not isinstance(groups, (list, tuple)) or len(groups) != 2:
            return {"wrong": f"node_groups returned {kind_of(groups)}. Return two groups."}
        for group in groups:
            if not isinstance(group, dist.ProcessGroup):
                return {"wrong": f"node_groups returned {kind_of(group)} for a group. Return the groups of this rank."}
        members = [ranks_of(group) for group in groups]
        given = torch.from_numpy(inputs[rank])
        base = torch.stack([torch.ones_like(given), given, torch.ones_like(given)])
        x = torch.transpose(base[1], 0, 1) if transposed else base[1]
        dist.barrier()
        marks.append(len(sent))
        found = lab.two_level_all_reduce(x, groups[0], groups[1])
        return {"wrong": "", "found": kind_of(found), "groups": members, "x": array(x), "base": array(base)}

    sent = []
    found = in_turns(main, ranks, sent=sent)
    return {"ranks": found, "sent": [list(one) for one in sent[min(marks, default=0) :]]}


def compare_levels(student, nodes, per_node, shape, *, seed=3, dtype="float32", transposed=False):
    ranks, size = nodes * per_node, math.prod(shape)
    numbers = np.random.default_rng(seed)
    inputs = [numbers.normal(size=shape).astype(dtype) for _ in range(ranks)]
    total = np.sum(inputs, axis=0, dtype=dtype)
    words = f"{dtype} tensor of shape {tuple(shape)}{', not contiguous' if transposed else ''}"
    with case(f"On {counted(nodes, 'node')} of {counted(per_node, 'rank')} with a {words}"):
        given = [np.ascontiguousarray(each.T) if transposed else each for each in inputs]
        run = student.run(run_levels, ranks, per_node, given, transposed)
        for rank, found in enumerate(run["ranks"]):
            need(not found["wrong"], f"on rank {rank}, {found['wrong']}")
        for rank, found in enumerate(run["ranks"]):
            need_groups(rank, found["groups"], per_node, ranks)
        for rank, found in enumerate(run["ranks"]):
            compare_sum(rank, found, inputs, total, per_node)
            part = found["base"][1].T if transposed else found["base"][1]
            need(
                np.array_equal(part, found["x"]) and bool((found["base"][::2] == 1).all()),
                f"on rank {rank}, x no longer has the same memory, or memory beside x has changed. x can be a part "
                f"of another tensor, which must also hold the sum: write it with x.copy_.",
            )
        need_links(run["sent"], nodes, per_node, size, total.itemsize)


def need_groups(rank, groups, per_node, ranks):
    first, place = rank - rank % per_node, rank % per_node
    right = [list(range(first, first + per_node)), list(range(place, ranks, per_node))]
    mine = [sorted(each) for each in groups]
    need(
        mine != right[::-1] or right[0] == right[1],
        f"on rank {rank}, node_groups returned the groups {mine}, in this order. Return the one in the node first.",
    )
    need(mine[0] == right[0], f"on rank {rank}, the group in the node is {mine[0]}, but its ranks are {right[0]}.")
    need(
        mine[1] == right[1],
        f"on rank {rank}, the group between nodes is {mine[1]}. It must be {right[1]}: the ranks with the same local "
        f"rank.",
    )


def compare_sum(rank, found, inputs, total, per_node):
    mine = found["x"]
    if close(mine, total):
        return
    ranks = len(inputs)
    first, place = rank - rank % per_node, rank % per_node
    same = [
        (
            inputs[rank],
            "It is unchanged: write the result into x"
            + (f", and return nothing; yours returns {found['found']}." if found["found"] != "None" else "."),
        ),
        (total / ranks, "It is the mean. Write the sum into x, as dist.all_reduce does."),
        (total / per_node, f"It is the sum divided by {per_node}. Compute sums, not means, in both groups."),
        (
            total / (ranks // per_node),
            f"It is the sum divided by {ranks // per_node}. Compute sums, not means, in both groups.",
        ),
        (sum(inputs[first : first + per_node]), "It is the sum over the node's own ranks."),
        (sum(inputs[place::per_node]), "It is the sum over the ranks with the same local rank."),
        (total * per_node, f"It is {per_node} times the sum: the ranks of a node add the same sum again."),
        (total * (ranks // per_node), f"It is {ranks // per_node} times the sum: the nodes add the same sum again."),
    ]
    for value, why in same:
        need(
            mine.shape != value.shape or not np.allclose(mine, value),
            f"x is not the sum over all ranks on rank {rank}. {why}",
        )
    wrong = np.flatnonzero(~np.isclose(mine, total, **tolerance(total)).ravel())
    why = "It is rounded: send, add and allocate in the dtype of x." if rounded(mine, total) else ""
    why = why or "Is each shard the sum over all nodes, and does each rank get the shards of all ranks of its node?"
    if len(wrong) < total.size and wrong[0] >= total.size // per_node * per_node:
        why = "These are the last elements: the group's size does not divide the number of elements."
    need(
        False, f"x is not the sum over all ranks on rank {rank}: {len(wrong)} of {total.size} elements are wrong. {why}"
    )


TOO_MUCH_PADDING = "Is it padded too far? The next multiple of the number of ranks in a node is enough."


def need_links(sent, nodes, per_node, size, item):
    """A rank sends its shard around the ring of nodes, and shards around the ring of its node."""
    shard = math.ceil(size / per_node) * item
    slow, fast = [0.0] * (nodes * per_node), [0.0] * (nodes * per_node)
    for _, source, to, count, _ in sent:
        (slow if source // per_node != to // per_node else fast)[source] += count
    padded = math.ceil(math.ceil(size / per_node) / nodes) * nodes * item  # if nodes scatter it once more
    most_slow, most_fast = 2 * (nodes - 1) * padded / nodes, 2 * (per_node - 1) * shard
    worst = int(np.argmax(slow))
    if slow[worst] > most_slow + 0.5:
        whole = 2 * (nodes - 1) * size * item / nodes
        why = "Which ranks need the shard that this one has?"
        if math.isclose(slow[worst], 2 * most_slow) and math.isclose(max(fast), 2 * most_fast) and max(fast):
            why = "Both in the node and between nodes, it sends twice as much: send numbers in the dtype of x."
        elif all(math.isclose(each, whole) for each in slow) and per_node > 1:
            why = "Each rank of a node sends the whole tensor to other nodes. Reduce-scatter in the node first."
        elif slow[worst] < most_slow + 2 * (nodes - 1) / nodes * item + 0.5 and len({*slow}) == 1:
            why = TOO_MUCH_PADDING
        elif sum(each > 0 for each in slow) == nodes:
            why = "One rank of each node sends everything, and the network adapters of the others are idle."
        need(
            False,
            f"rank {worst} sends {slow[worst]:,.0f} bytes to other nodes. With a shard for each rank of a node, it "
            f"needs to send {most_slow:,.0f}. {why}",
        )
    worst = int(np.argmax(fast))
    little = fast[worst] < most_fast + 2 * (per_node - 1) * nodes * item and len({*fast}) == 1
    need(
        fast[worst] <= most_fast + 0.5,
        f"rank {worst} sends {fast[worst]:,.0f} bytes in its node. A reduce-scatter and an all-gather send "
        f"{most_fast:,.0f}. {TOO_MUCH_PADDING if little else 'Is the whole tensor reduced where a shard is enough?'}",
    )


@ex4.fact("on two nodes of two ranks, x is the sum over all ranks; each rank sends only its shard to other nodes")
def _(student):
    compare_levels(student, 2, 2, (8,))


@ex4.fact("the sums and bytes are right with three nodes or three ranks in a node, and for any shape")
def _(student):
    compare_levels(student, 3, 2, (4, 3))
    compare_levels(student, 2, 3, (2, 3, 2))


@ex4.fact("the number of ranks in a node need not divide the number of elements")
def _(student):
    compare_levels(student, 2, 2, (5,))
    compare_levels(student, 2, 3, (2, 5))
