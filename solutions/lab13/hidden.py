"""Lab 13's hidden facts, judged by the grader after the visible ones. Students do not get this file.

They ask what a right answer does anyway and a lucky one does not: other machines, meshes, failures and clusters.
"""

import random

from utils.exercises.facts import visible

seen = visible("lab13")
lab = seen.lab

OTHERS = tuple(f"GPU-{word}" for word in ("12ff", "1a00-7", "b001", "b0ff", "77", "c4c4-1", "c4d0", "0e"))
FASTEST = (OTHERS[5], *OTHERS[:5], *OTHERS[6:])


@seen.ex1.fact("which_gpu is right on a node of eight GPUs and on a node of one")
def _(student):
    for numbers in ([7, 6, 5], [5], [2, 0, 7, 1], [0, 1, 2, 3, 4, 5, 6, 7], None, []):
        for order in ("PCI_BUS_ID", "FASTEST_FIRST", None):
            seen.compare_gpus(student, numbers, order, OTHERS, FASTEST)
    seen.compare_gpus(student, [0], "PCI_BUS_ID", OTHERS[:1], OTHERS[:1])
    seen.compare_gpus(student, [], "PCI_BUS_ID", OTHERS[:1], OTHERS[:1])


@seen.ex1.fact("which_gpu is right when `visible` has all GPUs of a node in another order")
def _(student):
    seen.compare_gpus(student, [2, 3, 1, 0], "PCI_BUS_ID", OTHERS[:4], OTHERS[:4])


@seen.ex2.fact("other meshes work, with four dimensions, other names, odd sizes and groups that begin within a node")
def _(student):
    seen.compare_where(student, {"replicate": 2, "shard": 4, "stage": 2, "tensor": 4}, 8, (0, 17, 42, 63))
    seen.compare_where(student, {"tensor": 3, "data": 5}, 4, (0, 7, 14))
    seen.compare_where(student, {"pipeline": 1, "tensor": 8, "data": 3}, 8, (2, 23))
    seen.compare_where(student, {"data": 6}, 1, (4,))
    seen.compare_where(student, {"copies": 2, "parts": 4}, 6, (2,))


@seen.ex3.fact("the time is right for long jobs, many failures and long saves")
def _(student):
    chance = random.Random(3)
    for _ in range(40):
        work, every = chance.randrange(20, 400), chance.randrange(5, 90)
        save, restart = chance.randrange(1, 20), chance.randrange(1, 40)
        failures = sorted(chance.sample(range(0, 3 * work), chance.randrange(0, 8)))
        failures = [moment + chance.choice((0, 0.25)) for moment in failures]
        ends = seen.moments(work, every, save, restart, failures)
        if not ends & {
            *failures
        }:  # the text leaves open whether a failure at the very end of something comes before or after
            seen.compare_finished(student, work, every, save, restart, failures)


@seen.ex4.fact("one rank, fewer micro-batches than ranks, uneven micro-batches and existing gradients all work")
def _(student):
    seen.compare_stages(student, (4, 3), (3, 2), seed=5)
    seen.compare_stages(student, (4, 6, 5, 7, 3), (3, 1), seed=6)
    seen.compare_stages(student, (5, 7, 4), (1, 6, 2, 5), seed=7, gradients_there=True)
    seen.compare_stages(student, (5, 5, 5), (4,), seed=8)
    seen.compare_stages(student, (4, 6, 3), (3, 4), seed=9, gated=True, loss="smooth_l1_loss")


@seen.ex4.fact("four ranks run in the order of 1F1B, with few and with many micro-batches", part="1F1B")
def _(student):
    seen.compare_actions(student, (4, 6, 5, 7, 3), (2, 2), seed=6)
    seen.compare_actions(student, (4, 6, 5, 7, 3), (2, 2, 2, 2, 2, 2, 2, 1), seed=6)


@seen.ex4.fact("four ranks and one rank finish even if sends wait", part="sends that wait")
def _(student):
    for widths, rows in (((4, 6, 5, 7, 3), (2,) * 9), ((4, 6, 5, 7, 3), (3, 1)), ((4, 3), (3, 2)), ((5, 5, 5), (4,))):
        seen.compare_stages(student, widths, rows, seed=9, sends_wait=True)
    seen.compare_actions(student, (4, 6, 5, 7, 3), (2,) * 9, seed=9, sends_wait=True)


@seen.ex5.fact(
    "plan finds a good layout with slow links, on nodes of two GPUs with few samples and on one node with PCIe"
)
def _(student):
    seen.compare_plan(student, seen.Case("7B on H100", 1, 8, 80e9, "pcie5", "400G", 32))
    seen.compare_plan(student, seen.Case("7B on H100", 8, 2, 80e9, "pcie5", "100G", 8))


@seen.ex5.fact("plan finds a good layout with little memory, and for a large and a small model on nodes of four GPUs")
def _(student):
    seen.compare_plan(student, seen.Case("7B on H100", 4, 8, 24e9, "nvlink4", "200G", 64))
    seen.compare_plan(student, seen.Case("70B on H100", 16, 4, 96e9, "nvlink4", "400G", 128))
    seen.compare_plan(student, seen.Case("1B on H100", 4, 4, 24e9, "nvlink4", "100G", 128))
