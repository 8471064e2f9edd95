"""A class of students who all begin within a minute, on a hub of this machine: what each waits for, and memory.

    sudo .venv/bin/python -m tools.benchmarks.class_room --students 30 --lesson notebooks/01_split_a_model.ipynb
    sudo .venv/bin/python -m tools.benchmarks.class_room --each-lesson    # the memory of one student in each

Real servers and kernels (`course hub`), clients that speak to them as JupyterLab does, no browser. The clients run on
the same machine, and their processor time is in the result.
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

from tests.support.a_hub import AHub
from tests.support.hub_student import HubStudent
from tests.support.notebooks import ROOT, notebook_with

LAB = "labs/lab01/lab01_split_a_model.ipynb"
STEPS = ("server", "first cell", "whole lesson", "first check", "hand in")


class Waits:
    """Seconds by step, from several threads at once, and what went wrong."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {step: [] for step in STEPS}
        self.wrong: Counter[str] = Counter()
        self._lock = threading.Lock()

    def add(self, step: str, seconds: float) -> None:
        with self._lock:
            self.seconds[step].append(seconds)

    def failed(self, error: BaseException) -> None:
        with self._lock:
            self.wrong[f"{type(error).__name__}: {str(error)[:100]}"] += 1


def one_student(hub: AHub, login: str, lesson: str, begin: float, waits: Waits, all_done: threading.Barrier) -> None:
    student = HubStudent(hub.address, login)
    try:
        time.sleep(begin)
        student.log_in(hub.of.password)
        waits.add("server", student.start(within=600))
        opened = time.monotonic()
        cells = [cell["source"] for cell in student.open(lesson)["cells"] if cell["cell_type"] == "code"]
        student.run(cells[0])
        waits.add("first cell", time.monotonic() - opened)
        for source in cells[1:]:
            student.run(source)
        waits.add("whole lesson", time.monotonic() - opened)
        student.end_kernel()
        answers = notebook_with("lab01", {})
        student.open(LAB)
        student.save(LAB, answers)
        for cell in answers.cells:
            if cell.cell_type == "code" and cell.source.startswith("check("):
                waits.add("first check", student.run(cell.source).seconds)
                break
            if cell.cell_type == "code":
                student.run(cell.source)
        ran = student.run('from utils.exercises.hand_in import hand_in\nhand_in("lab01")')
        if not ran.text.startswith("Handed in"):
            raise RuntimeError(ran.text or ran.error)
        waits.add("hand in", ran.seconds)
    except Exception as error:
        waits.failed(error)
    all_done.wait()
    student.close()


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
    student = hub.student("s000")
    print(f"{'of a student alone, MB: server, kernel, ranks':<48}{'at most':>8}{'at its end':>12}")
    for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb")):
        with Peak(hub) as peak:
            for cell in student.open(f"notebooks/{path.name}")["cells"]:
                if cell["cell_type"] == "code":
                    student.run(cell["source"])
            end = memory_by_student(hub)["s000"]
        print(f"{path.stem:<48}{max(peak.bytes, end) / 1e6:>8.0f}{end / 1e6:>12.0f}", flush=True)
        student.end_kernel()


def main(
    students: Annotated[int, typer.Option(help="How many.")] = 30,
    lesson: Annotated[str, typer.Option(help="A notebook that all open first.")] = "notebooks/01_split_a_model.ipynb",
    within: Annotated[float, typer.Option(help="Seconds in which all begin.")] = 60,
    seed: int = 0,
    lessons: Annotated[bool, typer.Option("--each-lesson", help="One student, all lessons: memory.")] = False,
    ordinary: Annotated[bool, typer.Option("--ordinary", help="Without a warm process.")] = False,
) -> None:
    """Have a class log in, run a lesson and a check of lab 01, and hand in."""
    settings = {"warm": "false"} if ordinary else {}
    if lessons:
        with tempfile.TemporaryDirectory(prefix="class-") as folder:
            hub = AHub(Path(folder), ["s000"], **settings)
            try:
                hub.start()
                each_lesson(hub)
            finally:
                hub.stop()
        return
    chance, logins = random.Random(seed), [f"s{number:03}" for number in range(students)]
    waits, done = Waits(), threading.Barrier(students + 1)
    before = psutil.virtual_memory().used
    with tempfile.TemporaryDirectory(prefix="class-") as folder:
        hub = AHub(Path(folder), logins, **settings)
        try:
            hub.start()
            threads = [
                threading.Thread(target=one_student, args=(hub, login, lesson, chance.uniform(0, within), waits, done))
                for login in logins
            ]
            for thread in threads:
                thread.start()
            most = 0
            while done.n_waiting < students:
                most = max(most, psutil.virtual_memory().used)
                time.sleep(0.5)
            each = sorted(memory_by_student(hub).values())
            done.wait()
            for thread in threads:
                thread.join()
        finally:
            hub.stop()
    print(f"{students} students who begin within {within:g} s, {lesson}, then lab 01; {psutil.cpu_count()} cores")
    print(f"{'measured, seconds':<22}{'students':>10}{'median':>10}{'worst':>10}")
    for step in STEPS:
        if got := waits.seconds[step]:
            print(f"{step:<22}{len(got):>10}{statistics.median(got):>10.1f}{max(got):>10.1f}")
    if each:
        print(
            f"memory of a student alone at the end (a server and the lab's kernel): median "
            f"{statistics.median(each) / 1e6:.0f} MB, most {each[-1] / 1e6:.0f} MB"
        )
    print(f"memory of the machine in use: {before / 1e9:.1f} GB before, {most / 1e9:.1f} GB at the most")
    for what, count in waits.wrong.items():
        print(f"went wrong for {count}: {what}")


if __name__ == "__main__":
    typer.run(main)
