"""Lab 16's hidden facts, judged by the grader after the visible ones. Students do not get this file.

They ask what a right answer does anyway and a lucky one does not: other sizes, other numbers of ranks, other dtypes.
"""

from utils.exercises.facts import visible

seen = visible("lab16")
lab = seen.lab


@seen.ex1.fact("output, gradients and bytes are also right with other sizes, three ranks, one rank and float32")
def _(student):
    seen.need_ring_bytes(student, 3, (2, 1, 2, 6), seed=1)
    seen.compare_ring(student, 1, (1, 2, 3, 4), seed=2)
    seen.compare_ring(student, 2, (2, 3, 1, 2), seed=3, dtype="float32")


@seen.ex2.fact("the shards are also right with other sizes, three ranks and one rank")
def _(student):
    for ranks, length in ((3, 12), (1, 4), (2, 4), (5, 20)):
        seen.compare_inputs(student, ranks, length, rows=1, seed=ranks)
        seen.compare_visible(student, ranks, length)
        seen.compare_order(student, ranks, (length, 2), 0, seed=ranks)
    seen.compare_zigzag(student, 3, 12, rows=1, seed=2)


@seen.ex3.fact("the loss is also right with other sizes, in float32, and if it is scaled")
def _(student):
    seen.compare_loss(student, 3, 7, 21, ignored=3, seed=11, scale=2.5)
    seen.compare_loss(student, 2, 4, 8, ignored=1, shift=[300.0, -300.0], seed=12, dtype="float32")
    seen.compare_loss(student, 1, 3, 5, seed=13)
    seen.need_few_numbers(student, 2, 12, 80, seed=14)


@seen.ex4.fact("the block is also right with other sizes, three ranks, float32, and if it is called twice")
def _(student):
    seen.need_block_bytes(student, 3, (1, 2, 5), inner="attention", features=2, seed=11)
    seen.compare_block(student, 2, (3, 1, 4), seed=12, dtype="float32")
    seen.compare_block(student, 2, (2, 2, 4), seed=13, calls=2)
