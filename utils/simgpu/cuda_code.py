"""Code written for CUDA, run as it stands: `with simgpu.as_cuda():` and the cell magic `%%as_cuda`.

Inside, `cuda` means the simulated GPUs wherever a device is named, and the functions of `torch.cuda` are those of
`torch.simgpu`. The code also reads `cuda:N` where it asks a tensor for its device. What it prints of a tensor still
says simgpu: nothing simulated is shown as something else. Outside, nothing is changed.
"""

from __future__ import annotations

import ast
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode

from . import refusals, torch_private
from .distributed import NAME
from .hardware import DEVICE_TYPE, machine
from .tensor import SimTensor
from .torch_simgpu import DeviceModule, device_module

CUDA_NAME = re.compile(r"cuda(:\d+)?")
BACKEND = re.compile(r"nccl|((cpu|cuda):(gloo|nccl),?)+")


def _simulated(value):
    """A device of CUDA as a simulated one, with its number; anything else as it is."""
    if isinstance(value, str):
        return f"{DEVICE_TYPE}:{machine.here.gpu}" if value == "cuda" else _renamed(value)
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device(DEVICE_TYPE, value.index if value.index is not None else machine.here.gpu)
    return value


def _renamed(value):
    """A name of CUDA's as the simulated one's: of a device, a kind of device, or a backend of torch.distributed."""
    if not isinstance(value, str):
        return _simulated(value)
    if CUDA_NAME.fullmatch(value):
        return value.replace("cuda", DEVICE_TYPE, 1)
    # A backend: "nccl", or one for each kind of device, "cpu:gloo,cuda:nccl".
    return value.replace("cuda:", f"{DEVICE_TYPE}:").replace("nccl", NAME) if BACKEND.fullmatch(value) else value


