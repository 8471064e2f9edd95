"""Lab 06's hidden facts, judged by the grader after the visible ones. Students do not get this file.

They ask what a right answer does anyway and a lucky one does not: other depths, sizes, batches, costs and rooms.
"""

import numpy as np

from utils.facts import need, visible

seen = visible("lab06")
lab = seen.lab


@seen.ex1.fact("a new model is in training mode, as every module is")
def _(student):
    found = student.run(seen.look_at_resnet, seen.SMALL, {"num_classes": 10}, *student.devices)
    need(found["in training"], "some part of a new model is in evaluation mode.")


@seen.ex1.fact("it holds for one image, images that are not square, and another number of classes")
def _(student):
    seen.compare_resnet(
        student, seen.SMALL, {"num_classes": 7}, *student.devices, training=False, shape=(1, 3, 32, 48), seed=5
    )


@seen.ex1.fact("it holds for another depth, another batch, and the devices swapped")
def _(student):
    device0, device1 = student.devices
    blocks = [1, 2, 1, 1]
    options = {"num_classes": 12, "zero_init_residual": True}
    seen.compare_resnet_places(student, blocks, options, device1, device0)
    seen.compare_resnet(student, blocks, options, device1, device0, training=True, shape=(5, 3, 64, 32), seed=6)


@seen.ex2.fact("it holds for copies at the same moment, without copies, and for other spans")
def _(student):
    d2d = [("simgpu:0", "d2d", 1.0, 2.0, "simgpu:1"), ("simgpu:1", "d2d", 1.5, 3.0, "simgpu:0")]
    seen.compare_share(student, "Two copies, partly at the same moment", d2d, 0.0, 8.0, 0.25)
    kernels = [("simgpu:0", "kernel", 10.0, 12.0, None), ("simgpu:0", "h2d", 12.0, 13.0, "cpu")]
    seen.compare_share(student, "No copy between GPUs", kernels, 10.0, 14.0, 0.0)
    three = [
        ("cuda:0", "kernel", 10.0, 11.0, None),
        ("cuda:0", "d2d", 11.0, 13.0, "cuda:1"),
        ("cuda:2", "kernel", 12.0, 12.5, None),
        ("cuda:1", "d2h", 13.0, 14.0, "cpu"),
    ]
    seen.compare_share(student, "A third GPU computes during a part of the copy", three, 10.0, 15.0, 0.3)


@seen.ex3.fact("it holds for other costs and limits")
def _(student):
    numbers = np.random.default_rng(6)
    for layers in (2, 5, 9, 14):
        rows = [
            [int(numbers.integers(1, 9)), int(numbers.integers(1, 18)), int(numbers.integers(1, 1000))]
            for _ in range(layers)
        ]
        for most in (1.25, 1.5, 2, 4, 100):
            seen.judge_cut(student, rows, most)


@seen.ex3.fact("it holds where exactly as uneven as allowed is allowed, and where a device has nothing to do")
def _(student):
    seen.judge_cut(student, [[2, 4, 10], [1, 2, 900], [1, 2, 950]], 1)
    seen.judge_cut(student, [[0, 0, 3], [1, 2, 50], [1, 2, 60]], 5)
    seen.judge_cut(student, [[1, 2, 70], [1, 2, 80], [0, 0, 3]], 1)
    seen.judge_cut(student, [[4, 8, 70], [1, 2, 8]], 4)


@seen.ex4.fact("it holds for convolutions and for float64")
def _(student):
    x = seen.batch(6, 3, 16, 16, seed=3)
    for cut in (1, 3, 4):
        seen.compare_fitting(student, seen.CONVOLUTIONS, x, *seen.rooms(seen.CONVOLUTIONS, x, cut))
    wide = seen.batch(20, 16, seed=4).astype(np.float64)
    for cut in (1, 2, 4):
        seen.compare_fitting(student, seen.LINEARS, wide, *seen.rooms(seen.LINEARS, wide, cut))
        seen.compare_fitting(student, seen.LINEARS, wide, *seen.rooms(seen.LINEARS, wide, cut, 0, -8))


@seen.ex5.fact("it holds for other cuts and depths, for another mask, and without one")
def _(student):
    device0, device1 = student.devices
    seen.compare_encoder(student, 5, 4, device1, device0, seed=7, shape=(1, 9))
    seen.compare_encoder(student, 2, 1, device0, device1, mask=None, seed=8)
    seen.compare_encoder(student, 3, 1, device0, device1, mask=seen.neighbours, seed=9)
