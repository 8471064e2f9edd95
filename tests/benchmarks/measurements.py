"""The measurements of tests/measurements, run again on simulated GPUs: the same operator, by the same path as a
student's, in shape-only mode, and its kernels' time from the log.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import torch
from torch.nn import functional

from utils import simgpu
from utils.simgpu import cost
from utils.simgpu.profiles import GPUS

FOLDER = Path(__file__).parents[1] / "measurements"
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


def _rows(name: str) -> list[Row]:
    with open(FOLDER / name, newline="") as file:
        return [_row(line) for line in csv.DictReader(file)]


def _row(line: dict) -> Row:
    named = (line[name] for name in ("set", "gpu", "op", "dtype", "pass"))
    return Row(*named, json.loads(line["params"]), float(line["kernel_us"]) / 1e6, line["used"])


def simulate(gpu: str) -> None:
    """One simulated GPU of the kind that was measured, without values and with memory for anything."""
    simgpu.enable(count=1, gpu=PROFILES[gpu], compute=False, memory=2**60)


def kernel_seconds(work: Callable[[], object], before: Callable[[], object]) -> float:
    """The time of the kernels that some work starts, which are the log afterwards."""
    before()
    simgpu.keep_log(0)
    simgpu.keep_log()
    work()
    return sum(kernel.end - kernel.start for kernel in simgpu.log())


def predicted(rows: Iterable[Row], before: Callable[[], object] = lambda: None) -> list[float]:
    """Simulated seconds of each row. Where the direction is backward, only of the backward pass.

    `before` is called before what is timed.
    """
    seconds = []
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):  # as whoever measured float32 had it
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
    operands, call = _call(row)
    if row.direction == "fwd" or row.op == "mm":
        with torch.no_grad():
            return kernel_seconds(lambda: call(*operands), before)
    wanted = {"bwd_input": operands[:1], "bwd_weight": operands[1:2]}.get(row.direction, operands)
    for operand in wanted:
        operand.requires_grad_()
    out = call(*operands)
    gradient = torch.empty_like(out)
    return kernel_seconds(lambda: torch.autograd.grad(out, wanted, gradient), before)


UNARY = {
    "addu": lambda x: x + 2.0, "divu": lambda x: x / 2.0, "mulu": lambda x: x * 2.0, "powu": lambda x: x**2.0,
    "relu": functional.relu, "gelu": functional.gelu, "tanh": torch.tanh,
    "relu_": torch.relu_, "mulu_": lambda x: x.mul_(0.9), "fill_": lambda x: x.zero_(),
    "dropout": lambda x: functional.dropout(x, 0.1),
    "softmax": lambda x: x.softmax(-1),
    "max_pool2d": lambda x: functional.max_pool2d(x, 3, 2, 1),
}  # fmt: skip
BINARY = {
    "add": torch.add, "mul": torch.mul, "div": torch.div, "pow": torch.pow, "add_": lambda x, y: x.add_(y),
}  # fmt: skip


def _call(row: Row) -> tuple[list[torch.Tensor], Callable]:
    """The operands of a measured operator, and what to call with them."""

    def empty(*shape):
        return torch.empty(*shape, device=DEVICE, dtype=getattr(torch, row.dtype))

    p, op = row.params, row.op
    if op in UNARY:
        return [empty(p["x"])], UNARY[op]
    if op in BINARY:
        return [empty(p["x"]), empty(p["x"])], BINARY[op]
    if op == "mm":
        return [empty(p["m"], p["k"]), empty(p["k"], p["n"])], torch.mm
    if op == "bmm":
        return [empty(p["b"], p["m"], p["k"]), empty(p["b"], p["k"], p["n"])], torch.bmm
    if op == "addmm":
        return [empty(p["m"], p["k"]), empty(p["k"], p["n"]), empty(p["n"])], lambda x, w, b: torch.addmm(b, x, w)
    if op == "linear":
        bias = [empty(p["out"])] if p["bias"] else []
        return [empty(p["x"]), empty(p["out"], p["x"][-1]), *bias], functional.linear
    if op == "conv2d":
        settings = {"stride": p["stride"], "padding": p["padding"]}
        return [empty(p["x"]), empty(p["w"])], lambda x, w: functional.conv2d(x, w, **settings)
    if op == "ln":
        size = p["x"][-1]
        return [empty(p["x"]), empty(size), empty(size)], lambda x, w, b: functional.layer_norm(x, (size,), w, b)
    if op == "batch_norm":
        mean, variance = empty(p["x"][1]), empty(p["x"][1])
        operands = [empty(p["x"]), empty(p["x"][1]), empty(p["x"][1])]
        return operands, lambda x, w, b: functional.batch_norm(x, mean, variance, w, b, training=True)
    raise ValueError(f"{row.set}: there is no operator called {op!r} here")
