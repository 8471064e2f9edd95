"""Private names of modules, parameters and optimizers."""

from __future__ import annotations

import importlib
import inspect
from functools import wraps

import torch


def keep_parameters_when_modules_move(is_simulated, own: set[str], no_scripts: str) -> None:
    """Let `module.to(device)` keep its Parameter objects when it crosses between the CPU and a simulated GPU.

    On CUDA a moved Parameter is the same object, so an optimizer made before the move and tied weights go on
    working. PyTorch does that by exchanging the data inside, which it cannot do between a CPU tensor and one of
    another class: it makes new Parameters, and optimizer and ties are silently cut. So after PyTorch's own
    conversion each old Parameter becomes its successor, and keeps what a program has noted on it: all attributes
    but a simulated tensor's `own`. Modules that never meet a simulated GPU are untouched. A module of TorchScript has
    its parameters in C++: RuntimeError, with the words `no_scripts`.
    """
    convert = torch.nn.Module._apply
    if hasattr(convert, "keeps_parameters"):
        return

    def apply(module, fn, recurse=True):
        put_back = _without_lazy(module, fn)
        before = dict(module._parameters)
        try:
            result = convert(module, fn, recurse)
        except AssertionError:
            if isinstance(module, torch.jit.ScriptModule):
                raise RuntimeError(no_scripts) from None
            raise
        finally:
            put_back()
        for name, old in before.items():
            new = module._parameters[name]
            if new is not old and old is not None and (is_simulated(old) or is_simulated(new)):
                noted = {name: value for name, value in vars(old).items() if name not in own | {"_is_param"}}
                vars(new).update(noted)
                _exchange(old, new)
                module._parameters[name] = old
        return result

    apply.keeps_parameters = True
    torch.nn.Module._apply = apply


def let_lazy_modules_wait(is_simulated) -> None:
    """Let a module without shapes (`nn.LazyLinear`) be made on a simulated GPU or moved to one.

    Its parameters have no numbers yet. They stay on the CPU, remember the device, and are made there.
    """
    lazy = torch.nn.parameter
    mixin, make_it_real = lazy.UninitializedTensorMixin, lazy.UninitializedTensorMixin.materialize
    if hasattr(make_it_real, "knows_simulated_gpus"):
        return

    def materialize(self, shape, device=None, dtype=None):
        device = device or self.__dict__.pop("_wanted_on", None)
        if device is None or not is_simulated(new := torch.empty(shape, device=device, dtype=dtype or self.dtype)):
            return make_it_real(self, shape, device, dtype)
        needs_gradient = self.requires_grad
        self.__class__ = self.cls_to_become
        if isinstance(self, torch.nn.Parameter):
            new = torch.nn.Parameter(new, needs_gradient)
        _exchange(self, new)

    materialize.knows_simulated_gpus = True
    mixin.materialize = materialize
    for kind in (lazy.UninitializedParameter, lazy.UninitializedBuffer):
        kind.__new__ = staticmethod(_remembering(kind.__new__, is_simulated))


def _remembering(make, is_simulated):
    arguments_of = inspect.signature(make).bind

    def __new__(*args, **kwargs):
        arguments = arguments_of(*args, **kwargs).arguments
        wanted = torch.empty(0, device=arguments.get("device"))
        if not is_simulated(wanted):
            return make(*args, **kwargs)
        made = make(**arguments | {"device": "cpu"})
        made._wanted_on = wanted.device
        return made

    return __new__


def _without_lazy(module, fn):
    """Take parameters and buffers without numbers out of a module that moves; returns what puts them back."""
    taken = [
        (tensors, name, tensor)
        for tensors in (module._parameters, module._buffers)
        for name, tensor in tensors.items()
        if torch.nn.parameter.is_lazy(tensor)
    ]
    for tensors, name, tensor in taken:
        tensors[name] = None
        moved = fn(torch.empty(0, dtype=tensor.dtype, device=tensor.__dict__.pop("_wanted_on", None)))
        tensor._wanted_on = moved.device
        if moved.dtype is not tensor.dtype:
            tensor.data = tensor.data.to(moved.dtype)

    def put_back():
        for tensors, name, tensor in taken:
            tensors[name] = tensor

    return put_back


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


def note_what_runs(thread) -> None:
    """Let `thread.running` tell, on each thread, which module or optimizer runs: (the innermost, what it runs in).

    What it runs in is told in the same way, and is None at the outermost.
    """

    def noting(run):
        @wraps(run)
        def noted(self, *args, **kwargs):
            __tracebackhide__ = True
            outer = thread.running
            thread.running = self, outer
            try:
                return run(self, *args, **kwargs)
            finally:
                thread.running = outer

        noted.notes_what_runs = True
        return noted

    module, optimizer = torch.nn.Module, torch.optim.Optimizer
    if hasattr(module.__call__, "notes_what_runs"):
        return
    module.__call__ = noting(module.__call__)
    # PyTorch wraps the `step` of a class of optimizers when the first of them is made.
    wrap_step = optimizer.profile_hook_step
    optimizer.profile_hook_step = staticmethod(lambda step: noting(wrap_step(step)))
    for kind in _subclasses(optimizer):
        if hasattr(vars(kind).get("step"), "hooked"):
            kind.step = noting(kind.step)


def _subclasses(kind: type) -> set[type]:
    return {kind}.union(*map(_subclasses, kind.__subclasses__()))
