"""What has to be known about an operator before it is run: worked out from its schema once, and from tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from . import attention_blocks, batch_norm, recurrent, refusals, torch_private
from .activations import WHOLE
from .cost import SWITCHES
from .random_numbers import draws

aten = torch.ops.aten
# What is computed in place of an operator that has no CPU kernel.
SUBSTITUTES = attention_blocks.SUBSTITUTES | recurrent.SUBSTITUTES | batch_norm.SUBSTITUTES


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
        "list_of_scalars",
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
        # What runs it, if it has a path of its own. `dispatch` adds to that.
        self.special: Callable | None = SPECIAL.get(func) or parts or torch_private.kernel_of_collectives(func)
        self.draws = self.special is None and draws(func)
        self.name = func.__name__.split(".")[0]
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
        self.list_of_scalars = self.name.startswith("_foreach_")  # in which 1, 1.0 and True are not the same
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
        self.makes_views = self.only_views or func is aten.detach.default
        self.reads = not (self.makes_views or self.free)
        self.written = [self.names.index(name) for name in self.writes]
        self.reads_values = torch.Tag.data_dependent_output in func.tags or torch.Tag.dynamic_output_shape in func.tags
        self.switch = SWITCHES.get(self.packet)  # of PyTorch, that says how float32 is computed
        # Whether equal calls have equal shapes, so that a plan can be kept.
        self.fixed = not (self.changes_outside or self.reads_values or not (schema.returns or self.writes))
        self.plans: dict[tuple, Any] = {}  # of calls, by their keys: see `plans`


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

# Operators with a path of their own: copies, which know two devices, and others. `moves` and others fill it.
SPECIAL: dict[object, Callable] = dict.fromkeys(refusals.MAKE_SPARSE, refusals.no_sparse)

_operators: dict[int, Operator] = {}  # by the id of the operator, whose own hash is a Python function
_kept: list = []  # or its id could become another's
# What is known about an operator, by its id; None where it is not known yet: `dispatch.operator_of` asks.
find_operator = _operators.get
known_operators = _operators.values


def remember_operator(func, operator: Operator) -> None:
    _operators[id(func)] = operator
    _kept.append(func)
