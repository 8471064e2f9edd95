"""Lab 11's exercise 3 asks for DDP's buckets: they are compared with those that DDP itself makes."""

import random

import torch
import torch.distributed as dist

from utils.exercises.facts import visible

lab11 = visible("lab11")


def of_ddp(given, first: int, cap: int) -> list[list[int]]:
    """What DDP does when it rebuilds its buckets, in the order in which the gradients came."""
    order = [index for index in reversed(range(len(given))) if given[index][2]]
    tensors = [torch.empty(given[index][0], dtype=getattr(torch, given[index][1])) for index in order]
    return dist._compute_bucket_assignment_by_size(tensors, [first, cap], [], order)[0]


def test_the_buckets_of_the_lab_are_those_of_ddp():
    chance = random.Random(3)
    for _ in range(200):
        kinds = chance.choice((("float32",), ("float32", "float16")))
        given = [
            (chance.randrange(1, 40), chance.choice(kinds), chance.random() < 0.9)
            for _ in range(chance.randrange(1, 30))
        ]
        if not any(wants for _, _, wants in given):
            continue
        limits = chance.choice((1, 30, 80)), chance.choice((60, 120, 10_000))
        mine, theirs = lab11.buckets_of(given, *limits), of_ddp(given, *limits)
        assert sorted(mine) == sorted(theirs), (given, limits)
        # DDP keeps the buckets that it still fills by hash, so that with several dtypes these have no order there.
        assert mine == theirs or len(kinds) > 1, (given, limits)
