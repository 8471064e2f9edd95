"""Lab 09's hidden facts, judged by the grader after the visible ones. Students do not get this file.

They ask what a right answer does anyway and a lucky one does not: other sizes, other models, swapped devices.
"""

from utils.exercises.facts import orders_of, visible

seen = visible("lab09")
lab = seen.lab


@seen.ex1.fact("`prefetched` also works with other sizes, on either device")
def _(student):
    for device in student.devices:
        for samples, size in ((9, 2), (5, 5), (3, 8), (6, 1)):
            seen.compare_prefetched(student, device, samples, size)


@seen.ex1.fact("copies also overlap with kernels on the second device")
def _(student):
    seen.need_hidden(student, student.devices[1], 9)
    seen.need_ahead(student, student.devices[1], 9)


@seen.ex2.fact("best_micro_batches is also right for other batches, more stages, and tight or too little memory")
def _(student):
    for asked in (
        (60, 4, 0.0003, 0.0011, 7, 10_000),
        (17, 2, 0.002, 0.0001, 50, 10_000),  # nearly free launches: one sample each
        (17, 2, 0.001, 10.0, 50, 10_000),  # very dear ones: the whole batch at once
        (24, 2, 0.001, 10.0, 64, 512),  # 8 samples fill the memory to the last byte
        (10, 2, 0.001, 10.0, 100, 399),  # 3 samples fit, so 4 micro-batches
        (10, 3, 0.001, 0.01, 100, 99),  # not even one sample fits
        (1, 2, 0.001, 0.001, 100, 100),
        (10, 2, 500.0, 1000.0, 10, 100),  # hours
    ):
        seen.compare_micro_batches(student, *asked)


@seen.ex3.fact("without_batchnorm also works with other channels, other groups and swapped devices")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            seen.compare_without(student, device0, device1, (5, 16), 8)


@seen.ex3.fact("a model that is itself a BatchNorm2d layer is replaced")
def _(student):
    seen.compare_without(student, *student.devices, (4, 4), 3, alone=True)


@seen.ex4.fact("train_step_tokens also works with other sizes, other lengths and swapped devices")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            seen.compare_tokens(student, device0, device1, 11, 5, (3, 6, 1), classes=7, seed=11)
            seen.compare_tokens(student, device0, device1, 7, 1, (2, 0, 4), seed=12)


@seen.ex5.fact("output, gradients and dropout are also right with other sizes and swapped devices")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            for samples, size in ((9, 2), (4, 7)):
                seen.compare_recomputed(student, device0, device1, samples, size, seed=samples)
            seen.compare_dropout(student, device0, device1, 9, 2)


@seen.ex5.fact("with more micro-batches and swapped devices, memory is lower and both devices work at the same time")
def _(student):
    device0, device1 = student.devices[::-1]
    seen.need_less_memory(student, device0, device1, 5000, 500)
    seen.need_pipeline(student, device0, device1, 6)
