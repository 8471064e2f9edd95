"""A tensor on a simulated GPU, and what happens when an operator meets one.

Every operator on a `SimTensor` passes `dispatch`. It checks that the operands live on one device, computes the
value on the CPU (or only its shape), gives the result the device of its operands, and charges the kernel to
that device's clock and memory. Values are therefore the CPU's, bit for bit. Autograd sits above this and
needs nothing from it: it sees tensors of an ordinary device.

What an operator does to shapes, and what it costs, depends only on the shapes and settings it is given. The
first call works that out and keeps it as a `Plan`; later calls look it up.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch

from . import batch_norm, ordering, recurrent, refusals, torch_private
from .activations import WHOLE
from .cost import SWITCHES, seconds_for, work_of
from .hardware import DEVICE_TYPE, Gpu, machine
from .memory import Storage
from .random_numbers import draws, simulated

aten = torch.ops.aten
make_wrapper = torch_private.make_wrapper
STRIDED = torch.strided
# What is computed in place of an operator that has no CPU kernel.
SUBSTITUTES = recurrent.SUBSTITUTES | batch_norm.SUBSTITUTES


class Layout:
    """The outside of a tensor. Equal layouts are one object, so that a lookup hashes and compares identities."""

    __slots__ = ("conj", "dtype", "known", "lazy", "neg", "offset", "shape", "stride")

    def __init__(
        self,
        shape: torch.Size,
        stride: tuple[int, ...],
        offset: int,
        dtype: torch.dtype,
        conj: bool,
        neg: bool,
        known: bool = False,
    ):
        self.shape = shape
        self.stride = stride
        self.offset = offset
        self.dtype = dtype
        self.conj = conj
        self.neg = neg
        self.lazy = conj or neg
        # Whether the tensor has its numbers though the machine keeps only shapes. So it meets no plan for shapes.
        self.known = known

    def mark(self, tensor: torch.Tensor) -> torch.Tensor:
        """Give a tensor the bits of PyTorch's lazy conjugation and negation.

        PyTorch resolves them before an operator comes here, if it has no meaning for them: by the bits of what is
        outside. What comes here with them is meant to, by the bits of the value. So the two have to agree.
        """
        torch_private.set_lazy_bits(tensor, self.conj, self.neg)
        return tensor


_layouts: dict[tuple, Layout] = {}


def layout_of(value: torch.Tensor) -> Layout:
    known = not machine.compute and value.is_cpu
    parts = (value.shape, value.stride(), value.storage_offset(), value.dtype, value.is_conj(), value.is_neg(), known)
    layout = _layouts.get(parts)
    if layout is None:
        layout = _layouts[parts] = Layout(*parts)
    return layout


class SimTensor(torch.Tensor):
    """A tensor on a simulated GPU: PyTorch sees the device, `_value` is the CPU tensor with the numbers.

    Students never name this class. They write `x.to("simgpu:0")` and get one. In shape-only mode `_value` is a
    tensor on PyTorch's `meta` device: a shape without numbers.
    """

    # Subclass behaviour is not wanted above autograd: functions return what they would for any device.
    __torch_function__ = torch_private.disabled_torch_function

    def __new__(cls, data, requires_grad=False):
        """A parameter. Libraries make one by `type(parameter)(data, requires_grad=...)`: nn.Parameter, on CUDA."""
        return torch.nn.Parameter(data, requires_grad)

    def __init__(self, data, requires_grad=False):
        """Nothing: `__new__` has done it."""

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        __tracebackhide__ = True  # IPython leaves these frames out: on a GPU there are none
        if len(types) > 1:  # a class of somebody else's that wraps tensors, such as DTensor: it is asked first
            return NotImplemented
        operator = _operators.get(id(func)) or _operator_of(func)
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

    @property
    def data(self):
        return torch.Tensor.data.__get__(self)

    @data.setter
    def data(self, new):
        if type(new) is not SimTensor:
            raise RuntimeError(
                f"On simulated GPUs x.data cannot become a tensor that is on the {new.device.type}: this one is on "
                f"{self.device}. Use x.copy_(...), or module.to(device) and the tensors that it has then."
            )
        # PyTorch moves the outside (shape, device) from `new`; the numbers have to follow.
        torch.Tensor.data.__set__(self, new)
        self._value, self._gpu, self._storage, self._layout = new._value, new._gpu, new._storage, new._layout

    def untyped_storage(self):
        """The memory behind this tensor, as far as it has one: its size, its address, freeing and taking it."""
        return SimStorage(self)

    def data_ptr(self) -> int:
        """An address that only tensors in the same place of the same memory have: for telling tensors apart."""
        start = self.untyped_storage().data_ptr()
        return start + self.storage_offset() * self.element_size() if start else 0

    def set_(self, source=None, *args, **kwargs):
        """As `torch.Tensor.set_`; of a storage a tensor is made that has all of it."""
        source = source.untyped() if hasattr(source, "untyped") else source
        if isinstance(source, SimStorage):
            source = source.tensor(self.dtype)
        if type(source) is SimTensor and (args or kwargs):
            source, args, kwargs = source.detach()._part(*args, **kwargs), (), {}
        return torch.Tensor.set_(self, *(() if source is None else (source,)), *args, **kwargs)

    def _part(self, storage_offset: int, size, stride=None):
        """What is at these places from this tensor's first number on, as `set_` has it: in rows, without strides."""
        stride = torch.empty(size, device="meta").stride() if stride is None or not len(stride) else stride
        return self.as_strided(size, stride, self.storage_offset() + storage_offset)

    def tolist(self):
        return self.cpu().tolist()

    def __format__(self, spec):
        return format(self.item(), spec) if self.dim() == 0 else object.__format__(self, spec)

    def record_stream(self, stream) -> None:
        """Nothing: memory here is given away again when the last reference goes, whatever streams still do."""

    def numpy(self, *, force=False):
        if force:
            return self.detach().cpu().resolve_conj().resolve_neg().numpy()
        raise TypeError(
            f"can't convert {self.device} device type tensor to numpy. "
            "Use Tensor.cpu() to copy the tensor to host memory first."
        )

    def __dlpack__(self, **kwargs):
        raise BufferError(refusals.NO_BYTES)

    __dlpack_device__ = __dlpack__

    @property
    def __cuda_array_interface__(self):
        raise AttributeError(refusals.NO_BYTES)

    def share_memory_(self):
        """Nothing, as on CUDA."""
        return self

    def is_shared(self) -> bool:
        return True

    def as_subclass(self, cls):
        if not issubclass(SimTensor, cls):
            raise TypeError(refusals.no_subclass(cls))
        return super().as_subclass(cls)

    @property
    def __tensor_flatten__(self):
        # torch.compile asks whether a tensor has this before it traces one.
        if torch_private.being_compiled():
            raise torch_private.compile_error(refusals.NO_COMPILE)
        raise AttributeError("__tensor_flatten__")

    def __array__(self, dtype=None, copy=None):
        return self.numpy()

    def __reduce_ex__(self, protocol):
        rebuild = torch_private.rebuild_on_device()
        return rebuild, (self.detach().cpu(), self.dtype, str(self.device), self.requires_grad)

    def __deepcopy__(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol. "
                "Copy tensor.detach() instead."
            )
        with torch.no_grad():
            twin = memo[id(self)] = self.clone(memory_format=torch.preserve_format)
        for name, value in self.__dict__.items():
            if name not in OWN_ATTRIBUTES:
                setattr(twin, name, copy.deepcopy(value, memo))
        twin.requires_grad_(self.requires_grad)
        if self.grad is not None:
            twin.grad = copy.deepcopy(self.grad, memo)
        return twin

    def __repr__(self, *, tensor_contents=None):
        text = _text(self)
        return f"Parameter containing:\n{text}" if getattr(self, "_is_param", False) else text


