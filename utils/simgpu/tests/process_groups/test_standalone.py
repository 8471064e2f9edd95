"""simgpu by itself: installed from its own pyproject.toml, switched on by the environment, for a script of CUDA's."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from simgpu import torch_private
from simgpu.environment import arguments_in

HERE = Path(__file__).parent
SCRIPT = HERE / "written_for_cuda.py"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with simgpu in it and nothing else of the course."""
    folder = tmp_path_factory.mktemp("standalone")
    shutil.copytree(HERE.parents[1], folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", folder / "site", folder / "source"], check=True)
    return folder / "site"


def run(installed, *command, **environment):
    """What a program prints that finds simgpu and not the course."""
    own = {"PYTHONPATH": str(installed), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    return subprocess.run(
        [sys.executable, *command], cwd=installed.parent, env=os.environ | own | environment, text=True,
        capture_output=True,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.xdist_group("torchrun")
@pytest.mark.skipif(not torch_private.has_python_backends(), reason="this PyTorch has no backends written in Python")
def test_a_script_for_cuda_and_nccl_runs_as_it_stands(installed, tmp_path):
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    done = run(installed, *torchrun, str(SCRIPT), str(tmp_path), SIMGPU="2", SIMGPU_AS_CUDA="1")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    first, second = told.pop("losses")
    assert second < first
    assert told == {
        "device": "cuda:0",
        "is_cuda": True,
        "name": "V100 (simulated)",
        "backend": "simccl",
        "fsdp": True,
        "checkpoint": True,
        "course": [],
    }


def test_the_source_distribution_has_the_tests_with_all_that_they_need(tmp_path):
    source = tmp_path / "source"
    shutil.copytree(HERE.parents[1], source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build"))
    build = "import sys, setuptools.build_meta as build; build.build_sdist(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, tmp_path], cwd=source, check=True, capture_output=True)
    with tarfile.open(next(tmp_path.glob("simgpu-*.tar.gz"))) as file:
        there = {name.partition("/")[2] for name in file.getnames()}
    tests = {str(path.relative_to(source)) for path in (source / "tests").rglob("*.py")}
    assert tests
    assert tests <= there
    assert {"LICENSE", "CHANGELOG.md", "README.md", "src/simgpu/py.typed"} <= there


def test_without_simgpu_in_the_environment_nothing_is_loaded(installed):
    code = "import sys, torch; print([name for name in sys.modules if name.partition('.')[0] == 'simgpu'])"
    assert run(installed, "-c", code, SIMGPU="").stdout.strip() == "[]"


@pytest.mark.parametrize(
    "first", ["simgpu.streams", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("torch", "simgpu"))]
)
def test_whichever_is_imported_first_simgpu_is_enabled_as_asked(installed, first):
    code = f"import {first}, torch; print(torch.ones(2, device='cuda:1').device)"
    done = run(installed, "-c", code, SIMGPU="2", SIMGPU_AS_CUDA="1")
    assert (done.returncode, done.stdout.strip()) == (0, "cuda:1"), done.stderr


def test_what_cannot_be_read_ends_the_program_with_one_line(installed):
    done = run(installed, "-c", "import torch", SIMGPU="4,gpu=K9")
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("simgpu: simgpu.enable(gpu='K9'): there is no such profile. There are: T4, ")


def test_the_environment_gives_the_arguments_of_enable():
    assert arguments_in("4") == {"count": 4}
    assert arguments_in(" 8, gpu=H100 ,link=nvlink4,compute=False,memory=8e9, nodes=2") == {
        "count": 8, "gpu": "H100", "link": "nvlink4", "compute": False, "memory": 8_000_000_000, "nodes": 2,
    }  # fmt: skip


@pytest.mark.parametrize("text", ["two", "4,H100", "4,gpus=H100", "4,compute=maybe", "4,gpu="])
def test_other_words_are_refused_and_told_how(text):
    with pytest.raises(ValueError, match=r"cannot be read at '.*': write SIMGPU=4, or SIMGPU=\"4,gpu=H100"):
        arguments_in(text)
