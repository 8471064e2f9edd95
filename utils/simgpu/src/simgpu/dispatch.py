"""What happens when an operator meets a tensor on a simulated GPU: the way in from PyTorch.

Every operator on a `SimTensor` passes `dispatch`. It looks up what is known of the operator (`operators`), and runs a
call by its plan (`plans`), or the long way (`long_way`) where there is none yet. Copies, factories and others have a
path of their own (`operators.SPECIAL`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from . import ordering, refusals, torch_private
from .hardware import DEVICE_TYPE, Gpu, machine
from .long_way import run_the_long_way
from .memory import Storage
from .operators import PYTORCHS_AND_OURS, SPECIAL, Operator, find_operator, remember_operator
from .plans import NO_KEY, Uncommon, key_of, note_unplanned, replay
from .random_numbers import simulated
from .tensor import SimTensor, inferring, refuse_if_retired, tensors_among, wrap_planned, wrap_view

aten = torch.ops.aten


def dispatch(cls, func, types, args=(), kwargs=None):
    """Run one operator that has met a tensor of this class: its `__torch_dispatch__`."""
    __tracebackhide__ = True  # IPython leaves these frames out: on a GPU there are none
    if len(types) > 1:  # a class of somebody else's that wraps tensors, such as DTensor: it is asked first
        return NotImplemented
    operator = find_operator(id(func)) or _operator_of(func)
    special = operator.special
    try:
        if special is None:
            return _run_planned(operator, args, kwargs)
        if machine.several_streams and not operator.draws:
            return _run_in_order(special, operator, args, kwargs or {})
        return special(*args, **kwargs) if kwargs else special(*args)
    except RuntimeError as error:
        plainer = refusals.of_the_cpu(error, func)
        if plainer is None:
            raise
    raise plainer


SimTensor.__torch_dispatch__ = classmethod(dispatch)


def operator_of(func) -> Operator:
    """What is known about an operator."""
    return find_operator(id(func)) or _operator_of(func)


def _operator_of(func) -> Operator:
    operator = Operator(func)
    operator.special = _special_way(operator, func)
    remember_operator(func, operator)
    return operator


def _special_way(operator: Operator, func) -> Callable | None:
    """What runs an operator that not only plans and the long way run."""
    special = operator.special or (partial(_draw, operator) if operator.draws else None)
    if func.namespace not in PYTORCHS_AND_OURS:
        special = partial(_run_custom, func, special or partial(_run_as_planned, operator))
    if operator.name.startswith("_foreach_") and operator.name.endswith("_"):
        special = partial(_run_in_place, special or partial(_run_as_planned, operator))
    return special


def _run_planned(operator, args, kwargs):
    """Run one operator that has met a simulated tensor, by its plan where there is one.

    Raises RuntimeError where its operands live on different devices, in PyTorch's words, and
    torch.OutOfMemoryError where the result does not fit.
    """
    __tracebackhide__ = True
    try:
        key, gpu, values, storages = key_of(operator, args, kwargs)
        plan = operator.plans.get(key)
    except Uncommon as uncommon:
        key = None
        note_unplanned(uncommon.reason)
    except TypeError:
        key = None
        note_unplanned(NO_KEY)
    else:
        if plan is not None and not gpu.retired:
            return replay(plan, operator, gpu, values, storages, args, kwargs)
    if machine.several_streams:
        return _run_in_order(partial(_run_as_given, operator, key), operator, args, kwargs or {})
    return run_the_long_way(operator, args, kwargs or {}, key)


def _run_in_order(run, operator, args, kwargs):
    """Run one operator on a machine that has several streams on a GPU, where it has no plan."""
    __tracebackhide__ = True
    pairs = _pairs((*args, *kwargs.values()))
    with ordering.of(pairs, reads=operator.reads, copies=operator.copies):
        out = run(*args, **kwargs)
        if not operator.makes_views:
            results = out if isinstance(out, (tuple, list)) else [out]
            given = dict(zip(operator.names, args, strict=False)) | kwargs
            written = [*results, *(given.get(name) for name in operator.writes)]
            ordering.note(_pairs(written), copies=operator.copies)
    return out


def _pairs(args) -> list[tuple[Gpu, Storage]]:
    return [(t._gpu, t._storage) for t in tensors_among(args) if type(t) is SimTensor]


def _run_as_planned(operator, *args, **kwargs):
    __tracebackhide__ = True
    return _run_planned(operator, args, kwargs)


def _run_in_place(run, lists, *args, **kwargs):
    """A list of tensors changed in place: autograd is told, as CUDA's kernels do (ForeachBinaryOpList.cu) and it is not
    where a list goes by Python."""
    result = run(lists, *args, **kwargs)
    torch.autograd.graph.increment_version([tensor for tensor in lists if not tensor.is_inference()])
    return result


def _run_custom(func, otherwise, *args, **kwargs):
    """Run an operator of a program's own: by the kernel that it has for the device, on simulated tensors."""
    __tracebackhide__ = True
    kernel = torch_private.kernel_from_python(func, "PrivateUse1")
    if kernel is None and machine.also_named is not None:
        kernel = torch_private.kernel_from_python(func, machine.also_named.upper())
    return (otherwise if kernel is None else kernel)(*args, **kwargs)


def _run_as_given(operator, key, *args, **kwargs):
    __tracebackhide__ = True
    return run_the_long_way(operator, args, kwargs, key)


def _draw(operator: Operator, *args, **kwargs):
    """Run an operator that draws random numbers, from the generator of the GPU where its result is."""
    __tracebackhide__ = True
    gpu = next(t._gpu for t in tensors_among((*args, *kwargs.values())) if type(t) is SimTensor)
    target = torch.device(kwargs.get("device") or gpu.device)
    generator = gpu.generator
    if kwargs.get("generator") is not None:
        generator = simulated(kwargs["generator"])
        if generator is None:
            raise RuntimeError(refusals.no_generator(target, kwargs["generator"].device))
        kwargs = {**kwargs, "generator": None}
    elif target != gpu.device:  # randn_like(x, device=...)
        generator = machine.gpu(target).generator if target.type == DEVICE_TYPE else None
    if generator is None or not machine.compute:
        return _run_planned(operator, args, kwargs)
    with generator.in_place_of_the_cpus():
        return _run_planned(operator, args, kwargs)


def _detach(tensor):
    # Autograd calls this more often than anything else. The value is shared, not even viewed.
    if tensor._gpu.retired:
        refuse_if_retired(tensor)
    if inferring():
        return wrap_view(tensor._value, tensor, tensor._layout)
    return wrap_planned(tensor._value, tensor._gpu, tensor._storage, tensor._layout)


def _is_same_size(one, other) -> bool:
    # Forward-mode gradients ask it of tensors on two devices. It reads no numbers and starts no kernel.
    return one.shape == other.shape


def _has_same_storage_numel(one, other) -> bool:
    lengths = (tensor.untyped_storage().nbytes() // tensor.element_size() for tensor in (one, other))
    return next(lengths) == next(lengths)


SPECIAL |= {
    aten.detach.default: _detach,
    aten.is_same_size.default: _is_same_size,
    aten._has_same_storage_numel.default: _has_same_storage_numel,
}
