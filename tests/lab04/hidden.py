"""Lab 04's hidden facts, judged by the grader after the visible ones. Students do not get this file.

They ask what a right answer does anyway and a lucky one does not: other counts, other numbers, other devices.
"""

from utils.facts import case, orders_of, visible

seen = visible("lab04")
lab = seen.lab


@seen.ex1.fact("it holds for other numbers of runs, without a warm-up, and when the launch is the long part")
def _(student):
    seen.compare_stopwatch(student, [7.0], warm_up=0, repeats=1)
    seen.compare_stopwatch(student, [90.0, 3.0, 8.0], warm_up=1, repeats=2, left_over=20.0)
    seen.compare_stopwatch(student, [0.5, 0.25, 0.5, 0.125, 0.5], launch=6.0, warm_up=0, repeats=5)


@seen.ex1.fact("it is exact where a run takes microseconds")
def _(student):
    seen.compare_stopwatch(student, [4e-6, 5e-6, 7e-6], launch=1e-6, warm_up=1, repeats=2)


@seen.ex2.fact("a single time has no spread, equal times count each, and the times may come as a tuple")
def _(student):
    seen.compare_summary(student, [2.5])
    seen.compare_summary(student, [0.004, 0.001, 0.002, 0.0025, 0.9], as_tuple=True)
    seen.compare_summary(student, [3.0, 3.0])
    seen.compare_summary(student, [2.0, 5.0])
    seen.compare_summary(student, [1.0, 9.0, 1.0, 4.0, 1.0])


@seen.ex3.fact("it holds for other work, and call after call")
def _(student):
    seen.compare_events(student, 0.002, left_over=0.01, rounds=3)


@seen.ex4.fact("a kernel inside another adds nothing, those that touch add up, and no events are no time")
def _(student):
    seen.compare_busy(student, [(0.0, 10.0), (2.0, 3.0), (9.0, 12.0)], 12.0)
    seen.compare_busy(student, [(0.0, 10.0), (2.0, 3.0), (4.0, 5.0), (11.0, 12.0)], 11.0)
    seen.compare_busy(student, [(2.0, 3.0), (1.0, 2.0), (1.0, 2.0)], 2.0)
    seen.compare_busy(student, [], 0.0)
    seen.compare_busy(student, [(0.0, 2.0)], 0.0, device="gpu1")


@seen.ex4.fact("what several kernels do at once counts once, also where some begin together")
def _(student):
    seen.compare_busy(student, [(0.0, 4.0), (1.0, 5.0), (2.0, 6.0)], 6.0)
    seen.compare_busy(student, [(1.0, 5.0), (1.0, 2.0), (6.0, 7.0), (6.0, 9.0)], 7.0)


@seen.ex4.fact("a device is not another one whose name begins alike")
def _(student):
    for device, other in (("gpu1", "gpu10"), ("gpu10", "gpu1")):
        events = [(device, "kernel", 1.0, 3.0), (other, "kernel", 4.0, 9.0)]
        seen.compare_busy(student, events, 2.0, device=device)


@seen.ex4.fact("it is exact for times far from zero and far below a second")
def _(student):
    seen.compare_busy(student, [(100.25, 100.5), (100.375, 100.75), (103.0, 103.0)], 0.5)
    seen.compare_busy(student, [(1e-6, 4e-6), (2e-6, 3e-6)], 3e-6)


@seen.ex5.fact("it holds for other shapes, one number alone, a single tensor and many")
def _(student):
    device0, device1 = student.devices
    for shapes in ([[2, 2], [], [1], [4, 3, 2]], [[3, 4]], [[number % 5 + 1, 2] for number in range(40)]):
        arrays, found = seen.look_at_move(student, shapes, device0, device1)
        seen.compare_moved(found, arrays, device1)
        seen.compare_copies(found)
        seen.compare_move_gradients(found, arrays)


@seen.ex6.fact("gradients that are left over from earlier do not count")
def _(student):
    sizes = [3, 7, 2]
    batches = seen.made_batches(sizes, 3, seed=5)
    with case("Before the call, every parameter had an old gradient"):
        found = seen.trained(student, student.devices, sizes, batches, left_over=1000.0)
        seen.compare_training(found, sizes, batches)


@seen.ex6.fact("the same holds with the devices swapped, another optimizer and another number of batches")
def _(student):
    sizes = [5, 50_000, 12]
    batches = seen.made_batches(sizes, 5, seed=3)
    for device0, device1, order in orders_of(student):
        with order:
            found = seen.trained(student, (device0, device1), sizes, batches, "Adam")
            seen.compare_training(found, sizes, batches, "Adam")
            seen.compare_waiting(found, batches)
