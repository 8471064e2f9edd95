"""Lab 04's hidden facts, judged by the grader after the visible ones. Students do not get this file.

They ask what a right answer does anyway and a lucky one does not: other counts, other numbers, other devices.
"""

from utils.exercises.facts import case, orders_of, visible

seen = visible("lab04")
lab = seen.lab


@seen.ex1.fact("it also works with the devices swapped, another optimizer and a single repeat")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            seen.compare_step_times(student, (device0, device1), optimizer="SGD", repeats=1)
            seen.compare_steps(student, (device0, device1), width=30, optimizer="SGD", repeats=1)
    with case("With both devices busy with other work before the call"):
        seen.compare_step_times(student, student.devices, width=20_000, repeats=2, busy_before=True)


@seen.ex2.fact("it also works for other times, for a single pair, and with devices that are busy before the call")
def _(student):
    a, b = [1.0, 5.0, 6.0, 5.5, 5.0, 6.5, 6.0, 5.5], [1.0, 3.0, 3.0, 3.5, 2.5, 3.0, 4.0, 3.0]
    seen.compare_turns(student, a, b, left_over=70.0)
    seen.compare_turns(student, b, a, left_over=70.0)
    seen.compare_differences(student, [30.0])
    seen.compare_differences(student, [0.0] * 7)


@seen.ex2.fact("the interval has the right ends for 6, 8, 9, 17 and 50 pairs")
def _(student):
    for sign in (1, -1):
        seen.compare_differences(student, [3.0, 4.0, 5.0, 3.5, 4.5, 5.5], sign)
        seen.compare_differences(student, [3.0, 4.0, 5.0, -60.0, 4.5, 5.5, 4.0, 3.0], sign)
        seen.compare_differences(student, [3.0, 4.0, 5.0, -60.0, 4.5, 5.5, 4.0, 3.0, 5.0], sign)
        for count, wrong_side in ((17, 4), (17, 5), (50, 17), (50, 18)):
            differences = [-2.0] * wrong_side + [7.0] * (count - wrong_side)
            seen.compare_differences(student, differences, sign)


@seen.ex2.fact("the warm-up is not part of any difference, and a difference of 0 counts but is on neither side")
def _(student):
    seen.compare_turns(student, [100.0] + [10.0] * 6, [1.0, 13.0, 13.5, 13.0, 14.0, 12.5, 13.0])
    seen.compare_differences(student, [4.0, 5.0, 0.0, 6.0, 5.0, 4.0, 6.0])


@seen.ex3.fact("it also works for three parts, of which two are on one device, in any order, and in a second call")
def _(student):
    device0, device1 = student.devices
    seen.compare_events(student, [device0, device1, device0], rounds=2)
    seen.compare_events(student, [device1, device0, device1], order=[2, 0, 1])
    seen.compare_events(student, [device0, device1, device0], order=[1])
    with case("With an input on the CPU, which the first part moves to its own device"):
        seen.compare_events(student, [device0, device1], start="cpu")


@seen.ex4.fact("it also works for other shapes, a tensor without dimensions, a single tensor and many tensors")
def _(student):
    device0, device1 = student.devices
    for shapes in ([[2, 2], [], [1], [4, 3, 2], [3, 0]], [[3, 4]], [[number % 5 + 1, 2] for number in range(40)]):
        arrays, found = seen.look_at_move(student, shapes, device0, device1)
        seen.compare_moved(found, arrays, device1)
        seen.compare_copies(found)
        seen.compare_move_gradients(found, arrays)


@seen.ex5.fact("it also works with the devices swapped, another optimizer and a different number of batches")
def _(student):
    sizes = [5, 50_000, 12]
    batches = seen.made_batches(sizes, 5, seed=3)
    for device0, device1, order in orders_of(student):
        with order:
            found = seen.trained(student, (device0, device1), sizes, batches, "Adam")
            seen.compare_training(found, sizes, batches, "Adam")
            seen.compare_waiting(found, batches)
