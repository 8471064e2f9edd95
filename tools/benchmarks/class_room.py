"""A class of students who all begin within a minute, on a hub of this machine: what each waits for, and memory.

    sudo .venv/bin/python -m tools.benchmarks.class_room --students 30 --browsers 3
    sudo .venv/bin/python -m tools.benchmarks.class_room --each-lesson    # the memory of one student in each

Real servers and kernels (`course hub`). Most clients speak to them as JupyterLab does, `--browsers` of them are
Chromium. All run on the same machine, and their processor time is in the result.

All open the lesson, run it, do lab 01 and hand in. Of ten students without a browser five answer exercise 2 right,
four wrong, and one by a function that never returns: after `PATIENCE` seconds that student interrupts the kernel, and
goes on. Then, once all are done, all run lesson 05, and `--with-ranks` of them lesson 11.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Annotated

import psutil
import typer

from tests.browser.room import SHOWN, BrowserStudent, browser_student
from tests.support.a_hub import AHub
from tests.support.answers import chosen
from tests.support.hub_student import HubStudent
from tests.support.notebooks import ROOT, notebook_with, source_of
from utils.course.release import student_notebook

LAB = "labs/lab01/lab01_split_a_model.ipynb"
FIRST = "lesson and lab"
WITH_LIVE_VIEW, WITH_RANKS = "notebooks/05_watch_the_idle_gpu.ipynb", "notebooks/11_copies_of_a_model.ipynb"
RIGHT, WRONG = {}, chosen("lab01", "wrong", ex2="input_never_moved")
HANGS = {"ex2": "class SimpleMPModel(nn.Module):\n    def __init__(self, *devices):\n        while True: pass"}
PATIENCE = 10.0
HAND_IN = 'from utils.exercises.hand_in import hand_in\nhand_in("lab01")'


def answered(answers: dict[str, str]):
    """Lab 01 as a student has it, with answers: right ones but for those given."""
    notebook = student_notebook(source_of("lab01"))
    for cell, full in zip(notebook.cells, notebook_with("lab01", answers).cells, strict=True):
        if cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source = full.source
    return notebook


class Waits:
    """Seconds by step, from several threads at once, and what went wrong."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}
        self.wrong: Counter[str] = Counter()
        self._lock = threading.Lock()

    def add(self, step: str, seconds: float) -> None:
        with self._lock:
            self.seconds.setdefault(step, []).append(seconds)

    def failed(self, error: BaseException) -> None:
        with self._lock:
            self.wrong[f"{type(error).__name__}: {str(error)[:100]}"] += 1

    def print(self) -> None:
        print(f"{'measured, seconds':<40}{'students':>10}{'median':>10}{'worst':>10}")
        for step, got in self.seconds.items():
            print(f"{step:<40}{len(got):>10}{statistics.median(got):>10.1f}{max(got):>10.1f}")
        for what, count in self.wrong.items():
            print(f"went wrong for {count}: {what}")


