"""Lab 05's hidden facts, judged by the grader after the visible ones. Students do not get this file.

They ask what a right answer does anyway and a lucky one does not: other times, holes, dtypes, costs and rooms.
"""

import torch

from utils.facts import visible

seen = visible("lab05")
lab = seen.lab


@seen.ex1.fact("it holds for kernels in any order, inside each other, and all outside")
def _(student):
    seen.compare_percent(student, [(3.0, 4.0), (0.0, 1.0)], 0.0, 4.0, 50)
    seen.compare_percent(student, [(0.0, 3.0), (1.0, 2.0), (2.5, 3.5)], 0.0, 4.0, 87.5)
    seen.compare_percent(student, [(5.0, 6.0), (-3.0, -1.0)], 0.0, 4.0, 0)
    seen.compare_percent(student, [(-5.0, 9.0), (1.0, 2.0)], 0.0, 4.0, 100)


@seen.ex1.fact("it holds for a period that does not begin at 0, and without any kernel")
def _(student):
    seen.compare_percent(student, [(10.0, 11.0), (11.5, 12.0)], 10.0, 12.0, 75)
    seen.compare_percent(student, [], 10.0, 12.0, 0)


@seen.ex2.fact("zero is a value, and a device that was idle all the time has 0")
def _(student):
    samples = [("cuda:0", 0), ("cuda:0", 60), ("cuda:1", 0), ("cuda:1", None), ("cuda:2", None)]
    seen.compare_means(student, samples, {"cuda:0": 30, "cuda:1": 0, "cuda:2": None})


@seen.ex2.fact("it holds for other names and other numbers of samples")
def _(student):
    samples = [("simgpu:3", 10.5), ("simgpu:3", None), ("simgpu:3", 30.5), ("simgpu:3", 40.0), ("simgpu:0", 7.0)]
    seen.compare_means(student, samples, {"simgpu:3": 27, "simgpu:0": 7})


@seen.ex3.fact("it holds for buffers, other number formats, all on one device, and the devices swapped")
def _(student):
    device0, device1 = student.devices
    seen.compare_training_memory(student, "buffers", [device0, device1], "momentum")
    for optimizer in seen.STATES:
        seen.compare_training_memory(student, "float64 and bfloat16", [device1, device0], optimizer)
    seen.compare_training_memory(student, "shared", ["cpu", device1], "adam")
    seen.compare_training_memory(student, "plain", [device1, device1], "adam")


@seen.ex4.fact("it holds for other costs")
def _(student):
    for costs in ([5, 1], [1, 1, 8, 1, 1, 1], [4, 4, 5], [1.5, 2.5, 0.5, 3.5], [0, 0, 7, 0], list(range(30, 0, -1))):
        seen.compare_cut(student, costs)


@seen.ex5.fact("it holds for layers of different sizes: the order of the layers stays")
def _(student):
    stack = [["Linear", 128, 256], ["Tanh"], ["Linear", 256, 512], ["Tanh"], ["Linear", 512, 128], ["Linear", 128, 128]]
    need0 = 16 * (128 * 256 + 256)
    seen.compare_fit(student, stack, need0 + seen.ONE + 8, 2, *student.devices)


@seen.ex5.fact("it holds to the byte: exactly enough room is enough, four bytes less is not")
def _(student):
    seen.compare_fit(student, seen.SIX, 3 * seen.ONE, 6, *student.devices)
    seen.compare_fit(student, seen.SIX, 3 * seen.ONE - 4, 4, *student.devices)


@seen.ex5.fact("it holds for float64, and where everything has room on device0")
def _(student):
    seen.compare_fit(student, seen.SIX, 4 * seen.ONE, 4, *student.devices, dtype=torch.float64)
    seen.compare_fit(student, seen.SIX, 7 * seen.ONE, 12, *student.devices)


@seen.ex5.fact("it holds where the last layer has room on device0 too, and where not even the first has")
def _(student):
    for room, cut in ((3 * seen.ONE, 5), (seen.ONE - 4, 0)):
        seen.compare_fit(student, seen.SIX[:5], room, cut, *student.devices)