class _Translate(TorchFunctionMode):
    """Between the caller and every function of PyTorch that names a device."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.device:  # names stay as they are written, so that they compare as they should
            if len(args) == 1 and type(args[0]) is int and not _asked_by_pytorch():
                args = ("cuda", *args)  # a GPU of the accelerator that there is
            return func(*args, **kwargs)
        if func is torch.Tensor.cuda:
            return _cuda(*args, **kwargs)
        if func in QUESTIONS and not _asked_by_pytorch():
            return QUESTIONS[func](func(*args))
        return func(*map(_simulated, args), **{name: _simulated(value) for name, value in kwargs.items()})


def _cuda(tensor, device=None, non_blocking=False, memory_format=torch.preserve_format):
    return tensor.to(
        f"{DEVICE_TYPE}:{machine.index_of(device)}", non_blocking=non_blocking, memory_format=memory_format
    )


def _asked_by_pytorch() -> bool:
    # PyTorch's own Python code would go on to CUDA's kernels if it were told cuda.
    frame = sys._getframe(2)
    while frame.f_globals.get("__name__") == "torch.utils._device":  # inside `with torch.device(...)`: only passes on
        frame = frame.f_back
    return frame.f_globals.get("__name__", "").partition(".")[0] == "torch"


def _as_cuda_device(device: torch.device) -> torch.device:
    return torch.device("cuda", device.index) if device.type == DEVICE_TYPE else device


# What code asks a tensor, and how the answer is translated.
QUESTIONS = {torch.Tensor.device.__get__: _as_cuda_device}


class _IsCuda:
    """`tensor.is_cuda`, true for simulated tensors while it is in place."""

    def __get__(self, tensor, kind=None):
        return tensor.device.type in ("cuda", DEVICE_TYPE)


# Where the functions of torch.cuda stand, under the same names: code imports them from either.
MODULES = (torch.cuda, torch.cuda.memory, torch.cuda.random, torch.cuda.streams, torch.cuda.graphs)
# What ends in the CUDA driver, in whatever function of PyTorch.
DRIVER = ((torch.cuda, "_lazy_init"), (torch.cuda, "_sleep"))
SNAPSHOTS = ("_snapshot", "_dump_snapshot", "_record_memory_history")
# Functions that are given a kind of device and that no mode sees.
NAMED = (
    *((torch, name) for name in ("is_autocast_enabled", "get_autocast_dtype", "set_autocast_enabled")),
    *((torch, "set_default_device"), (torch, "set_autocast_dtype"), (torch.amp, "is_autocast_available")),
    *((owner, name) for owner in (torch.amp, torch.amp.autocast_mode) for name in ("custom_fwd", "custom_bwd")),
)
# Functions of torch.distributed that are given a device or the name of a backend.
DISTRIBUTED = (
    (torch.distributed, "init_process_group"),
    (torch.distributed, "new_group"),
    (torch.distributed, "init_device_mesh"),
    (torch.distributed.distributed_c10d, "init_process_group"),
    (torch.distributed.distributed_c10d, "new_group"),
    (torch.distributed.device_mesh, "init_device_mesh"),
    (torch.distributed.device_mesh.DeviceMesh, "__init__"),
    (torch.distributed.ProcessGroup, "_start_coalescing"),
    (torch.distributed.ProcessGroup, "_end_coalescing"),
)


@contextmanager
def as_cuda() -> Iterator[None]:
    """Inside, code written for CUDA runs on the simulated GPUs, in this thread and in those that begin inside.

    Covered: device names and `torch.device`, `.cuda()`, the functions of `torch.cuda` that `torch.simgpu` has,
    `torch.autocast("cuda")`, `torch.amp.GradScaler("cuda")`, `torch.load(map_location="cuda:0")`, the backend "nccl"
    and device meshes of torch.distributed. Not covered: `torch.Generator(device="cuda")`, nn.DataParallel,
    torch.compile, CUDA extensions.
    """
    with ExitStack() as stack:
        for name in dir(DeviceModule):
            for module in MODULES:
                if not name.startswith("_") and hasattr(module, name):
                    stack.enter_context(mock.patch.object(module, name, getattr(device_module, name)))
        for owner, name in DRIVER:
            stack.enter_context(mock.patch.object(owner, name, _no_cuda))
        for name in SNAPSHOTS:
            stack.enter_context(mock.patch.object(torch.cuda.memory, name, device_module.memory_snapshot))
        stack.enter_context(mock.patch.object(torch, "is_autocast_enabled", _is_autocast_enabled))
        for name in ("custom_fwd", "custom_bwd"):
            ours = partial(getattr(torch.amp, name), device_type=DEVICE_TYPE)
            stack.enter_context(mock.patch.object(torch.cuda.amp, name, ours))
        owners = [*((kind, "__init__") for kind in (torch.autocast, torch.amp.GradScaler)), *NAMED]
        for owner, name in (*owners, *(DISTRIBUTED if torch.distributed.is_available() else ())):
            stack.enter_context(mock.patch.object(owner, name, _accepting_cuda(getattr(owner, name))))
        if torch.distributed.is_available():
            stack.enter_context(mock.patch.object(torch.distributed, "is_nccl_available", return_value=True))
        if hasattr(torch.distributed, "ProcessGroupNCCL"):
            stack.enter_context(mock.patch.object(torch.distributed.ProcessGroupNCCL, "__init__", _no_nccl))
        stack.enter_context(mock.patch.object(machine, "also_named", "cuda"))
        stack.enter_context(mock.patch.object(SimTensor, "is_cuda", _IsCuda(), create=True))
        translate = stack.enter_context(_Translate())
        stack.enter_context(mock.patch.object(threading.Thread, "start", _translated_thread(threading.Thread.start)))
        stack.enter_context(torch_private.also_in_backward_passes(translate))
        yield


def _no_cuda(*args, **kwargs):
    raise RuntimeError(refusals.NO_CUDA)


def _no_nccl(*args, **kwargs):
    raise RuntimeError(
        f'there is no NCCL here: {NAME} stands in for it. Make groups with init_process_group("nccl") and new_group, '
        "which take ProcessGroupNCCL.Options, too."
    )


def _is_autocast_enabled(device_type: str = DEVICE_TYPE, ask=torch.is_autocast_enabled) -> bool:
    """PyTorch's own, whose answer is for CUDA where no kind of device is named."""
    return ask(device_type)


def _translated_thread(start):
    """Threads that begin inside have the translation, too: PyTorch's modes belong to one thread."""

    @wraps(start)
    def starts(thread):
        run = thread.run

        @wraps(run)
        def translated():
            with _Translate():
                run()

        thread.run = translated
        return start(thread)

    return starts


def _accepting_cuda(function):
    @wraps(function)
    def translated(*args, **kwargs):
        return function(*map(_renamed, args), **{name: _renamed(value) for name, value in kwargs.items()})

    return translated


def run_cell_as_cuda(line: str, cell: str) -> None:
    """%%as_cuda: run the cell with `cuda` meaning the simulated GPUs."""
    from IPython import get_ipython

    shell = get_ipython()
    source = shell.transform_cell(cell)
    name = shell.compile.cache(source)  # so that an error shows the line it came from
    body = ast.parse(source, name).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) and not source.rstrip().endswith(";") else None
    with as_cuda():
        exec(compile(ast.Module(body, []), name, "exec"), shell.user_ns)
        if last is not None:
            shell.displayhook(eval(compile(ast.Expression(last.value), name, "eval"), shell.user_ns))


def register_magic() -> None:
    """Make %%as_cuda known, if this is a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is not None:
        shell.register_magic_function(run_cell_as_cuda, "cell", "as_cuda")
