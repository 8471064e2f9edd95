"""CPU seconds of the tests by kind, with all processes that they start. Run it by hand, as root, on Linux:

    .venv/bin/python -m tools.benchmarks.cpu_of_tests [KIND ...] [--marks "not thorough"] [--dearest 20]

Each kind is one run of pytest in one process, in a cgroup of its own: what a test has started counts, also where it was
killed or has left its parent. A busy machine makes CPU seconds a little longer, but not as it does seconds.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import pytest
import typer

from tests.support.notebooks import ROOT
from utils.common.files import python_path

NBVAL = ["--nbval-lax", "--nbval-current-env", "--nbval-cell-timeout=600", "-p", "tools.nbval_kernels"]
KINDS = {
    "unit": ["tests/unit"],
    "simgpu": ["utils/simgpu/tests", "--ignore=utils/simgpu/tests/process_groups"],
    "ranks": ["tests/process_groups", "utils/simgpu/tests/process_groups"],
    "answers": ["tests/grading/test_answers.py"],
    "attacks": ["tests/grading/test_attacks.py"],
    "kernels": ["tests/grading/test_sealed_kernels.py", "tests/grading/test_observer.py", "tests/grading/test_warm.py"],
    "classes": [
        f"tests/grading/test_{name}.py" for name in ("course_grade", "classroom", "folder", "resume", "places")
    ],
    "nbgrader": ["tests/grading/test_nbgrader.py"],
    "pasted": ["tests/grading/test_pasted.py"],
    "browser": ["tests/browser"],
    "notebooks": ["notebooks", "solutions", "build/solved_lessons", *NBVAL],
}
GROUPS = Path("/sys/fs/cgroup")
GROUP, TOLD = "COURSE_CPU_GROUP", "COURSE_CPU_TOLD"  # environment variables: for the plugin below


class Account:
    """A cgroup, and what its processes have used."""

    def __init__(self, folder: Path):
        self.folder = folder

    def join(self) -> None:
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def seconds(self) -> float:
        if (old := self.folder / "cpuacct.usage").exists():
            return int(old.read_text()) / 1e9
        return int((self.folder / "cpu.stat").read_text().split()[1]) / 1e6


def new_account(name: str) -> Account:
    """Ends the program with one line where it may not make a cgroup."""
    folder = (GROUPS / "cpuacct" if (GROUPS / "cpuacct").exists() else GROUPS) / name
    try:
        folder.mkdir()
    except OSError as error:
        sys.exit(f"cpu_of_tests: cannot make a cgroup ({error}): run it as root, where {GROUPS} can be written to")
    return Account(folder)


# --- the side of pytest: a plugin -----------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    account = Account(Path(os.environ[GROUP]))
    before = account.seconds()
    yield_value = yield
    with open(os.environ[TOLD], "a") as told:
        print(json.dumps([item.nodeid, account.seconds() - before]), file=told)
    return yield_value


# --- the side that runs it ------------------------------------------------------------------------------------------


def measured(kind: str, marks: str) -> tuple[float, list[tuple[str, float]]]:
    """CPU seconds of all, and (test, CPU seconds) of each."""
    account = new_account(f"cpu-of-tests-{os.getpid()}-{kind}")
    with tempfile.NamedTemporaryFile("r") as told:
        environment = os.environ | {GROUP: str(account.folder), TOLD: told.name, "OMP_NUM_THREADS": "1"}
        environment["PYTHONPATH"] = python_path([str(ROOT)])
        plugins = ["-p", "no:cacheprovider", "-p", "tools.benchmarks.cpu_of_tests"]
        command = [sys.executable, "-m", "pytest", "-q", *plugins]
        command += ["-m", marks, *KINDS[kind]] if kind != "notebooks" else KINDS[kind]
        done = subprocess.run(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, preexec_fn=account.join
        )
        each = [tuple(json.loads(line)) for line in told]
    if done.returncode not in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
        print(done.stdout[-3000:], file=sys.stderr)
    seconds = account.seconds()
    with contextlib.suppress(OSError):  # a process that a test left is still ending: the empty group stays
        account.folder.rmdir()
    return seconds, each


def main(
    kinds: Annotated[list[str] | None, typer.Argument(help=f"Of {', '.join(KINDS)}.")] = None,
    marks: Annotated[str, typer.Option(help="As pytest's -m.")] = "not thorough",
    dearest: Annotated[int, typer.Option(help="How many tests of each kind to name.")] = 10,
) -> None:
    """Run the tests of each kind, and say what they took."""
    print(f"CPU seconds with all processes, on this machine, {os.cpu_count()} cores; tests: {marks}")
    for kind in kinds or KINDS:
        seconds, each = measured(kind, marks)
        alone = seconds - sum(part for _, part in each)  # collecting, and what all tests share
        print(f"{kind:<12}{len(each):>6} tests{seconds:>9.1f} s, {alone:.1f} of them outside of any test")
        for name, part in sorted(each, key=lambda one: -one[1])[:dearest]:
            print(f"{'':<12}{part:>10.2f}  {name}")


if __name__ == "__main__":
    typer.run(main)
