"""The long way of an operator: each first call, and calls that no plan can describe.

The operands are checked, the value is computed on the CPU (or only its shape), the result gets the device of its
operands, and the kernel is charged to that device's clock and memory. What came of it becomes the plan of the calls
like it.
"""

from __future__ import annotations

import math

import torch

from . import refusals, torch_private
from .cost import seconds_for, work_of
from .device_check import common_gpu
from .hardware import DEVICE_TYPE, Gpu, machine
from .layout import layout_of
from .operators import INDEXES, STAYS_ON_HOST, Operator
from .plans import (
    COMPLEX,
    FIRST_CALL,
    KNOWN,
    MIXED_RESULTS,
    MOST_PLANS,
    NEVER,
    NEW,
    OTHER,
    SAME,
    VIEW,
    Plan,
    note_unplanned,
)
from .tensor import (
    SimTensor,
    are_known,
    forget,
    some_are_known,
    tensors_among,
    value_of,
    values_in,
    values_live_on,
    wrap,
    wrap_view,
)

aten = torch.ops.aten


def run_the_long_way(operator: Operator, args, kwargs, key: tuple | None = None):
    """Run one operator the long way, and keep the plan of it under `key`."""
    __tracebackhide__ = True
    torch_private.keep_backward_on_calling_thread()
    gpu = common_gpu(operator, args, kwargs)
    target = kwargs.get("device")
    if target is not None:  # zeros_like(x, device=...) may make its result elsewhere
        target = torch.device(target)
        gpu = machine.gpu(target) if target.type == DEVICE_TYPE else None
        kwargs = {**kwargs, "device": values_live_on() if gpu else target}
    if operator.changes_outside:
        _split_shared_values(operator, args, kwargs)
    known = are_known(args, kwargs)
    if key is not None and not machine.compute and some_are_known(args, kwargs):
        key = None
        note_unplanned(KNOWN)
    if not known:
        _forget_what_is_written(operator, args, kwargs)
    elif not machine.compute and kwargs.get("device") == "meta":
        kwargs = {**kwargs, "device": "cpu"}
    values = values_in(args, known)
    named_values = {name: values_in(value, known) for name, value in kwargs.items()}
    reads_values = operator.reads_values and not (operator.packet in INDEXES and not _has_mask(args))
    if not known and reads_values:
        raise refusals.no_values(operator.name)
    torch_private.heed_lazy_bits()
    if gpu is not None and machine.compute and not operator.only_views:
        _require_room(operator, gpu, values, named_values)
    out = operator.func(*values, **named_values)
    if gpu is None:
        return out

    given = dict(zip(operator.names, args, strict=False)) | kwargs
    for name in operator.writes:
        for tensor in tensors_among((given.get(name),)):
            _follow_value(tensor)
    single = operator.returns and not isinstance(out, (tuple, list))
    results = (out,) if single else out or ()
    on_host = STAYS_ON_HOST.get(operator.packet)
    written, viewed = operator.aliased, operator.viewed
    if len(written) != len(results):  # a list of tensors is one return
        written, viewed = written[:1] * len(results), viewed[:1] * len(results)
    made, planned = [], []
    for index, (value, written_one, viewed_one) in enumerate(zip(results, written, viewed, strict=True)):
        if index == on_host:
            made.append(value)
            planned.append(None)
            continue
        tensor, plan = _result(value, given.get(written_one), given.get(viewed_one), gpu, args)
        if type(value) is int and not single:  # beside tensors: a length, that their shapes say
            plan = (OTHER, None, value, 0)
        made.append(tensor)
        planned.append(plan)
    work = work_of(operator.packet, values, named_values, out)
    makes = any(isinstance(value, (torch.Tensor, list, tuple)) for value in results)
    has_work = reads_values or operator.writes or makes
    starts_kernel = work.bytes > 0 and has_work and not operator.free and not operator.only_views
    seconds = seconds_for(gpu.profile, work) if starts_kernel else None
    if seconds is not None:
        machine.launch(gpu, seconds, operator.name, work.bytes, work.flops)
    if reads_values:  # the host has to have the answer of torch.equal, the length of nonzero's result
        machine.wait_for_current(gpu)
    container = (type(out) if type(out) in (tuple, list) else tuple) if operator.returns else None
    if key is not None:
        why = _why_never(operator, reads_values, planned, (args, kwargs, made))
        note_unplanned(why or FIRST_CALL)
        if why is None:
            if len(operator.plans) >= MOST_PLANS:
                operator.plans.clear()
            operator.plans[key] = Plan(single, container, tuple(planned), seconds, work.bytes, work.flops)
    if container is None:
        return None
    return made[0] if single else container(made)


