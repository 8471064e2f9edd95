"""Plans: what an operator does to shapes, and what it costs, kept for the next call that is known by the same key.

Both depend only on the shapes and settings that a call is given. The first call works them out (`long_way`); later
calls look them up here and replay them.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import torch

from . import ordering, torch_private
from .hardware import machine
from .memory import Storage
from .operators import known_operators
from .tensor import SimTensor, inferring, tensors_among, wrap_planned, wrap_view

# What a result is: a new tensor, a view of an argument, that argument itself, or no tensor.
NEW, VIEW, SAME, OTHER = range(4)
SEVERAL: tuple = (None, None, None, 0)  # in place of the one result that there is not
# Kept calls of one operator. A learning rate that changes each step is no new call; a changing shape is.
MOST_PLANS = 1000


class Plan(NamedTuple):
    """What one operator does when called with these layouts and settings."""

    single: bool
    container: type | None  # of several results: tuple or list; None for an operator that returns nothing
    # For each result: what it is, the position of the argument it comes from, its layout, its storage's bytes.
    results: tuple[tuple, ...]
    seconds: float | None  # None for what starts no kernel: views
    bytes: int
    flops: int


def forget_plans() -> None:
    """What kernels cost depends on the machine: forget it when the machine changes."""
    _unplanned.clear()
    forget_kinds()


def forget_kinds() -> None:
    """The kind of a result depends on the default one, where whole numbers become others: forget it when that changes.

    It is in no key, because all calls would have to ask for it.
    """
    for operator in known_operators():
        operator.plans.clear()


# --- calls without a plan ----------------------------------------------------------------------------------------

# Why a call was not planned, and how many were not since the machine was made.
FIRST_CALL = "first call"
TWO_GPUS = "tensors of two GPUs"
NOT_SIMULATED = "a tensor that is not simulated"
TENSOR_BY_NAME = "a tensor given by name"
NESTED = "a list in a list"
NO_KEY = "an argument that cannot be a key"
DEVICE = "a device argument"
KNOWN = "values on a machine of shapes"
COMPLEX = "complex numbers"
NEVER = "an operator that is never planned"
MIXED_RESULTS = "results that no plan describes"
_unplanned: Counter[str] = Counter()


def unplanned() -> Counter[str]:
    """How many calls of operators were not planned since `enable` made the machine: a copy, count by reason.

    A planned call is looked up, and costs the host a few microseconds; any other is worked out again. "first call" is
    no cause for concern: the next one with the same shapes and settings is planned. All other reasons stay. Copies,
    and operators that make tensors of no other tensor, are not planned and not counted; nor are calls that ended in
    an error, unless their arguments alone say that there can be no plan.

        >>> simgpu.unplanned().most_common(2)
        [('first call', 214), ('a device argument', 3)]
    """
    return _unplanned.copy()


def note_unplanned(reason: str) -> None:
    _unplanned[reason] += 1


class Uncommon(Exception):
    """The call is not of the kind that is planned."""

    def __init__(self, reason: str):
        super().__init__(reason)
        self.reason = reason


# --- by which key a call is known --------------------------------------------------------------------------------

_TRUE, _FALSE = object(), object()  # True and 1 are the same key of a dict, and not the same argument
# Arguments that are their own key: equal ones have equal effects.
PLAIN = {int, str, type(None), torch.dtype, torch.layout, torch.memory_format}
NUMBERS = {int, bool}


def key_of(operator, args, kwargs) -> tuple[tuple, Any, list, list]:
    """(what a call is known by, its GPU, its arguments with values for tensors, the storages of its tensors).

    Equal keys have equal shapes and costs. Raises Uncommon for a call that is not planned.
    """
    gpu = None
    key, values, storages = [], [], []
    for arg in args:
        kind = type(arg)
        if kind is SimTensor:
            if arg._gpu is not gpu:
                if gpu is not None:
                    raise Uncommon(TWO_GPUS)
                gpu = arg._gpu
            key.append(arg._layout)
            values.append(arg._value)
            storages.append(arg._storage)
            continue
        if kind is list or kind is tuple:
            if arg and type(arg[0]) in NUMBERS and not operator.list_of_scalars:
                key.append(tuple(arg))
            else:
                arg, gpu = _nested(arg, key, gpu, storages)
        elif kind is float:
            key.append(kind)  # which number it is changes no shape and no cost
        elif kind is bool:
            key.append(_TRUE if arg else _FALSE)
        elif kind not in PLAIN:
            if isinstance(arg, torch.Tensor):
                raise Uncommon(NOT_SIMULATED)
            key.append(kind)  # 1 + 0j and 1 are the same key of a dict, too
            key.append(arg)
        else:
            key.append(arg)
        values.append(arg)
    if kwargs:
        for name, arg in kwargs.items():
            kind = type(arg)
            if name == "device":
                raise Uncommon(DEVICE)
            if isinstance(arg, torch.Tensor):
                raise Uncommon(TENSOR_BY_NAME)
            key.append(name)
            if kind is complex:
                key.append(kind)
            key.append(kind if kind is float else arg if kind is not bool else _TRUE if arg else _FALSE)
    if operator.switch is not None and gpu is not None and gpu.profile.tf32:
        key.append(torch_private.rounds_float32(operator.switch))
    return tuple(key), gpu, values, storages


def _nested(items, key, gpu, storages):
    """Values of a list of arguments; its layouts go into `key`, its storages into `storages`. Returns (values, gpu)."""
    values = []
    for item in items:
        kind = type(item)
        if kind is SimTensor:
            if item._gpu is not gpu:
                if gpu is not None:
                    raise Uncommon(TWO_GPUS)
                gpu = item._gpu
            key.append(item._layout)
            storages.append(item._storage)
            item = item._value
        elif kind is float:
            key.append(kind)
        elif isinstance(item, torch.Tensor):
            raise Uncommon(NOT_SIMULATED)
        elif isinstance(item, (list, tuple)):
            raise Uncommon(NESTED)
        else:
            key.append(kind)
            key.append(item)
        values.append(item)
    key.append(len(values))
    return values, gpu


# --- doing what a plan says --------------------------------------------------------------------------------------


def replay(plan, operator, gpu, values, storages, args, kwargs):
    """Do what a plan says: take memory, compute, charge the kernel, and wrap what the caller gets."""
    __tracebackhide__ = True
    torch_private.keep_backward_on_calling_thread()
    queue = _queue_in_order(operator, gpu, storages) if machine.several_streams else None
    func = operator.func
    if machine.stopwatch is not None:
        func = machine.stopwatch.around(func)
    # Nearly all operators give one new tensor: its way is all in here, for each call of a function takes time.
    what, position, layout, size = plan.results[0] if plan.single else SEVERAL
    storage, new = None, ()
    if what == NEW:
        storage = Storage(gpu.memory, size)
    elif what is None:
        new = [Storage(gpu.memory, result[3]) if result[0] == NEW else None for result in plan.results]
    out = None
    if machine.compute:
        out = func(*values, **kwargs) if kwargs else func(*values)
    if plan.seconds is not None:
        machine.launch(gpu, plan.seconds, operator.name, plan.bytes, plan.flops, queue)
    if storage is not None:
        if queue is not None:
            storage.written = queue, queue.free, False
            if operator.written:
                _note_written(operator, args, storage.written)
        return wrap_planned(out, gpu, storage, layout)
    if what == VIEW:
        base = args[position]
        return wrap_view(out, base, layout) if inferring() else wrap_planned(out, gpu, base._storage, layout)
    made = _wrapped(plan, gpu, args, out, new) if what is None else [args[position] if what == SAME else layout]
    if queue is not None and not operator.makes_views:
        _note_written(operator, args, (queue, queue.free, False), made)
    if plan.single:
        return made[0]
    return plan.container(made) if plan.container is not None else None


def _wrapped(plan, gpu, args, out, new) -> list:
    """Several results as the caller gets them; `new` has the memory of each that is a new tensor."""
    made = []
    for index, (what, position, layout, _) in enumerate(plan.results):
        if what == OTHER:
            made.append(layout)
        elif what == SAME:
            made.append(args[position])
        else:
            value = out[index] if machine.compute else None
            is_new = what == NEW
            made.append(
                wrap_planned(value, gpu, new[index], layout) if is_new else wrap_view(value, args[position], layout)
            )
    return made


def _queue_in_order(operator, gpu, storages):
    """The queue for an operator that is given these storages, after it has waited for or warned of other queues."""
    __tracebackhide__ = True
    queues, backward = ordering.queues()
    queue = queues.get(gpu) or gpu.queues[0]
    for storage in storages:
        written = storage.written
        if written is not None and written[0] is not queue:
            ordering.heed(written, queue, backward, reads=operator.reads)
    return queue


def _note_written(operator, args, written: tuple, made=()) -> None:
    """What an operator made, and writes to among its arguments, was written by this queue, until then."""
    for tensor in tensors_among((*made, *(args[position] for position in operator.written if position < len(args)))):
        if type(tensor) is SimTensor:
            tensor._storage.written = written
