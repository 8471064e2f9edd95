"""Lab 19's hidden facts, judged by the grader after the visible ones. Students do not get this file.

They ask what a right answer does anyway and a lucky one does not: other blocks, ranks, weights and offers.
"""

import random
from dataclasses import replace

from utils.exercises.facts import visible

seen = visible("lab19")
lab = seen.lab


@seen.ex1.fact("the trainer is right with six ranks and another number of blocks")
def _(student):
    run = seen.compare_small(student, "make_trainer", ranks=6, blocks=3, steps=2, seed=3)
    seen.need_shares(run, 6, 3)


@seen.ex4.fact("the ledger is right for many events")
def _(student):
    chance = random.Random(19)
    for number in range(20):
        events = []
        for _ in range(60):
            start = chance.uniform(-1, 11)
            kind, phase = chance.choice(("kernel", "comm")), chance.choice(("forward", "backward", "optimizer"))
            flops = chance.randrange(10**10) if kind == "kernel" else 0
            events.append(seen.event(kind, start, start + chance.uniform(0, 0.5), phase, flops))
        seen.compare_ledger(student, events, f"For {len(events)} events, number {number + 1}")


@seen.ex5.fact("the cheapest cluster, or None, is returned for other offers and deadlines")
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
