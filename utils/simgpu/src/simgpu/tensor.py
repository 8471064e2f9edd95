"""A tensor on a simulated GPU: PyTorch sees the device, and the numbers lie in a CPU tensor.

What happens when an operator meets one is in `dispatch`. Values are therefore the CPU's, bit for bit. Autograd sits
above this and needs nothing from it: it sees tensors of an ordinary device.
"""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import torch

from . import refusals, torch_private
from .hardware import Gpu, machine
from .layout import Layout, layout_of
from .memory import Storage

make_wrapper: Any = torch_private.make_wrapper
STRIDED = torch.strided
_data: Any = torch.Tensor.data  # what reads and sets it
_set: Any = torch.Tensor.set_
inferring = torch.is_inference_mode_enabled


class SimTensor(torch.Tensor):
    """A tensor on a simulated GPU: PyTorch sees the device, `_value` is the CPU tensor with the numbers.

    Students never name this class. They write `x.to("simgpu:0")` and get one. In shape-only mode `_value` is a
    tensor on PyTorch's `meta` device: a shape without numbers.
    """

    # Subclass behaviour is not wanted above autograd: functions return what they would for any device.
    __torch_function__: ClassVar[Any] = torch_private.disabled_torch_function
    # What each operator that meets one comes in by: `dispatch` gives it to the class.
    __torch_dispatch__: ClassVar[Any]

    def __new__(cls, data, requires_grad=False):
        """A parameter. Libraries make one by `type(parameter)(data, requires_grad=...)`: nn.Parameter, on CUDA."""
        return torch.nn.Parameter(data, requires_grad)

    def __init__(self, *args, **kwargs):
        """Nothing: `__new__` has done it."""

    @property
    def data(self):
        return _data.__get__(self)

    @data.setter
    def data(self, new):
        if type(new) is not SimTensor:
            raise RuntimeError(
                f"On simulated GPUs x.data cannot become a tensor that is on the {new.device.type}: this one is on "
                f"{self.device}. Use x.copy_(...), or module.to(device) and the tensors that it has then."
            )
        # PyTorch moves the outside (shape, device) from `new`; the numbers have to follow.
        _data.__set__(self, new)
        self._value, self._gpu, self._storage, self._layout = new._value, new._gpu, new._storage, new._layout

    def untyped_storage(self) -> Any:
        """The memory behind this tensor, a SimStorage: its size, its address, freeing and taking it."""
        return SimStorage(self)

    def data_ptr(self) -> int:
        """An address that only tensors in the same place of the same memory have: for telling tensors apart."""
        start = self.untyped_storage().data_ptr()
        return start + int(self.storage_offset()) * self.element_size() if start else 0

    def set_(self, source: Any = None, *args, **kwargs):
        """As `torch.Tensor.set_`; of a storage a tensor is made that has all of it."""
        source = source.untyped() if hasattr(source, "untyped") else source
        if isinstance(source, SimStorage):
            source = source.tensor(self.dtype)
        if type(source) is SimTensor and (args or kwargs):
            source, args, kwargs = source._part(*args, **kwargs), (), {}
        before = self._storage
        if type(source) is SimTensor:
            self._storage = source._storage
        try:
            return _set(self, *(() if source is None else (source,)), *args, **kwargs)
        except BaseException:
            self._storage = before
            raise

    def _part(self, storage_offset: int, size, stride=None):
        """What is at these places from this tensor's first number on, as `set_` has it: in rows, without strides."""
        stride = torch.empty(size, device="meta").stride() if stride is None or not len(stride) else stride
        return self.detach().as_strided(size, stride, self.storage_offset() + storage_offset)

    def tolist(self):
        return self.cpu().tolist()

    def __format__(self, spec):
        return format(self.item(), spec) if self.dim() == 0 else object.__format__(self, spec)

    def record_stream(self, s) -> None:
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

    def __copy__(self):
        """Another tensor in the same memory, as `copy.copy` makes one of any tensor."""
        twin = self.detach().requires_grad_(self.requires_grad)
        for name, value in self.__dict__.items():
            if name not in OWN_ATTRIBUTES:
                setattr(twin, name, value)
        return twin

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
        if self.grad is not None and not getattr(self, "_is_param", False):  # of parameters PyTorch copies none
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

    def tensor(self, dtype: torch.dtype) -> torch.Tensor:
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

    def cpu(self) -> torch.UntypedStorage:
        """A copy of all bytes in it, in the memory of the host: Triton's interpreter computes on those."""
        return self.tensor(self._of.dtype).cpu().untyped_storage()

    def copy_(self, source: Any, non_blocking: bool = False) -> SimStorage:
        """Take all bytes of a storage as large as this one, from the host or from a GPU."""
        numbers = self.tensor(self._of.dtype)
        on = source.device if isinstance(source, SimStorage) else "cpu"
        whole: Any = torch.empty(0, dtype=numbers.dtype, device=on)
        numbers.copy_(whole.set_(source), non_blocking)
        return self

    def data_ptr(self) -> int:
        """The address on the simulated GPU, which memory snapshots have, too; 0 where there is no memory."""
        return self._counted.address if self.size() else 0

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
    if layout.lazy:
        layout.mark(tensor)
    return tensor


def wrap_view(value: torch.Tensor | None, base: SimTensor, layout: Layout) -> SimTensor:
    """A view of `base`: an ordinary tensor where that is one, although `torch.inference_mode()` makes no such."""
    if inferring() and not base.is_inference():
        with torch.inference_mode(False):
            return wrap_planned(value, base._gpu, base._storage, layout)
    return wrap_planned(value, base._gpu, base._storage, layout)


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


# --- its numbers -------------------------------------------------------------------------------------------------


def values_live_on() -> str:
    return "cpu" if machine.compute else "meta"


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
    return some_are_known(args) and all(t._layout.known for t in tensors_among(args) if type(t) is SimTensor)


def some_are_known(*args) -> bool:
    """Whether a tensor among arguments has its numbers though there are only shapes."""
    return any(t._layout.known for t in tensors_among(args) if type(t) is SimTensor)


def forget(tensor: SimTensor) -> None:
    """Of a tensor that had its numbers nothing but the shape is left: what is written there is not known."""
    if tensor._layout.known and not machine.compute:
        tensor._value = value_of(tensor).to("meta")
        tensor._layout = layout_of(tensor._value)


def values_in(arg, known: bool):
    """`arg` with every simulated tensor in it replaced by the tensor that holds its numbers, or only its shape."""
    kind = type(arg)
    if kind is tuple or kind is list:
        return kind(values_in(a, known) for a in arg)
    value = value_of(arg) if kind is SimTensor else arg
    return value if known or not isinstance(value, torch.Tensor) else value.to("meta")


def tensors_among(args):
    """Every tensor among `args` and the lists and dicts in them."""
    for arg in args:
        if isinstance(arg, torch.Tensor):
            yield arg
        elif isinstance(arg, (list, tuple)):
            yield from tensors_among(arg)
        elif isinstance(arg, dict):
            yield from tensors_among(arg.values())


def refuse_if_retired(tensor: SimTensor) -> None:
    if tensor._gpu.retired:
        raise RuntimeError(
            f"This tensor was made on {tensor.device} before simgpu.enable() changed the simulated machine, "
            "and went with it. Run the cells that made it, or the model it belongs to, again."
        )
