"""Has layouts simulated (`simulation`) in a process of their own, because this one may have a machine and groups."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence

from simgpu import torch_private
from utils.common.errors import Problem
from utils.common.files import python_path

from .cluster import Cluster
from .layouts import Layout
from .models import Model


def simulate(model: Model, cluster: Cluster, layouts: Sequence[Layout]) -> list[dict[str, float]]:
    """Seconds of a step and bytes of the fullest GPU of each layout. Problem, in one line, where it cannot be run."""
    if not torch_private.has_python_backends():
        raise Problem("simulating layouts needs a newer PyTorch: constraints.txt has the one that is tested")
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
        "PYTHONPATH": python_path(sys.path),
    }
    run = [sys.executable, "-m", "utils.planner.simulation"]
    asked = pickle.dumps((dict(model.sizes or ()), cluster, layouts))  # a model's blocks are made by functions
    done = subprocess.run(run, env=environment, input=asked, capture_output=True)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit status {done.returncode}"]
        raise Problem(f"the simulation ended early: {next((x for x in said if 'Error' in x), said[-1])}")
    return [json.loads(line) for line in done.stdout.splitlines()]
