"""Private names of the autograd engine: its way in, what runs in a backward pass, and the nodes of the graph."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from typing import Any

import torch

from .dispatch import DispatchMode

# A call into Python's C API checks for a pending exception when it returns, and raises it.
raise_what_is_pending = ctypes.pythonapi.Py_IsInitialized
of_this_thread = threading.local()

# PyTorch has one accelerator in a process, a PrivateUse1 device before CUDA, and gives nodes of the graph streams of
# that one only (pytorch issue 161129).
NO_STREAM = "opt_ready_stream && opt_parent_stream"
NO_REAL_BACKWARD = (
    "PyTorch runs no backward pass on real GPUs once this process has simulated ones (pytorch issue 161129). Restart "
    "the kernel, and train on the real ones before simgpu.enable(), or simulate in another process."
)


def raising_what_was_taken(run_backward, name, backward):
    """The autograd engine's entry, raising the exception that the device guard had to take out of its way."""

    def run(outputs, gradients, *args, **kwargs):
        __tracebackhide__ = True
        for output, gradient in zip(outputs, gradients, strict=False):
            if isinstance(gradient, torch.Tensor) and gradient.dim():
                _require_same_device(*_devices_of(output, gradient), name)
        try:
            with backward(), Unpinned() if finding_unused else nullcontext():
                return run_backward(outputs, gradients, *args, **kwargs)
        except RuntimeError as error:
            if NO_STREAM in str(error):
                raise RuntimeError(NO_REAL_BACKWARD) from None
            raise
        except SystemError:  # the engine failed, and has no exception to say why
            pending = of_this_thread.__dict__.pop("pending", None)
            if pending is None:
                raise
        raise pending

    return run


def _require_same_device(expected: torch.device, got: torch.device, name: str) -> None:
    # PyTorch checks this itself, but not for tensor subclasses.
    if got != expected and name in (got.type, expected.type):
        raise RuntimeError(
            f"invalid gradient: expected device {expected} but got {got}. "
            "The gradient given to backward has to be where the output is."
        )


def _devices_of(output, gradient) -> tuple[torch.device, torch.device]:
    """Where an output of the graph is, which is a tensor, or an edge, of which the graph knows it; and its gradient."""
    if not isinstance(output, torch.autograd.graph.GradientEdge):
        return output.device, gradient.device
    with torch._C.DisableTorchFunction():  # the graph says simgpu in code for CUDA, too
        return output.node._input_metadata[output.output_nr].device, gradient.device


class Unpinned(DispatchMode):
    """Inside, C++ that asks for pinned memory gets other memory, `mark`ed: a Python device has no such to give."""

    mark: Callable[[torch.Tensor], None]

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if not (kwargs and kwargs.get("pin_memory")):
            return func(*args, **kwargs or {})
        made = func(*args, **kwargs | {"pin_memory": False})
        Unpinned.mark(made)
        return made


finding_unused: weakref.WeakSet = weakref.WeakSet()  # models of DDP that find parameters which were not used


def keep_backward_on_calling_thread() -> None:
    """Run this thread's backward passes on this thread.

    The Python device guard answers for one device only, so the autograd engine's own device threads
    cannot serve a second one. The flag is per thread, hence called where every operator passes.
    """
    if not getattr(of_this_thread, "done", False):
        torch.autograd.set_multithreading_enabled(False)
        of_this_thread.done = True


def when_backward_ends(call: Callable[[], Any]) -> None:
    """Call this when the backward pass that runs on this thread has ended."""
    torch.autograd.Variable._execution_engine.queue_callback(call)


# The node of the graph that the autograd engine is running on this thread, or None.
current_node = torch._C._current_autograd_node
# The number that this thread's next operation in the graph will have.
next_sequence_number = torch._C._autograd._get_sequence_nr


def number_of(node) -> int:
    """The number that an operation had in the forward pass; the engine's own nodes have the largest number."""
    return node._sequence_nr()


def gradients_of(node) -> list:
    """For each gradient that a node of the graph is given: an object with its `device`, `shape` and `dtype`."""
    return [each for each in getattr(node, "_input_metadata", ()) if each is not None]


def check_phases(holds_values: Callable[[torch.Tensor], bool]) -> None:
    """Refuse a loss that depends on the phases of complex eigenvectors. PyTorch does, but asks no tensor subclass."""
    for name in ("eig", "eigh"):
        setattr(torch.linalg, name, _checking_phases(name, getattr(torch.linalg, name), holds_values))


def _checking_phases(name: str, eigen: Callable, holds_values: Callable[[torch.Tensor], bool]) -> Callable:
    @wraps(eigen)
    def run(*args, **kwargs):
        found = eigen(*args, **kwargs)
        vectors, node = found.eigenvectors, found.eigenvectors.grad_fn
        if node is not None and vectors.is_complex() and holds_values(vectors):
            fixed, number = vectors.detach(), vectors.output_nr

            @torch.no_grad()
            def check(gradients):
                if (gradient := gradients[number]) is None:
                    return
                turning = torch.linalg.vecdot(fixed, gradient, dim=-2).imag
                if not torch.allclose(turning, torch.zeros_like(turning), rtol=1e-2, atol=1e-2):
                    raise RuntimeError(
                        f"linalg_{name}_backward: The eigenvectors in the complex case are specified up to "
                        "multiplication by e^{i phi}. The specified loss function depends on this quantity, so it is "
                        "ill-defined."
                    )

            node.register_prehook(check)
        return found

    return run


# --- code of the program's that PyTorch calls back ----------------------------------------------------------------


@contextmanager
def also_in_calls_back(mode: torch.overrides.TorchFunctionMode) -> Iterator[None]:
    """Inside, hooks, `Function.backward` and kernels of a program's own run with a mode, too.

    PyTorch takes a mode away while the mode calls a function, and `Tensor.backward` is such a function.
    """
    autograd: Any = torch.autograd  # when a process ends, the module is gone before the mode is
    run_backward = autograd._engine_run_backward

    def run(*args, **kwargs):
        __tracebackhide__ = True
        with _translated():
            return run_backward(*args, **kwargs)

    global _translation
    before, _translation = _translation, mode
    autograd._engine_run_backward = run
    try:
        yield
    finally:
        autograd._engine_run_backward = run_backward
        _translation = before


_translation: torch.overrides.TorchFunctionMode | None = None


def _translated() -> AbstractContextManager:
    """A context with the mode of `also_in_calls_back`, where PyTorch has taken it away."""
    mode = _translation
    is_on = mode is None or mode in torch.overrides._get_current_function_mode_stack()
    return nullcontext() if mode is None or is_on else mode


def translating(call):
    """A function that PyTorch will call back, running with the mode."""
    if not callable(call) or call is torch.library.fallthrough_kernel:
        return call

    @wraps(call)
    def run(*args, **kwargs):
        with _translated():
            return call(*args, **kwargs)

    return run
