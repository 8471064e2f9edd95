"""By what a call of a step is known again: what it is given, and what is current around it; and what it returns."""

from __future__ import annotations

import sys
from typing import Any
from weakref import WeakSet, ref

import torch

from .. import origin, torch_private
from ..distributed import in_threads
from ..hardware import DEVICE_TYPE, Gpu, machine
from ..memory import Storage
from ..moves import pinned
from ..plans import PLAIN
from ..tensor import SimTensor
from .instructions import ReturnedTensor

BY_VALUE = PLAIN | {bool, float, complex, bytes, torch.device, torch.Size}


class NotKnownAgain(Exception):
    """Why a call cannot be known again, or its result not made again."""


class _Itself:
    """An object of a program's, which is equal to itself alone. It is not kept alive."""

    def __init__(self, thing: object):
        self._id = id(thing)
        try:
            self._thing = ref(thing)
        except TypeError:
            raise NotKnownAgain(f"it is given a {type(thing).__name__}, which is not known again") from None

    def __eq__(self, other) -> bool:
        mine = self._thing()
        return mine is not None and isinstance(other, _Itself) and mine is other._thing()

    def __hash__(self) -> int:
        return self._id


def key_of_arguments(given: Any, storages: list[Storage]):
    """What an argument is known by: a tensor by its outside, other things by value, or as themselves.

    The memory of tensors goes into `storages`. Raises NotKnownAgain.
    """
    kind = type(given)
    if kind is SimTensor:
        storage = given._storage
        if storage not in storages:
            storages.append(storage)
        written = storage.written and (storage.written[0], storage.written[2])
        place = storages.index(storage)
        return given._gpu, given._layout, given.requires_grad, given.is_inference(), written, place
    if kind in (list, tuple):
        return kind, *(key_of_arguments(each, storages) for each in given)
    if kind is dict:
        return kind, *((name, key_of_arguments(each, storages)) for name, each in given.items())
    if kind in BY_VALUE:
        return kind, given
    if kind is torch.Tensor:
        return given.shape, given.stride(), given.dtype, given.device, given.requires_grad, pinned.has(given)
    return _Itself(given)


def key_of_surroundings() -> tuple:
    """What is current: the machine, the stream, modes of PyTorch's, and from where the step is called."""
    here = machine.here
    return (
        machine.generation,
        here.gpu,
        frozenset(here.queues.items()),
        machine.several_streams,
        machine.unlogged is None,
        machine.also_named,
        machine.copies_shapes,
        here.keeps_counts,
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.get_default_dtype(),
        torch.is_autocast_enabled(DEVICE_TYPE) and torch.get_autocast_dtype(DEVICE_TYPE),
        torch.is_autocast_cache_enabled(),
        *(torch_private.rounds_float32(switch) for switch in ("matmul", "conv", "rnn")),
        origin.around(),
    )


def held(arguments: list[Storage], returned: WeakSet[Storage]) -> tuple[int, ...]:
    """The bytes that each GPU holds before a step, aside from what it is given and what earlier calls have returned.

    Of a rank that is a thread only those of its own GPU.
    """
    gpus = machine.gpus if in_threads.here.meeting is None else (machine.gpu(None),)
    aside = {id(storage): storage for storage in [*arguments, *returned]}
    bytes_of = dict.fromkeys((gpu.memory for gpu in gpus), 0)
    for storage in aside.values():
        if storage.memory in bytes_of:
            bytes_of[storage.memory] += storage.size
    return tuple(memory.allocated - size for memory, size in bytes_of.items())


def results_in(out: Any, found: list[tuple[Gpu, Storage, ReturnedTensor]]) -> Any:
    """What a step returns, with a number in place of each tensor, whose memory goes into `found`.

    Raises NotKnownAgain for what is neither a tensor on a GPU nor a plain value, nor a list, tuple or dict of those.
    """
    kind = type(out)
    if kind is SimTensor:
        if out._layout.known:
            raise NotKnownAgain("it returns a tensor that has numbers, on a machine of shapes")
        found.append((out._gpu, out._storage, ReturnedTensor(out._gpu, out._layout)))
        return _Number(len(found) - 1)
    if kind in (list, tuple):
        return kind(results_in(each, found) for each in out)
    if kind is dict:
        return {name: results_in(each, found) for name, each in out.items()}
    if kind in BY_VALUE:
        return out
    raise NotKnownAgain(f"it returns a {kind.__name__}: only tensors on a GPU and plain values can be returned again")


class _Alike:
    """In place of a tensor that nothing holds but what a step returns, and that has its memory for itself."""

    def __init__(self):
        self._storage = object()


def alike_to(out: Any) -> Any:
    """Lists, tuples and dicts as those in `out`, with something new in place of each tensor."""
    kind = type(out)
    if kind is SimTensor:
        return _Alike()
    if kind in (list, tuple):
        return kind(alike_to(each) for each in out)
    return {name: alike_to(each) for name, each in out.items()} if kind is dict else out


def references_in(out: Any) -> list[int]:
    """How often each tensor in `out` is referred to, and its memory.

    More than in `alike_to(out)`, if something else keeps one or shares its memory. A replay makes what a step returns
    again, and would leave that with the memory of the noted call.
    """
    kind = type(out)
    if kind in (SimTensor, _Alike):
        return [sys.getrefcount(out), sys.getrefcount(out._storage)]
    if kind is dict:
        out = [*out.values()]
    return [count for each in out for count in references_in(each)] if kind in (list, tuple, dict) else []


class _Number(int):
    """Of a tensor that a step returns."""


def with_results(template: Any, made: list[SimTensor]) -> Any:
    """What a step returns, with tensors in place of their numbers."""
    kind = type(template)
    if kind is _Number:
        return made[template]
    if kind in (list, tuple):
        return kind(with_results(each, made) for each in template)
    if kind is dict:
        return {name: with_results(each, made) for name, each in template.items()}
    return template
