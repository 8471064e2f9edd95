"""Simulated GPUs that PyTorch treats as a device.

    import simgpu
    simgpu.enable(count=2)
    x = torch.randn(32, 1000, device="simgpu:0")

After `enable`, `simgpu:0` and `simgpu:1` are devices like `cuda:0` and `cuda:1`: tensors live on one of them,
operators refuse to mix them, and gradients cross between them. The numbers are computed on the CPU, so they
are the CPU's, bit for bit. Kernels and copies take time on a simulated clock, and tensors take memory. This
package imports nothing else from the course.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from multiprocessing.reduction import ForkingPickler

import torch

import simgpu_autoload

from . import refusals, torch_private
from ._version import __version__
from .activations import register_activations
from .attention import register_attention
from .autocast import register_autocast
from .collectives import Fabric
from .cuda_code import as_cuda, register_magic
from .distributed import PAIR, register_backend
from .estimates import AttentionInOneKernel, Estimate, estimate, operator_seconds
from .faults import Fault
from .flight import flight_recorder
from .flight import forget as forget_flights
from .hardware import DEVICE_TYPE, LOG_LENGTH, HostCopy, Record, Settings, machine, settings_from
from .loading import register_loading
from .losses import register_losses
from .measure import measure_link, measure_profile
from .memory import BLOCK, in_units
from .memory_history import history_follows_machine
from .moves import copying_shapes, register_factories
from .ordering import unfinished_reads
from .origin import label, note_what_runs, stepped_optimizers
from .plans import forget_kinds, forget_plans, unplanned
from .records import Reader, keep_log, log, log_length, recording, unwaited_copies
from .refusals import register_refusals
from .sequences import register_sequences
from .steps import replayed
from .tensor import OWN_ATTRIBUTES, SimTensor, storage_of
from .torch_simgpu import device_module, publish
from .uncompiled import register_uncompiled

__all__ = [
    "BLOCK",
    "LOG_LENGTH",
    "PAIR",
    "AttentionInOneKernel",
    "Estimate",
    "Fabric",
    "HostCopy",
    "Reader",
    "Record",
    "Settings",
    "__version__",
    "as_cuda",
    "copying_shapes",
    "describe",
    "enable",
    "estimate",
    "flight_recorder",
    "generation",
    "in_units",
    "is_enabled",
    "keep_log",
    "label",
    "log",
    "log_length",
    "measure_link",
    "measure_profile",
    "now",
    "operator_seconds",
    "recording",
    "replayed",
    "settings",
    "stepped_optimizers",
    "storage_of",
    "unfinished_reads",
    "unplanned",
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
    faults: Sequence[Fault] = (),
) -> None:
    """Give this process `count` simulated GPUs, named `simgpu:0`, `simgpu:1`, ...

    `gpu` names a hardware profile (`simgpu.profiles`) or is one; so do `link`, between the GPUs, and `host_link`,
    between each and the host. `clock` is "virtual" (the host's
    time is simulated too, every run gives the same times) or "paced" (the host's time is the wall clock, and
    waiting for a device sleeps). With `compute=False` tensors have shapes, time and memory but no values, so
    that a model larger than this machine can be planned. With `nodes` above 1 the GPUs, or the ranks of
    torch.distributed, are spread evenly over so many nodes, and `network` (`simgpu.profiles.NETWORKS`) is what links
    GPUs of different ones. `memory` is the bytes of each GPU, the profile's if None. `faults` are what is wrong with
    the machine (`simgpu.faults`): a slow GPU, a slow network adapter, a rank that skips a collective.

    Called again with the same arguments it changes nothing. Called with others it builds a new machine, and
    tensors of the old one are refused with an error that says so.

    Raises ValueError for an argument that makes no sense, naming what would, and RuntimeError for a PyTorch that
    lacks what a Python device needs, or where another backend holds PyTorch's one free device slot.
    """
    wanted = settings_from(count, gpu, link, clock, compute, memory, host_link, nodes, network, faults)
    if not is_enabled():
        torch_private.require_tested_torch()
        torch_private.register_device_type(DEVICE_TYPE, device_module, machine.backward)
        publish()
        register_factories()
        register_activations()
        register_attention()
        register_sequences()
        register_losses()
        register_autocast()
        register_loading()
        register_refusals()
        register_uncompiled()
        register_backend()
        torch_private.say_more_where_cuda_is_missing(refusals.NOT_AS_CUDA)
        torch_private.note_default_dtype(forget_kinds)
        torch_private.let_optimizers_update_all_at_once(SimTensor)
        torch_private.keep_parameters_when_modules_move(_is_simulated, OWN_ATTRIBUTES, refusals.NO_SCRIPTS)
        torch_private.let_lazy_modules_wait(_is_simulated)
        torch_private.let_storages_count_numbers(SimTensor)
        torch_private.refuse_bytes_and_subclasses(_is_simulated, refusals.NO_BYTES, refusals.no_subclass)
        torch_private.refuse_storages(DEVICE_TYPE, refusals.NO_STORAGE)
        ForkingPickler.register(SimTensor, refusals.no_sharing)
        torch_private.check_phases(lambda tensor: _is_simulated(tensor) and machine.compute)
        note_what_runs()
    register_magic()
    if wanted != machine.settings:
        machine.configure(wanted)
        forget_plans()
        forget_flights()
        history_follows_machine()


def _is_simulated(tensor: torch.Tensor) -> bool:
    return type(tensor) is SimTensor


def is_enabled() -> bool:
    """Whether this process has simulated GPUs."""
    return machine.settings is not None


def settings() -> Settings:
    """What was asked of `enable`, with the profiles themselves. RuntimeError before `enable`."""
    if machine.settings is None:
        raise RuntimeError("There are no simulated GPUs yet: simgpu.enable(count=2) makes two.")
    return machine.settings


def generation() -> int:
    """How many machines there have been: another number means that tensors and records of before are gone."""
    return machine.generation


def describe() -> str:
    """What is simulated, for a label: `4 x H100 in 2 nodes, nvlink4, 400G, virtual clock`.

    Links that nothing can pass are left out: of one GPU by itself, and within a node of one GPU. RuntimeError before
    `enable`.
    """
    now = settings()
    parts = [f"{now.count} x {now.gpu.name}"]
    if now.nodes > 1:
        parts[0] += f" {'in' if now.count > 1 else 'for'} {now.nodes} nodes"
    if now.count > now.nodes or (now.count == 1 and _stands_for_others()):
        parts.append(now.link.name)
    if now.nodes > 1:
        parts.append(now.network.name)
    parts.append(f"{now.clock} clock")
    if not now.compute:
        parts.append("shapes only")
    return ", ".join(parts)


def _stands_for_others() -> bool:
    """Whether this process is one of several ranks."""
    import torch.distributed as dist

    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def now() -> float:
    """The host's time on the machine's clock, in seconds since `enable`."""
    return machine.clock.now()


if simgpu_autoload.is_due:
    from .environment import enable_as_asked

    enable_as_asked(os.environ)
