"""The batch script and the manifest of lesson 13: what they say is read, and their commands run here, with stand-ins.

The stand-ins are named for what they stand for: `srun` starts its command once for each node, all of them on this
computer; `scontrol` names this computer; and a pod is a process with the environment that Kubernetes gives it.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys

import pytest
import yaml

from simgpu import torch_private
from tests.support.notebooks import ROOT
from tests.support.tiers import THOROUGH

CLUSTER = ROOT / "notebooks" / "cluster"
SRUN = """#!/bin/sh
# A stand-in for Slurm's srun: the command once for each node, all nodes this computer.
node=0
while [ $node -lt "$SLURM_JOB_NUM_NODES" ]; do SLURM_NODEID=$node "$@" & node=$((node + 1)); done
wait
"""
SCONTROL = "#!/bin/sh\n# A stand-in for `scontrol show hostnames`: all nodes are this computer.\necho 127.0.0.1\n"
TORCHRUN = f'#!/bin/sh\nexec {sys.executable} -m torch.distributed.run --local-addr=127.0.0.1 "$@"\n'


@pytest.fixture
def stand_ins(tmp_path):
    """A folder of commands, and the environment in which they are found first."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in {"srun": SRUN, "scontrol": SCONTROL, "torchrun": TORCHRUN}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    more = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    return os.environ | more | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def losses(text):
    return [float(line.split()[-1]) for line in text.splitlines() if line.startswith("step")]


def ranks_in(text):
    return [int(line.split()[1].rstrip(":")) for line in text.splitlines() if line.startswith("rank")]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    command = [sys.executable, ROOT / "notebooks" / "goes_on.py", tmp_path_factory.mktemp("alone")]
    return losses(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def sbatch_options():
    lines = (CLUSTER / "train.sbatch").read_text().splitlines()
    return dict(re.fullmatch(r"#SBATCH --([a-z-]+)=?(\S*).*", line).groups() for line in lines if "#SBATCH" in line)


def manifest():
    return {one["kind"]: one for one in yaml.safe_load_all((CLUSTER / "train.yaml").read_text())}


def environment_of_a_pod():
    [container] = manifest()["Job"]["spec"]["template"]["spec"]["containers"]
    return {each["name"]: each["value"] for each in container["env"]}


def test_slurm_starts_one_torchrun_on_each_node():
    options = sbatch_options()
    assert (options["nodes"], options["ntasks-per-node"], options["gpus-per-node"]) == ("2", "1", "2")
    text = (CLUSTER / "train.sbatch").read_text()
    assert subprocess.run(["bash", "-n"], input=text, text=True, check=False).returncode == 0
    assert '--nproc-per-node="$SLURM_GPUS_ON_NODE"' in text
    for name, value in environment_of_a_pod().items():
        assert f"export {name}={value}\n" in text


def test_the_manifest_names_the_pod_where_all_meet():
    job, service = manifest()["Job"], manifest()["Service"]
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    [container] = pod["containers"]
    [endpoint] = [each for each in container["args"] if each.startswith("--rdzv-endpoint=")]
    assert spec["completionMode"] == "Indexed"  # else pods have no names of their own
    assert endpoint.startswith(f"--rdzv-endpoint={job['metadata']['name']}-0.{pod['subdomain']}:")
    assert service["metadata"]["name"] == pod["subdomain"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    assert f"--nnodes={spec['completions']}" in container["args"]
    assert spec["parallelism"] == spec["completions"]
    assert f"--nproc-per-node={container['resources']['limits']['nvidia.com/gpu']}" in container["args"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    assert container["args"][-1] in [mount["mountPath"] for mount in container["volumeMounts"]]


needs_processes = [
    pytest.mark.slow,
    pytest.mark.xdist_group("torchrun"),
    pytest.mark.skipif(not torch_private.has_python_backends(), reason="no backends written in Python"),
]


class TestRun:
    pytestmark = needs_processes

    @THOROUGH  # a cheaper one: what the batch script starts, above
    def test_the_batch_script_trains_as_one_process_does(self, stand_ins, alone, tmp_path):
        slurm = {
            "SLURM_JOB_NODELIST": "node[1-2]", "SLURM_JOB_NUM_NODES": "2", "SLURM_GPUS_ON_NODE": "1",
            "SLURM_JOB_ID": str(os.getpid()), "SLURM_SUBMIT_DIR": str(tmp_path),
        }  # fmt: skip
        ran = subprocess.run(
            ["bash", CLUSTER / "train.sbatch"], cwd=ROOT / "notebooks", env=stand_ins | slurm, capture_output=True,
            text=True, timeout=600, check=False,
        )  # fmt: skip
        assert ranks_in(ran.stdout) == [0, 1], ran.stderr  # one of each node; of two each, below
        assert losses(ran.stdout) == pytest.approx(alone, rel=1e-5)
        assert (tmp_path / "checkpoints" / "checkpoint.pt").exists()

    @THOROUGH
    @pytest.mark.skipif(not importlib.util.find_spec("simgpu"), reason="simgpu is not installed by itself")
    def test_unchanged_it_trains_on_simulated_gpus_of_two_nodes_and_goes_on_when_a_worker_dies(
        self, stand_ins, alone, tmp_path
    ):
        how = ["--nnodes=2", "--nproc-per-node=2", "--rdzv-backend=c10d", "--max-restarts=1"]
        how += [f"--rdzv-endpoint=127.0.0.1:{29000 + os.getpid() % 500}", "goes_on.py", str(tmp_path), "3"]
        nodes = [
            subprocess.Popen(
                ["torchrun", *how], cwd=ROOT / "notebooks", env=stand_ins | environment_of_a_pod() | {"SIMGPU": "2"},
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
            for _ in range(2)
        ]  # fmt: skip
        told = [node.communicate(timeout=600) for node in nodes]
        out = "".join(out for out, _ in told)
        assert out.count("rank 3: node 1, local rank 1, simgpu:1") == 2, told
        assert "begins with step 2" in out
        assert losses(out)[-4:] == pytest.approx(alone[2:], rel=1e-5)

    @THOROUGH
    def test_the_pods_train_as_one_process_does(self, stand_ins, alone, tmp_path):
        [container] = manifest()["Job"]["spec"]["template"]["spec"]["containers"]
        # Here the pod's name is this computer's, its port a free one, and its volume a folder.
        shutil.copy(ROOT / "notebooks" / "goes_on.py", tmp_path)
        port = 29500 + os.getpid() % 500
        args = [re.sub(r"endpoint=.*", f"endpoint=127.0.0.1:{port}", each) for each in container["args"]]
        args[-1] = str(tmp_path)
        pods = [
            subprocess.Popen(
                [*container["command"], *args], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                env=stand_ins | environment_of_a_pod() | {"JOB_COMPLETION_INDEX": str(index)},
            )
            for index in range(2)
        ]  # fmt: skip
        told = [pod.communicate(timeout=600) for pod in pods]
        out = "".join(out for out, _ in told)
        assert ranks_in(out) == [0, 1, 2, 3], told
        assert losses(out) == pytest.approx(alone, rel=1e-5)
