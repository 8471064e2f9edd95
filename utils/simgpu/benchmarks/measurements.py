"""The measurements of benchmarks/data, run again on simulated GPUs: the same operator, by the same path as a
student's, in shape-only mode, and its kernels' time from the log.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import torch

import simgpu
from simgpu import cost
from simgpu.profiles import GPUS, add_gpu
from utils.common.errors import Problem
from utils.course import measured
from utils.course import operators as operators_of
from utils.course.operators import kernel_seconds

FOLDER = Path(__file__).parent / "data"
DEVICE = "simgpu:0"
# The profile of each GPU that somebody measured on.
PROFILES = {
    "V100-SXM2": "V100", "V100-DGXS": "V100", "P100-PCIe": "P100", "A100-40GB-SXM": "A100",
    **{name: name for name in ("T4", "P40", "V100-PCIe", "A100-40GB-PCIe", "A100-80GB-SXM")},
}  # fmt: skip
FAMILIES = {
    "product": ("mm", "addmm", "bmm", "linear"),
    "convolution": ("conv2d",),
    "norm and softmax": ("ln", "batch_norm", "softmax"),
    "recurrent": ("lstm", "gru", "rnn_relu"),
}
GATES = {"lstm": 4, "gru": 3, "rnn_relu": 1}


class Row(NamedTuple):
    """One measurement. `used` says whether constants were fitted on it."""

    set: str
    gpu: str
    op: str
    dtype: str
    direction: str  # fwd, bwd, bwd_input or bwd_weight
    params: dict
    seconds: float
    used: str

    @property
    def family(self) -> str:
        return next((family for family, ops in FAMILIES.items() if self.op in ops), "stream")

    @property
    def group(self) -> tuple[str, ...]:
        return self.set, self.gpu, self.family, self.dtype, self.direction


def operators() -> list[Row]:
    """Every measured operator, in the order of the file."""
    return _rows("operators.csv")


def recurrent_layers() -> list[Row]:
    """Every measured recurrent layer, in the order of the file."""
    return _rows("recurrent.csv")


def sent_in(path: Path) -> list[Row]:
    """What somebody has measured with `course measure`. Raises Problem for a bad file, and for a simulated GPU's.

    A GPU that simgpu has no profile of is predicted by the rates that were measured on it.
    """
    rows = []
    for gpu in measured.read(path)["gpus"]:
        if gpu["simulated"]:
            raise Problem(f"{path.name} was measured on a simulated GPU: it says nothing about real ones")
        profile = measured.profile_of(gpu["name"])
        if profile is None:
            add_gpu(measured.own_profile(gpu))
            profile = measured.own_profile(gpu).name
        PROFILES[gpu["name"]] = profile
        for row in gpu["operators"]:
            what = (row["op"], row["dtype"], "fwd", row["params"])
            rows.append(Row("sent in", gpu["name"], *what, row["seconds"], "sent in"))
    return rows


def _rows(name: str) -> list[Row]:
    with open(FOLDER / name, newline="") as file:
        return [_row(line) for line in csv.DictReader(file)]


def _row(line: dict) -> Row:
    named = (line[name] for name in ("set", "gpu", "op", "dtype", "pass"))
    return Row(*named, json.loads(line["params"]), float(line["kernel_us"]) / 1e6, line["used"])


def simulate(gpu: str) -> None:
    """One simulated GPU of the kind that was measured, without values and with memory for anything."""
    simgpu.enable(count=1, gpu=PROFILES[gpu], compute=False, memory=2**60)


def predicted(rows: Iterable[Row], before: Callable[[], object] = lambda: None) -> list[float]:
    """Simulated seconds of each row. Where the direction is backward, only of the backward pass.

    `before` is called before what is timed.
    """
    seconds = []
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):  # as those who measured float32 had it
        for row in rows:
            simulate(row.gpu)
            seconds.append(_kernels_of(row, before))
    return seconds


def work_of_states(row: Row) -> cost.Work:
    """The work of a recurrent layer without what it does with its inputs, which DeepBench leaves out."""
    hidden, batches = row.params["hidden"], ((row.params["batch"], row.params["steps"]),)
    dtype = getattr(torch, row.dtype)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        return cost.recurrent([], [(GATES[row.op] * hidden, hidden)], batches, dtype, row.direction == "bwd")


def predicted_of_states(row: Row) -> float:
    """Simulated seconds of a row of `recurrent_layers`."""
    return cost.seconds_for(GPUS[PROFILES[row.gpu]], work_of_states(row))


def _kernels_of(row: Row, before) -> float:
    operands, call = operators_of.call(row.op, row.params, row.dtype, DEVICE)
    if row.direction == "fwd" or row.op == "mm":
        with torch.no_grad():
            return kernel_seconds(lambda: call(*operands), before)
    wanted = {"bwd_input": operands[:1], "bwd_weight": operands[1:2]}.get(row.direction, operands)
    for operand in wanted:
        operand.requires_grad_()
    out = call(*operands)
    gradient = torch.empty_like(out)
    return kernel_seconds(lambda: torch.autograd.grad(out, wanted, gradient), before)
