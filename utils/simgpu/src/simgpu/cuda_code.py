"""Code written for CUDA, run as it stands: `with simgpu.as_cuda():` and the cell magic `%%as_cuda`.

Inside, `cuda` means the simulated GPUs wherever a device is named, and the functions of `torch.cuda` are those of
`torch.simgpu`. The code also reads `cuda:N` where it asks a tensor for its device. What it prints of a tensor still
says simgpu: nothing simulated is shown as something else. Outside, nothing is changed.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from types import FunctionType, MethodType
from typing import Any
from unittest import mock

import torch
import torch.cuda.comm
import torch.cuda.nccl
import torch.nn.parallel.comm
from torch.overrides import TorchFunctionMode

from . import comm, memory, memory_history, refusals, torch_private
from .distributed import NAME
from .hardware import DEVICE_TYPE, Gpu, machine
from .loading import load
from .moves import pinned
from .random_numbers import Generator
from .streams import Event, Stream
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
        own = OWN.get(func)
        if own is not None:
            return own(*args, **kwargs or {})
        if not kwargs:
            return func(*map(_simulated, args))
        if "generator" in kwargs or "pin_memory" in kwargs:
            return _made(func, args, kwargs)
        return func(*map(_simulated, args), **{name: _simulated(value) for name, value in kwargs.items()})


def _device(*args, **kwargs):
    """`torch.device`: names stay as they are written, so that they compare as they should."""
    if len(args) == 1 and type(args[0]) is int and not _asked_by_pytorch():
        args = ("cuda", *args)  # a GPU of the accelerator that there is
    return torch.device(*args, **kwargs)


def _cuda(tensor, device=None, non_blocking=False, memory_format=torch.preserve_format):
    return tensor.to(
        f"{DEVICE_TYPE}:{machine.index_of(device)}", non_blocking=non_blocking, memory_format=memory_format
    )


def _type(tensor, dtype=None, non_blocking=False, **kwargs):
    """`tensor.type()`, and `tensor.type("torch.cuda.FloatTensor")`, which also moves."""
    if dtype is None:
        return tensor.type().replace(f"torch.{DEVICE_TYPE}", "torch.cuda")
    kind = CUDA_TYPES.get(_type_name(dtype))
    if kind is None:
        return tensor.type(dtype, non_blocking, **kwargs)
    on = tensor.device if tensor.device.type == DEVICE_TYPE else f"{DEVICE_TYPE}:{device_module.current_device()}"
    return tensor.to(on, kind, non_blocking)


def _made(func, args, kwargs):
    """A tensor that is drawn, or made in pinned memory: neither of which C++ could do."""
    pin, generator = kwargs.pop("pin_memory", False), kwargs.get("generator")
    out = func(*map(_simulated, args), **{name: _simulated(value) for name, value in kwargs.items()})
    on_host = isinstance(out, torch.Tensor) and out.device.type == "cpu"
    if isinstance(generator, Generator) and on_host:
        raise RuntimeError(refusals.no_generator(out.device, generator.device))
    if pin and not on_host:
        raise RuntimeError(refusals.ONLY_THE_HOSTS)
    if pin:
        pinned.add(out)
    return out


def _asked_by_pytorch() -> bool:
    # PyTorch's own Python code would go on to CUDA's kernels if it were told cuda.
    frame = sys._getframe(3)
    # Inside `with torch.device(...)` that only passes on.
    while frame.f_globals.get("__name__") == "torch.utils._device" and frame.f_back is not None:
        frame = frame.f_back
    name = frame.f_globals.get("__name__", "")
    if name == "torch.nn.attention.flex_attention" and frame.f_code.co_name == "_validate_device":
        raise RuntimeError(refusals.NO_FLEX)
    return name.partition(".")[0] == "torch" and name != TOLD_CUDA


def _current_accelerator(ask):
    """`torch.accelerator.current_accelerator`, which is told as the code that asks would name it."""

    @wraps(ask)
    def current(*args, **kwargs):
        asked = sys._getframe(1).f_globals.get("__name__", "").partition(".")[0]
        device = ask(*args, **kwargs)
        return device if device is None or asked == "torch" else _as_cuda_device(device)

    return current


def _as_cuda_device(device: torch.device) -> torch.device:
    return torch.device("cuda", device.index) if device.type == DEVICE_TYPE else device


def _device_of(tensor):
    """`tensor.device`, which is told as the code that asks has named it."""
    return tensor.device if _asked_by_pytorch() else _as_cuda_device(tensor.device)


# Functions that are answered here.
OWN = {
    **{torch.device: _device, torch.Tensor.cuda: _cuda, torch.Tensor.type: _type},
    torch.Tensor.device.__get__: _device_of,
}


class _Device:
    """The `device` of a class of ours, translated."""

    def __init__(self, ours: property):
        self.ours = ours

    def __get__(self, thing, kind=None):
        device = self.ours.__get__(thing, kind)
        return _as_cuda_device(device) if isinstance(device, torch.device) else device


class _IsCuda:
    """`tensor.is_cuda`, true for simulated tensors while it is in place."""

    def __get__(self, tensor, kind=None):
        return tensor.device.type in ("cuda", DEVICE_TYPE)


class _NamedByType(type):
    """Of `torch.cuda.FloatTensor` and its like: calling one makes a tensor, and a tensor is one or is not."""

    dtype: torch.dtype

    def __call__(cls, *args, device=None):
        return getattr(torch, cls.__name__)(*args).cuda(device)

    def __instancecheck__(cls, tensor):
        return type(tensor) is SimTensor and tensor.dtype is cls.dtype


CUDA_TYPES = {
    f"torch.cuda.{name}Tensor": getattr(torch, f"{name}Tensor").dtype
    for name in ("Float", "Double", "Half", "BFloat16", "Byte", "Char", "Short", "Int", "Long", "Bool")
}
TYPES = {
    name: _NamedByType(name.rpartition(".")[2], (), {"__module__": "torch.cuda", "dtype": dtype})
    for name, dtype in CUDA_TYPES.items()
}


def _type_name(kind) -> str:
    return f"{kind.__module__}.{kind.__name__}" if isinstance(kind, type) else str(kind)


# What makes `torch.Tensor(...)` while the default type is one of CUDA's.
_made_by_default = ExitStack()


def _on_gpu_by_default(make):
    """`torch.Tensor.__new__`, which no mode sees: sizes and numbers become a tensor of the default type."""

    def __new__(cls, *args, **kwargs):
        if cls is not torch.Tensor or kwargs or any(isinstance(arg, torch.Tensor) for arg in args):
            return make(cls, *args, **kwargs)
        if not args or isinstance(args[0], (int, torch.Size)):
            return torch.empty(*(args or (0,)), device="cuda")
        return torch.tensor(*args, dtype=torch.get_default_dtype(), device="cuda")

    return __new__


def _set_default_tensor_type(kind, ask=torch.set_default_tensor_type) -> None:
    _made_by_default.close()
    if _type_name(kind) in CUDA_TYPES:
        ours = mock.patch.object(torch.Tensor, "__new__", _on_gpu_by_default(torch.Tensor.__new__))
        _made_by_default.enter_context(ours)
        torch.set_default_dtype(CUDA_TYPES[_type_name(kind)])
        torch.set_default_device("cuda")
    else:
        ask(kind)
        torch.set_default_device(None)


class _OneOfOurs(type):
    """Of a class of PyTorch's that makes one of ours where a simulated GPU is named."""

    def __call__(cls, device=None, *args, **kwargs):
        named = torch.device(cls.elsewhere if device is None else device)
        if named.type in (DEVICE_TYPE, "cuda"):
            return cls.ours(named, *args, **kwargs)
        return cls.theirs(*(() if device is None else (named,)), *args, **kwargs)

    def __instancecheck__(cls, thing):
        return isinstance(thing, (cls.theirs, cls.own_kind))

    def __getattr__(cls, name: str):
        return getattr(cls.theirs, name)


