"""The course's claims about PyTorch's ranks, on two real ones: gloo on the CPU (claims.py)."""

import json
import os
import re
import subprocess
import sys

import pytest

from tests.support.notebooks import ROOT

SCRIPT = ROOT / "tests" / "process_groups" / "claims.py"

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("torchrun")]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    folder = tmp_path_factory.mktemp("claims")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", SCRIPT, folder]
    # The loopback's address: a machine's own name need not be known where tests run.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "CUDA_VISIBLE_DEVICES": ""}
    run = subprocess.run(map(str, command), env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.parametrize("name", re.findall(r"^@claim\(.*\)\ndef (\w+)", SCRIPT.read_text(), re.MULTILINE))
def test_claim(told, name):
    assert [rank.get(name, "not reached") for rank in told] == ["", ""]
