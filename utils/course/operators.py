"""The operators that are measured, on real GPUs and on simulated ones: what to call, and with which operands."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional

import simgpu

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


def call(op: str, params: dict, dtype: str, device: torch.device | str) -> tuple[list[torch.Tensor], Callable]:
    """The operands of a measured operator, without values, and what to call with them."""

    def empty(*shape):
        return torch.empty(*shape, device=device, dtype=getattr(torch, dtype))

    p = params
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
    raise ValueError(f"there is no operator called {op!r} here")


def kernel_seconds(work: Callable[[], object], before: Callable[[], object]) -> float:
    """The time of the kernels that some work starts, which are the log afterwards."""
    before()
    simgpu.keep_log(0)
    simgpu.keep_log()
    work()
    return sum(kernel.end - kernel.start for kernel in simgpu.log())