def _with_ours(name: str, ours, own_kind: type, elsewhere: str) -> type:
    theirs = getattr(torch, name)
    return _OneOfOurs(name, (), {"theirs": theirs, "ours": ours, "own_kind": own_kind, "elsewhere": elsewhere})


def _generator(device: torch.device) -> Generator:
    return Generator(machine.gpu(device).device, SEED, beside=True)


def _event(device, *, enable_timing=False, blocking=False, interprocess=False):
    return Event(enable_timing, blocking, interprocess)


_streams_for_copies: dict[Gpu, Stream] = {}
SEED = torch.Generator().initial_seed()  # of every generator that was not seeded
CLASSES = {
    "Generator": _with_ours("Generator", staticmethod(_generator), Generator, "cpu"),
    "Stream": _with_ours("Stream", Stream, Stream, "cuda"),
    "Event": _with_ours("Event", staticmethod(_event), Event, "cuda"),
}


# PyTorch's own, but it compares what a tensor says of its device with the kind that `torch.cuda` is.
TOLD_CUDA = "torch.nn.parallel.data_parallel"
# Where the functions of torch.cuda stand, under the same names: code imports them from either.
MODULES = (torch.cuda, torch.cuda.memory, torch.cuda.random, torch.cuda.streams, torch.cuda.graphs)
COPIES = ("broadcast", "broadcast_coalesced", "scatter", "gather")
# What ends in the CUDA driver, in whatever function of PyTorch.
DRIVER = (torch.cuda, "_lazy_init")
# What is given functions that PyTorch will call while it has taken the mode away.
CALLS_BACK = ((torch.library.Library, "impl"), (torch.autograd.graph.saved_tensors_hooks, "__init__"))
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
    and device meshes of torch.distributed, `torch.Generator("cuda")`, kernels that custom operators have for cuda.
    nn.DataParallel runs, its replicas one after the other.
    Not covered: CUDA extensions. What torch.compile is given runs uncompiled.
    """
    with ExitStack() as stack:
        for name in dir(DeviceModule):
            for module in MODULES:
                if not name.startswith("_") and hasattr(module, name):
                    stack.enter_context(mock.patch.object(module, name, getattr(device_module, name)))
        stack.enter_context(mock.patch.object(*DRIVER, _no_cuda))
        stack.enter_context(mock.patch.object(torch.cuda, "is_available", _is_available))
        stack.enter_context(mock.patch.object(*torch_private.RAW_STREAM, _no_raw_stream, create=True))
        stack.enter_context(mock.patch.object(torch.cuda, "_sleep", device_module.spin))
        stack.enter_context(mock.patch.object(torch.backends.cudnn, "version", torch_private.cudnn_version))
        ask = torch.accelerator.current_accelerator
        stack.enter_context(mock.patch.object(torch.accelerator, "current_accelerator", _current_accelerator(ask)))
        stack.enter_context(torch_private.replicas_in_turn(_stream_for_copies))
        for name, where in (("load", "map_location"), ("save", "m")):
            ours = _no_simulated_scripts(getattr(torch.jit, name), where)
            stack.enter_context(mock.patch.object(torch.jit, name, ours))
        for module in (torch.cuda.comm, torch.nn.parallel.comm):
            for name in COPIES:
                stack.enter_context(mock.patch.object(module, name, getattr(comm, name)))
        stack.enter_context(mock.patch.object(torch.cuda.nccl, "is_available", _has_no_nccl))
        for name, ours in memory_history.HISTORY.items():
            if hasattr(torch.cuda.memory, name):  # one of them is newer than PyTorch 2.11
                stack.enter_context(mock.patch.object(torch.cuda.memory, name, ours))
        for name, kind in CLASSES.items():
            stack.enter_context(mock.patch.object(torch, name, kind))
        for name, kind in TYPES.items():
            stack.enter_context(mock.patch.object(torch.cuda, name.rpartition(".")[2], kind))
        for owner, name in CALLS_BACK:
            stack.enter_context(mock.patch.object(owner, name, _calling_back(getattr(owner, name))))
        for name in ("nested_tensor", "as_nested_tensor"):
            stack.enter_context(mock.patch.object(torch.nested, name, _jagged(getattr(torch.nested, name))))
        stack.callback(_made_by_default.close)
        stack.enter_context(mock.patch.object(torch, "set_default_tensor_type", _set_default_tensor_type))
        stack.enter_context(mock.patch.object(torch.UntypedStorage, "cuda", _storage_on_gpu))
        for kind in (Generator, Stream, Event):
            stack.enter_context(mock.patch.object(kind, "device", _Device(kind.device)))
        profile = torch.autograd.profiler.profile
        stack.enter_context(mock.patch.object(profile, "__init__", _profiling_the_host(profile.__init__)))
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
        stack.enter_context(mock.patch.object(memory, "CALLED", "CUDA"))
        stack.enter_context(mock.patch.object(SimTensor, "is_cuda", _IsCuda(), create=True))
        translate = stack.enter_context(_Translate())
        stack.enter_context(mock.patch.object(threading.Thread, "start", _translated_thread(threading.Thread.start)))
        stack.enter_context(torch_private.also_in_calls_back(translate))
        yield


def _no_cuda(*args, **kwargs):
    asked = sys._getframe(1)
    module = asked.f_globals.get("__name__", "")
    raise RuntimeError(refusals.no_cuda(f"{module}.{asked.f_code.co_name}" if module.startswith("torch.") else "this"))


def _has_no_nccl(tensors) -> bool:
    return False


def _is_available() -> bool:
    # Triton asks before it loads the CUDA driver for its first kernel.
    if sys._getframe(1).f_globals.get("__name__") == "triton.backends.nvidia.driver":
        raise RuntimeError(refusals.NO_TRITON)
    return device_module.is_available()


def _stream_for_copies(device) -> Stream:
    """The stream on which `nn.DataParallel` copies to a GPU from the host."""
    gpu = machine.gpu(device)
    if gpu not in _streams_for_copies:
        _streams_for_copies[gpu] = Stream(gpu.device)
    return _streams_for_copies[gpu]


def _no_raw_stream(*args, **kwargs):
    raise RuntimeError(refusals.NO_RAW_STREAM)


def _no_simulated_scripts(function, where: str):
    """`torch.jit.load` and `torch.jit.save`, which refuse where their argument of this name means a simulated GPU."""
    arguments_of = inspect.signature(function).bind

    @wraps(function)
    def call(*args, **kwargs):
        given = arguments_of(*args, **kwargs).arguments.get(where)
        parts = given.parameters() if isinstance(given, torch.nn.Module) else ()
        is_named = isinstance(given, (str, torch.device)) and torch.device(given).type in (DEVICE_TYPE, "cuda")
        if is_named or any(type(part) is SimTensor for part in parts):
            raise RuntimeError(refusals.NO_SCRIPTS)
        return function(*args, **kwargs)

    return call


def _calling_back(function):
    @wraps(function)
    def call(*args, **kwargs):
        given = [translating(arg) for arg in args], {name: translating(arg) for name, arg in kwargs.items()}
        return function(*given[0], **given[1])

    def translating(arg):
        return torch_private.translating(arg) if isinstance(arg, (FunctionType, MethodType)) else arg

    return call


def _jagged(make):
    """Nested tensors on a simulated GPU are jagged ones, which are made of dense ones."""

    @wraps(make)
    def call(*args, **kwargs):
        made = make(*map(_simulated, args), **{name: _simulated(value) for name, value in kwargs.items()})
        if made.layout is torch.strided and made.device.type != "cpu":
            refusals.no_sparse()
        return made

    return call


def _storage_on_gpu(storage, device=None, non_blocking=False):
    return load(storage, f"{DEVICE_TYPE}:{machine.gpu(device).index}")


def _profiling_the_host(make):
    """A profiler that is asked for CUDA's side, too, has only the host's: of a simulated GPU CUPTI knows nothing."""

    @wraps(make)
    def __init__(self, *args, use_cpu=True, use_device=None, **kwargs):
        if use_device == "cuda":
            warnings.warn(refusals.ONLY_THE_HOSTS_SIDE, stacklevel=2)
            use_cpu, use_device = True, None
        make(self, *args, use_cpu=use_cpu, use_device=use_device, **kwargs)

    return __init__


def _note_fork() -> None:
    """In a process that was forked: what CUDA refuses there is refused."""
    if machine.also_named is not None and device_module.is_initialized():
        device_module.in_bad_fork = True
        machine.gpus = _NotAfterAFork(machine.gpus)
        refuse: Any = _NotAfterAFork.refuse
        SimTensor.__torch_dispatch__ = classmethod(refuse)


class _NotAfterAFork(tuple):
    """The GPUs of a process that was forked from one that had used them."""

    __slots__ = ()

    def refuse(self, *args, **kwargs):
        raise RuntimeError(refusals.FORKED)

    __getitem__ = refuse


os.register_at_fork(after_in_child=_note_fork)


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
