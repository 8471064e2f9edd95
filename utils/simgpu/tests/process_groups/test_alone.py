"""One process that stands for many ranks: the numbers and the times are those of ranks that all do the same."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import simgpu
from simgpu import refusals, torch_private
from simgpu.collectives import Fabric
from simgpu.distributed.backend import SimBackend
from simgpu.profiles import GPUS, LINKS, NETWORKS

HERE = Path(__file__).parent
SIMGPU = str(Path(simgpu.__file__).parents[1])  # for processes that this one starts
pytestmark = pytest.mark.skipif(not torch_private.has_python_backends(), reason="no backends written in Python")


def test_one_rank_stands_for_four_that_do_the_same():
    script = HERE / "alone.py"
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": SIMGPU, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    # After the host has launched it, it takes what the cost model says.
    over_two_nodes = Fabric(4, 2, LINKS["nvlink2"], NETWORKS["100G"], (7, 0)).seconds("all_reduce", 2 * 4)
    assert told.pop("over two nodes") == pytest.approx(GPUS["V100"].launch + over_two_nodes)
    assert told.pop("ddp") < 1e-6
    # FSDP writes its share into the buffer for gathering and takes the whole out of it; then the gradients into theirs.
    whole = 2 * 4 * told.pop("numbers")
    assert told.pop("copies") == [whole / 4, whole, whole]
    assert told == {
        "all_reduce": [12.0] * 2,
        "all_gather": [[12.0] * 2] * 4,
        "what is gathered is waited for": ["all_gather", "add", True],
        "reduce_scatter": [0.0],
        "in a graph": [refusals.NO_COLLECTIVES_IN_A_CAPTURE] * 2,
        "a share of each weight": [4.0] * 4,
        "steps": True,
    }


def test_an_all_to_all_takes_as_long_as_its_busiest_way():
    simgpu.enable(count=1, nodes=2, network="100G", compute=False)
    store = torch_private.fake_store()

    def group_of(ranks):
        of = {"group_rank": 0, "group_size": ranks, "global_ranks_in_group": list(range(ranks))}
        return SimBackend(SimpleNamespace(store=store, timeout=None, **of))

    group_of(16)  # of an earlier machine: the next one has four ranks
    simgpu.enable(count=1, nodes=2, network="200G", compute=False)
    simgpu.enable(count=1, nodes=2, network="100G", compute=False)
    backend = group_of(4)

    def seconds(sent, received):
        given, got = (torch.empty(sum(sizes), 1 << 18, device="simgpu:0") for sizes in (sent, received))
        torch.simgpu.synchronize()
        begin = simgpu.now()
        backend.all_to_all_single(got, given, received, sent).wait()
        torch.simgpu.synchronize()
        return simgpu.now() - begin - GPUS["V100"].launch

    over = Fabric(4, 2, LINKS["nvlink2"], NETWORKS["100G"]).pairs_seconds
    assert seconds([1, 1, 5, 0], [1, 1, 1, 1]) == pytest.approx(over(1 << 20, 5 << 20))
    assert seconds([9, 1, 0, 0], [9, 1, 5, 5]) == pytest.approx(over(1 << 20, 10 << 20)), "it receives more"
