"""Submissions a minute: `course grade` beside `nbgrader autograde`, on the same right notebooks. Run it by hand:

    .venv/bin/python -m tools.benchmarks.grading_throughput [--count 12] [--jobs 2]

Both run as an instructor runs them, each from its start to its end, in turns on the same machine. nbgrader takes one
notebook after another, runs the visible tests in the student's kernel, and has no sandbox; `course grade` judges
visible and hidden tests from outside, in a sandbox. So a ratio with one job compares the tools, and one with more
jobs what an instructor waits. CPU time is the whole machine's meanwhile, so that a kernel counts that was killed:
measure on a quiet one. Memory is the peak of what all processes have in use, a page that several share counted once
(PSS).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import psutil
import typer

from tests.support.a_class import differences, make_class
from tests.support.notebooks import ROOT
from utils.common.files import python_path

TICK = 0.5  # seconds between looks at the processes


def in_use(process: psutil.Process) -> int:
    """Bytes that a process and all below it have in use now."""
    found = 0
    for one in [process, *process.children(recursive=True)]:
        with contextlib.suppress(psutil.Error):
            found += one.memory_full_info().pss
    return found


def machine() -> float:
    """Seconds that the machine's processors have worked since it was started."""
    times = psutil.cpu_times()
    return times.user + times.nice + times.system


@dataclass
class Used:
    seconds: float
    cpu: float  # seconds, of the whole machine
    memory: int  # bytes, at the peak


def run(name: str, command: list, folder: Path, environment: dict[str, str]) -> Used:
    """What a command takes. Ends the benchmark where it fails."""
    begin, worked, peak = time.perf_counter(), machine(), 0
    with (folder / "log.txt").open("a") as log:
        process = psutil.Popen(
            [str(word) for word in command], cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT
        )
        while process.poll() is None:
            with contextlib.suppress(psutil.Error):
                peak = max(peak, in_use(process))
            time.sleep(TICK)
    if process.returncode:
        sys.exit(f"{name} failed:\n{(folder / 'log.txt').read_text()[-3000:]}")
    return Used(time.perf_counter() - begin, machine() - worked, peak)


def main(
    count: Annotated[int, typer.Option(help="How many notebooks.")] = 12,
    jobs: Annotated[int, typer.Option(help="How many `course grade` grades at once.")] = 2,
    turns: Annotated[int, typer.Option(help="How often everything is done.")] = 1,
    lab: Annotated[str, typer.Option(help="The lab that is handed in.")] = "lab01",
) -> None:
    """Grade the same notebooks with `course grade` and with nbgrader."""
    environment = {**os.environ, "COURSE_DEVICES": "simulated", "OMP_NUM_THREADS": "1", "PYTHONPATH": python_path()}
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
    print(f"{'':<24}{'seconds':>9}{'a minute':>10}{'to nbgrader':>13}{'CPU s each':>12}{'MiB in all':>12}")
    theirs = statistics.median(used.seconds for used in measured["nbgrader autograde"])
    for name, results in measured.items():
        seconds = statistics.median(used.seconds for used in results)
        cpu = statistics.median(used.cpu for used in results) / count
        memory = max(used.memory for used in results) / 2**20
        rate = f"{seconds:>9.1f}{count / seconds * 60:>10.1f}{theirs / seconds:>13.2f}"
        print(f"{name:<24}{rate}{cpu:>12.1f}{memory:>12.0f}")


if __name__ == "__main__":
    typer.run(main)