class ByWebsocket:
    """A student whose client speaks to the server as JupyterLab does, and shows nothing."""

    by = ""

    def __init__(self, hub: AHub, number: int, waits: Waits):
        self._hub, self._waits = hub, waits
        self._student = HubStudent(hub.address, login_of(number))
        self._answers = [RIGHT, WRONG, RIGHT, WRONG, RIGHT, HANGS, RIGHT, WRONG, RIGHT, WRONG][number % 10]

    def start(self) -> None:
        if not self._student.log_in(self._hub.of.password):
            raise RuntimeError("could not log in")
        self._waits.add("server", self._student.start(within=600))

    def run(self, path: str) -> None:
        began = time.monotonic()
        cells = [cell for cell in self._student.open(path)["cells"] if cell["cell_type"] == "code"]
        for number, cell in enumerate(cells):
            ran = self._student.run(cell["source"])
            if ran.error and "raises-exception" not in cell["metadata"].get("tags", ()):
                raise RuntimeError(f"{path}, code cell {number}: {ran.error}")
            if number == 0:
                self._waits.add(f"{path.split('/')[-1][:2]}: first cell", time.monotonic() - began)
        self._waits.add(f"{path.split('/')[-1][:2]}: all cells", time.monotonic() - began)
        self._student.end_kernel()

    def do_the_lab(self) -> None:
        student, answers = self._student, answered(self._answers)
        student.open(LAB)
        student.save(LAB, answers)
        for cell in [cell for cell in answers.cells if cell.cell_type == "code"]:
            hangs = self._answers is HANGS and cell.source.startswith("model = SimpleMPModel(")
            hangs |= self._answers is HANGS and cell.source in ('check("ex2")', "check()")
            pressed = threading.Timer(PATIENCE, student.interrupt)
            if hangs:
                pressed.start()
            ran = student.run(cell.source)
            pressed.cancel()
            if hangs:
                self._waits.add("lab: a hanging answer, interrupted after", ran.seconds)
            elif cell.source == 'check("ex1")':
                self._waits.add("lab: first check", ran.seconds)
            elif cell.source == 'check("ex2")':
                if ("not yet" in ran.text.lower()) == (self._answers is RIGHT):
                    raise RuntimeError(f"check said {ran.text[:60]!r}")
                self._waits.add("lab: check of an answer, right or wrong", ran.seconds)
        ran = student.run(HAND_IN)
        if not ran.text.startswith("Handed in"):
            raise RuntimeError(ran.text or ran.error)
        self._waits.add("lab: hand in", ran.seconds)

    def end_kernel(self) -> None:
        self._student.end_kernel()

    def close(self) -> None:
        self._student.close()


class ByBrowser:
    """A student in Chromium, with right answers."""

    def __init__(self, hub: AHub, number: int, waits: Waits):
        self._hub, self._waits, self._login = hub, waits, login_of(number)
        self._opened = browser_student(hub.address, self._login)
        self._student: BrowserStudent = self._opened.__enter__()

    def start(self) -> None:
        self._student.log_in(self._hub.of.password)
        self._waits.add("in a browser: JupyterLab", self._student.wait_for_the_server())

    def run(self, path: str) -> None:
        name, began = path.split("/")[-1][:2], time.monotonic()
        self._student.open(path)
        opened = time.monotonic() - began
        self._waits.add(f"in a browser: {name}: first cell", opened + self._student.run_all())
        self._waits.add(f"in a browser: {name}: all cells", time.monotonic() - began)
        self._student.end_kernels()

    def do_the_lab(self) -> None:
        self._student.open(LAB)
        self._student.write([cell.source for cell in answered(RIGHT).cells])
        self._student.run_all()
        began = time.monotonic()
        self._student.hand_in()
        self._waits.add("in a browser: lab: hand in", time.monotonic() - began)

    def end_kernel(self) -> None:
        self._student.end_kernels()

    def close(self) -> None:
        self._opened.__exit__(None, None, None)


def login_of(number: int) -> str:
    return f"s{number:03}"


class ClassRoom:
    """Students in threads of their own, who wait for each other between the parts of a session."""

    def __init__(self, hub: AHub, students: int, browsers: int, lesson: str, later: bool, with_ranks: int):
        self.waits, self.memory = Waits(), {}
        self._parts = (FIRST, WITH_LIVE_VIEW, WITH_RANKS) if later else (FIRST,)
        self._hub, self._students, self._browsers = hub, students, browsers
        self._lesson, self._with_ranks = lesson, with_ranks
        self._done = threading.Barrier(students + 1)

    def _student(self, number: int, begin: float) -> None:
        time.sleep(begin)
        student, holds = None, True
        for part in self._parts:
            takes_part = part != WITH_RANKS or number < self._with_ranks
            try:
                if part == FIRST:
                    student = (ByBrowser if number < self._browsers else ByWebsocket)(self._hub, number, self.waits)
                    student.start()
                    student.run(self._lesson)
                    student.do_the_lab()
                elif holds and takes_part:
                    student.run(part)
            except Exception as error:
                holds = False
                self.waits.failed(error)
            self._done.wait()  # all are done
            if part == FIRST and holds:
                student.end_kernel()
            self._done.wait()  # and their memory was looked at
        if student:
            student.close()

    def run(self, within: float, chance: random.Random) -> None:
        begins = [chance.uniform(0, within) for _ in range(self._students)]
        threads = [threading.Thread(target=self._student, args=each) for each in enumerate(begins)]
        for thread in threads:
            thread.start()
        for part in self._parts:
            most, each = 0, Counter()
            while self._done.n_waiting < self._students:
                most = max(most, psutil.virtual_memory().used)
                for login, held in memory_by_student(self._hub).items():
                    each[login] = max(each[login], held)
                time.sleep(2)
            self._done.wait()
            self.memory[part] = most, sorted(each.values())
            self._done.wait()
        for thread in threads:
            thread.join()


