"""Lab 18's hidden facts, judged by the grader after the visible ones. Students do not get this file.

They ask what a right answer does anyway and a lucky one does not: other ranks, causes, groups, lines and sizes. Seeds
of the traces are large, so that trying seeds does not find the same job without its fault.
"""

from utils.exercises.facts import visible
from utils.kits.job_dumps import LOAD, JobCall, JobHang
from utils.kits.job_traces import Hiccup, JobFault

seen = visible("lab18")
lab = seen.lab


@seen.ex1.fact("the cause is also right on other ranks, in other nodes, and for batches that come late")
def _(student):
    seen.compare_slow(student, 4, 3, JobFault(slow_gpu=(0, 1.3)), seed=918_465_424_135, layers=3)
    seen.compare_slow(student, 2, 4, JobFault(late_batches=(6, 2600.0)), seed=587_539_805_314, steps=4)
    seen.compare_slow(student, 3, 4, JobFault(slow_host=(11, 620.0)), seed=707_034_358_789)
    seen.compare_slow(student, 4, 4, JobFault(slow_network=(3, 2.2)), seed=634_584_344_084, steps=4)


@seen.ex1.fact("a rank that is slow once hides neither a slow link nor a late host")
def _(student):
    seen.compare_slow(
        student, 3, 3, JobFault(slow_network=(0, 3.0)), seed=799_815_356_567, steps=5, once=Hiccup(4, 1, 700.0)
    )
    seen.compare_slow(
        student, 2, 5, JobFault(slow_host=(9, 600.0)), seed=221_123_107_430, steps=5, once=Hiccup(2, 4, 700.0)
    )


@seen.ex1.fact("a kernel that is slow once is the cause if it costs most, and no time of the network's")
def _(student):
    seen.compare_slow(student, 3, 4, JobFault(slow_network=(1, 1.2)), seed=739_200_808_298, once=Hiccup(5, 1, 3000.0))
    late = Hiccup(5, 1, 1400.0, in_embedding=True)
    seen.compare_slow(student, 3, 4, JobFault(slow_network=(1, 2.2)), seed=460_243_643_392, once=late, embedding=True)


@seen.ex2.fact("rank, cause and line are also right in other groups, at other calls and on other ranks")
def _(student):
    half = JobCall("data", "all_reduce", [12_582_912], "/app/train.py:57", "sum_gradients")
    barrier = JobCall("world", "barrier", [1], "/app/save.py:33", "save")
    seen.compare_hang(student, 3, 4, JobHang(11, "died", 29), seed=11)
    seen.compare_hang(student, 4, 3, JobHang(0, "absent", 24), seed=12, keep=12)
    seen.compare_hang(student, 3, 3, JobHang(8, "other", 21, half), seed=13, keep=12)
    seen.compare_hang(student, 3, 4, JobHang(6, "other", 16, barrier, before=True), seed=14)
    seen.compare_hang(student, 4, 3, JobHang(5, "skipped", 21), seed=15, keep=12)


@seen.ex2.fact("the first call that differs is named, although later ones complete")
def _(student):
    seen.compare_hang(student, 3, 3, JobHang(2, "skipped", 18), seed=16, steps=8, layers=4, keep=30)
    seen.compare_hang(student, 4, 4, JobHang(13, "skipped", 28), seed=17, steps=8, layers=4, keep=40)


@seen.ex2.fact("paths of files and the order of the dumps do not matter")
def _(student):
    seen.compare_hang(student, 3, 3, JobHang(7, "skipped", 19), seed=18, elsewhere=True)
    seen.compare_hang(student, 3, 3, JobHang(7, "died", 19), seed=19, elsewhere=True)
    seen.compare_hang(student, 3, 3, JobHang(5, "absent", 14), seed=21, layers=4)


@seen.ex2.fact("calls of other kinds and in other groups differ")
def _(student):
    scattered = JobCall("tensor", "reduce_scatter_single", [8192, 4096], seen.MLP)
    seen.compare_hang(student, 1, 4, JobHang(1, "other", 13, scattered), seed=23)
    seen.compare_hang(student, 3, 3, JobHang(4, "other", 11, LOAD), seed=24)
    elsewhere = JobCall("data", "all_reduce", [8192, 4096], seen.MLP)
    seen.compare_hang(student, 3, 3, JobHang(4, "other", 21, elsewhere), seed=25)


@seen.ex3.fact("the step is also right on one, four and five ranks, and with frozen parameters")
def _(student):
    seen.compare_steps(student, 4, (7, 12, 3), tokens=8, seed=4)
    seen.compare_steps(student, 5, (4, 10, 6), tokens=10, seed=5, max_norm=0.2)
    seen.compare_steps(student, 1, (6, 8, 5), tokens=8, seed=6)
    frozen = "norm.bias", "up.weight"
    seen.compare_steps(student, 2, (6, 8, 5), tokens=8, seed=7, frozen=frozen, decay=0.1, wrapped=True)


@seen.ex4.fact("the run also goes on after several kills, and with other numbers of steps")
def _(student):
    seen.compare_lives(
        student,
        [(("forward", 6), ""), (("forward", 5), "cut short"), (None, "")],
        steps=12,
        every=2,
        begins=[6],
        seed=4,
        words="kills in steps 6 and 9, and damage (cut short)",
    )
    seen.compare_lives(
        student,
        [(("forward", 4), "zeros"), (None, "")],
        steps=7,
        every=3,
        begins=[0],
        count=5,
        seed=5,
        words="a kill in step 4 and damage of the only checkpoint (zeros)",
    )
    seen.compare_lives(
        student,
        [(("file", 4), ""), (None, "")],
        steps=9,
        seed=11,
        words="a kill before a rename or removal, in the last step's save",
    )
    seen.compare_lives(
        student,
        [(("forward", 6), ""), (("forward", 3), ""), (None, "")],
        steps=12,
        every=2,
        begins=[6],
        seed=7,
        words="kills in steps 6 and 7",
    )


@seen.ex4.fact("old numbers and damage to the optimizer's state are noticed, and old checkpoints do not pile up")
def _(student):
    for how in ("old numbers", "zeros for the optimizer"):
        seen.compare_lives(
            student,
            [(("forward", 9), how), (None, "")],
            begins=[3],
            seed=8,
            words=f"a kill in step 9 and damage ({how})",
        )
    seen.compare_lives(
        student,
        [(("file", 4), "zeros at once"), (None, "")],
        begins=[3, 6],
        seed=10,
        words="a kill before a file is renamed or deleted, and damage (zeros) to what was written last",
    )
    again = [(("forward", 9), "cut short"), (("forward", 5), "cut short"), (None, "")]
    seen.compare_lives(student, again, begins=[3], seed=12, words="a kill and damage (cut short), twice")
    in_a_save = [(("save", 2), ""), (("forward", 5), "cut short"), (None, "")]
    seen.compare_lives(
        student,
        in_a_save,
        begins=[3],
        seed=6,
        words="a kill in the middle of a save, and one with damage (cut short) after the next save",
    )
    kills = [(("file", 4), ""), (("file", 2), ""), (("file", 2), ""), (None, "")]
    seen.compare_lives(student, kills, steps=26, seed=9, words="kills before files are renamed or deleted")
