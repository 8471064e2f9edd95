"""Lab 16's hidden facts, judged by the grader after the visible ones. Students do not get this file.

They ask what a right answer does anyway and a lucky one does not: other sizes, other numbers of ranks, other dtypes.
"""

import torch

from utils.exercises.facts import case, need, visible

seen = visible("lab16")
lab = seen.lab


def two_rings(lab, whole, ranks):
    import numpy as np
    import torch

    from utils.exercises.facts.probes import array
    from utils.kits.ranks_in_turns import in_turns

    parts = np.split(whole, ranks, axis=3)

    def main(rank):
        q, k, v = mine = [torch.from_numpy(part.copy()).requires_grad_() for part in parts[rank]]
        first = lab.ring_attention(q, k, v)
        second = lab.ring_attention(k, v, q)
        (first.square().sum() + second.sum()).backward()
        return [None if each.grad is None else array(each.grad) for each in mine]

    return in_turns(main, ranks, strict=True)


@seen.ex1.fact("output, gradients and bytes are also right with other sizes, numbers of ranks, dtypes and strides")
def _(student):
    seen.need_ring_bytes(student, 3, (2, 1, 2, 6), seed=1)
    seen.need_ring_bytes(student, 1, (1, 2, 3, 4), seed=2)
    seen.compare_ring(student, 2, (2, 3, 1, 2), seed=3, dtype="float32")
    seen.compare_ring(student, 3, (2, 2, 3, 4), seed=4, strided=True)
    compare_two_rings(student)


def compare_two_rings(student):
    [whole] = seen.numbers_for((3, 1, 2, 6, 4), seed=5)
    q, k, v = given = [torch.from_numpy(each).requires_grad_() for each in whole.copy()]
    (seen.attention(q, k, v).square().sum() + seen.attention(k, v, q).sum()).backward()
    with case("With 2 ranks and two calls"):
        for rank, found in enumerate(student.run(two_rings, whole, 2)):
            for name, right, mine in zip("qkv", given, found, strict=True):
                need(
                    seen.same_or_none(right.grad.chunk(2, 2)[rank], mine),
                    f"the gradient of {name} on rank {rank} is not that of one device. Keep in ctx what the backward "
                    "pass needs: each call has its own.",
                )


@seen.ex2.fact("the shards are also right with other sizes, three ranks and one rank")
def _(student):
    for ranks, length in ((3, 12), (1, 4), (2, 4), (5, 20)):
        seen.compare_inputs(student, ranks, length, rows=1, seed=ranks)
        seen.compare_visible(student, ranks, length)
        seen.compare_order(student, ranks, (length, 2), 0, seed=ranks)
    seen.compare_order(student, 2, (1, 8, 2), -2)
    seen.compare_zigzag(student, 3, 12, rows=1, seed=2)


@seen.ex3.fact("the loss is also right with other sizes, in float32, and if it is scaled")
def _(student):
    seen.compare_loss(student, 3, 7, 21, ignored=3, seed=11, scale=2.5)
    seen.compare_loss(student, 2, 4, 8, ignored=1, shift=[300.0, -300.0], seed=12, dtype="float32")
    seen.compare_loss(student, 1, 3, 5, seed=13)
    seen.need_few_numbers(student, 2, 12, 80, seed=14)
    compare_two_losses(student)


def two_losses(lab, logits, targets, ranks):
    import numpy as np
    import torch

    from utils.exercises.facts.probes import array
    from utils.kits.ranks_in_turns import in_turns

    parts = np.split(logits, ranks, axis=1)

    def main(rank):
        mine = torch.from_numpy(parts[rank].copy()).requires_grad_()
        first = lab.sharded_cross_entropy(mine, torch.from_numpy(targets.copy()))
        second = lab.sharded_cross_entropy(2 * mine, torch.from_numpy(targets[::-1].copy()))
        (first + 3 * second).backward()
        return None if mine.grad is None else array(mine.grad)

    return in_turns(main, ranks, strict=True)


def compare_two_losses(student):
    [logits] = seen.numbers_for((4, 10), seed=15)
    targets = torch.tensor([0, 7, 5, -100])
    whole = torch.from_numpy(logits.copy()).requires_grad_()
    (seen.loss_of(whole, targets) + 3 * seen.loss_of(2 * whole, targets.flip(0))).backward()
    with case("With 2 ranks and two losses"):
        for rank, found in enumerate(student.run(two_losses, logits, targets.numpy(), 2)):
            need(
                seen.same_or_none(whole.grad.chunk(2, 1)[rank], found),
                f"the gradient of logits on rank {rank} is not that of one device. Keep in ctx what the backward pass "
                "needs: each call has its own.",
            )


@seen.ex4.fact("the block is also right with other sizes, three ranks, float32, strides, and if it is called twice")
def _(student):
    seen.need_block_bytes(student, 3, (1, 2, 5), inner="attention", features=2, seed=11)
    seen.compare_block(student, 2, (3, 1, 4), seed=12, dtype="float32")
    seen.compare_block(student, 2, (2, 2, 4), seed=13, calls=2)
    seen.compare_block(student, 2, (2, 3, 4), seed=14, strided=True)