def _why_never(operator: Operator, reads_values: bool, planned: list, tensors: tuple) -> str | None:
    """Why equal calls of an operator may differ from this one, or None where they do not."""
    if not (operator.fixed or (operator.packet in INDEXES and not reads_values)):
        return NEVER
    if None in planned:
        return MIXED_RESULTS
    # Complex numbers always go the long way: an operator made of others may conjugate lazily between them.
    return COMPLEX if any(tensor.is_complex() for tensor in tensors_among(tensors)) else None


LARGEST = torch.complex128.itemsize


def _require_room(operator: Operator, gpu: Gpu, values, named_values) -> None:
    """Raise torch.OutOfMemoryError where the results of an operator would not fit, before they are computed."""
    most = LARGEST * _product(values) * (_product(named_values.values()) if named_values else 1)
    if most <= gpu.memory.free:
        return
    try:
        if operator.pointwise and _largest_broadcast(values) <= gpu.memory.free:
            return
        out = operator.func(
            *values_in(values, False), **{name: values_in(v, False) for name, v in named_values.items()}
        )
    except RuntimeError:  # shapes that do not go together: the CPU says so. Or an operator that has no rule for them
        return
    results = _bytes_behind(out if isinstance(out, (tuple, list)) else [out])
    if operator.changes_outside:  # `out=` takes what it does not have yet
        given = dict(zip(operator.names, values, strict=False)) | named_values
        gpu.memory.require(results - _bytes_behind(given.get(name) for name in operator.writes))
    elif not any((*operator.aliased, *operator.viewed)):
        gpu.memory.require(results)


def _product(args) -> int:
    """The product of all sizes and whole numbers among arguments: large results have no more numbers."""
    product = 1
    for arg in args:
        kind = type(arg)
        if kind is torch.Tensor:
            product *= arg.numel() or 1
        elif kind is int:
            product *= abs(arg) or 1
        elif kind is list or kind is tuple:
            product *= _product(arg)
    return product


def _largest_broadcast(values) -> int:
    """The most bytes of a pointwise operator's results: for each list of tensors as many."""
    tensors = [*tensors_among(values)]
    together = torch.broadcast_shapes(*(t.shape for t in values if isinstance(t, torch.Tensor)))
    apart = sum(t.numel() for t in tensors if not any(t is value for value in values))
    return LARGEST * max(math.prod(together), apart)


def _bytes_behind(tensors) -> int:
    return sum(tensor.untyped_storage().nbytes() for tensor in tensors_among(tensors))


def _has_mask(args) -> bool:
    return any(tensor.dtype in (torch.bool, torch.uint8) for tensor in tensors_among(args[1:2]))


def _split_shared_values(operator, args, kwargs) -> None:
    """Give tensors whose shape is about to change a value of their own: `detach` shares it."""
    given = dict(zip(operator.names, args, strict=False)) | kwargs
    for name in operator.writes:
        for tensor in tensors_among((given.get(name),)):
            if type(tensor) is SimTensor:
                tensor._value = aten.alias.default(value_of(tensor))


def _result(value, written, viewed, gpu, args):
    """(what the caller gets for one result, its line in the plan, or None if it cannot be planned)."""
    if written is not None:
        position = next((i for i, arg in enumerate(args) if arg is written), None)
        return written, None if position is None or isinstance(written, (list, tuple)) else (SAME, position, None, 0)
    if isinstance(value, torch.Tensor):
        if type(viewed) is SimTensor:
            tensor = wrap_view(value, viewed, layout_of(value))
            position = next((i for i, arg in enumerate(args) if arg is viewed), None)
            return tensor, None if position is None else (VIEW, position, tensor._layout, 0)
        tensor = wrap(value, gpu)
        return tensor, (NEW, None, tensor._layout, tensor._storage.size)
    if isinstance(value, (list, tuple)):
        return type(value)(_result(v, None, None, gpu, args)[0] for v in value), None
    return value, (OTHER, None, None, 0) if value is None else None


def _forget_what_is_written(operator: Operator, args, kwargs) -> None:
    given = dict(zip(operator.names, args, strict=False)) | kwargs
    for tensor in tensors_among(given.get(name) for name in operator.writes):
        if type(tensor) is SimTensor:
            forget(tensor)


def _follow_value(tensor) -> None:
    """Give the wrapper the shape that an in-place operator gave its value."""
    if type(tensor) is not SimTensor:
        return
    layout = layout_of(tensor._value)
    if layout is not tensor._layout:
        tensor._storage.grow(tensor._value.untyped_storage().nbytes())
        tensor.data = wrap_view(tensor._value, tensor, layout)
