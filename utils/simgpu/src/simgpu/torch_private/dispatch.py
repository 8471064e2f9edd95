"""Private names of operators and of how PyTorch dispatches them: schemas, kernels, keys, modes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import torch
from torch.utils import _python_dispatch

AUTOCAST_KEY = "AutocastPrivateUse1"
# A context that sees every operator which runs inside it.
DispatchMode = _python_dispatch.TorchDispatchMode


def operator_schema(func):
    """The schema of an operator: `.arguments` and `.returns`, each with `.name` and `.alias_info`."""
    return func._schema


def packet_of(func):
    """The operator without its overload: `aten.add` for `aten.add.Tensor`."""
    return func._overloadpacket


def callable_of(func):
    """What calls an operator, without the Python function around it."""
    return func._op


def parts_of(func):
    """What calls an operator's parts, if it is made of others: simgpu's own function or PyTorch's. Else None.

    With autograd PyTorch calls that itself. In `torch.inference_mode()` it hands the operator over as a whole.
    """
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    if not has_kernel(func.name(), "CompositeImplicitAutograd"):
        return None
    key = "AutogradPrivateUse1" if has_kernel(func.name(), "AutogradPrivateUse1") else "CompositeImplicitAutograd"
    return partial(func._op_dk, getattr(torch._C.DispatchKey, key))


def kernel_from_python(func, key: str) -> Callable | None:
    """The kernel of an operator that was registered from Python for this dispatch key, or None."""
    name = func.name().replace("::", "/").removesuffix(".default")
    return partial(func._op_dk, getattr(torch._C.DispatchKey, key)) if f"{name}/{key}" in torch.library._impls else None


def without_autocast():
    """A context in which autocast changes nothing for simulated GPUs."""
    return torch._C._ExcludeDispatchKeyGuard(_autocast_keys)


_autocast_keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, AUTOCAST_KEY))


def set_lazy_bits(tensor: torch.Tensor, conj: bool, neg: bool) -> None:
    """Say whether a tensor's numbers are to be conjugated, and whether negated, when they are read."""
    if conj:
        torch._C._set_conj(tensor, True)
    if neg:
        torch._C._set_neg(tensor, True)


def heed_lazy_bits() -> None:
    """Let PyTorch resolve them in what a CPU operator calls, as it would outside: it stops while a dispatch runs."""
    for key in ("Conjugate", "Negative"):
        torch._C._dispatch_tls_set_dispatch_key_excluded(key, False)


_float32_precision = torch._C._get_fp32_precision_getter


def rounds_float32(what: str) -> bool:
    """Whether PyTorch's switches let float32 be rounded to TF32 on CUDA, in a "matmul", a "conv" or an "rnn".

    All of them end here: `torch.backends.cuda.matmul.allow_tf32`, `torch.backends.cudnn.allow_tf32`,
    `torch.set_float32_matmul_precision`, and `fp32_precision` of any of `torch.backends`.
    """
    return _float32_precision("cuda", what) == "tf32"


def compile_error(text: str) -> RuntimeError:
    """An error that torch.compile hands on as it is: to others it adds a page, or it goes on without compiling."""
    kind = sys.modules["torch._dynamo.exc"].UncapturedHigherOrderOpError
    return type("CompileError", (kind,), {"__module__": __package__, "__str__": lambda _: text})(text)


def being_compiled() -> bool:
    """Whether torch.compile is at work on this thread."""
    guards = sys.modules.get("torch._guards")
    return guards is not None and guards.CompileContext.current_compile_id() is not None


def let_libraries_ask(ask: Callable) -> Callable:
    """Let torch.library call `ask` wherever it would register operators; returns the function that registers them."""
    registers, torch._C._dispatch_library = torch._C._dispatch_library, ask
    return registers


def mode_counters() -> list[Callable[[], int]]:
    """Functions that count what runs other code in PyTorch's operators and is on in this thread.

    The modes (TorchFunctionMode, TorchDispatchMode), and hooks for all tensors that are saved for the backward pass.
    """
    from torch.utils import _python_dispatch

    top = torch._C._autograd._top_saved_tensors_default_hooks
    modes = [torch._C._len_torch_function_stack, _python_dispatch._len_torch_dispatch_stack]
    return [*modes, lambda: top(True) is not None]
