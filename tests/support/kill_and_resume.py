"""A class is graded, and the grader killed again and again: what the same command makes of it afterwards.

    .venv/bin/python -m tests.support.kill_and_resume --count 200 --jobs 2

Grades a generated class once undisturbed, and once with the grader killed (SIGKILL, only its main process) at three
moments that the seed decides. Each time the same command goes on. The two grades.csv have to be the same (of a fork
bomb, the points: whether its kernel died or was too slow depends on what else runs), no process may be left, and what
was graded once is not graded again. tests/grading/test_resume.py does it with a class of 6.
"""

from __future__ import annotations

import csv
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from .a_class import Expected, differences, make_class
from .notebooks import ROOT

GRACE = 60  # seconds in which what a killed grader has started has to be gone: a fork bomb is 200 processes


@dataclass
class Outcome:
    """What happened. Empty lists are what is wanted."""

    students: int = 0
    different: list[str] = field(default_factory=list)  # rows of grades.csv that differ between the two runs
    killed_at: list[int] = field(default_factory=list)  # results that were there at each kill
    regraded: list[str] = field(default_factory=list)  # results that were written again after a kill
    broken: list[str] = field(default_factory=list)  # results that were half written
    left: list[str] = field(default_factory=list)  # command lines of processes that were left
    wrong: list[str] = field(default_factory=list)  # points or statuses that are not those expected
    feedback: list[str] = field(default_factory=list)  # feedback that differs between the two runs
    folders_left: int = 0  # in the folder for temporary files, at the very end
    seconds: dict[str, float] = field(default_factory=dict)


