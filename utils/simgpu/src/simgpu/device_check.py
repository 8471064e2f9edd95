"""The one GPU that an operator's operands are on; where they are on several devices, PyTorch's error."""

from __future__ import annotations

import torch

from . import refusals
from .hardware import Gpu
from .operators import INDEXES, Operator
from .tensor import SimTensor, refuse_if_retired, tensors_among

INDEX_ELSEWHERE = "indices should be either on cpu or on the same device as the indexed tensor (cpu)"


def common_gpu(operator: Operator, args, kwargs) -> Gpu | None:
    """That GPU; None where nothing among the operands is simulated. RuntimeError where they are on several devices."""
    __tracebackhide__ = True
    gpu = None
    for tensor in tensors_among((*args, *kwargs.values())):
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
        and any(type(tensor) is SimTensor for tensor in tensors_among((args[1],)))
    ):
        raise RuntimeError(INDEX_ELSEWHERE)
    number = _one_number(operator, args, kwargs)
    for tensor in tensors_among((*args, *kwargs.values())):
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
    return all(tensor is not written for written in tensors_among(given.get(name) for name in operator.writes))


def _one_number(operator: Operator, args, kwargs) -> torch.Tensor | None:
    """The argument that may be one number on the CPU, if it is."""
    if operator.one_number is None:
        return None
    given = dict(zip(operator.names, args, strict=False)) | kwargs
    tensor = given[operator.one_number]
    return tensor if tensor.device.type == "cpu" and tensor.numel() == 1 else None


# A traceback shows readers the lines of the function that raised: so it is as short as can be, and says nothing else.
def _refuse_mixed_devices(operator: Operator, args, kwargs) -> None:
    if any(tensor.is_nested for tensor in tensors_among((*args, *kwargs.values()))):
        refusals.no_sparse()
    raise _mixed_devices(operator, args, kwargs)


def _mixed_devices(operator: Operator, args, kwargs) -> RuntimeError:
    # PyTorch has two wordings: TensorIterator's for pointwise operators, the device check's for all others.
    named = [
        (name, tensor.device)
        for name, arg in (dict(zip(operator.names, args, strict=False)) | kwargs).items()
        for tensor in tensors_among((arg,))
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
