"""Lab 07's hidden facts, judged by the grader after the visible ones. Students do not get this file.

They test what a correct answer does anyway and a lucky one does not: other layers, cuts, sizes, batches and lengths.
"""

from utils.exercises.facts import visible

seen = visible("lab07")
lab = seen.lab


@seen.ex1.fact("kept_on_each also works for convolutions, views and float64")
def _(student):
    normed, small = 2 * 4 * 4 * 4 * 4, 2 * 4 * 2 * 2
    first = 2 * 3 * 6 * 6 * 4 + (normed + 2 * 4 * 4) + normed
    seen.compare_kept(student, seen.IMAGES, 3, (2, 3, 6, 6), (first, normed + small * 8 + small * 4))
    seen.compare_kept(student, seen.IMAGES, 5, (2, 3, 6, 6), (first + small * 8, small * 4))
    seen.compare_kept(student, seen.LINEARS, 2, (3, 6), (3 * 6 * 8 + 3 * 8 * 8, 3 * 8 * 8), dtype="float64")


@seen.ex2.fact("`peaks` also works for other cuts and batch sizes")
def _(student):
    device0, device1 = student.devices
    words = "With the devices swapped, 400 samples, and three Linear-Tanh pairs cut after the first pair"
    seen.compare_peaks(student, words, seen.PAIRS, 2, 400, device1, device0)
    words = "With another tensor on device1, three pairs of Linear and Tanh and 300 samples, cut after the second pair"
    seen.compare_peaks(student, words, seen.PAIRS, 4, 300, device0, device1, already=10_000)


@seen.ex4.fact("SplitGPT also works for other depths, cuts, batch sizes and sequence lengths")
def _(student):
    device0, device1 = student.devices
    seen.compare_gpt(student, 5, 4, (1, 32), device1, device0, seed=7)
    seen.compare_gpt(student, 2, 1, (6, 1), device0, device1, seed=8)
