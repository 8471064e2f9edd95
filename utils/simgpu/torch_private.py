"""Every private PyTorch name that this project uses, and nothing else.

PyTorch calls its Python device backend experimental, so these names may move between releases.
When they do, this is the only file to mend: the rest of the project uses public names.
"""

from __future__ import annotations

import ctypes
import importlib
import threading

import torch
from torch import _tensor_str
from torch.utils import backend_registration

# Versions whose private names were tried: the first that has them all, and the newest that was tested.
FIRST_TESTED = (2, 11)
LAST_TESTED = (2, 15)

disabled_torch_function = torch._C._disabled_torch_function_impl
make_wrapper = torch.Tensor._make_wrapper_subclass


def torch_version() -> tuple[int, int]:
    """(major, minor) of the PyTorch that is running."""
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


def require_tested_torch() -> None:
    """Raise RuntimeError where this PyTorch lacks what a Python device needs, naming versions that have it."""
    tested = f"torch {'.'.join(map(str, FIRST_TESTED))} to {'.'.join(map(str, LAST_TESTED))}"
    if torch_version() < FIRST_TESTED:
        raise RuntimeError(
            f"simgpu was tested with {tested}, and this is torch {torch.__version__}. "
            f"Install a newer one: pip install 'torch>={'.'.join(map(str, FIRST_TESTED))}'"
        )
    missing = [
        name
        for owner, name in (
            (backend_registration, "_setup_privateuseone_for_python_backend"),
            (torch._C, "_acc"),
            (torch._C, "_autograd"),
        )
        if not hasattr(owner, name)
    ]
    if missing:
        raise RuntimeError(
            f"simgpu needs {', '.join(missing)}, which torch {torch.__version__} no longer has. "
            f"It was tested with {tested}: install one of those."
        )


def register_device_type(name: str, device_module: object) -> None:
    """Make `name` a device type of PyTorch, with `device_module` as `torch.<name>`.

    PyTorch has one such slot (PrivateUse1) in a process and cannot give it back.
    Raises RuntimeError where another backend has taken it.
    """

    class Guard(torch._C._acc.DeviceGuard):
        # PyTorch also asks this while an exception leaves a backward pass, with the exception still pending, and
        # ends the process if the answer fails, as any Python call does then. So a pending exception is taken
        # out here, and raised again where the backward pass was called. Only names that are local are safe to
        # use before that: looking up a global would fail.
        def type_(self, provoke=_raise_what_is_pending, answer=torch._C._autograd.DeviceType.PrivateUse1):
            try:
                provoke()
            except BaseException as pending:
                _thread.pending = pending
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
    torch.autograd._engine_run_backward = _raising_what_was_taken(torch.autograd._engine_run_backward)


def _raising_what_was_taken(run_backward):
    """The autograd engine's entry, raising the exception that the device guard had to take out of its way."""

    def run(*args, **kwargs):
        __tracebackhide__ = True
        try:
            return run_backward(*args, **kwargs)
        except SystemError:  # the engine failed, and has no exception to say why
            pending = _thread.__dict__.pop("pending", None)
            if pending is None:
                raise
        raise pending

    return run


_kept_alive: list[object] = []
# A call into Python's C API checks for a pending exception when it returns, and raises it.
_raise_what_is_pending = ctypes.pythonapi.Py_IsInitialized
_thread = threading.local()


def keep_backward_on_calling_thread() -> None:
    """Run this thread's backward passes on this thread.

    The Python device guard answers for one device only, so the autograd engine's own device threads
    cannot serve a second one. The flag is per thread, hence called where every operator passes.
    """
    if not getattr(_thread, "done", False):
        torch.autograd.set_multithreading_enabled(False)
        _thread.done = True


def keep_parameters_when_modules_move(is_simulated) -> None:
    """Let `module.to(device)` keep its Parameter objects when it crosses between the CPU and a simulated GPU.

    On CUDA a moved Parameter is the same object, so an optimizer made before the move and tied weights go on
    working. PyTorch does that by exchanging the data inside, which it cannot do between a CPU tensor and one of
    another class: it makes new Parameters, and optimizer and ties are silently cut. So after PyTorch's own
    conversion each old Parameter becomes its successor. Modules that never meet a simulated GPU are untouched.
    """
    convert = torch.nn.Module._apply
    if hasattr(convert, "keeps_parameters"):
        return

    def apply(module, fn, recurse=True):
        before = dict(module._parameters)
        result = convert(module, fn, recurse)
        for name, old in before.items():
            new = module._parameters[name]
            if new is not old and (is_simulated(old) or is_simulated(new)):
                _exchange(old, new)
                module._parameters[name] = old
        return result

    apply.keeps_parameters = True
    torch.nn.Module._apply = apply


def _exchange(old: torch.Tensor, new: torch.Tensor) -> None:
    # What torch.utils.swap_tensors does, without its refusal where an earlier output still holds the weights.
    old.__class__, new.__class__ = new.__class__, old.__class__
    old.__dict__, new.__dict__ = new.__dict__, old.__dict__
    torch._C._swap_tensor_impl(old, new)


def let_optimizers_update_all_at_once(kind: type) -> None:
    """Let optimizers and gradient clipping choose their `foreach` form for this class, as they do on CUDA."""
    for name in ("torch.optim.optimizer", "torch.utils._foreach_utils"):
        supported = importlib.import_module(name)._foreach_supported_types
        if kind not in supported:
            supported.append(kind)


def packet_of(func):
    """The operator without its overload: `aten.add` for `aten.add.Tensor`."""
    return func._overloadpacket


def callable_of(func):
    """What calls an operator, without the Python function around it."""
    return func._op


def in_backward() -> bool:
    """Whether the autograd engine is running a node on this thread."""
    return _current_node() is not None


_current_node = torch._C._current_autograd_node


def operator_schema(func):
    """The schema of an operator: `.arguments` and `.returns`, each with `.name` and `.alias_info`."""
    return func._schema


def tensor_text(value: torch.Tensor, indent: int) -> str:
    """The numbers of a CPU tensor as PyTorch prints them, without `tensor(` and `)`."""
    return _tensor_str._tensor_str(value, indent)


def join_suffixes(text: str, suffixes: list[str], indent: int) -> str:
    """`text` closed with suffixes such as `device='simgpu:0'`, wrapped at the width PyTorch wraps at."""
    return _tensor_str._add_suffixes(text, suffixes, indent, force_newline=False)


def rebuild_on_device():
    """The function that `torch.load(weights_only=True)` trusts to rebuild a tensor from a CPU copy."""
    return torch._utils._rebuild_device_tensor_from_cpu_tensor
