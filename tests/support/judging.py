"""An answer judged in a fork of a process that is warm.

    with Judge() as judge:
        lost = judge(answer)   # {exercise: the Finding that says why}

`Judge` starts a process of its own: not a fork of one that runs tests, which has threads. It imports what judging
needs and then forks for each answer, so no answer meets what another has left behind. A fork has only one
thread of its parent's, and PyTorch refuses backward() where the parent has called it. So the process runs no cell
itself, and has to have one thread at each fork. Where a system has no forks the answers are judged one after another.

The fork runs the notebook with the answer in it, and looks at what that defines as strictly as in a sealed kernel
(exercises/facts/looks.py): a look that refuses what a right answer does is seen here. What a kernel has besides, its
observer, its limits and its sandbox, test_sealed_kernels.py has. The fork leaves out the cells in which students only
try things (those without nbgrader's mark), except where they bind what other cells need, and judges the exercises that
the answer can change: its own, and each that has read a name which it changes when the model answers were judged (once,
where an answer's other exercises are asked for). Where it has read none of them, it goes as it went with the model
answers. names.py finds what an answer changes; where it
cannot tell, all exercises are judged.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import cache, cached_property, partial
from pathlib import Path

import simgpu
from utils.exercises.facts import Exercise, Finding, LocalStudent, StudentError, judge, load_lab, wire
from utils.exercises.facts.lab import facts_path
from utils.exercises.facts.student import probe_source
from utils.grading.run import student_process
from utils.grading.run.observer import all_classes

from .answers import Answer
from .names import bound, changed, imported, needed, reaches_out, touched
from .notebooks import ROOT, grade_id, notebook_with, run_cells

DEVICES = ["simgpu:0", "simgpu:1"]
STATUS = Path("/proc/self/status")


# --- the side that asks -----------------------------------------------------------------------------------------


class Judge:
    """Judges answers of any lab, each against the model answers of its lab to the other exercises."""

    def __init__(self):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "COURSE_DEVICES": "simulated"}
        command = [sys.executable, "-m", "tests.support.judging"]
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._replies: dict[str, dict] = {}  # one test asks what an answer loses, and another how many points it keeps

    def __call__(self, answer: Answer, *, alone: bool = False, claim: str = "") -> dict[str, Finding]:
        """The exercises that are lost with this answer, and the fact of each that does not hold.

        `alone`: its own exercise is judged, and no other that it may change. `claim`: and of that the fact that claims
        this, and no other.
        """
        told = self._ask(lab=answer.lab, exercise=answer.exercise, code=answer.code, alone=alone, claim=claim)
        return {name: Finding(*found) for name, found in told["lost"].items()}

    def points(self, answer: Answer) -> int:
        """The points that this answer gets in its own exercise."""
        return self._ask(lab=answer.lab, exercise=answer.exercise, code=answer.code, alone=True, claim="")["points"]

    def model(self, lab: str) -> dict:
        """How the model answers of a lab do: see `Bench.model`."""
        return self._ask(lab=lab)

    def _ask(self, **request: str | bool) -> dict:
        asked = json.dumps(request)
        if asked in self._replies:
            return self._replies[asked]
        print(asked, file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process that judges ended: {self._process.wait()}")
        reply = json.loads(line)
        if "ended" in reply:
            raise RuntimeError(f"the fork that judged this ended: {reply['ended']}")
        self._replies[asked] = reply
        return reply

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *_) -> None:
        self._process.communicate()


# --- the side that judges ---------------------------------------------------------------------------------------


class Noted(dict):
    """A namespace that notes which of its names are asked for, also of those that it has not."""

    def __init__(self, namespace: dict):
        super().__init__(namespace)
        self.read: set[str] = set()

    def __contains__(self, name: object) -> bool:
        self.read.add(name)
        return super().__contains__(name)

    def __getitem__(self, name: str):
        self.read.add(name)
        return super().__getitem__(name)


class LookedAt(LocalStudent):
    """A student whose objects are looked at as in a sealed kernel."""

    def run(self, probe: Callable, *args):
        request = wire.encode([probe_source(probe), probe.__name__, list(args)])
        kind, _, message = student_process.answer(request, self.namespace).partition(" ")
        if kind == "error":
            raise StudentError(wire.decode(message))
        return wire.decode(message)


class Bench:
    """A lab with its model answers, on which answers are judged."""

    def __init__(self, lab: str):
        self.exercises = load_lab(lab, hidden=True).exercises
        cells = {n: cell for n, cell in enumerate(notebook_with(lab, {}).cells) if cell.cell_type == "code"}
        self.cells = {number: cell.source for number, cell in cells.items()}
        self.trials = {number for number, cell in cells.items() if not grade_id(cell)}
        self.place = {grade_id(cell): number for number, cell in cells.items() if grade_id(cell) in self.exercises}
        if missing := [name for name in self.exercises if name not in self.place]:
            raise SystemExit(f"{lab} has no cell with the grade_id {missing[0]} (in the cell's metadata)")
        facts = [facts_path(lab, hidden=hidden).read_text(encoding="utf-8") for hidden in (False, True)]
        for module in imported(*self.cells.values(), *facts):  # or each fork would
            with contextlib.suppress(ImportError):
                importlib.import_module(module)

    @cached_property
    def model(self) -> dict:
        """How the model answers do, and what judging them read. It takes as long as a submission."""
        return in_a_fork(self._judge_the_model)

    def judge(self, exercise: str, code: str, alone: bool, claim: str) -> dict:
        """What is lost with this answer, {"lost": {exercise: a Finding's fields}}, and its own exercise's points.

        `alone`: in its own exercise. `claim`: by the fact that claims this.
        """
        cells = self.cells | {self.place[exercise]: code}
        exercises, trials = self._touched_by(cells, exercise, code, alone)
        asked = {name: self.exercises[name] for name in exercises}
        if claim:
            asked[exercise] = _with_one_fact(asked[exercise], claim)
        student = LookedAt(self._run(cells, trials), DEVICES)
        findings = {name: judge(one, student) for name, one in asked.items()}
        return {"lost": _lost(findings), "points": asked[exercise].points_for(findings[exercise])}

    def _run(self, cells: dict[int, str], trials: set[int]) -> dict:
        """The namespace after these cells, without the trials that are not among `trials`."""
        return run_cells((number, source) for number, source in cells.items() if number not in self.trials - trials)

    def _touched_by(self, cells: dict[int, str], exercise: str, code: str, alone: bool) -> tuple[list[str], set[int]]:
        """The exercises that an answer can change (`alone`: its own), and the trials to run for that."""
        if not _is_python(code):
            cells, code = self.cells, ""
        if reaches_out(code):
            return [exercise] if alone else list(self.exercises), self.trials
        trials = self._trials_for(cells)
        if alone:
            return [exercise], trials
        names = touched(list(cells.values()), changed(code, self.cells[self.place[exercise]]))
        alike = [name for name in self.exercises if name == exercise or names.intersection(self.model["read"][name])]
        return alike, trials

    def _trials_for(self, cells: dict[int, str]) -> set[int]:
        """The trials that bind what the other cells need, and what these trials need."""
        found: set[int] = set()
        while True:
            missing = {name for n, source in cells.items() if n not in self.trials - found for name in needed(source)}
            more = {number for number in self.trials - found if bound(self.cells[number]) & missing}
            if not more:
                return found
            found |= more

    def _judge_the_model(self) -> dict:
        findings, read = {}, {}
        namespace = self._run(self.cells, self._trials_for(self.cells))
        for name, exercise in self.exercises.items():
            noted = Noted(namespace)
            findings[name] = judge(exercise, LookedAt(noted, DEVICES))
            read[name] = sorted(noted.read)
        return {"lost": _lost(findings), "read": read}


def _with_one_fact(exercise: Exercise, claim: str) -> Exercise:
    [fact] = [each for each in exercise.facts if each.claim == claim]
    points = exercise.parts.get(fact.part, exercise.points)
    return replace(exercise, facts=[fact], points=points, parts={fact.part: points} if fact.part else {})


def _lost(findings: dict[str, list[Finding]]) -> dict[str, tuple]:
    failed = {name: [each for each in found if not each.holds] for name, found in findings.items()}
    return {name: (each[0].claim, each[0].holds, each[0].found) for name, each in failed.items() if each}


def _is_python(code: str) -> bool:
    try:
        compile(code, "<answer>", "exec")
    except SyntaxError:
        return False
    return True


def in_a_fork(work: Callable[[], dict]) -> dict:
    """What `work()` returns, from a fork of this process; {"ended": its status} where it did not get that far."""
    if not hasattr(os, "fork"):
        return work()
    assert not STATUS.exists() or "\nThreads:\t1\n" in STATUS.read_text(), "a fork would copy one of several threads"
    reading, writing = os.pipe()
    gc.freeze()  # a collection in the fork would visit all that this process has, and so copy its memory
    child = os.fork()
    if child == 0:
        _work_and_end(work, writing)
    os.close(writing)
    with open(reading) as pipe:
        told = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return {"ended": status} if status else json.loads(told)


def _work_and_end(work: Callable[[], dict], writing: int) -> None:
    try:
        with open(writing, "w") as pipe:
            json.dump(work(), pipe)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def serve() -> None:
    """Answer each line that comes in with a line: about an answer, or about the model answers of a lab."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what the answers print
    simgpu.enable(count=2)
    for module in student_process.EARLY:
        importlib.import_module(module)
    known = {id(kind): kind for kind in all_classes()}
    student_process.look_strictly(lambda kind: id(kind) in known)
    bench_of = cache(Bench)
    for line in sys.stdin:
        request = json.loads(line)
        bench = bench_of(request.pop("lab"))
        by_the_model = not request or not request["alone"]
        asks = request and not (by_the_model and "ended" in bench.model)
        print(json.dumps(in_a_fork(partial(bench.judge, **request)) if asks else bench.model), file=replies, flush=True)


if __name__ == "__main__":
    serve()
