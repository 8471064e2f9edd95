"""Lab 11's hidden facts, judged by the grader after the visible ones. Students do not get this file.

They ask what a right answer does anyway and a lucky one does not: other numbers of replicas, odd sizes, other devices,
more steps, training that is stopped elsewhere.
"""

import random

from utils.exercises.facts import orders_of, visible

seen = visible("lab11")
lab = seen.lab


@seen.ex1.fact("the sums are right on other devices, with unusual shapes and on a single device")
def _(student):
    for count, first, shape in (
        (3, 1, (7,)),
        (4, 2, (3, 5, 3)),
        (2, 1, (1,)),
        (3, 0, ()),
        (4, 3, (257,)),
        (1, 1, (4,)),
    ):
        seen.compare_ring(student, seen.places(student, count, first), shape, seed=count + first)
    seen.compare_ring(student, seen.places(student, 4)[::-1], (2, 9), seed=9, dtype="float64")


@seen.ex2.fact("one, three and four replicas equal one model, with more steps, other optimizers and other devices")
def _(student):
    for count, first, rows, optimizer in ((4, 1, 6, "Adam"), (1, 1, 3, "Adam"), (3, 2, 3, "SGD")):
        seen.compare_copies(
            student, seen.places(student, count, first), rows, optimizer=optimizer, seed=count, steps=5, frozen=(3,)
        )
    for device0, device1, order in orders_of(student):
        with order:
            seen.compare_copies(student, [device0, device1], 9)


@seen.ex2.fact("three replicas compute at the same time")
def _(student):
    seen.need_together(student, seen.places(student, 3, 1))


@seen.ex3.fact("the buckets are right for many parameters of several dtypes and for many limits")
def _(student):
    chance = random.Random(11)
    for _ in range(40):
        given = [
            (
                chance.randrange(1, 40),
                chance.choice(("float32", "float32", "float16", "float64")),
                chance.random() < 0.9,
            )
            for _ in range(chance.choice((1, 3, 12, 30)))
        ]
        seen.compare_buckets(student, given, chance.choice((1, 30, 80)), chance.choice((60, 120, 10_000)))


SIZES = (4, 6, 5, 3, 2)
LAST_FIRST = [[7, 6, 5], [4], [3, 1], [0]]


@seen.ex4.fact("the means are right with other replicas, buckets and orders, with a single replica and over more steps")
def _(student):
    seen.compare_overlapped(student, seen.places(student, 2, 2), SIZES, [[0, 1, 2, 3, 4, 5, 6, 7]], steps=4)
    seen.compare_overlapped(student, seen.places(student, 1, 1), SIZES, LAST_FIRST)
    for device0, device1, order in orders_of(student):
        with order:
            seen.compare_overlapped(student, [device0, device1], SIZES, [[1, 7], [6, 0]], order=[1, 0])
    seen.compare_overlapped(student, seen.places(student, 4, 1), SIZES, LAST_FIRST, steps=3, order=[2, 0, 3, 1])


@seen.ex4.fact(
    "three replicas hide their copies, too, and with four replicas no stream reads too early", part="overlap"
)
def _(student):
    four = seen.places(student, 4, 1)
    seen.compare_overlapped(student, four, SIZES, LAST_FIRST, steps=3, order=[2, 0, 3, 1], races=True)
    seen.need_hidden(student, seen.places(student, 3))
    seen.need_hidden(student, seen.places(student, 2, 1)[::-1])


@seen.ex5.fact(
    "several stops at any moment do not change the losses and weights, with other sizes and on either device"
)
def _(student):
    chance = random.Random(17)
    for place, rows, size, steps in zip(student.devices, (11, 9), (3, 2), (14, 12), strict=True):
        stops = [(chance.choice(("forward", "step", "save")), chance.randrange(2, 5)) for _ in range(3)]
        seen.compare_lives(student, place, rows, size, steps, stops, seed=rows, again=True)
    seen.compare_lives(student, student.devices[1], 7, 7, 6, [("file", 5), ("file", 3)], seed=3)
    for what in ("forward", "step", "save"):
        seen.compare_lives(student, student.devices[1], 7, 7, 5, [(what, 3)], seed=3)
