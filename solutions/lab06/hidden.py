"""Lab 06's hidden facts, judged by the grader after the visible ones. Students do not get this file.

They test what a correct answer does anyway and a lucky one does not: other depths, cuts, sizes, batches and links.
"""

from utils.exercises.facts import visible

seen = visible("lab06")
lab = seen.lab


@seen.ex1.fact(
    "SplitResNet also works for a single image, non-square images, another cut and another number of classes"
)
def _(student):
    options = {"num_classes": 7}
    seen.compare_resnet(student, seen.SMALL, 3, options, *student.devices, training=False, shape=(1, 3, 32, 48), seed=5)


@seen.ex1.fact("SplitResNet also works for other depths, cuts and batches, and when the devices are swapped")
def _(student):
    device0, device1 = student.devices
    options = {"num_classes": 12, "zero_init_residual": True}
    for blocks, cut in (([1, 2, 1, 1], 2), ([1, 1, 3, 1], 4), ([1, 1, 1, 2], 4)):
        seen.compare_resnet_places(student, blocks, cut, options, device1, device0)
    seen.compare_resnet(
        student, [1, 2, 1, 1], 2, options, device1, device0, training=True, shape=(5, 3, 64, 32), seed=6
    )


@seen.ex2.fact("place also works for a block inside a group, in training mode, and when the devices are swapped")
def _(student):
    device0, device1 = student.devices
    seen.compare_placed(student, "inside a group", device1, device0, shape=(4, 3, 32, 32), seed=4)
    seen.compare_placed(student, "by name", device1, device0, shape=(3, 6), seed=5)


@seen.ex3.fact("copy_seconds also works for other modules, sizes, links and modes")
def _(student):
    compare = seen.compare_seconds
    compare(student, [1, 2, 1, 1], "layer2.0", (3, 3, 64, 32), mode=False, bandwidth=3e9, latency=5e-6)
    compare(student, seen.SMALL, "maxpool", (2, 3, 32, 32), frozen=("layer1", "fc"), bandwidth=1e8, latency=0.0)
    compare(
        student, seen.SMALL, "layer3", (2, 3, 32, 32), frozen=("conv1", "bn1", "layer"), trained_before=False,
        bandwidth=1e9, latency=1e-3,
    )  # fmt: skip


@seen.ex3.fact("copy_seconds does not change the model, even if another module is in the other mode")
def _(student):
    seen.compare_left(student, True, 8)
    seen.compare_left(student, False, 11)
