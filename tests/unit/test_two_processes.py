"""The lesson's script for two processes: PyTorch's own pipeline gives the gradients of the model in one process."""

import json
import subprocess
import sys

import pytest
import torch.distributed as dist
from conftest import ROOT

SCRIPT = ROOT / "notebooks" / "two_processes.py"
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1", "--nproc-per-node=2"]


@pytest.mark.slow
@pytest.mark.skipif(not (dist.is_available() and dist.is_gloo_available()), reason="this PyTorch has no gloo")
def test_two_processes_give_the_gradients_of_one():
    run = subprocess.run(
        [sys.executable, *TORCHRUN, SCRIPT.name], cwd=SCRIPT.parent, capture_output=True, text=True, timeout=110
    )
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert len(lines) == 1, "the lesson reads one line of JSON"
    result = json.loads(lines[0])
    assert result["parameters"] == 16, "both processes have compared theirs"
    assert result["largest_gradient_difference"] < 1e-6
    assert result["pipelined_seconds"] > 0
    assert result["sequential_seconds"] > 0
    assert result["source"].startswith("measured on")
    assert "2 processes" in result["source"]


def test_the_script_needs_nothing_of_the_course():
    assert "utils" not in SCRIPT.read_text()
