"""Lab 12's hidden facts, judged by the grader after the visible ones. Students do not get this file.

They ask what a right answer does anyway and a lucky one does not: other numbers of devices, in another order, other
sizes, more steps.
"""

from utils.exercises.facts import visible

seen = visible("lab12")
lab = seen.lab


@seen.ex1.fact("the choice is right for other numbers of layers, ranks and micro-batches")
def _(student):
    layer = seen.LAYER
    compare, sixteen = seen.compare_switches, (16 * seen.HIDDEN**2, 16, 2, 2)
    for cap in (35, 37, 41, 45, 49, 57, 65):
        compare(student, sixteen, cap * layer)
    for cap in (21, 23, 31, 37, 45):
        compare(student, (12 * seen.HIDDEN**2, 12, 3, 7), cap * layer)
    compare(student, (6_000_000_000, 60, 1000, 16), 30_000_000_000)
    compare(student, (12 * seen.HIDDEN**2, 12, 3, 3), 29 * layer)


@seen.ex2.fact("outputs and gradients are right on one, three and four devices, in another order and with other sizes")
def _(student):
    seen.compare_parallel(student, seen.places_of(student, 1), (4, 6, 2), 3, seed=5)
    seen.compare_parallel(student, seen.places_of(student, 3), (9, 6, 11), 5, seed=6)
    seen.compare_parallel(student, seen.places_of(student, 4)[::-1], (3, 20, 8), 1, seed=7)


@seen.ex2.fact(
    "on three devices, each holds only its own shards, and each pass sends one all-reduce", part="memory and bytes"
)
def _(student):
    seen.need_parts(student, seen.places_of(student, 3)[::-1], (64, 768, 192), 5)


@seen.ex3.fact("the weights are right on three and four devices, in another order and with other sizes")
def _(student):
    seen.compare_sharded(student, seen.places_of(student, 3)[::-1], seen.ODD, 2, steps=2, seed=8)
    seen.compare_sharded(student, seen.places_of(student, 4)[::-1], seen.EVEN, 5, frozen=1, steps=2, seed=9)


@seen.ex3.fact(
    "on three devices, which do not divide the parameters, memory, bytes and weights are right over more steps",
    part="memory and bytes",
)
def _(student):
    seen.need_shards(student, seen.places_of(student, 3)[::-1], seen.LARGE)
    seen.compare_sharded(student, seen.places_of(student, 3)[::-1], seen.ODD, 2, steps=5, seed=8)


@seen.ex4.fact("a chain of layers is right on three and four devices, in another order and with other sizes")
def _(student):
    seen.compare_chain(student, seen.places_of(student, 3)[::-1], 8, 2, 1, seed=5)
    seen.compare_chain(student, seen.places_of(student, 4)[::-1], 5, 4, 3, seed=6)
    seen.need_freed(student, seen.places_of(student, 3)[::-1], 150, 10)


@seen.ex5.fact("losses and memory are right with other sizes, and on sixteen ranks")
def _(student):
    seen.compare_losses(student, (3, 48, 6, 3))
    seen.compare_losses_together(student, 4, (2, 32, 4, 2, 2))
    seen.need_mended(student, 16, (18, 112, 3, 4))
