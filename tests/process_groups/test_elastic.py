"""torchrun's restarts: a worker that is killed, a new rendezvous, a world that is one smaller."""

import json
import os
import socket
import subprocess
import sys

import pytest

from simgpu import torch_private
from tests.support.tiers import THOROUGH
from utils.common.files import python_path
from utils.ranks import ranks

from . import elastic

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("torchrun"),
    pytest.mark.skipif(not torch_private.has_python_backends(), reason="no backends written in Python"),
]


def undisturbed(folder, count):
    """The losses of so many ranks where nothing happens."""
    folder.mkdir()
    return ranks(count).run(elastic.train, folder)[0]


def torchrun(folder, fatal, *arguments):
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": python_path(), "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, "-m", "torch.distributed.run", *arguments, elastic.__file__, str(folder), fatal]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def steps(folder):
    return [json.loads(line) for line in (folder / "steps").read_text().splitlines()]


def last_losses(told):
    """The loss of each step, as it was made last."""
    return list({step: loss for _, _, step, loss in told}.values())


@THOROUGH  # a cheaper one: lesson 13 kills a worker and goes on, in its cells
def test_after_a_worker_was_killed_all_go_on_as_if_nothing_had_been(tmp_path):
    run = torchrun(tmp_path, "worker", "--standalone", "--nnodes=1", "--nproc-per-node=2", "--max-restarts=2")
    output, _ = run.communicate(timeout=280)
    assert run.returncode == 0, output
    told = steps(tmp_path)
    assert {(restarts, world) for restarts, world, _, _ in told} == {(0, 2), (1, 2)}
    assert last_losses(told) == undisturbed(tmp_path / "undisturbed", 2)


@THOROUGH  # a cheaper one: a worker that was killed, above
def test_after_a_node_was_lost_the_others_go_on_with_one_rank_less(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    node = [f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-backend=c10d", "--rdzv-id=test", "--local-addr=127.0.0.1"]
    node += ["--nnodes=1:2", "--max-restarts=2"]
    conf = "--rdzv-conf=last_call_timeout=3,keep_alive_interval=1,is_host="  # the one that stays has the store
    stays = torchrun(tmp_path, "node", *node, f"{conf}1", "--nproc-per-node=2")
    leaves = torchrun(tmp_path, "node", *node, f"{conf}0", "--nproc-per-node=1")
    output, _ = stays.communicate(timeout=280)
    assert stays.returncode == 0, output
    leaves.communicate()
    told = steps(tmp_path)
    assert told[0][1] == 3
    assert told[-1][1] == 2
    assert last_losses(told) == pytest.approx(undisturbed(tmp_path / "undisturbed", 3), rel=1e-6)
