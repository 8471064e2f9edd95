"""`pytest --simgpu 4` in somebody's project: its tests for two GPUs run, those of its child processes too."""

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import simgpu

PLUGIN = "simgpu_pytest"
IS_INSTALLED = bool(entry_points(group="pytest11", name="simgpu"))  # then pytest loads it, and by its name not again
SIMGPU = str(Path(simgpu.__file__).parents[1])
PROJECT = """
import subprocess
import sys

import pytest
import torch

needs_two_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")


@needs_two_gpus
def test_of_two_gpus():
    with pytest.raises(RuntimeError, match="cuda:0 and cuda:1"):
        torch.ones(2, device="cuda:0") + torch.ones(2, device="cuda:1")


@needs_two_gpus
def test_of_a_child():
    code = "import torch; print(torch.cuda.device_count())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "3"
"""


def run_project(folder, *arguments, **environment):
    (folder / "test_project.py").write_text(PROJECT)
    command = [sys.executable, "-m", "pytest", *([] if IS_INSTALLED else ["-p", PLUGIN]), "-p", "no:cacheprovider"]
    without = {name: value for name, value in os.environ.items() if not name.startswith(("SIMGPU", "PYTEST"))}
    environment = without | {"PYTHONPATH": SIMGPU} | environment
    return subprocess.run(
        [*command, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "environment",
    [{"SIMGPU": "1"}, pytest.param({}, marks=pytest.mark.thorough)],
    ids=["with a SIMGPU that says otherwise", "without"],
)
def test_with_the_option_they_run(tmp_path, environment):
    done = run_project(tmp_path, "--simgpu", "3,gpu=A100", **environment)
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    assert "simgpu: 3 x A100" in done.stdout


@pytest.mark.slow
def test_without_it_they_are_skipped(tmp_path):
    done = run_project(tmp_path)
    assert "2 skipped" in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
def test_a_number_that_is_none_is_told_in_one_line(tmp_path):
    done = run_project(tmp_path, "--simgpu", "four")
    assert done.returncode
    assert done.stderr.strip().splitlines()[-1].startswith("simgpu: SIMGPU='four' cannot be read at 'count': write")


def test_the_plugin_imports_nothing_that_takes_time():
    code = f"import sys, {PLUGIN}; print([name for name in ('torch', 'simgpu') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": SIMGPU}, capture_output=True)
    assert done.stdout.strip() == b"[]", done.stderr