class SimStorage:
    """What `tensor.untyped_storage()` is on a simulated GPU: through it FSDP frees weights and takes them again."""

    def __init__(self, tensor: SimTensor):
        self._of, self._counted, self._values = tensor, tensor._storage, value_of(tensor).untyped_storage()
        self.device = tensor.device

    def tensor(self, dtype: torch.dtype) -> SimTensor:
        """All numbers in it, of the type that they have. RuntimeError for another type."""
        of = self._of.detach()
        if of.dtype != dtype:
            raise RuntimeError(
                f"This storage on {self.device} holds {of.dtype}: set_ on it needs a tensor of that type."
            )
        return of.as_strided((self.size() // of.element_size(),), (1,), 0)

    def size(self) -> int:
        return self._values.size()

    nbytes = size

    def data_ptr(self) -> int:
        # Where only shapes are kept there are no numbers that would have an address.
        return self._values.data_ptr() or (id(self._counted) if self.size() else 0)

    def resize_(self, size: int) -> SimStorage:
        self._values.resize_(size)
        self._counted.resize(size)
        return self

    def __eq__(self, other) -> bool:
        return isinstance(other, SimStorage) and other._counted is self._counted

    def __hash__(self) -> int:
        return id(self._counted)


def storage_of(tensor: SimTensor) -> Storage:
    """The memory that holds a tensor: its views have the same."""
    return tensor._storage


OWN_ATTRIBUTES = {"_value", "_gpu", "_storage", "_layout"}


def wrap(value: torch.Tensor, gpu: Gpu, storage: Storage | None = None) -> SimTensor:
    """A tensor on `gpu` whose numbers are those of `value`; a view if it shares the `storage` of another."""
    if value.layout is not torch.strided or value.is_nested or value.is_quantized:
        refusals.no_sparse()
    layout = layout_of(value)
    if storage is None:
        storage = Storage(gpu.memory, value.untyped_storage().nbytes())
    return wrap_planned(value, gpu, storage, layout)


def wrap_planned(value: torch.Tensor | None, gpu: Gpu, storage: Storage, layout: Layout) -> SimTensor:
    """A tensor of which everything is known: its value is made when it is asked for, if it is None."""
    # By position, which is measurably faster: size, strides, offset, memory format, dtype, layout, device.
    tensor = make_wrapper(
        SimTensor, layout.shape, layout.stride, layout.offset, None, layout.dtype, STRIDED, gpu.device
    )
    tensor._value = value
    tensor._gpu = gpu
    tensor._storage = storage
    tensor._layout = layout
    return layout.mark(tensor) if layout.lazy else tensor


def _text(tensor: SimTensor) -> str:
    # The same rules as PyTorch's own printing, which shows `device=` for everything that is not on the CPU.
    refuse_if_retired(tensor)
    suffixes = [f"device='{tensor.device}'"]
    usual = (torch.get_default_dtype(),)
    if not machine.compute:
        contents = "..."
        suffixes.append(f"size={tuple(tensor.shape)}")
    elif tensor.numel():
        machine.wait_for(tensor._gpu)
        contents = torch_private.tensor_text(tensor._value.detach(), len("tensor("))
        usual += (torch.int64, torch.bool)
        usual += (torch.complex128 if usual[0] == torch.float64 else torch.complex64,)
    else:
        contents = "[]"
        if tensor.dim() != 1:
            suffixes.append(f"size={tuple(tensor.shape)}")
    if tensor.dtype not in usual:
        suffixes.append(f"dtype={tensor.dtype}")
    if tensor.grad_fn is not None:
        suffixes.append(f"grad_fn=<{type(tensor.grad_fn).__name__}>")
    elif tensor.requires_grad:
        suffixes.append("requires_grad=True")
    return torch_private.join_suffixes("tensor(" + contents, suffixes, len("tensor("))


# --- one operator -------------------------------------------------------------------------------------------

# What a result is: a new tensor, a view of an argument, that argument itself, or no tensor.
NEW, VIEW, SAME, OTHER = range(4)
SEVERAL = (None, None, None, 0)  # in place of the one result that there is not
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


class Operator:
    """What has to be known about an operator, worked out from its schema once."""

    __slots__ = (
        "aliased",
        "changes_outside",
        "copies",
        "draws",
        "fixed",
        "free",
        "func",
        "makes_views",
        "moves",
        "name",
        "names",
        "one_number",
        "only_views",
        "packet",
        "plans",
        "pointwise",
        "reads",
        "reads_values",
        "returns",
        "special",
        "switch",
        "takes_numbers",
        "viewed",
        "writes",
        "written",
    )

    def __init__(self, func):
        schema = torch_private.operator_schema(func)
        self.func = SUBSTITUTES.get(func) or torch_private.callable_of(func)
        parts = None if func in WHOLE else torch_private.parts_of(func) or torch_private.kernel_of_fsdp(func)
        own = SPECIAL.get(func) or parts or torch_private.kernel_of_collectives(func)
        self.draws = own is None and draws(func)
        self.special = own or (partial(_draw, self) if self.draws else None)
        if func.namespace not in PYTORCHS_AND_OURS:
            self.special = partial(_run_custom, func, self.special or partial(_run_as_planned, self))
        self.name = func.__name__.split(".")[0]
        if self.name.startswith("_foreach_") and self.name.endswith("_"):
            self.special = partial(_run_in_place, self.special or partial(_run_as_planned, self))
        self.packet = torch_private.packet_of(func)
        self.names = [argument.name for argument in schema.arguments]
        self.pointwise = torch.Tag.pointwise in func.tags or self.packet in ITERATED
        # Arguments written to: their shape may change under the wrapper (`resize_`, `squeeze_`, `out=`).
        self.writes = [a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
        # For each return, the argument it *is* (in-place and `out=` operators hand back what they were given),
        # and the argument it is a view of.
        self.aliased = [_argument_of(ret, schema.arguments, written=True) for ret in schema.returns]
        self.viewed = [_argument_of(ret, schema.arguments, written=False) for ret in schema.returns]
        if self.packet in SHARES_MEMORY:
            self.viewed = [self.names[0]]
        self.returns = bool(schema.returns)
        self.only_views = bool(schema.returns) and all(self.viewed)
        self.takes_numbers = self.pointwise or func in TAKE_NUMBERS
        self.one_number = ONE_NUMBER.get(func)
        self.moves = func in TENSORS_FROM_ANYWHERE
        self.copies = func in COPIES
        # Changes the outside only, or makes room for what somebody else will write: no kernel.
        self.free = torch.Tag.inplace_view in func.tags or self.packet in MAKES_ROOM
        self.changes_outside = (
            torch.Tag.inplace_view in func.tags
            or any(name.startswith("out") for name in self.writes)
            or func in CHANGES_SHAPES
        )
        # For the order between streams: what makes views writes nothing, and neither that nor what is free reads.
        self.makes_views = self.only_views or own is _detach
        self.reads = not (self.makes_views or self.free)
        self.written = [self.names.index(name) for name in self.writes]
        self.reads_values = torch.Tag.data_dependent_output in func.tags or torch.Tag.dynamic_output_shape in func.tags
        self.switch = SWITCHES.get(self.packet)  # of PyTorch, that says how float32 is computed
        # Whether equal calls have equal shapes, so that a plan can be kept.
        self.fixed = not (self.changes_outside or self.reads_values or not (schema.returns or self.writes))
        self.plans: dict[tuple, Plan] = {}


def _argument_of(ret, arguments, written: bool) -> str | None:
    if ret.alias_info is None or ret.alias_info.is_write != written:
        return None
    if not ret.alias_info.before_set:  # a list of views (split, chunk, unbind): of the argument that gives them away
        same = [a.name for a in arguments if a.alias_info and "*" in a.alias_info.after_set]
        return same[0] if same else None
    same = [a.name for a in arguments if a.alias_info and a.alias_info.before_set & ret.alias_info.before_set]
    return same[0] if same else None


# Operators that PyTorch's GPU kernels let read tensors from the CPU, beside their operands on the device.
TENSORS_FROM_ANYWHERE = {
    aten.index.Tensor,  # an index may be on the CPU
    aten.index_put.default,
    aten.index_put_.default,
    aten._index_put_impl_.default,
    aten._unsafe_index.Tensor,
    aten._unsafe_index_put.default,
    aten._pack_padded_sequence.default,  # lengths are always on the CPU
    aten._pad_packed_sequence.default,
    aten._ctc_loss.Tensor,
    aten._ctc_loss_backward.Tensor,
}
# Operators beside the pointwise ones that take a CPU tensor with one number and no dimensions for that number: so says
# PyTorch's source, aten/src/ATen/native/cuda/Indexing.cu, of masked_fill. What ForeachBinaryOpList.cu has no one kernel
# for, such as lists on two devices, it computes pair by pair with the pointwise operator.
OF_TWO_LISTS = ("add", "sub", "mul", "div", "pow", "maximum", "minimum", "clamp_max", "clamp_min")
TAKE_NUMBERS = {aten.masked_fill.Tensor, aten.masked_fill_.Tensor} | {
    getattr(aten, f"_foreach_{name}{in_place}").List for name in OF_TWO_LISTS for in_place in ("", "_")
}
# The argument for which these take a CPU tensor with one number: so says aten/src/ATen/native/cuda/
# ForeachBinaryOpScalarTensor.cu, and FusedAdamKernel.cu and its like.
ONE_NUMBER = {
    **{getattr(aten, f"_foreach_{name}").Tensor: "other" for name in ("mul", "mul_", "div", "div_")},
    **{getattr(aten, f"_fused_{name}_").tensor_lr: "lr" for name in ("adam", "adamw", "sgd", "adagrad")},
}
# Namespaces in which programs have no operators of their own.
PYTORCHS_AND_OURS = {"aten", "prims", "simgpu"}
# Operators whose result has the shape of its arguments, unless an index is a mask.
INDEX_ELSEWHERE = "indices should be either on cpu or on the same device as the indexed tensor (cpu)"
INDEXES = {aten.index, aten.index_put, aten.index_put_, aten._unsafe_index, aten._index_put_impl_}
CHANGES_SHAPES = {aten.resize_.default, aten.resize_as_.default, aten.set_.source_Tensor, aten.set_.source_Storage}

# Operators that PyTorch computes element by element (TensorIterator) without tagging them so.
ITERATED = {
    aten.huber_loss,
    aten.huber_loss_backward,
    aten.mse_loss,
    aten.mse_loss_backward,
    aten.smooth_l1_loss,
    aten.smooth_l1_loss_backward,
}

# Operators whose result lies in the memory of their first argument, though their schema does not say so.
SHARES_MEMORY = {aten._unsafe_view, aten.unsafe_split, aten.unsafe_split_with_sizes}
COPIES = {aten._to_copy.default, aten.copy_.default}
MAKES_ROOM = {aten.empty_like, aten.new_empty, aten.new_empty_strided}

# Operators that give one result, of this number, to the host: lengths are always on the CPU.
STAYS_ON_HOST = {aten._pack_padded_sequence: 1, aten._pad_packed_sequence: 1}

# Operators with a path of their own: copies, which know two devices. `moves` fills it.
SPECIAL: dict[object, Callable] = dict.fromkeys(refusals.MAKE_SPARSE, refusals.no_sparse)

_operators: dict[int, Operator] = {}  # by the id of the operator, whose own hash is a Python function


def operator_of(func) -> Operator:
    """What is known about an operator."""
    return _operators.get(id(func)) or _operator_of(func)


def _operator_of(func) -> Operator:
    operator = _operators[id(func)] = Operator(func)
    _kept.append(func)  # or its id could become another's
    return operator


_kept: list = []
_TRUE, _FALSE = object(), object()  # True and 1 are the same key of a dict, and not the same argument
# Arguments that are their own key: equal ones have equal effects.
PLAIN = {int, str, type(None), torch.dtype, torch.layout, torch.memory_format}
NUMBERS = {int, bool}


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

    A planned call is looked up, and costs the host a few microseconds; any other is worked out anew. "first call" is
    no cause for concern: the next one with the same shapes and settings is planned. All other reasons stay. Copies,
    and operators that make tensors of no other tensor, are not planned and not counted; nor are calls that ended in
    an error, unless their arguments alone say that there can be no plan.

        >>> simgpu.unplanned().most_common(2)
        [('first call', 214), ('a device argument', 3)]
    """
    return _unplanned.copy()


class _Uncommon(Exception):
    """The call is not of the kind that is planned."""

    def __init__(self, reason: str):
        super().__init__(reason)
        self.reason = reason


def _nested(items, key, gpu, storages):
    """Values of a list of arguments; its layouts go into `key`, its storages into `storages`. Returns (values, gpu)."""
    values = []
    for item in items:
        kind = type(item)
        if kind is SimTensor:
            if item._gpu is not gpu:
                if gpu is not None:
                    raise _Uncommon(TWO_GPUS)
                gpu = item._gpu
            key.append(item._layout)
            storages.append(item._storage)
            item = item._value
        elif kind is float:
            key.append(kind)
        elif isinstance(item, torch.Tensor):
            raise _Uncommon(NOT_SIMULATED)
        elif isinstance(item, (list, tuple)):
            raise _Uncommon(NESTED)
        else:
            key.append(kind)
            key.append(item)
        values.append(item)
    key.append(len(values))
    return values, gpu


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
    return [(t._gpu, t._storage) for t in _tensors(args) if type(t) is SimTensor]


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


def _run_planned(operator, args, kwargs):
    """Run one operator that has met a simulated tensor, by its plan where there is one.

    Raises RuntimeError where its operands live on different devices, in PyTorch's words, and
    torch.OutOfMemoryError where the result does not fit.
    """
    __tracebackhide__ = True
    try:
        key, gpu, values, storages = _key_of(operator, args, kwargs)
        plan = operator.plans.get(key)
    except _Uncommon as uncommon:
        plan = key = None
        _unplanned[uncommon.reason] += 1
    except TypeError:
        plan = key = None
        _unplanned[NO_KEY] += 1
    if plan is not None and not gpu.retired:
        return _replay(plan, operator, gpu, values, storages, args, kwargs)
    if machine.several_streams:
        return _run_in_order(partial(_run_as_given, operator, key), operator, args, kwargs or {})
    return _run(operator, args, kwargs or {}, key)


def _key_of(operator, args, kwargs):
    """(what a call is known by, its GPU, its arguments with values for tensors, the storages of its tensors).

    Equal keys have equal shapes and costs. Raises _Uncommon for a call that is not planned.
    """
    gpu = None
    key, values, storages = [], [], []
    for arg in args:
        kind = type(arg)
        if kind is SimTensor:
            if arg._gpu is not gpu:
                if gpu is not None:
                    raise _Uncommon(TWO_GPUS)
                gpu = arg._gpu
            key.append(arg._layout)
            values.append(arg._value)
            storages.append(arg._storage)
            continue
        if kind is list or kind is tuple:
            if arg and type(arg[0]) in NUMBERS:
                key.append(tuple(arg))
            else:
                arg, gpu = _nested(arg, key, gpu, storages)
        elif kind is float:
            key.append(kind)  # which number it is changes no shape and no cost
        elif kind is bool:
            key.append(_TRUE if arg else _FALSE)
        elif kind not in PLAIN and isinstance(arg, torch.Tensor):
            raise _Uncommon(NOT_SIMULATED)
        else:
            key.append(arg)
        values.append(arg)
    if kwargs:
        for name, arg in kwargs.items():
            kind = type(arg)
            if name == "device":
                raise _Uncommon(DEVICE)
            if isinstance(arg, torch.Tensor):
                raise _Uncommon(TENSOR_BY_NAME)
            key.append(name)
            key.append(kind if kind is float else arg if kind is not bool else _TRUE if arg else _FALSE)
    if operator.switch is not None and gpu.profile.tf32:
        key.append(torch_private.rounds_float32(operator.switch))
    return tuple(key), gpu, values, storages


def _replay(plan, operator, gpu, values, storages, args, kwargs):
    """Do what a plan says: take memory, compute, charge the kernel, and wrap what the caller gets."""
    __tracebackhide__ = True
    torch_private.keep_backward_on_calling_thread()
    queue = _queue_in_order(operator, gpu, storages) if machine.several_streams else None
    func = operator.func
    if machine.stopwatch is not None:
        func = machine.stopwatch.around(func)
    # Nearly all operators give one new tensor: its way is all in here, for each call of a function takes time.
    what, position, layout, size = plan.results[0] if plan.single else SEVERAL
    if what == NEW:
        storage = Storage(gpu.memory, size)
    elif what is None:
        new = [Storage(gpu.memory, result[3]) if result[0] == NEW else None for result in plan.results]
    out = None
    if machine.compute:
        out = func(*values, **kwargs) if kwargs else func(*values)
    if plan.seconds is not None:
        machine.launch(gpu, plan.seconds, operator.name, plan.bytes, plan.flops, queue)
    if what == NEW:
        if queue is not None:
            storage.written = queue, queue.free, False
            if operator.written:
                _note_written(operator, args, storage.written)
        return wrap_planned(out, gpu, storage, layout)
    if what == VIEW:
        return wrap_planned(out, gpu, args[position]._storage, layout)
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
            made.append(wrap_planned(value, gpu, new[index] if what == NEW else args[position]._storage, layout))
    return made


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
    return _run(operator, args, kwargs, key)


def _note_written(operator, args, written: tuple, made=()) -> None:
    """What an operator made, and writes to among its arguments, was written by this queue, until then."""
    for tensor in _tensors((*made, *(args[position] for position in operator.written if position < len(args)))):
        if type(tensor) is SimTensor:
            tensor._storage.written = written


def _draw(operator: Operator, *args, **kwargs):
    """Run an operator that draws random numbers, from the generator of the GPU where its result is."""
    __tracebackhide__ = True
    gpu = next(t._gpu for t in _tensors((*args, *kwargs.values())) if type(t) is SimTensor)
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


def _run(operator: Operator, args, kwargs, key: tuple | None = None):
    """Run one operator the long way, and keep the plan of it under `key`."""
    __tracebackhide__ = True
    torch_private.keep_backward_on_calling_thread()
    gpu = _common_gpu(operator, args, kwargs)
    target = kwargs.get("device")
    if target is not None:  # zeros_like(x, device=...) may make its result elsewhere
        target = torch.device(target)
        gpu = machine.gpu(target) if target.type == DEVICE_TYPE else None
        kwargs = {**kwargs, "device": values_live_on() if gpu else target}
    if operator.changes_outside:
        _split_shared_values(operator, args, kwargs)
    known = are_known(args, kwargs)
    if key is not None and not machine.compute and _some_known(args, kwargs):
        key = None
        _unplanned[KNOWN] += 1
    if not known:
        _forget_what_is_written(operator, args, kwargs)
    elif not machine.compute and kwargs.get("device") == "meta":
        kwargs = {**kwargs, "device": "cpu"}
    values = _values(args, known)
    named_values = {name: _values(value, known) for name, value in kwargs.items()}
    reads_values = operator.reads_values and not (operator.packet in INDEXES and not _has_mask(args))
    if not known and reads_values:
        raise no_values(operator.name)
    torch_private.heed_lazy_bits()
    if gpu is not None and machine.compute and not operator.only_views:
        _require_room(operator, gpu, values, named_values)
    out = operator.func(*values, **named_values)
    if gpu is None:
        return out

    given = dict(zip(operator.names, args, strict=False)) | kwargs
    for name in operator.writes:
        for tensor in _tensors((given.get(name),)):
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
        _unplanned[why or FIRST_CALL] += 1
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
    return COMPLEX if any(tensor.is_complex() for tensor in _tensors(tensors)) else None


LARGEST = torch.complex128.itemsize


def _require_room(operator: Operator, gpu: Gpu, values, named_values) -> None:
    """Raise torch.OutOfMemoryError where the results of an operator would not fit, before they are computed."""
    most = LARGEST * _product(values) * (_product(named_values.values()) if named_values else 1)
    if most <= gpu.memory.free:
        return
    try:
        if operator.pointwise and _largest_broadcast(values) <= gpu.memory.free:
            return
        out = operator.func(*_values(values, False), **{name: _values(v, False) for name, v in named_values.items()})
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
    tensors = [*_tensors(values)]
    together = torch.broadcast_shapes(*(t.shape for t in values if isinstance(t, torch.Tensor)))
    apart = sum(t.numel() for t in tensors if not any(t is value for value in values))
    return LARGEST * max(math.prod(together), apart)


def _bytes_behind(tensors) -> int:
    return sum(tensor.untyped_storage().nbytes() for tensor in _tensors(tensors))


def _has_mask(args) -> bool:
    return any(tensor.dtype in (torch.bool, torch.uint8) for tensor in _tensors(args[1:2]))


def _split_shared_values(operator, args, kwargs) -> None:
    """Give tensors whose shape is about to change a value of their own: `detach` shares it."""
    given = dict(zip(operator.names, args, strict=False)) | kwargs
    for name in operator.writes:
        for tensor in _tensors((given.get(name),)):
            if type(tensor) is SimTensor:
                tensor._value = aten.alias.default(value_of(tensor))


def _detach(tensor):
    # Autograd calls this more often than anything else. The value is shared, not even viewed.
    if tensor._gpu.retired:
        refuse_if_retired(tensor)
    return wrap_planned(tensor._value, tensor._gpu, tensor._storage, tensor._layout)


SPECIAL[aten.detach.default] = _detach


def _result(value, written, viewed, gpu, args):
    """(what the caller gets for one result, its line in the plan, or None if it cannot be planned)."""
    if written is not None:
        position = next((i for i, arg in enumerate(args) if arg is written), None)
        return written, None if position is None or isinstance(written, (list, tuple)) else (SAME, position, None, 0)
    if isinstance(value, torch.Tensor):
        if type(viewed) is SimTensor:
            tensor = wrap(value, gpu, viewed._storage)
            position = next((i for i, arg in enumerate(args) if arg is viewed), None)
            return tensor, None if position is None else (VIEW, position, tensor._layout, 0)
        tensor = wrap(value, gpu)
        return tensor, (NEW, None, tensor._layout, tensor._storage.size)
    if isinstance(value, (list, tuple)):
        return type(value)(_result(v, None, None, gpu, args)[0] for v in value), None
    return value, (OTHER, None, None, 0) if value is None else None


def forget_plans() -> None:
    """What kernels cost depends on the machine: forget it when the machine changes."""
    _unplanned.clear()
    for operator in _operators.values():
        operator.plans.clear()


def values_live_on() -> str:
    return "cpu" if machine.compute else "meta"


def no_values(what: str) -> RuntimeError:
    return RuntimeError(
        f"{what} needs the values of a tensor, and this simulated machine keeps only shapes "
        "(simgpu.enable(compute=False)). Use simgpu.enable(compute=True) to have values."
    )


def value_of(tensor: SimTensor) -> torch.Tensor:
    value = tensor._value
    if value is None:  # shape-only, and made by a plan
        outside = tensor._layout
        size, stride, offset, dtype = outside.shape, outside.stride, outside.offset, outside.dtype
        length = 1 + offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) if 0 not in size else 0
        value = torch.empty(length, dtype=dtype, device="meta").as_strided(size, stride, offset)
        tensor._value = outside.mark(value)
    return value


def are_known(*args) -> bool:
    """Whether all simulated tensors among arguments have their numbers, and there are some.

    They have where values are computed. With shapes only they are those that hold counts for C++ (`keeping_counts`).
    """
    if machine.compute:
        return True
    return _some_known(args) and all(t._layout.known for t in _tensors(args) if type(t) is SimTensor)


def _some_known(*args) -> bool:
    """Whether a tensor among arguments has its numbers though there are only shapes."""
    return any(t._layout.known for t in _tensors(args) if type(t) is SimTensor)


def forget(tensor: SimTensor) -> None:
    """Of a tensor that had its numbers nothing but the shape is left: what is written there is not known."""
    if tensor._layout.known and not machine.compute:
        tensor._value = value_of(tensor).to("meta")
        tensor._layout = layout_of(tensor._value)


def _forget_what_is_written(operator: Operator, args, kwargs) -> None:
    given = dict(zip(operator.names, args, strict=False)) | kwargs
    for tensor in _tensors(given.get(name) for name in operator.writes):
        if type(tensor) is SimTensor:
            forget(tensor)


def _values(arg, known: bool):
    """`arg` with every simulated tensor in it replaced by the tensor that holds its numbers, or only its shape."""
    kind = type(arg)
    if kind is tuple or kind is list:
        return kind(_values(a, known) for a in arg)
    value = value_of(arg) if kind is SimTensor else arg
    return value if known or not isinstance(value, torch.Tensor) else value.to("meta")


def _tensors(args):
    """Every tensor among `args` and the lists and dicts in them."""
    for arg in args:
        if isinstance(arg, torch.Tensor):
            yield arg
        elif isinstance(arg, (list, tuple)):
            yield from _tensors(arg)
        elif isinstance(arg, dict):
            yield from _tensors(arg.values())


def _common_gpu(operator: Operator, args, kwargs) -> Gpu:
    __tracebackhide__ = True
    gpu = None
    for tensor in _tensors((*args, *kwargs.values())):
        if type(tensor) is SimTensor:
            if gpu is None:
                refuse_if_retired(tensor)
                gpu = tensor._gpu
            elif tensor._gpu is not gpu:
                refuse_if_retired(tensor)
                _refuse_mixed_devices(operator, args, kwargs)
    if (
        operator.packet in INDEXES
        and type(args[0]) is not SimTensor
        and any(type(tensor) is SimTensor for tensor in _tensors((args[1],)))
    ):
        raise RuntimeError(INDEX_ELSEWHERE)
    number = _one_number(operator, args, kwargs)
    for tensor in _tensors((*args, *kwargs.values())):
        if type(tensor) is SimTensor or operator.moves or tensor is number:
            continue
        if not _acts_as_a_number(tensor, operator, args, kwargs):
            _refuse_mixed_devices(operator, args, kwargs)
    return gpu


def _acts_as_a_number(tensor: torch.Tensor, operator: Operator, args, kwargs) -> bool:
    """As a CPU tensor with no dimensions does in a GPU's pointwise operators, unless they write to it."""
    if not (operator.takes_numbers and tensor.dim() == 0 and tensor.device.type == "cpu"):
        return False
    given = dict(zip(operator.names, args, strict=False)) | kwargs
    return all(tensor is not written for written in _tensors(given.get(name) for name in operator.writes))


def _one_number(operator: Operator, args, kwargs) -> torch.Tensor | None:
    """The argument that may be one number on the CPU, if it is."""
    if operator.one_number is None:
        return None
    given = dict(zip(operator.names, args, strict=False)) | kwargs
    tensor = given[operator.one_number]
    return tensor if tensor.device.type == "cpu" and tensor.numel() == 1 else None


# A traceback shows readers the lines of the function that raised: so it is as short as can be, and says nothing else.
def _refuse_mixed_devices(operator: Operator, args, kwargs) -> None:
    if any(tensor.is_nested for tensor in _tensors((*args, *kwargs.values()))):
        refusals.no_sparse()
    raise _mixed_devices(operator, args, kwargs)


def _mixed_devices(operator: Operator, args, kwargs) -> RuntimeError:
    # PyTorch has two wordings: TensorIterator's for pointwise operators, the device check's for all others.
    named = [
        (name, tensor.device)
        for name, arg in (dict(zip(operator.names, args, strict=False)) | kwargs).items()
        for tensor in _tensors((arg,))
        if not _acts_as_a_number(tensor, operator, args, kwargs)
    ]
    first = refusals.named(named[0][1])
    name, other = next((name, device) for name, device in named if device != named[0][1])
    other = refusals.named(other)
    start = "Expected all tensors to be on the same device, but "
    if operator.pointwise:
        return RuntimeError(f"{start}found at least two devices, {first} and {other}!")
    return RuntimeError(
        f"{start}got {name} is on {other}, different from other tensors on {first} "
        f"(when checking argument in method wrapper_{refusals.kind()}_{operator.name})"
    )


def refuse_if_retired(tensor: SimTensor) -> None:
    if tensor._gpu.retired:
        raise RuntimeError(
            f"This tensor was made on {tensor.device} before simgpu.enable() changed the simulated machine, "
            "and went with it. Run the cells that made it, or the model it belongs to, again."
        )


def _follow_value(tensor) -> None:
    """Give the wrapper the shape that an in-place operator gave its value."""
    if type(tensor) is not SimTensor:
        return
    layout = layout_of(tensor._value)
    if layout is not tensor._layout:
        tensor._storage.grow(tensor._value.untyped_storage().nbytes())
        tensor.data = wrap(tensor._value, tensor._gpu, tensor._storage)
