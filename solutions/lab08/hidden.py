"""Lab 08's hidden facts, judged by the grader after the visible ones. Students do not get this file.

They ask what a right answer does anyway and a lucky one does not: other sizes, other losses, swapped devices.
"""

from utils.exercises.facts import orders_of, visible

seen = visible("lab08")
lab = seen.lab


@seen.ex1.fact("output and gradients are also right with other sizes, other stages and swapped devices")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            for samples, size in ((9, 2), (5, 5), (3, 8), (6, 1)):
                seen.compare_pipelined(student, [device0, device1], samples, size, seed=samples)
            four = [*seen.THREE, [["Linear", 2, 4]]]
            seen.compare_pipelined(student, [device0, device0, device1, device1], 9, 4, stacks=four, seed=3)


@seen.ex1.fact("the batch can come from any device")
def _(student):
    for comes_from in student.devices:
        seen.compare_pipelined(student, student.devices, 7, 3, comes_from=comes_from)


@seen.ex1.fact("both devices also work at the same time with more micro-batches and swapped devices")
def _(student):
    device0, device1 = student.devices
    seen.need_both_at_work(student, device1, device0, 9)


@seen.ex2.fact("train_step is also right with other loss functions, other sizes and swapped devices")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            for samples, size, loss in ((11, 5, "CrossEntropyLoss"), (7, 7, "MSELoss"), (9, 2, "L1Loss")):
                seen.compare_train_step(
                    student, device0, device1, samples, size, widths=(4, 7, 6), loss=loss, seed=samples
                )


@seen.ex3.fact("loss and gradients are also right with other sizes and swapped devices")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            for samples, size in ((13, 4), (6, 6), (5, 1)):
                seen.compare_overlapping(student, device0, device1, samples, size, widths=(3, 8, 5), seed=samples)


@seen.ex3.fact("`overlapping` also reaches the required share with a smaller last micro-batch and swapped devices")
def _(student):
    seen.need_share(student, *student.devices[::-1], 150, 16)


@seen.ex4.fact("the share is also right with more or fewer micro-batches, other stages, no overlap and swapped devices")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            seen.compare_share(student, device0, device1, "pipeline", (30_000, 10_000), 8)
            seen.compare_share(student, device0, device1, "serial", (20_000, 30_000), 3)
            seen.compare_share(student, device0, device1, "pipeline", (20_000, 20_000), 1)
