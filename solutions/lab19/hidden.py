"""Lab 19's hidden facts, judged by the grader after the visible ones. Students do not get this file.

They ask what a right answer does anyway and a lucky one does not: other models, batches, orders of the GPUs, offers.
"""

import random
from dataclasses import replace

from utils.exercises.facts import visible

seen = visible("lab19")
lab = seen.lab


@seen.ex1.fact("the trainer is right for other numbers of blocks and samples, on four of six GPUs in another order")
def _(student):
    seen.compare_twin(student, "make_trainer", blocks=9, rows=32, order=(5, 4, 0, 1), steps=2)
    seen.need_all_four(student, "make_trainer", blocks=9, rows=32, order=(5, 4, 0, 1), steps=2)


@seen.ex2.fact("larger batches also fit in memory")
def _(student):
    seen.need_room(student, "that_fits", 64, 80, 128)


@seen.ex3.fact("the loss and the gradients are right with the GPUs in another order")
def _(student):
    seen.compare_with_own(student, "that_is_fast", blocks=8, rows=32, order=(3, 2, 0, 1), steps=2)


@seen.ex4.fact("the cheapest cluster, or None, is returned for other offers and deadlines")
def _(student):
    chance = random.Random(14)
    for _ in range(60):
        offers = [
            replace(
                offer,
                flops=offer.flops * chance.uniform(0.5, 2),
                network=offer.network * chance.choice((0.1, 1, 4)),
                dollars=offer.dollars * chance.uniform(0.5, 2),
                memory=offer.memory * chance.choice((0.5, 1, 2)),
            )
            for offer in seen.OFFERS
        ]
        told, model = chance.choice([*seen.MODELS.items()])
        seen.compare_cheapest(student, model, offers, chance.choice((12, 50, 200, 1000)), told)
