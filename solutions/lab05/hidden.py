"""Lab 05's hidden facts, judged by the grader after the visible ones. Students do not get this file.

They test what a correct answer does anyway and a lucky one does not: other models, times, dtypes and memory sizes.
"""

import torch

from utils.exercises.facts import visible

seen = visible("lab05")
lab = seen.lab


@seen.ex1.fact("watch also works for other model sizes and batch sizes, and when the devices are swapped")
def _(student):
    seen.compare_watch(student, "split", 384, 1024, student.devices[::-1], seed=5)
    seen.compare_watch(student, "branches", 640, 256, student.devices[::-1], seed=6)


@seen.ex2.fact("where_time_goes also works for a recording that does not begin at 0, and for one in which nothing runs")
def _(student):
    seen.compare_where(student, [], 3, 5, host=1)
    rows = [(1, "kernel", 10, 12), (0, "kernel", 11, 13), (0, "cpu", 13, 17)]
    seen.compare_where(student, rows, 10, 18, both=1 / 8, one=2 / 8, copy=4 / 8, host=1 / 8)


@seen.ex2.fact("where_time_goes also works if kernels or copies in several streams overlap")
def _(student):
    rows = [(0, "kernel", 0, 6), (0, "kernel", 1, 2, 1), (1, "kernel", 3, 4), (1, "kernel", 3.5, 5, 1)]
    seen.compare_where(student, rows, 0, 8, both=2 / 8, one=4 / 8, host=2 / 8)
    rows = [(0, "cpu", 1, 4), (1, "cpu", 2, 6, 1), (0, "other", 5, 7, 2), (1, "kernel", 3, 3.5)]
    seen.compare_where(student, rows, 0, 8, one=0.5 / 8, copy=5.5 / 8, host=2 / 8)


@seen.ex3.fact("training_memory also works for buffers, other dtypes, a model on one device, and swapped devices")
def _(student):
    device0, device1 = student.devices
    seen.compare_training_memory(student, "buffers", [device0, device1], "momentum")
    for optimizer in seen.STATES:
        seen.compare_training_memory(student, "float64 and bfloat16", [device1, device0], optimizer)
    seen.compare_training_memory(student, "shared", ["cpu", device1], "adam")
    seen.compare_training_memory(student, "plain", [device1, device1], "adam")


@seen.ex4.fact("lean_step also works with frozen layers, and with more layers on one device than on the other")
def _(student):
    for frozen, cut in ((2, 6), (0, 5)):
        seen.compare_peaks(seen.compare_lean(student, student.devices, frozen=frozen, cut=cut, seed=8))


@seen.ex5.fact("FitInTwo keeps layers of different sizes in order, and works for other values of memory0")
def _(student):
    stack = [["Linear", 128, 256], ["Tanh"], ["Linear", 256, 512], ["Tanh"], ["Linear", 512, 128], ["Linear", 128, 128]]
    need0 = 20 * (128 * 256 + 256)
    seen.compare_fit(student, stack, need0 + seen.ONE + 8, 2, *student.devices)
    for layers, room, cut in (
        (seen.SIX, 3 * seen.ONE, 6),
        (seen.SIX, 3 * seen.ONE - 4, 4),
        (seen.SIX, 7 * seen.ONE, 12),
        (seen.SIX[:5], 3 * seen.ONE, 5),
        (seen.SIX[:5], seen.ONE - 4, 0),
    ):
        seen.compare_fit(student, layers, room, cut, *student.devices)
    seen.compare_fit(student, seen.SIX, 4 * seen.ONE, 4, *student.devices, dtype=torch.float64)


@seen.ex5.fact("FitInTwo also works if frozen layers follow trainable layers")
def _(student):
    seen.compare_fit(student, seen.SIX, 2 * seen.ONE + seen.ONE // 5, 6, *student.devices, frozen=[2])
    seen.compare_fit(student, seen.SIX, 2 * seen.ONE, 4, *student.devices, frozen=[4, 6])