def memory_by_student(hub: AHub) -> dict[str, int]:
    """Bytes that are of each student's processes alone: what a class needs more with each of them.

    What they share with the warm process, or by files, is not in it.
    """
    users = {path.stat().st_uid: path.name for path in hub.of.homes.iterdir()}
    found: Counter[str] = Counter()
    for process in psutil.process_iter():
        try:
            if student := users.get(process.uids().real):
                rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
                found[student] += sum(int(line.split()[1]) * 1024 for line in rollup if line.startswith("Private_"))
        except (psutil.Error, OSError):
            continue
    return found


class Peak:
    """The most memory that a student has had so far."""

    def __init__(self, hub: AHub):
        self._hub, self.bytes = hub, 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(0.5):
            self.bytes = max(self.bytes, *memory_by_student(self._hub).values(), 0)


def each_lesson(hub: AHub) -> None:
    """Run each lesson in a kernel of its own, and print the most memory that its student had."""
    student = hub.student(login_of(0))
    print(f"{'of a student alone, MB: server, kernel, ranks':<48}{'at most':>8}{'at its end':>12}")
    for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb")):
        with Peak(hub) as peak:
            for cell in student.open(f"notebooks/{path.name}")["cells"]:
                if cell["cell_type"] == "code":
                    student.run(cell["source"])
            end = memory_by_student(hub)[login_of(0)]
        print(f"{path.stem:<48}{max(peak.bytes, end) / 1e6:>8.0f}{end / 1e6:>12.0f}", flush=True)
        student.end_kernel()


def main(
    students: Annotated[int, typer.Option(help="How many.")] = 30,
    browsers: Annotated[int, typer.Option(help="How many of them in a browser, Debian's Chromium.")] = 0,
    lesson: Annotated[str, typer.Option(help="A notebook that all open first.")] = "notebooks/01_split_a_model.ipynb",
    later: Annotated[bool, typer.Option(help="Lessons 05 and 11 after the lab.")] = True,
    with_ranks: Annotated[int, typer.Option(help="How many run lesson 11 at the end.")] = 8,
    within: Annotated[float, typer.Option(help="Seconds in which all begin.")] = 60,
    seed: int = 0,
    lessons: Annotated[bool, typer.Option("--each-lesson", help="One student, all lessons: memory.")] = False,
    ordinary: Annotated[bool, typer.Option("--ordinary", help="Without a warm process.")] = False,
) -> None:
    """Have a class log in, run lessons, answer lab 01, and hand in."""
    logins = [login_of(number) for number in range(1 if lessons else students)]
    before = psutil.virtual_memory().used
    with tempfile.TemporaryDirectory(prefix="class-") as folder:
        hub = AHub(Path(folder), logins, SHOWN, live="true", **({"warm": "false"} if ordinary else {}))
        room = ClassRoom(hub, students, browsers, lesson, later, with_ranks)
        try:
            hub.start()
            if lessons:
                each_lesson(hub)
                return
            room.run(within, random.Random(seed))
            complaints = hub.complaints()
        finally:
            hub.stop()
    print(f"{students} students, {browsers} in browsers, who begin within {within:g} s; {psutil.cpu_count()} cores")
    room.waits.print()
    print(*complaints[:20], sep="\n")
    print(f"{'memory at most':<44}{'machine':>10}{'a student: median, most':>28}")
    print(f"{'before':<44}{before / 1e9:>7.1f} GB")
    for part, (most, each) in room.memory.items():
        told = f"{statistics.median(each) / 1e6:.0f} and {each[-1] / 1e6:.0f} MB" if each else ""
        print(f"{part:<44}{most / 1e9:>7.1f} GB{told:>28}")


if __name__ == "__main__":
    typer.run(main)