class Grader:
    """`course grade` on one class, with a marker that everything it starts can be known by."""

    def __init__(self, lab: str, folder: Path, jobs: int, options: list[str]):
        self.folder = folder
        # Sockets have short names: not in a folder of pytest's.
        self.temporary = tempfile.mkdtemp(prefix="resume-", dir="/tmp")
        self.marker = Path(self.temporary).name
        command = [sys.executable, "-m", "utils.course", "grade", lab, folder / "submissions"]
        self.command = [*map(str, command), "--students", str(folder / "students.csv"), "--jobs", str(jobs), *options]

    def start(self, out: Path) -> subprocess.Popen:
        with (self.folder / "log.txt").open("a") as log:
            return subprocess.Popen(
                [*self.command, "--out", str(out)],
                cwd=ROOT,
                env={**os.environ, "TMPDIR": self.temporary},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def finish(self, process: subprocess.Popen) -> None:
        if process.wait() != 0:
            raise RuntimeError(f"the grader stopped: {(self.folder / 'log.txt').read_text()[-2000:]}")

    def left_behind(self) -> list[str]:
        """The command lines of processes that this grader, or a submission in it, has left: after `GRACE` at most."""
        deadline = time.monotonic() + GRACE
        while (left := processes_with(self.marker)) and time.monotonic() < deadline:
            time.sleep(0.1)
        return left


def processes_with(marker: str) -> list[str]:
    """The command lines of processes that have `marker` in them or in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command, environment = (process / "cmdline").read_bytes(), (process / "environ").read_bytes()
            state = (process / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if marker.encode() in command + environment and state != "Z":
            found.append(command.replace(b"\0", b" ").decode(errors="replace")[:200])
    return found


def written(out: Path) -> dict[str, int]:
    """The results that are there, and when each was written."""
    return {path.name: path.stat().st_mtime_ns for path in (out / "results").glob("*.json")}


def kill_and_resume(
    folder: Path,
    *,
    lab: str = "lab01",
    count: int = 200,
    jobs: int = 2,
    seed: int = 0,
    kills: int = 3,
    kinds: list[str] | None = None,
    options: list[str] | None = None,
) -> Outcome:
    """Grade a class in `folder` twice, killing the grader the second time. `options` go to `course grade`."""
    grader = Grader(lab, folder, jobs, options or [])
    expected = make_class(folder, lab, count, seed, kinds or (), mark=grader.marker)
    outcome = Outcome(students=len(expected))

    begin = time.monotonic()
    grader.finish(grader.start(folder / "undisturbed"))
    outcome.seconds["undisturbed"] = time.monotonic() - begin
    outcome.left += grader.left_behind()

    moments = random.Random(seed)
    out, before, begin = folder / "killed", {}, time.monotonic()
    for share in sorted(moments.uniform(0.05, 0.8) for _ in range(kills)):
        process, wait = grader.start(out), moments.random()
        while process.poll() is None and len(written(out)) < share * len(expected):
            time.sleep(0.02)
        time.sleep(wait)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            outcome.killed_at.append(len(written(out)))
        process.wait()
        outcome.left += grader.left_behind()
        outcome.broken += [name for name in written(out) if not is_json(out / "results" / name)]
        outcome.regraded += changed(before, written(out))
        before = written(out)
    grader.finish(grader.start(out))
    outcome.seconds["killed and resumed"] = time.monotonic() - begin
    outcome.left += grader.left_behind()
    outcome.regraded += changed(before, written(out))

    outcome.different = different_rows(expected, *(folder / name / "grades.csv" for name in ("undisturbed", "killed")))
    outcome.wrong = differences(expected, folder / "killed" / "grades.csv")
    texts = [{p.name: p.read_bytes() for p in (folder / n / "feedback").iterdir()} for n in ("undisturbed", "killed")]
    unlike = [name for name in texts[0] | texts[1] if texts[0].get(name) != texts[1].get(name)]
    outcome.feedback = sorted(name for name in unlike if Path(name).stem not in varying(expected))
    outcome.folders_left = len(list(Path(grader.temporary).iterdir()))
    subprocess.run(["rm", "-rf", grader.temporary], check=True)
    return outcome


def varying(expected: list[Expected]) -> set[str]:
    """The students whose status depends on what else runs on this machine."""
    return {each.student for each in expected if len(each.statuses) > 1}


def different_rows(expected: list[Expected], one: Path, other: Path) -> list[str]:
    """The rows of two tables of grades that differ, first and second. Of a status that may vary, the points count."""
    vary, tables = varying(expected), []
    for path in (one, other):
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
        points = rows[0].index("total") + 1
        tables.append([",".join(row[:points] if row[0] in vary else row) for row in rows])
    return [f"{a} | {b}" for a, b in itertools.zip_longest(*tables) if a != b]


def changed(before: dict[str, int], after: dict[str, int]) -> list[str]:
    return [name for name, when in before.items() if after.get(name) != when]


def is_json(path: Path) -> bool:
    try:
        json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return False
    return True


def main(
    count: Annotated[int, typer.Option(help="How many students.")] = 200,
    jobs: Annotated[int, typer.Option(help="How many are graded at once.")] = 2,
    seed: Annotated[int, typer.Option(help="Decides the class and the moments.")] = 0,
    lab: Annotated[str, typer.Option(help="The lab that is handed in.")] = "lab01",
    cell_seconds: Annotated[float, typer.Option(help="For the grader.")] = 30,
    call_seconds: Annotated[float, typer.Option(help="For the grader.")] = 10,
    folder: Annotated[Path | None, typer.Option(help="Keep everything there; it must not be there yet.")] = None,
) -> None:
    """Kill the grader three times and see whether the same command ends with the same grades."""
    with tempfile.TemporaryDirectory() as temporary:
        options = ["--cell-seconds", f"{cell_seconds:g}", "--call-seconds", f"{call_seconds:g}"]
        outcome = kill_and_resume(
            folder or Path(temporary) / "class", lab=lab, count=count, jobs=jobs, seed=seed, options=options
        )
    print(f"{outcome.students} generated students, lab {lab}, {jobs} jobs, {os.cpu_count()} cores, seed {seed}")
    for name, seconds in outcome.seconds.items():
        print(f"measured, {name:<20}{seconds:>8.0f} s   {outcome.students / seconds * 60:>6.1f} submissions a minute")
    print(f"killed when so many were graded   {', '.join(map(str, outcome.killed_at))}")
    for what in ("different", "regraded", "broken", "left", "wrong", "feedback"):
        found = getattr(outcome, what)
        print(f"{what:<34}{len(found)}")
        for line in found[:20]:
            print(f"    {line}")
    print(f"temporary folders left            {outcome.folders_left}")
    sys.exit(0 if not (outcome.different or outcome.regraded or outcome.broken or outcome.left) else 1)


if __name__ == "__main__":
    typer.run(main)
