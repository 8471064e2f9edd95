"""Makes a class: folders as students hand them in, with right answers, wrong ones, and everything that goes wrong.

    .venv/bin/python -m tests.support.a_class OUT --count 200

OUT/submissions has a folder for each student, OUT/students.csv everybody's name (also of who handed in nothing), and
OUT/expected.csv the points that each should get. The same seed gives the same class, byte for byte. Whatever takes
memory, output or processes is bounded, so that a grader without limits survives it too.
"""

from __future__ import annotations

import ast
import csv
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated

import nbformat
import typer

from utils.exercises.facts import load_lab

from .answers import ANSWERS, Answer, answers_of
from .judging import Judge
from .notebooks import grade_id, notebook_with, source_of


@dataclass(frozen=True)
class Expected:
    """A generated student: what was handed in, the points it deserves, and the statuses that describe it."""

    student: str
    kind: str
    points: dict[str, int]
    statuses: tuple[str, ...]

    @property
    def total(self) -> int:
        return sum(self.points.values())


# --- code that students hand in -----------------------------------------------------------------------------------

# A cell more, at some place in a notebook that is right otherwise. Everything else is graded, so all points are given.
CELLS = {
    "raises": ("1 / 0", ("error",)),
    "crashes": ("import os\nos._exit(1)", ("crash",)),
    "segfault": ("import faulthandler\nfaulthandler._sigsegv()", ("crash",)),
    "hangs": ("while True:\n    pass", ("timeout",)),
    "hangs_and_swallows_interrupts": (
        "import time\nwhile True:\n    try:\n        time.sleep(1)\n    except KeyboardInterrupt:\n        pass",
        ("timeout",),
    ),
    "takes_all_memory": (
        "hoard = []\nfor _ in range(24):\n    hoard.append(bytearray(b'x') * 2**28)\nhoard.clear()",
        ("ok", "error", "crash", "memory", "timeout"),
    ),
    "flood_of_output": ("for _ in range(100_000):\n    print('x' * 1000)", ("ok", "error", "output")),
    "fork_bomb": (
        "import os, time\nfor _ in range(300):\n    if os.fork() == 0:\n        time.sleep(300)\n        os._exit(0)",
        ("ok", "error", "crash", "timeout"),
    ),
    "leaves_a_process": (
        "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)', 'MARK'],"
        " start_new_session=True)",
        ("ok", "error"),
    ),
    "asks_for_input": ("name = input('Your name? ')", ("error",)),
    "exits": ("import sys\nsys.exit('done')", ("ok", "error")),
    "chatty": (
        "import logging, sys\nprint('x' * 100_000)\nprint('y' * 1000, file=sys.stderr)\nlogging.error('careful')",
        ("ok",),
    ),
    "warns": ("import warnings\nwarnings.warn('careful')\nwarnings.warn('old', DeprecationWarning)", ("ok",)),
    "draws": ("import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.show()", ("ok",)),
    "leaves_a_widget": (
        "import ipywidgets\nfrom IPython.display import display\ndisplay(ipywidgets.IntSlider(3))",
        ("ok",),
    ),
}
QUIET = ("chatty", "warns", "draws", "leaves_a_widget")

# The body of a function that an exercise asks for: that exercise is lost, and no other.
BODIES = {
    "function_raises": ("    raise ValueError('not today')", ("ok", "error")),
    "function_crashes": ("    import os\n    os._exit(1)", ("crash",)),
    "function_hangs": ("    while True:\n        pass", ("timeout",)),
    "function_recurses": ("    return {name}(*arguments, **options)", ("ok", "error", "crash")),
    "function_takes_all_memory": (
        "    hoard = []\n    for _ in range(24):\n        hoard.append(bytearray(b'x') * 2**28)",
        ("ok", "error", "crash", "memory", "timeout"),
    ),
}

# Not a notebook, or not one that could be graded: no points.
FILES = {
    "empty_file": (b"", ("not-a-notebook",)),
    "word_file": (b"PK\x03\x04\xff\xfe", ("not-a-notebook",)),
    "broken_json": (b'{"cells": [', ("not-a-notebook",)),
    "no_code": (None, ("missing",)),
    "stops_at_once": (None, ("error",)),
    "empty_folder": (None, ("missing",)),
    "missing": (None, ("missing",)),
}
FAULTS = [name for name in (*CELLS, *BODIES, *FILES) if name not in QUIET]


@cache
def kept_points(lab: str) -> dict[Answer, int]:
    """What each wrong answer keeps of the points of an exercise with parts: those of the parts that hold, judged."""
    exercises = load_lab(lab, hidden=True).exercises
    in_parts = [answer for answer in answers_of(lab, "wrong") if exercises[answer.exercise].parts]
    if not in_parts:
        return {}
    with Judge() as judge:
        return {answer: judge.points(answer) for answer in in_parts}


