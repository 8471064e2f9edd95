"""Lab 08's hidden facts, judged by the grader after the visible ones. Students do not get this file.

They ask what a right answer does anyway and a lucky one does not: other sizes, other losses, swapped devices.
"""

from utils.facts import orders_of, visible

seen = visible("lab08")
lab = seen.lab


@seen.ex1.fact("other sizes, other layers, and the devices swapped: all as with the whole batch")
def _(student):
    first = [["Linear", 3, 8], ["ReLU"], ["Linear", 8, 7]]
    second = [["Linear", 7, 2]]
    for device0, device1, order in orders_of(student):
        with order:
            for rows, size in ((9, 2), (5, 5), (3, 8), (6, 1)):
                seen.compare_pipelined(student, device0, device1, rows, size, first=first, second=second, seed=rows)


@seen.ex1.fact("the batch may come from any device")
def _(student):
    device0, device1 = student.devices
    for comes_from in (device0, device1):
        seen.compare_pipelined(student, device0, device1, 7, 3, comes_from=comes_from)


@seen.ex1.fact("both devices work at the same time, with another number of micro-batches and the devices swapped")
def _(student):
    seen.need_overlap(student, *student.devices[::-1], 9)


@seen.ex2.fact("the same with another loss, other sizes, and the devices swapped")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            for rows, size, loss in ((11, 5, "CrossEntropyLoss"), (7, 7, "MSELoss"), (9, 2, "L1Loss")):
                seen.compare_train_step(student, device0, device1, rows, size, widths=(4, 7, 6), loss=loss, seed=rows)


@seen.ex3.fact("the same numbers with other sizes and the devices swapped")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            for rows, size in ((13, 4), (6, 6), (5, 1)):
                seen.compare_overlapping(student, device0, device1, rows, size, widths=(3, 8, 5), seed=rows)


@seen.ex3.fact("it reaches the share of the bound with a batch that does not divide, and the devices swapped")
def _(student):
    seen.need_share(student, *student.devices[::-1], 150, 16)


@seen.ex4.fact("the best number for other batches, more parts, and tight or too little memory")
def _(student):
    for asked in (
        (60, 4, 0.0003, 0.0011, 7, 10_000),
        (17, 2, 0.002, 0.0001, 50, 10_000),  # nearly free launches: one row each
        (17, 2, 0.001, 10.0, 50, 10_000),  # very dear ones: the whole batch at once
        (24, 2, 0.001, 10.0, 64, 512),  # 8 rows fill the memory to the last byte
        (10, 2, 0.001, 10.0, 100, 399),  # 3 rows fit, so 4 micro-batches
        (10, 3, 0.001, 0.01, 100, 99),  # not even one row fits
        (1, 2, 0.001, 0.001, 100, 100),
        (10, 2, 500.0, 1000.0, 10, 100),  # hours
    ):
        seen.compare_micro_batches(student, *asked)


@seen.ex5.fact("the output and the gradients with other sizes and the devices swapped")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            for rows, size in ((9, 2), (4, 7)):
                seen.compare_recomputed(student, device0, device1, rows, size, seed=rows)


@seen.ex5.fact("dropout drops the same numbers when a part is computed again")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            seen.compare_dropout(student, device0, device1, 10, 4)


@seen.ex5.fact("less memory with more micro-batches, and the devices swapped")
def _(student):
    seen.need_less_memory(student, *student.devices[::-1], 6000, 500)
