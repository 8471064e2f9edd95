"""Lab 17's hidden facts, judged by the grader after the visible ones. Students do not get this file.

They ask what a right answer does anyway and a lucky one does not: other ranks, experts, sizes and dtypes.
"""

from utils.exercises.facts import visible

seen = visible("lab17")
lab = seen.lab


@seen.ex1.fact("the layer is also right with other ranks, experts and sizes, and in float64")
def _(student):
    seen.compare_experts(student, [3, 7, 2], 6, 3, hidden=5, seed=8, double=True)
    seen.compare_experts(student, [6], 3, 2, hidden=4, seed=9)
    seen.compare_experts(student, [2, 9, 1, 5], 4, 1, hidden=3, seed=10)
    seen.compare_experts(student, [3, 4], 4, 4, hidden=4, seed=11)


@seen.ex1.fact("x may need no gradient, and there may be no tokens at all for a rank and its experts")
def _(student):
    seen.compare_experts(student, [4, 3], 4, 2, seed=12, first_layer=True, words=", and x needs no gradient")
    seen.compare_experts(
        student,
        [4, 3],
        2,
        1,
        seed=15,
        bias=[-50, 0],
        first_layer=True,
        words=", all to expert 1, and x needs no gradient",
    )
    seen.compare_experts(student, [0, 5, 4, 0], 8, 2, seed=13, bias=[0, 0, 0, 0, -50, -50, -50, -50])
    seen.compare_experts(student, [0, 0], 2, 1, seed=14)


@seen.ex2.fact("crossover is also right in other networks and for many ranks")
def _(student):
    for ranks, latency, gigabits in (
        (5, 3e-6, 100),
        (7, 1e-6, 25.5),
        (1000, 2e-6, 800),
        (64, 7e-6, 200),
        (1, 1e-6, 10),
    ):
        seen.compare_crossover(student, ranks, latency, gigabits)


SLOW_EXPERTS = (
    [
        [22, 10, 61, 16, 61, 8, 13, 2],
        [22, 28, 17, 35, 18, 6, 44, 10],
        [90, 260, 22, 6, 222, 6, 291, 13],
        [5, 282, 83, 10, 105, 3, 78, 34],
    ],
    (2, 2e-6, 1e-6),
    None,
)
LARGE_NODES = (
    [
        [279, 65, 14, 401, 33, 75, 15, 2, 21, 29, 16, 18, 27, 6, 6, 62],
        [86, 117, 8, 383, 49, 275, 23, 6, 47, 60, 31, 95, 17, 8, 283, 52],
        [116, 59, 14, 241, 10, 94, 9, 6, 19, 14, 14, 18, 10, 4, 78, 13],
        [405, 97, 18, 242, 83, 138, 33, 13, 22, 174, 23, 64, 31, 23, 37, 68],
        [45, 49, 45, 58, 3, 36, 33, 10, 22, 45, 48, 241, 6, 6, 11, 11],
        [52, 79, 41, 52, 9, 9, 81, 65, 27, 13, 20, 86, 11, 66, 13, 8],
        [59, 20, 66, 40, 6, 30, 81, 7, 70, 22, 28, 126, 4, 20, 22, 2],
        [34, 731, 105, 27, 7, 45, 60, 19, 108, 86, 85, 150, 6, 113, 11, 5],
    ],
    (4, 1e-6, 2e-6),
    [2, 7, 6, 0, 1, 3, 7, 5, 4, 3, 4, 6, 0, 5, 1, 2],
)
TWO_BUSY_NODES = (
    [
        [55, 62, 5, 47, 11, 14, 37, 7, 929, 37, 57, 21, 14, 73, 10, 40],
        [78, 119, 8, 71, 9, 15, 20, 8, 1101, 22, 143, 36, 31, 52, 40, 15],
        [68, 68, 8, 22, 65, 41, 34, 20, 665, 24, 143, 26, 37, 230, 8, 21],
        [74, 61, 6, 16, 14, 24, 15, 4, 1173, 22, 89, 16, 22, 58, 34, 19],
        [15, 9, 39, 223, 91, 76, 124, 45, 251, 109, 16, 58, 98, 354, 211, 133],
        [35, 4, 49, 114, 90, 68, 146, 57, 205, 174, 13, 51, 160, 458, 107, 141],
        [12, 29, 38, 134, 50, 58, 135, 63, 348, 101, 17, 105, 120, 389, 111, 144],
        [11, 13, 33, 263, 134, 66, 285, 30, 298, 153, 29, 123, 141, 424, 174, 134],
    ],
    (4, 1e-6, 3e-6),
    [0, 0, 1, 4, 6, 3, 7, 2, 1, 4, 3, 2, 5, 7, 5, 6],
)
ONE_EACH = (
    [
        [33, 135, 22, 46, 53, 10],
        [69, 9, 47, 25, 4, 5],
        [426, 9, 11, 12, 16, 52],
        [62, 20, 10, 4, 16, 6],
        [75, 20, 20, 5, 15, 13],
        [108, 7, 8, 7, 10, 6],
    ],
    (1, 1e-6, 2e-6),
    None,
)


@seen.ex3.fact("the placement is also good for other tokens and nodes")
def _(student):
    seen.compare_placement(student, SLOW_EXPERTS)
    seen.compare_placement(student, LARGE_NODES)
    seen.compare_placement(student, TWO_BUSY_NODES)
    seen.compare_placement(student, ONE_EACH)


@seen.ex4.fact("sums and bytes are also right for tensors of any kind, with one node and with one rank in a node")
def _(student):
    seen.compare_levels(student, 2, 2, (3, 4), dtype="float64", transposed=True)
    seen.compare_levels(student, 1, 3, (7,))
    seen.compare_levels(student, 3, 1, (7,))
    seen.compare_levels(student, 2, 3, (), seed=5)
    seen.compare_levels(student, 2, 4, (2, 13), seed=6)
    seen.compare_levels(student, 4, 2, (64,), seed=7)
