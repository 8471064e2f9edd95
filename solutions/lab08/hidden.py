"""Lab 08's hidden facts, judged by the grader after the visible ones. Students do not get this file.

They ask what a right answer does anyway and a lucky one does not: other sizes, other losses, swapped devices.
"""

from utils.exercises.facts import orders_of, visible

seen = visible("lab08")
lab = seen.lab


@seen.ex1.fact("other sizes, other stages, and the devices swapped: all as with the whole batch")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            for samples, size in ((9, 2), (5, 5), (3, 8), (6, 1)):
                seen.compare_pipelined(student, [device0, device1], samples, size, seed=samples)
            four = [*seen.THREE, [["Linear", 2, 4]]]
            seen.compare_pipelined(student, [device0, device0, device1, device1], 9, 4, stacks=four, seed=3)


@seen.ex1.fact("the batch may come from any device")
def _(student):
    for comes_from in student.devices:
        seen.compare_pipelined(student, student.devices, 7, 3, comes_from=comes_from)


@seen.ex1.fact("both devices work at the same time, with another number of micro-batches and the devices swapped")
def _(student):
    device0, device1 = student.devices
    seen.need_both_at_work(student, device1, device0, 9)


@seen.ex2.fact("the same with another loss, other sizes, and the devices swapped")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            for samples, size, loss in ((11, 5, "CrossEntropyLoss"), (7, 7, "MSELoss"), (9, 2, "L1Loss")):
                seen.compare_train_step(
                    student, device0, device1, samples, size, widths=(4, 7, 6), loss=loss, seed=samples
                )


@seen.ex3.fact("the same numbers with other sizes and the devices swapped")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            for samples, size in ((13, 4), (6, 6), (5, 1)):
                seen.compare_overlapping(student, device0, device1, samples, size, widths=(3, 8, 5), seed=samples)


@seen.ex3.fact("it reaches the share of the bound with a batch that does not divide evenly, and the devices swapped")
def _(student):
    seen.need_share(student, *student.devices[::-1], 150, 16)


@seen.ex4.fact("other numbers of micro-batches, other stages, steps that do not overlap, and the devices swapped")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            seen.compare_share(student, device0, device1, "pipeline", (30_000, 10_000), 8)
            seen.compare_share(student, device0, device1, "serial", (20_000, 30_000), 3)
            seen.compare_share(student, device0, device1, "pipeline", (20_000, 20_000), 1)
