"""Simulated GPUs that PyTorch treats as a device.

    from utils import simgpu
    simgpu.enable(count=2)
    x = torch.randn(32, 1000, device="simgpu:0")

After `enable`, `simgpu:0` and `simgpu:1` are devices like `cuda:0` and `cuda:1`: tensors live on one of them,
operators refuse to mix them, and gradients cross between them. The numbers are computed on the CPU, so they
are the CPU's, bit for bit. Kernels and copies take time on a simulated clock, and tensors take memory. This
package imports nothing else from the course.
"""

from __future__ import annotations

import torch

from . import torch_private
from .attention import register_attention
from .autocast import register_autocast
from .cuda_code import as_cuda, register_magic
from .distributed import register_backend
from .hardware import DEVICE_TYPE, LOG_LENGTH, HostCopy, Record, machine, settings_from
from .loading import register_loading
from .measure import measure_link, measure_profile
from .moves import register_factories
from .origin import label
from .refusals import register_refusals
from .sequences import register_sequences
from .tensor import SimTensor, forget_plans
from .torch_simgpu import device_module, publish

__all__ = [
    "LOG_LENGTH",
    "HostCopy",
    "Record",
    "as_cuda",
    "describe",
    "enable",
    "is_enabled",
    "keep_log",
    "label",
    "log",
    "measure_link",
    "measure_profile",
    "now",
    "unwaited_copies",
]


def enable(
    count: int = 2,
    gpu: object = "V100",
    link: object = "nvlink2",
    clock: str = "virtual",
    compute: bool = True,
    memory: int | None = None,
    host_link: object = "pcie3",
    nodes: int = 1,
    network: object = "200G",
) -> None:
    """Give this process `count` simulated GPUs, named `simgpu:0`, `simgpu:1`, ...

    `gpu` names a hardware profile (`simgpu.profiles`) or is one; so do `link`, between the GPUs, and `host_link`,
    between each and the host. `clock` is "virtual" (the host's
    time is simulated too, every run gives the same times) or "paced" (the host's time is the wall clock, and
    waiting for a device sleeps). With `compute=False` tensors have shapes, time and memory but no values, so
    that a model larger than this machine can be planned. With `nodes` above 1 the GPUs, or the ranks of
    torch.distributed, are spread evenly over so many nodes, and `network` (`simgpu.profiles.NETWORKS`) is what links
    GPUs of different ones. `memory` is the bytes of each GPU, the profile's if None.

    Called again with the same arguments it changes nothing. Called with others it builds a new machine, and
    tensors of the old one are refused with an error that says so.

    Raises ValueError for an argument that makes no sense, naming what would, and RuntimeError for a PyTorch that
    lacks what a Python device needs, or where another backend holds PyTorch's one free device slot.
    """
    settings = settings_from(count, gpu, link, clock, compute, memory, host_link, nodes, network)
    if not is_enabled():
        torch_private.require_tested_torch()
        torch_private.register_device_type(DEVICE_TYPE, device_module, machine.backward)
        publish()
        register_factories()
        register_attention()
        register_sequences()
        register_autocast()
        register_loading()
        register_refusals()
        register_backend()
        torch_private.let_optimizers_update_all_at_once(SimTensor)
        torch_private.keep_parameters_when_modules_move(_is_simulated)
        torch_private.let_lazy_modules_wait(_is_simulated)
    register_magic()
    if settings != machine.settings:
        machine.configure(settings)
        forget_plans()


def _is_simulated(tensor: torch.Tensor) -> bool:
    return type(tensor) is SimTensor


def is_enabled() -> bool:
    """Whether this process has simulated GPUs."""
    return machine.settings is not None


def describe() -> str:
    """What is simulated, for a label: `2 x V100, nvlink2, virtual clock`. RuntimeError before `enable`."""
    settings = machine.settings
    if settings is None:
        raise RuntimeError("There are no simulated GPUs yet: simgpu.enable(count=2) makes two.")
    shapes = "" if settings.compute else ", shapes only"
    return f"{settings.count} x {settings.gpu.name}, {settings.link.name}, {settings.clock} clock{shapes}"


def log(since: float = -1.0) -> list[Record]:
    """What the devices did, oldest first: one record for each kernel and copy launched after `since`, in seconds."""
    newest = []
    for entry in reversed(list(machine.log or ())):
        if entry[8] <= since:  # when it was launched: the log is in that order
            break
        newest.append(entry)
    return [Record(*entry[:-1], *entry[-1]) for entry in reversed(newest)]


def unwaited_copies(since: float = -1.0) -> list[HostCopy]:
    """Copies to the host, launched after `since`, that nothing has waited for: to read their values now is a race.

    `x.to("cpu", non_blocking=True)` is one until the host synchronizes with its device, stream or event, has asked one
    of them and heard yes, or waits for something later. What a program reads from a CPU tensor is not seen here.
    """
    return [copy for copy in machine.unwaited if copy.launched > since]


def keep_log(most: int = LOG_LENGTH) -> None:
    """Keep the newest `most` records from now on, 200,000 unless told; 0 turns the log off."""
    if not isinstance(most, int) or most < 0:
        raise ValueError(f"simgpu.keep_log({most!r}): how many records, 0 for none")
    machine.keep_log(most)


def now() -> float:
    """The host's time on the machine's clock, in seconds since `enable`."""
    return machine.clock.now()
