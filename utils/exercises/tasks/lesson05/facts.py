"""What lesson 05's task is judged by: times that are given, and a share that is known."""

from utils.exercises.facts import Lab, case, need

lab = Lab("lesson05", "Watch the idle GPU")

together = lab.exercise(
    "together",
    points=0,
    title="Together or in turn?",
    hints=[
        "Draw two rows of bars. When is only one device busy, when both? Which of the two times do you divide by?",
        "Take one pair of each list. When do they begin to overlap, and when do they stop? What if they never meet?",
        "Every pair of one list may meet several pairs of the other.",
        "The two busy times added up count what they share twice.",
    ],
)


def ask_together(lab, busy0, busy1):
    from utils.exercises.facts.probes import kind_of

    found = lab.together([tuple(pair) for pair in busy0], [tuple(pair) for pair in busy1])
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        return kind_of(found)
    return float(found)


def compare(student, busy0, busy1, right):
    for first, second in ((busy0, busy1), (busy1, busy0)):
        with case(f"For {first} and {second}"):
            found = student.run(ask_together, [list(pair) for pair in first], [list(pair) for pair in second])
            need(not isinstance(found, str), f"together returned {found}. Return a number from 0 to 1.")
            need(abs(found - right) < 1e-9, f"together returned {found:g}, and it is {right:g}.")


@together.fact("devices that take turns are never busy together")
def _(student):
    compare(student, [(0, 1), (2, 3)], [(1, 2), (3, 4)], 0)


@together.fact("devices that are busy at the same times have 1, however long they are idle between")
def _(student):
    compare(student, [(0, 1), (5, 7)], [(0, 1), (5, 7)], 1)


@together.fact("where they overlap in part: the time of both, divided by the time of at least one")
def _(student):
    compare(student, [(0, 2)], [(1, 4)], 0.25)
    compare(student, [(10, 16)], [(11, 12)], 1 / 6)


@together.fact("a long piece of one device may meet several short ones of the other")
def _(student):
    compare(student, [(0, 8), (20, 22)], [(1, 2), (3, 5), (7, 9), (21, 21.5)], 4.5 / 11)


@together.fact("a list may be empty, and both may be")
def _(student):
    compare(student, [(0, 2)], [], 0)
    compare(student, [], [], 0)
