"""Private names of DTensor's sharding propagation, which ranks that are threads do once for all of them.

For each operator, DTensor works out how its results are sharded, and keeps that for each thread. For an optimizer's
first step this takes longer than the step itself (PyTorch 2.15), and each rank would do it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import torch
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, _dtensor_spec, _op_schema, _sharding_prop

Spec, Sharding = _dtensor_spec.DTensorSpec, _op_schema.OutputSharding
# What is shared: an optimizer's step and what prepares it, elementwise, so that no rank's place in its mesh matters.
SHARED = ("aten::_foreach_", "aten::_fused_", "aten::detach", "aten::empty_like", "aten::zeros_like")
LEAVES = (int, float, bool, str, torch.dtype, torch.layout, torch.memory_format)
PLACEMENTS = (Shard, Replicate, Partial)  # and no class derived from these: one has a state of its own


class _NotShared(Exception):
    """Something that another rank may not use."""


@contextmanager
def ranks_share_propagation() -> Iterator[None]:
    """Within it, the first rank's thread works out how an optimizer's operators are sharded, and the others use that.

    Each gets it with its own meshes. Ranks may differ in what they call: what is looked up has all that an operator is
    given, but for the values of its tensors.
    """
    propagator: Any = DTensor._op_dispatcher.sharding_propagator  # pyright: ignore[reportAttributeAccessIssue]
    before = propagator.propagate_op_sharding
    shared = _Shared(propagator.propagate_op_sharding_non_cached)
    propagator.propagate_op_sharding_non_cached = shared
    propagator.propagate_op_sharding = _sharding_prop.LocalLRUCache(shared)
    try:
        yield
    finally:
        del propagator.propagate_op_sharding_non_cached  # the class has it
        propagator.propagate_op_sharding = before


class _Shared:
    """Sharding propagation of all ranks."""

    def __init__(self, own: Callable[[Any], Any]):
        self._own = own
        self._found: dict[tuple, Any] = {}

    def __call__(self, schema: Any) -> Any:
        if not schema.op.name().startswith(SHARED):
            return self._own(schema)
        meshes: dict[tuple, Any] = {}
        try:
            key = schema.op, _key(schema.args_schema, meshes), _key(schema.kwargs_schema, meshes)
            if key in self._found:
                return _with_meshes(self._found[key], meshes)
        except (_NotShared, TypeError):  # TypeError: something has no hash
            return self._own(schema)
        found = self._own(schema)
        if found.redistribute_schema is None:
            with suppress(_NotShared):
                _key(found.output_spec, {})
                self._found[key] = _with_meshes(found, meshes)
        return found


def _name(mesh: Any) -> tuple:
    """What says which mesh it is, on any rank; the meshes of two nodes, cut from one, are told by one name."""
    return mesh._flatten_rank_map, mesh._layout, mesh._device_type, mesh._mesh_dim_names, mesh._preserve_rank_order


def _key(value: Any, meshes: dict[tuple, Any]) -> tuple:
    """What tells `value` from others, with the names of its meshes, which are added to `meshes`."""
    kind = type(value)
    if kind is Spec:
        if not all(type(placement) in PLACEMENTS for placement in value.placements):
            raise _NotShared
        name = _name(value.mesh)
        if meshes.setdefault(name, value.mesh) is not value.mesh:
            raise _NotShared
        return kind, name, value.placements, value.tensor_meta, value.shard_order
    if kind in (list, tuple):
        return kind, *(_key(each, meshes) for each in value)
    if kind is dict:
        return kind, *((name, _key(each, meshes)) for name, each in value.items())
    if value is None or kind in LEAVES:
        return kind, value
    if kind is torch.device:
        return kind, value.type  # on each rank its own GPU, and no part of what is found
    raise _NotShared


def _with_meshes(value: Any, meshes: dict[tuple, Any]) -> Any:
    """A copy with these meshes in place of those of the same names."""
    kind = type(value)
    if kind in (list, tuple):
        return kind(_with_meshes(each, meshes) for each in value)
    if kind is Sharding:
        return replace(value, output_spec=_with_meshes(value.output_spec, meshes))
    if kind is Spec:
        value = copy.copy(value)
        value.mesh = meshes[_name(value.mesh)]
    return value
