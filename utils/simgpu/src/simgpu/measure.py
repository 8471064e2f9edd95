"""Profiles from measurements: what a GPU or a link here really does, in a few seconds.

    import simgpu
    simgpu.enable(count=2, gpu=simgpu.measure_profile("cuda:0"))

The same code runs on a simulated GPU, where it has to find the profile that the GPU was made from.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch

from .hardware import DEVICE_TYPE, machine
from .profiles import GpuProfile, LinkProfile

REPEATS = 5
IN_A_ROW = 300
COPIES = 10  # in a row, so that the launch of the first is little of it
# Tensor cores are several times as fast; a precision without them is near float32, or half of its bytes nearer.
WITH_TENSOR_CORES = 1.5


def measure_profile(device: torch.device | str | int = "cuda:0") -> GpuProfile:
    """Measure a GPU: matrix products, a large copy in its memory, and many tiny kernels.

    The rates are what large kernels reach, so all shares of them are 1. Raises RuntimeError where `device` is none that
    PyTorch can use here.
    """
    device = _usable(device)
    module = torch.get_device_module(device)
    properties = module.get_device_properties(device)
    size = 8192 if properties.total_memory > 8e9 else 4096
    before = torch.backends.cuda.matmul.allow_tf32
    try:
        torch.backends.cuda.matmul.allow_tf32 = False
        float32 = _product_rate(device, torch.float32, size)
        torch.backends.cuda.matmul.allow_tf32 = True
        tf32 = _product_rate(device, torch.float32, size)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    fast = {dtype: _product_rate(device, dtype, size) for dtype in (torch.bfloat16, torch.float16)}
    elements = min(2**28, properties.total_memory // 32)
    x, y = torch.zeros(elements, device=device), torch.zeros(elements, device=device)
    moved = COPIES * 2 * x.numel() * x.element_size()
    bandwidth = moved / _seconds(device, lambda: [y.copy_(x) for _ in range(COPIES)])
    tiny = torch.zeros(1, device=device)
    launch, shortest = _in_a_row(device, lambda: tiny.add_(1))
    return GpuProfile(
        name=f"{module.get_device_name(device)} (measured)",
        flops=float32,
        bandwidth=bandwidth,
        memory=properties.total_memory,
        multiprocessors=properties.multi_processor_count,
        source=f"measured on {module.get_device_name(device)} with torch {torch.__version__}",
        fast={dtype: rate for dtype, rate in fast.items() if rate > WITH_TENSOR_CORES * float32},
        efficiency=1.0,
        launch=launch,
        shortest=shortest,
        tf32=tf32 if tf32 > WITH_TENSOR_CORES * float32 else None,
        tensor_efficiency=1.0,
        streams=1.0,
    )


def measure_link(source: torch.device | str = "cuda:0", target: torch.device | str = "cuda:1") -> LinkProfile:
    """Measure copies from one device to another, a large one and a tiny one.

    Either may be "cpu": then from or to pinned memory, and a large one of memory that is not.
    """
    source, target = _usable(source), _usable(target)
    gpu = source if source.type != "cpu" else target

    def copying(elements, pinned=True):
        x = torch.zeros(elements, device=source)
        x = x.pin_memory() if source.type == "cpu" and pinned else x
        return lambda: x.to(target, non_blocking=pinned)

    _, latency = _in_a_row(gpu, copying(1))

    def rate(**kind):
        elements = 2**26
        return 4 * elements / max(_seconds(gpu, copying(elements, **kind)) - latency, 1e-9)

    with_host: dict[str, Any] = {"pageable": rate(pinned=False)} if "cpu" in (source.type, target.type) else {}
    name = f"{source} to {target} (measured)"
    return LinkProfile(name, rate(), f"measured with torch {torch.__version__}", latency=latency, **with_host)


def _usable(device) -> torch.device:
    device = torch.device(f"cuda:{device}" if isinstance(device, int) else device)
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise RuntimeError(f"{device} cannot be measured here: {str(error).splitlines()[0]}") from None
    return device


def _seconds(device: torch.device, work: Callable) -> float:
    """The time of `work` on the device, from its own events: the median of a few runs, after one that warms up."""
    module = torch.get_device_module(device)
    times = []
    with module.device(device):
        for _ in range(REPEATS + 1):
            start, end = module.Event(enable_timing=True), module.Event(enable_timing=True)
            start.record()
            work()
            end.record()
            module.synchronize(device)
            times.append(start.elapsed_time(end) / 1e3)
    return median(times[1:])


def _product_rate(device: torch.device, dtype: torch.dtype, size: int) -> float:
    """FLOPs a second of a large matrix product."""
    a, b = (torch.ones(size, size, dtype=dtype, device=device) for _ in range(2))
    return 2 * size**3 / _seconds(device, lambda: a @ b)


def _in_a_row(device: torch.device, work: Callable) -> tuple[float, float]:
    """Seconds that the host needs to launch a tiny `work`, and that it takes on the device, of many in a row."""
    module = torch.get_device_module(device)
    now = machine.clock.now if device.type == DEVICE_TYPE else time.perf_counter
    a = torch.ones(4096, 4096, device=device)
    launches, kernels = [], []
    with module.device(device):
        for _ in range(REPEATS + 1):
            for _ in range(20):  # the device is busy meanwhile, so that the tiny ones wait and then run in a row
                a @ a
            start, end = module.Event(enable_timing=True), module.Event(enable_timing=True)
            start.record()
            begin = now()
            for _ in range(IN_A_ROW):
                work()
            launches.append((now() - begin) / IN_A_ROW)
            end.record()
            module.synchronize(device)
            kernels.append(start.elapsed_time(end) / 1e3 / IN_A_ROW)
    return median(launches[1:]), median(kernels[1:])
