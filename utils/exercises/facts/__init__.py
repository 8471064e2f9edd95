"""What a lab claims about a right answer, and how that is found out: what `check` and the grader share.

    lab.py        a lab, its exercises, their facts
    judge.py      testing the facts of an exercise
    errors.py     saying that a fact does not hold, and of which call
    student.py    a student's notebook that has been run, and running a probe beside it
    probes.py     what most probes do: they look at the student's objects, and tell plain data
    rules.py      what a probe may be and may read, asked when a lab is loaded
    looks.py      reading it in the student's process so that no object answers for itself
    alike.py      whether two students were told the same
    wire.py       the plain data: JSON, with arrays

A lab's visible facts (labs/lab01/facts.py) are checked in the learner's own kernel by `check("ex1")`. The hidden
ones (solutions/lab01/hidden.py) are checked by the grader, together with the visible ones, against a kernel in another
process. Both are written once, against `Student`:

    lab = Lab("lab01", "Split a model")
    ex1 = lab.exercise("ex1", points=2, title="...", hints=["...", "..."])

    @ex1.fact("layer1 is on the first device")
    def _(student):
        found = student.run(places, *student.devices)      # a probe, run beside the student's code
        need(found[0] == student.devices[0], f"layer1 is on {found[0]}")
"""

from utils.exercises.facts.errors import StudentError, Unmet, case, need
from utils.exercises.facts.judge import judge, orders_of, recorded_timelines
from utils.exercises.facts.lab import (
    Exercise,
    Fact,
    Finding,
    Lab,
    facts_path,
    lab_sources,
    load_lab,
    require_facts,
    visible,
)
from utils.exercises.facts.student import LocalStudent, Student

__all__ = [
    "Exercise",
    "Fact",
    "Finding",
    "Lab",
    "LocalStudent",
    "Student",
    "StudentError",
    "Unmet",
    "case",
    "facts_path",
    "judge",
    "lab_sources",
    "load_lab",
    "need",
    "orders_of",
    "recorded_timelines",
    "require_facts",
    "visible",
]
