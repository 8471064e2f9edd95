"""A tensor on a simulated GPU, and what happens when an operator meets one.

Every operator on a `SimTensor` passes `run`: it checks that the operands live on one device, computes the
value on the CPU, and gives the result the device of its operands. Values are therefore the CPU's, bit for
bit. Autograd sits above this and needs nothing from it: it sees tensors of an ordinary device.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from . import torch_private
from .machine import DEVICE_TYPE, Gpu, machine

aten = torch.ops.aten


class SimTensor(torch.Tensor):
    """A tensor on a simulated GPU: PyTorch sees the device, `_value` is the CPU tensor with the numbers.

    Students never name this class. They write `x.to("simgpu:0")` and get one.
    """

    # Subclass behaviour is not wanted above autograd: functions return what they would for any device.
    __torch_function__ = torch_private.disabled_torch_function

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        __tracebackhide__ = True  # IPython leaves these frames out: on a GPU there are none
        return run(func, args, kwargs or {})

    @property
    def data(self):
        return torch.Tensor.data.__get__(self)

    @data.setter
    def data(self, new):
        # PyTorch moves the outside (shape, device) from `new`; the numbers have to follow.
        torch.Tensor.data.__set__(self, new)
        self._value, self._gpu = new._value, new._gpu

    def tolist(self):
        return self.cpu().tolist()

    def numpy(self, *, force=False):
        if force:
            return self.detach().cpu().resolve_conj().resolve_neg().numpy()
        raise TypeError(
            f"can't convert {self.device} device type tensor to numpy. "
            "Use Tensor.cpu() to copy the tensor to host memory first."
        )

    def __array__(self, dtype=None, copy=None):
        return self.numpy()

    def __reduce_ex__(self, protocol):
        rebuild = torch_private.rebuild_on_device()
        return rebuild, (self.detach().cpu(), self.dtype, str(self.device), self.requires_grad)

    def __repr__(self, *, tensor_contents=None):
        text = _text(self)
        return f"Parameter containing:\n{text}" if getattr(self, "_is_param", False) else text


def wrap(value: torch.Tensor, gpu: Gpu) -> SimTensor:
    """A tensor on `gpu` whose numbers are those of the CPU tensor `value`."""
    tensor = torch_private.make_wrapper(
        SimTensor,
        value.size(),
        strides=value.stride(),
        storage_offset=value.storage_offset(),
        dtype=value.dtype,
        layout=value.layout,
        device=gpu.device,
        requires_grad=False,
    )
    tensor._value = value
    tensor._gpu = gpu
    return tensor


def _text(tensor: SimTensor) -> str:
    # The same rules as PyTorch's own printing, which shows `device=` for everything that is not on the CPU.
    _refuse_if_retired(tensor)
    value = tensor._value.detach()
    suffixes = [f"device='{tensor.device}'"]
    usual = (torch.get_default_dtype(),)
    if value.numel():
        contents = torch_private.tensor_text(value, len("tensor("))
        usual += (torch.int64, torch.bool)
        usual += (torch.complex128 if usual[0] == torch.float64 else torch.complex64,)
    else:
        contents = "[]"
        if value.dim() != 1:
            suffixes.append(f"size={tuple(value.shape)}")
    if value.dtype not in usual:
        suffixes.append(f"dtype={value.dtype}")
    if tensor.grad_fn is not None:
        suffixes.append(f"grad_fn=<{type(tensor.grad_fn).__name__}>")
    elif tensor.requires_grad:
        suffixes.append("requires_grad=True")
    return torch_private.join_suffixes("tensor(" + contents, suffixes, len("tensor("))


# --- one operator -------------------------------------------------------------------------------------------


class Operator:
    """What has to be known about an operator, worked out from its schema once."""

    __slots__ = ("aliased", "func", "moves", "name", "names", "pointwise", "writes")

    def __init__(self, func):
        schema = torch_private.operator_schema(func)
        self.func = func
        self.name = func.__name__.split(".")[0]
        self.names = [argument.name for argument in schema.arguments]
        self.pointwise = torch.Tag.pointwise in func.tags
        # Arguments written to: their shape may change under the wrapper (`resize_`, `squeeze_`, `out=`).
        self.writes = [a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
        # For each return, the argument it *is* (in-place and `out=` operators hand back what they were given).
        self.aliased = [_argument_returned(ret, schema.arguments) for ret in schema.returns]
        self.moves = func in TENSORS_FROM_ANYWHERE


def _argument_returned(ret, arguments) -> str | None:
    if ret.alias_info is None or not ret.alias_info.is_write:
        return None
    same = [a.name for a in arguments if a.alias_info and a.alias_info.before_set == ret.alias_info.before_set]
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
    aten._ctc_loss.Tensor,
    aten._ctc_loss_backward.Tensor,
}

_operators: dict[object, Operator] = {}


def run(func, args, kwargs):
    """Run one operator that has met a simulated tensor.

    Raises RuntimeError where its operands live on different devices, in PyTorch's words.
    """
    __tracebackhide__ = True
    torch_private.keep_backward_on_calling_thread()
    special = SPECIAL.get(func)
    if special is not None:
        return special(*args, **kwargs)
    operator = _operators.get(func)
    if operator is None:
        operator = _operators[func] = Operator(func)

    gpu = _common_gpu(operator, args, kwargs)
    target = kwargs.get("device")
    if target is not None:  # zeros_like(x, device=...) may make its result elsewhere
        target = torch.device(target)
        gpu = machine.gpu(target) if target.type == DEVICE_TYPE else None
        kwargs = {**kwargs, "device": "cpu" if gpu else target}
    out = func(*_values(args), **{name: _values(value) for name, value in kwargs.items()})

    given = dict(zip(operator.names, args, strict=False)) | kwargs
    for name in operator.writes:
        for tensor in _tensors((given.get(name),)):
            _follow_value(tensor)
    if isinstance(out, torch.Tensor):
        return _result(out, operator.aliased[0], given, gpu)
    if isinstance(out, tuple) and len(operator.aliased) == len(out):
        return tuple(_result(o, name, given, gpu) for o, name in zip(out, operator.aliased, strict=True))
    return _result(out, None, given, gpu)


def _result(out, returned_argument, given, gpu):
    if returned_argument is not None and returned_argument in given:
        return given[returned_argument]
    if isinstance(out, torch.Tensor):
        return out if gpu is None else wrap(out, gpu)
    if isinstance(out, (list, tuple)):
        return type(out)(_result(o, None, given, gpu) for o in out)
    return out


def _values(arg):
    """`arg` with every simulated tensor in it replaced by the CPU tensor that holds its numbers."""
    kind = type(arg)
    if kind is SimTensor:
        return arg._value
    if kind is tuple or kind is list:
        return kind(_values(a) for a in arg)
    return arg


def _tensors(args):
    """Every tensor among `args` and the lists in them."""
    for arg in args:
        if isinstance(arg, torch.Tensor):
            yield arg
        elif isinstance(arg, (list, tuple)):
            yield from _tensors(arg)


def _common_gpu(operator: Operator, args, kwargs) -> Gpu:
    __tracebackhide__ = True
    gpu = None
    for tensor in _tensors((*args, *kwargs.values())):
        if type(tensor) is SimTensor:
            if gpu is None:
                _refuse_if_retired(tensor)
                gpu = tensor._gpu
            elif tensor._gpu is not gpu:
                _refuse_if_retired(tensor)
                raise _mixed_devices(operator, args, kwargs)
    for tensor in _tensors((*args, *kwargs.values())):
        # As on a GPU: a CPU tensor with one number and no dimensions acts as a number in pointwise operators.
        if type(tensor) is not SimTensor and not (operator.moves or (operator.pointwise and tensor.dim() == 0)):
            raise _mixed_devices(operator, args, kwargs)
    return gpu


def _mixed_devices(operator: Operator, args, kwargs) -> RuntimeError:
    # PyTorch has two wordings: TensorIterator's for pointwise operators, the device check's for all others.
    named = [
        (name, tensor.device)
        for name, arg in (dict(zip(operator.names, args, strict=False)) | kwargs).items()
        for tensor in _tensors((arg,))
        if not (operator.pointwise and tensor.device.type == "cpu" and tensor.dim() == 0)
    ]
    first = named[0][1]
    name, other = next((name, device) for name, device in named if device != first)
    start = "Expected all tensors to be on the same device, but "
    if operator.pointwise:
        return RuntimeError(f"{start}found at least two devices, {first} and {other}!")
    return RuntimeError(
        f"{start}got {name} is on {other}, different from other tensors on {first} "
        f"(when checking argument in method wrapper_{DEVICE_TYPE}_{operator.name})"
    )


def _refuse_if_retired(tensor: SimTensor) -> None:
    if tensor._gpu.retired:
        raise RuntimeError(
            f"This tensor was made on {tensor.device} before simgpu.enable() changed the simulated machine, "
            "and went with it. Run the cells that made it, or the model it belongs to, again."
        )


def _follow_value(tensor) -> None:
    """Give the wrapper the shape that an in-place operator gave its value."""
    if type(tensor) is not SimTensor:
        return
    value = tensor._value
    if (
        value.shape != tensor.shape
        or value.stride() != tensor.stride()
        or value.storage_offset() != tensor.storage_offset()
    ):
        torch.Tensor.data.__set__(tensor, wrap(value, tensor._gpu))


# --- operators that move data, or make it --------------------------------------------------------------------


def _to_copy(source, *, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None):
    _refuse_if_retired(source)
    target = source.device if device is None else torch.device(device)
    gpu = machine.gpu(target) if target.type == DEVICE_TYPE else None
    out = aten._to_copy.default(
        source._value,
        dtype=dtype,
        layout=layout,
        device="cpu" if gpu else target,
        memory_format=memory_format,
    )
    return wrap(out, gpu) if gpu else out


def _copy(destination, source, non_blocking=False):
    for tensor in (destination, source):
        if type(tensor) is SimTensor:
            _refuse_if_retired(tensor)
    aten.copy_.default(_values(destination), _values(source))
    return destination


def _copy_from(source, destination, non_blocking=False):
    # Where C++ copies without asking Python first, as `torch.tensor(..., device=...)` does.
    return _copy(destination, source)


def _is_pinned(tensor, device=None):
    return False


SPECIAL: dict[object, Callable] = {
    aten._to_copy.default: _to_copy,
    aten.copy_.default: _copy,
    aten.is_pinned.default: _is_pinned,
}


def _factory(func):
    def make(*args, device=None, pin_memory=None, **kwargs):
        torch_private.keep_backward_on_calling_thread()
        gpu = machine.gpu(device)
        return wrap(func(*args, device="cpu", **kwargs), gpu)

    return make


# Everything else that makes a tensor from nothing (zeros, randn, tensor, ...) is built on `empty`. These are
# not: their `out=` form resizes an empty tensor, so they are made whole.
FACTORIES = (
    "empty.memory_format",
    "empty_strided",
    "arange",
    "arange.start",
    "arange.start_step",
    "tril_indices",
    "triu_indices",
)

_library: torch.library.Library | None = None


def register_factories() -> None:
    """Tell PyTorch how to make a tensor on a simulated GPU."""
    global _library
    _library = torch.library.Library("aten", "IMPL")
    for name in FACTORIES:
        packet, _, overload = name.partition(".")
        _library.impl(name, _factory(getattr(getattr(aten, packet), overload or "default")), "PrivateUse1")
    _library.impl("_copy_from", _copy_from, "PrivateUse1")
