"""Private names for a device type written in Python, and for what asks which device is the current one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial, wraps
from typing import Any

import torch
from torch.utils import _device, backend_registration

from .autograd import of_this_thread, raise_what_is_pending, raising_what_was_taken

NUMBER_OF_DEVICE_TYPE = int(torch._C._autograd.DeviceType.PrivateUse1)
_kept_alive: list[object] = []


def say_more_where_cuda_is_missing(more: str) -> None:
    """Add `more` to PyTorch's error where a program asks for CUDA, and there is no driver or no CUDA in this build."""
    start: Callable[[], None] = torch.cuda._lazy_init

    @wraps(start)
    def _lazy_init() -> None:
        try:
            start()
        except (AssertionError, RuntimeError) as error:
            error.add_note(more)
            raise

    torch.cuda._lazy_init = _lazy_init


def register_device_type(name: str, device_module: object, backward: Callable[[], AbstractContextManager]) -> None:
    """Make `name` a device type of PyTorch, with `device_module` as `torch.<name>`. `backward` is around each backward
    pass.

    PyTorch has one such slot (PrivateUse1) in a process and cannot give it back.
    Raises RuntimeError where another backend has taken it.
    """

    class Guard(torch._C._acc.DeviceGuard):
        # PyTorch also asks this while an exception leaves a backward pass, with the exception still pending, and
        # ends the process if the answer fails, as any Python call does then. So a pending exception is taken
        # out here, and raised again where the backward pass was called. Only names that are local are safe to
        # use before that: looking up a global would fail.
        def type_(self, provoke=raise_what_is_pending, answer=torch._C._autograd.DeviceType.PrivateUse1):
            try:
                provoke()
            except BaseException as pending:
                of_this_thread.pending = pending
            return answer

    class Hooks(torch._C._acc.PrivateUse1Hooks):
        def is_available(self):
            return True

        def has_primary_context(self, index):
            return True

        def is_built(self):
            return True

    taken = torch._C._get_privateuse1_backend_name()
    if taken not in ("privateuseone", name):
        raise RuntimeError(
            f"simgpu needs PyTorch's one free device slot, and '{taken}' has taken it in this process. "
            f"Restart Python and do not import '{taken}' beside simgpu."
        )
    hooks, guard = Hooks(), Guard()
    backend_registration._setup_privateuseone_for_python_backend(name, device_module, hooks, guard)
    _kept_alive.extend([hooks, guard])
    autograd: Any = torch.autograd
    autograd._engine_run_backward = raising_what_was_taken(autograd._engine_run_backward, name, backward)


def let_accelerator_ask(module) -> None:
    """Let the functions of `torch.accelerator` that end in C++, which knows no Python device, ask `module`."""
    names = {
        "current_device_index": "current_device",
        "current_device_idx": "current_device",
        "set_device_index": "set_device",
        "set_device_idx": "set_device",
        "device_index": "device",
        "get_memory_info": "mem_get_info",
    }
    same = """current_stream set_stream synchronize empty_cache get_device_capability memory_stats memory_allocated
        max_memory_allocated memory_reserved max_memory_reserved reset_peak_memory_stats"""
    for name, ours in {**names, **{name: name for name in same.split()}}.items():
        if hasattr(torch.accelerator, name):
            setattr(torch.accelerator, name, _another(getattr(module, ours)))


def cudnn_version() -> int | None:
    """The version of PyTorch's cuDNN; None where it has none.

    PyTorch's own function refuses to tell where there is a GPU that this cuDNN is too new for, as for a V100.
    """
    cudnn = getattr(torch.backends.cudnn, "_cudnn", None)
    return None if cudnn is None else cudnn.getVersionInt()


def _another(function):
    """A function equal to no other: torch.compile refuses one that stands in two places."""
    return function if isinstance(function, type) else wraps(function)(partial(function))


def let_names_mean_the_current_device(kind: str, current: Callable[[], int]) -> None:
    """Let `kind` without a number mean device `current()` where PyTorch would resolve it in C++, which says 0.

    Factories are asked for the name as it was written; `x.to(kind)` and what copies data from the host are not.
    """
    _device._device_constructors()  # PyTorch keeps these functions as they are now, to know them again

    def numbered(value):
        is_named = type(value) in (str, torch.device) and str(value) == kind
        return torch.device(kind, current()) if is_named else value

    def resolved(function):
        @wraps(function)
        def on_the_current(*args, **kwargs):
            return function(*map(numbered, args), **{name: numbered(value) for name, value in kwargs.items()})

        return on_the_current

    for owner, name in ((torch.Tensor, "to"), (torch, "tensor"), (torch, "as_tensor"), (torch, "asarray")):
        setattr(owner, name, resolved(getattr(owner, name)))
