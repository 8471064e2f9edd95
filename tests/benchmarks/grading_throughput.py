"""Submissions a minute: `course grade` beside `nbgrader autograde`, on the same right notebooks. Run it by hand:

    .venv/bin/python -m tests.benchmarks.grading_throughput [--count 12] [--jobs 2]

Both run as an instructor runs them, each from its start to its end, in turns on the same machine. nbgrader takes one
notebook after another, runs the visible tests in the student's kernel, and has no sandbox; `course grade` judges
visible and hidden tests from outside, in a sandbox. So a ratio with one job compares the tools, and one with more
jobs what an instructor waits. CPU time tells less of what else the machine did meanwhile. Memory is what is resident at
the peak, added up over processes (shared pages count in each): of a submission's kernel with its children, and of all.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import psutil
import typer

from tests.support.a_class import differences, make_class
from tests.support.notebooks import ROOT

TICK = 0.2  # seconds between looks at the processes
# A kernel is known by how it is started: nbgrader's by its module, the course's by its connection file.
KERNEL = ("ipykernel_launcher", "connection.json")


@dataclass
class Used:
    """What a process and all below it use, sampled: peaks of memory, of each kernel and of everything, and CPU time."""

    process: psutil.Process
    kernels: dict[int, int] = field(default_factory=dict)
    everything: int = 0
    cpu: dict[int, float] = field(default_factory=dict)  # seconds, by process, when last seen

    def sample(self) -> None:
        sizes, parents, kernels = {}, {}, []
        for process in [self.process, *self.process.children(recursive=True)]:
            try:
                sizes[process.pid], parents[process.pid] = process.memory_info().rss, process.ppid()
                times = process.cpu_times()
                self.cpu[process.pid] = times.user + times.system
                if any(word in part for word in KERNEL for part in process.cmdline()):
                    kernels.append(process.pid)
            except psutil.Error:
                continue
        self.everything = max(self.everything, sum(sizes.values()))
        outermost = [pid for pid in kernels if parents[pid] not in kernels]
        for kernel in outermost:
            below = [pid for pid in sizes if kernel in ancestry(pid, parents)]
            self.kernels[kernel] = max(self.kernels.get(kernel, 0), sum(sizes[pid] for pid in below))


def ancestry(pid: int, parents: dict[int, int]) -> list[int]:
    """A process, its parent, and so on, as far as they are known."""
    line = []
    while pid in parents and pid not in line:
        line.append(pid)
        pid = parents[pid]
    return line


def run(name: str, command: list, folder: Path, environment: dict[str, str]) -> tuple[float, Used]:
    """Seconds that a command takes, and what it used. Ends the benchmark where it fails."""
    begin = time.perf_counter()
    with (folder / "log.txt").open("a") as log:
        process = psutil.Popen(
            [str(word) for word in command], cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT
        )
        used, done = Used(process), threading.Event()

        def watch():
            while not done.wait(TICK):
                try:
                    used.sample()
                except psutil.Error:
                    return

        watcher = threading.Thread(target=watch)
        watcher.start()
        failed = process.wait()
        seconds = time.perf_counter() - begin
        done.set()
        watcher.join()
    if failed:
        sys.exit(f"{name} failed:\n{(folder / 'log.txt').read_text()[-3000:]}")
    return seconds, used


def main(
    count: Annotated[int, typer.Option(help="How many notebooks.")] = 12,
    jobs: Annotated[int, typer.Option(help="How many `course grade` grades at once.")] = 2,
    turns: Annotated[int, typer.Option(help="How often everything is done.")] = 1,
    lab: Annotated[str, typer.Option(help="The lab that is handed in.")] = "lab01",
) -> None:
    """Grade the same notebooks with `course grade` and with nbgrader."""
    environment = {**os.environ, "COURSE_DEVICES": "simulated", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    # nbgrader calls a program of its own by name.
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        expected = make_class(folder / "class", lab, kinds=["right"] * count)
        shutil.copy(ROOT / "nbgrader_config.py", folder)
        shutil.copytree(ROOT / "solutions" / lab, folder / "solutions" / lab)
        for student in expected:  # nbgrader's shape of folders; `course grade` reads that too
            handed_in = folder / "class" / "submitted" / student.student
            handed_in.mkdir(parents=True)
            (folder / "class" / "submissions" / student.student).rename(handed_in / lab)
        nbgrader = [sys.executable, "-m", "nbgrader"]
        run("nbgrader generate_assignment", [*nbgrader, "generate_assignment", lab], folder, environment)
        course = [sys.executable, "-m", "utils.course", "grade", lab, folder / "class" / "submitted", "--jobs"]
        runs = {
            "nbgrader autograde": [*nbgrader, "autograde", lab, "--force"],
            "course grade, 1 job": [*course, 1, "--out", folder / "one"],
            f"course grade, {jobs} jobs": [*course, jobs, "--out", folder / "several"],
        }
        measured: dict[str, list] = {name: [] for name in runs}
        for turn in range(turns):
            # Every other turn the other way round, so that none always comes first.
            for name in list(runs)[:: -1 if turn % 2 else 1]:
                for out in ("one", "several"):
                    shutil.rmtree(folder / out, ignore_errors=True)
                measured[name].append(run(name, runs[name], folder, environment))
                if name.startswith("course"):
                    out = folder / ("one" if "1 job" in name else "several")
                    wrong = differences(expected, out / "grades.csv")
                    assert not wrong, wrong
    print(f"{count} right notebooks of {lab}, {turns} turns; measured on this machine, {os.cpu_count()} cores")
    print(f"{'':<24}{'seconds':>9}{'a minute':>10}{'to nbgrader':>13}{'CPU s each':>12}", end="")
    print(f"{'MiB a kernel':>14}{'MiB in all':>12}")
    theirs = statistics.median(seconds for seconds, _ in measured["nbgrader autograde"])
    for name, results in measured.items():
        seconds = statistics.median(seconds for seconds, _ in results)
        cpu = statistics.median(sum(used.cpu.values()) for _, used in results) / count
        kernel = max(max(used.kernels.values(), default=0) for _, used in results)
        everything = max(used.everything for _, used in results)
        print(f"{name:<24}{seconds:>9.1f}{count / seconds * 60:>10.1f}{theirs / seconds:>13.2f}{cpu:>12.1f}", end="")
        print(f"{kernel / 2**20:>14.0f}{everything / 2**20:>12.0f}")


if __name__ == "__main__":
    typer.run(main)
