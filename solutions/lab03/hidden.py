"""Lab 03's hidden facts, judged by the grader after the visible ones. Students do not get this file.

They ask what a right answer does anyway and a lucky one does not: other losses, other sizes, other devices.
"""

from utils.exercises.facts import case, visible

seen = visible("lab03")
lab = seen.lab


@seen.ex1.fact("it works with class indices as targets, and for a model that ends on the device where it begins")
def _(student):
    device0, device1 = student.devices
    seen.compare_steps(student, [device0, device1, device0], device1, "cpu", "CrossEntropyLoss", seed=5)
    seen.compare_steps(student, [device1, device0, device1], "cpu", device0, "CrossEntropyLoss", seed=6, max_norm=0.3)


@seen.ex1.fact("it works for a model whose stages are not registered in the order in which they run")
def _(student):
    device0, device1 = student.devices
    seen.compare_steps(student, [device0, device1, device1], "cpu", "cpu", seed=8, turned=True)


@seen.ex2.fact("it fits odd sizes, strides, a single image, outputs that are not square, and one number per channel")
def _(student):
    device0, device1 = student.devices
    strided = [["Conv2d", 3, 5, 3, 2], ["ReLU"], ["MaxPool2d", 3]]
    pooled_away = [["Conv2d", 3, 6, 3], ["Tanh"], ["AdaptiveAvgPool2d", 1]]
    not_square = [["Conv2d", 3, 5, [3, 5], [2, 1]], ["ReLU"], ["MaxPool2d", 2]]
    with case("The output of `features` is not square"):
        seen.compare_cnn(student, not_square, 22, device0, device1, classes=5, seed=6)
    seen.compare_cnn(student, strided, 33, device0, device1, batch=1, classes=4, seed=3)
    seen.compare_cnn(student, seen.POOLED_TWICE, 29, device0, device1, batch=6, classes=2, seed=4)
    seen.compare_cnn(student, pooled_away, 20, device1, device0, batch=2, classes=3, seed=5)


@seen.ex2.fact("it fits features with a BatchNorm that refuses a single image in training mode")
def _(student):
    device0, device1 = student.devices
    away = [["Conv2d", 3, 6, 3], ["AdaptiveAvgPool2d", 1], ["BatchNorm2d", 6]]
    seen.compare_cnn(student, away, 12, device0, device1, batch=4, classes=3, seed=6)


@seen.ex3.fact("it works for one device, for nested layers of which one is on the CPU, and for a layer used twice")
def _(student):
    device0, device1 = student.devices
    seen.compare_optimizers(student, [device1, device1], lr=0.05, seed=3)
    seen.compare_optimizers(student, [device1, device0, "cpu", device1], shared=True, lr=0.02, seed=5)


@seen.ex4.fact("it works for another batch size, and the devices also work at the same time when they are swapped")
def _(student):
    device0, device1 = student.devices
    seen.compare_branches(student, device0, device1, batch=3, seed=4)
    seen.need_overlap(student, device1, device0)


@seen.ex5.fact("it works with class indices as targets, with other parts and with a part on the CPU")
def _(student):
    device0, device1 = student.devices
    stacks = [*seen.THREE_PARTS[:2], [["LayerNorm", 7], ["Linear", 7, 4]], [["Tanh"], ["Linear", 4, 5]]]
    places = [device0, device1, "cpu", device0]
    seen.compare_train(student, stacks, places, "CrossEntropyLoss", seed=6, steps=3, batch=5, lr=0.02)
