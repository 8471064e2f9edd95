"""What this machine's GPUs really do, measured in a minute or two, as data that can be sent to others.

`measure_all` gives it, `measured.py` writes and reads it as a file. Nothing in it says whose machine it was.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from importlib.metadata import version
from statistics import median

import torch

import simgpu
from utils.common.errors import Problem
from utils.course.operators import call
from utils.observe.devices import is_simulated, name_of

# Large enough that the GPU's own work is what is timed; most of them are among the published rows.
OPERATORS: list[tuple[str, str, dict]] = [
    *(("mm", dtype, {"m": n, "n": n, "k": n}) for n in (1024, 4096) for dtype in ("float32", "float16")),
    *(
        ("conv2d", dtype, {"x": [16, 64, 56, 56], "w": [64, 64, 3, 3], "stride": [1, 1], "padding": [1, 1]})
        for dtype in ("float32", "float16")
    ),
    ("conv2d", "float32", {"x": [16, 512, 28, 28], "w": [128, 512, 1, 1], "stride": [1, 1], "padding": [0, 0]}),
    ("linear", "float32", {"x": [4096, 1024], "out": 4096, "bias": True}),
    ("add", "float32", {"x": [2**25]}),
    ("relu", "float32", {"x": [2**25]}),
    ("gelu", "float32", {"x": [2**25]}),
    ("ln", "float32", {"x": [16384, 1024]}),
    ("softmax", "float32", {"x": [16384, 1024]}),
]
IN_A_ROW, REPEATS = 10, 5


def measure_all(devices: list[torch.device], told: Callable[[str], None] = lambda what: None) -> dict:
    """Measure GPUs and the links between them. `told` hears what is measured next."""
    gpus = []
    for device in devices:
        told(f"{device}: {name_of(device)}")
        gpus.append({**_who(device), "profile": _profile(device), "operators": _operators(device)})
    links = []
    for source, target in _pairs(devices):
        told(f"copies from {source} to {target}")
        link = simgpu.measure_link(source, target)
        links.append({"from": source, "to": target, "bandwidth": link.bandwidth, "latency": link.latency})
        if "cpu" in (source, target):
            links[-1]["pageable"] = link.pageable
    return {"torch": torch.__version__, "python": platform.python_version(), "course": version("model-parallel-course"),
            "gpus": gpus, "links": links}  # fmt: skip


def real_devices() -> list[torch.device]:
    """All GPUs that PyTorch sees. Raises Problem where there is none."""
    if not torch.cuda.device_count():
        raise Problem("PyTorch sees no GPU here. `--simulated T4` measures a simulated one, to try the command")
    return [torch.device("cuda", index) for index in range(torch.cuda.device_count())]


def simulated_devices(gpu: str) -> list[torch.device]:
    """Two simulated GPUs of a kind that simgpu knows. Raises Problem naming the kinds for any other."""
    try:
        simgpu.enable(count=2, gpu=gpu, link="pcie3", compute=False)
    except ValueError as error:
        raise Problem(str(error)) from None
    return [torch.device("simgpu", index) for index in range(2)]


def _who(device: torch.device) -> dict:
    name = simgpu.settings().gpu.name if is_simulated(device) else name_of(device)
    return {"name": name, "simulated": is_simulated(device)}


def _profile(device: torch.device) -> dict:
    found = simgpu.measure_profile(device)
    names = ("flops", "bandwidth", "memory", "multiprocessors", "launch", "shortest", "tf32")
    fast = {str(dtype).removeprefix("torch."): rate for dtype, rate in found.fast.items()}
    return {**{name: getattr(found, name) for name in names}, "fast": fast}


def _operators(device: torch.device) -> list[dict]:
    rows = []
    with torch.no_grad(), torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        for op, dtype, params in OPERATORS:
            operands, work = call(op, params, dtype, device)
            for operand in operands:
                operand.zero_()
            rows.append({"op": op, "dtype": dtype, "params": params, "seconds": _seconds(device, operands, work)})
    return rows


def _seconds(device: torch.device, operands: list[torch.Tensor], work: Callable) -> float:
    """The time of one call on the device: many in a row between two events, the median of a few such runs."""
    module = torch.get_device_module(device)
    times = []
    with module.device(device):
        for _ in range(REPEATS + 1):
            start, end = module.Event(enable_timing=True), module.Event(enable_timing=True)
            start.record()
            for _ in range(IN_A_ROW):
                work(*operands)
            end.record()
            module.synchronize(device)
            times.append(start.elapsed_time(end) / 1e3 / IN_A_ROW)
    return median(times[1:])


def _pairs(devices: list[torch.device]) -> list[tuple[str, str]]:
    first, *others = map(str, devices)
    # Two simulated GPUs without values have nothing to copy to the host.
    back = [] if is_simulated(first) else [(first, "cpu")]
    return [("cpu", first), *back, *((first, other) for other in others), *((o, first) for o in others)]