class Maker:
    """What it takes to write the submissions of one lab."""

    def __init__(self, lab: str, seed: int, mark: str):
        self.lab, self.mark = lab, mark
        self.random = random.Random(f"{lab} {seed}")
        self.full = {name: e.points for name, e in load_lab(lab, hidden=True).graded.items()}
        self.answers: dict[tuple[str, str], list[Answer]] = {}
        for answer in ANSWERS:
            if answer.lab == lab:
                self.answers.setdefault((answer.verdict, answer.exercise), []).append(answer)
        self.functions = {}  # exercise -> the function it asks for
        for cell in notebook_with(lab, {}).cells:
            if grade_id(cell) in self.full and cell.cell_type == "code":
                asked = [n for n in ast.parse(cell.source).body if isinstance(n, (ast.FunctionDef, ast.ClassDef))]
                # One of several would take the others' place.
                if len(asked) == 1 and isinstance(asked[0], ast.FunctionDef):
                    self.functions[grade_id(cell)] = asked[0].name

    def right(self, exercises) -> dict[str, str]:
        """Right answers for some of the exercises: the model answer, or one written differently."""
        chosen = {name: self.random.choice([None, *self.answers["right", name]]) for name in exercises}
        return {name: answer.code for name, answer in chosen.items() if answer}

    def make(self, kind: str):
        """(content, the points of lost exercises, statuses): a notebook, bytes, or None for nothing."""
        if kind == "right":
            return notebook_with(self.lab, self.right(self.full)), {}, ("ok",)
        if kind == "partly":
            lost = self.random.sample(list(self.full), self.random.randint(1, len(self.full) - 1))
            wrong = {name: self.random.choice(self.answers["wrong", name]) for name in lost}
            answers = self.right(name for name in self.full if name not in lost)
            answers |= {name: answer.code for name, answer in wrong.items()}
            kept = {name: kept_points(self.lab).get(answer, 0) for name, answer in wrong.items()}
            return notebook_with(self.lab, answers), kept, ("ok", "error")
        if kind in CELLS:
            source, statuses = CELLS[kind]
            notebook = notebook_with(self.lab, self.right(self.full))
            cell = nbformat.v4.new_code_cell(source.replace("MARK", self.mark), id=kind.replace("_", "-"))
            notebook.cells.insert(self.random.randint(1, len(notebook.cells)), cell)
            return notebook, {}, statuses
        if kind in BODIES:
            body, statuses = BODIES[kind]
            exercise, name = self.random.choice(sorted(self.functions.items()))
            source = f"def {name}(*arguments, **options):\n{body.format(name=name)}"
            return notebook_with(self.lab, {exercise: source}), {exercise: 0}, statuses
        content, statuses = FILES[kind]
        if kind == "no_code":
            content = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("Sorry, I was ill.", id="sorry")])
        if kind == "stops_at_once":
            content = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("raise SystemError('no')", id="no")])
        return content, dict.fromkeys(self.full, 0), statuses


def kinds_of(count: int, pick: Callable) -> list[str]:
    """What a class of this size hands in: two fifths right, two fifths partly, and the faults in turn."""
    faults = [FAULTS[n % len(FAULTS)] for n in range(max(1, count // 5))]
    partly = ["partly"] * (2 * count // 5)
    rest = count - len(faults) - len(partly)
    right = [("right", *QUIET)[n % 5] if n % 2 else "right" for n in range(rest)]
    return pick([*right, *partly, *faults], count)


def make_class(
    folder: Path,
    lab: str = "lab01",
    count: int = 200,
    seed: int = 0,
    kinds: Sequence[str] = (),
    mark: str = "left-by-a-generated-student",
) -> list[Expected]:
    """Write a class into `folder` and return what each student should get, sorted by name.

    `kinds` says what is handed in, one for each student; otherwise it is a mixture with every fault in it, if
    `count` is large enough (five times the number of faults). A process that a student's code leaves behind has
    `mark` in its command line.
    """
    maker = Maker(lab, seed, mark)
    kinds = list(kinds) or kinds_of(count, maker.random.sample)
    submissions = folder / "submissions"
    submissions.mkdir(parents=True)
    expected = []
    for number, kind in enumerate(kinds, 1):
        student = f"s{number:03}_{kind}"
        content, lost, statuses = maker.make(kind)
        if kind != "missing":
            (submissions / student).mkdir()
        path = submissions / student / source_of(lab).name
        if isinstance(content, bytes):
            (path.with_suffix(".docx") if kind == "word_file" else path).write_bytes(content)
        elif content is not None:
            nbformat.write(content, path)
        expected.append(Expected(student, kind, maker.full | lost, statuses))
    (folder / "students.csv").write_text("".join(f"{line}\n" for line in ("student", *(e.student for e in expected))))
    with (folder / "expected.csv").open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["student", *maker.full, "total", "statuses"])
        for e in expected:
            table.writerow([e.student, *e.points.values(), e.total, "/".join(e.statuses)])
    return expected


def differences(expected: list[Expected], grades: Path) -> list[str]:
    """Where a `grades.csv` is not what it should be: one line for each student."""
    with grades.open(newline="", encoding="utf-8") as file:
        rows = {row["student"]: row for row in csv.DictReader(file)}
    found = [f"{name}: not in the class" for name in sorted(set(rows) - {e.student for e in expected})]
    for e in expected:
        row = rows.get(e.student)
        if row is None:
            found.append(f"{e.student}: no row")
            continue
        points = {name: int(row[name]) for name in e.points}
        if points != e.points:
            wrong = ", ".join(f"{n} {points[n]} and not {e.points[n]}" for n in points if points[n] != e.points[n])
            found.append(f"{e.student}: {wrong} (status {row['status']}: {row['note']})")
        elif row["status"] not in e.statuses:
            found.append(f"{e.student}: status {row['status']} and not {'/'.join(e.statuses)} ({row['note']})")
    return found


def main(
    out: Annotated[Path, typer.Argument(help="A folder that is not there yet.")],
    lab: Annotated[str, typer.Option(help="The lab that is handed in.")] = "lab01",
    count: Annotated[int, typer.Option(help="How many students.")] = 200,
    seed: Annotated[int, typer.Option(help="Another number gives another class.")] = 0,
) -> None:
    """Make a class of generated students in OUT."""
    expected = make_class(out, lab, count, seed)
    faults = [e.kind for e in expected if e.kind in FAULTS]
    print(f"{len(expected)} students in {out}, {len(faults)} of them with a fault of {len(set(faults))} kinds")


if __name__ == "__main__":
    typer.run(main)
