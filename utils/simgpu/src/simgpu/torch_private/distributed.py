"""Private names of torch.distributed: backends, stores, operators and futures."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable
from functools import cache, partial, wraps
from types import SimpleNamespace
from typing import Any

import torch

from .autograd import when_backward_ends
from .versions import torch_version

FIRST_WITH_PYTHON_BACKENDS = (2, 15)
c10d: Any = getattr(torch._C, "_distributed_c10d", None)  # None where PyTorch was built without
Backend: Any
Work: Any
ReduceOp: Any
Backend, Work, ReduceOp = (getattr(c10d, name, object) for name in ("Backend", "Work", "ReduceOp"))


def has_python_backends() -> bool:
    """Whether a backend of torch.distributed can be written in Python."""
    return c10d is not None and torch_version() >= FIRST_WITH_PYTHON_BACKENDS


def keep_off_the_flight_recorder(name: str) -> None:
    """Tell PyTorch that groups of the backend `name` record themselves.

    Its flight recorder keeps the last collectives of a group, for a look after a hang. To attach it to a backend that
    is written in Python ends the process under Python 3.13 (PyTorch 2.15.0, a segmentation fault).
    """
    recorders = getattr(torch.distributed.distributed_c10d, "_FR_SELF_RECORDING_BACKENDS", None)
    if recorders is not None:
        recorders.add(name)


def keep_off_the_wrapper_of_groups(kind: type) -> None:
    """Let TORCH_DISTRIBUTED_DEBUG=DETAIL leave backends of this kind as they are.

    PyTorch wraps a group then, to compare what its ranks are about to do, as ours do always. The wrapper is C++ that
    asks a backend for its name, and does not find a method in Python (2.15.0).
    """
    groups = torch.distributed.distributed_c10d
    wrapper = getattr(groups, "_create_process_group_wrapper", None)
    if wrapper is None or hasattr(wrapper, "leaves"):
        return

    @wraps(wrapper)
    def wrapped(wrapped_pg, *args, **kwargs):
        return wrapped_pg if isinstance(wrapped_pg, kind) else wrapper(wrapped_pg, *args, **kwargs)

    wrapped.leaves = kind
    groups._create_process_group_wrapper = wrapped


def name_and_description(backend) -> tuple[str, str] | None:
    """What PyTorch calls the group of this backend, and what its maker called it; None where there is none (yet)."""
    for group, name in list(torch.distributed.distributed_c10d._world.pg_names.items()):
        for device in group._device_types:
            if group._get_backend(device) is backend:
                return name, group.group_desc
    return None


def gloo(store, rank: int, ranks: int, timeout):
    """A process group that moves CPU tensors between processes."""
    return c10d.ProcessGroupGloo(store, rank, ranks, timeout)


def let_gloo_take_gpus(kind: str, made: Callable) -> None:
    """Let groups of gloo take tensors on devices of this kind, as they take CUDA's: by what `made(gloo)` gives."""
    groups: Any = torch.distributed.distributed_c10d
    create = groups._new_process_group_helper
    if hasattr(create, "takes"):
        return

    @wraps(create)
    def created(*args, **kwargs):
        group, store = create(*args, **kwargs)
        if isinstance(group, c10d.ProcessGroup):
            kinds = {device.type for device in group._device_types}
            if {"cpu", "cuda"} <= kinds and kind not in kinds:  # one backend for all that it can take
                gloo = group._get_backend(torch.device("cpu"))
                if isinstance(getattr(gloo, "wrapped_pg", gloo), c10d.ProcessGroupGloo):
                    group._register_backend(torch.device(kind), c10d.ProcessGroup.BackendType.CUSTOM, made(gloo))
        return group, store

    vars(created)["takes"] = kind
    groups._new_process_group_helper = created


def world_size() -> int:
    """How many ranks there are in all; 0 before `init_process_group`."""
    return torch.distributed.get_world_size() if torch.distributed.is_initialized() else 0


def never_free(thing) -> None:
    """Keep an object for as long as the process lives, beyond the end of Python."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def root_store(store):
    """The store behind the prefixes that groups put before their keys."""
    return store._underlying_non_prefix_store if isinstance(store, c10d.PrefixStore) else store


def fake_store():
    """A store that no other process has: with it one process stands for all ranks (`simgpu.distributed`)."""
    return c10d.FakeStore()


def is_fake(store) -> bool:
    """Whether a group's store is one that no other process has."""
    return isinstance(root_store(store), c10d.FakeStore)


_looking = threading.local()  # in `works`: the works of ours that were found behind one of PyTorch's


def let_works_answer(kind: type) -> None:
    """Let what PyTorch makes of a work of this kind, written in Python, answer as that would.

    Its C++ (PyWorkHolder, 2.15.0) hands on `wait` and `get_future` only: it says for ever that it is not completed, and
    `synchronize` does nothing. The work is found through `get_future`.
    """
    get_future = kind.get_future

    @wraps(get_future)
    def found(self):
        works = getattr(_looking, "works", None)
        if works is None:
            return get_future(self)
        works.append(self)
        return torch.futures.Future()

    def behind(work):
        _looking.works = works = []
        try:
            work.get_future()
        except RuntimeError:  # gloo's messages have none
            return None
        finally:
            _looking.works = None
        return works[0] if works else None

    def answering(name: str, ask):
        @wraps(ask)
        def answer(work):
            ours = behind(work)
            return ask(work) if ours is None else getattr(ours, name)()

        vars(answer)["answers"] = True
        return answer

    if not hasattr(Work.is_completed, "answers"):
        kind.get_future = found
        for name in ("is_completed", "is_success", "synchronize", "block_current_stream", "result"):
            setattr(Work, name, answering(name, getattr(Work, name)))


# --- operators ---------------------------------------------------------------------------------------------------


def kernel_of_collectives(func) -> Callable | None:
    """For an operator of torch.distributed, the kernel that takes tensors of any device; None for other operators."""
    key = COLLECTIVES.get(func.namespace)
    return None if key is None else partial(func._op_dk, key)


COLLECTIVES = {
    "c10d": torch._C.DispatchKey.PrivateUse1,
    "_c10d_functional": torch._C.DispatchKey.CompositeExplicitAutograd,
    "_c10d_functional_autograd": torch._C.DispatchKey.CompositeExplicitAutograd,
    "_dtensor": torch._C.DispatchKey.CompositeExplicitAutograd,
}


# The operator by which DTensor, and code that uses functional collectives, waits for one.
WAIT_FOR_COLLECTIVE = torch.ops._c10d_functional.wait_tensor.default


def kernel_of_fsdp(func) -> Callable | None:
    """For an operator by which FSDP gathers its weights, what it is made of on any device; None for other operators."""
    if func.namespace != "fsdp" or not torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "PrivateUse1"):
        return None
    return partial(func._op_dk, torch._C.DispatchKey.PrivateUse1)


# --- futures -----------------------------------------------------------------------------------------------------


_awaited: dict[int, dict[object, weakref.WeakMethod]] = {}  # by thread: what completes open futures, the oldest first


def await_in_backward(complete: Callable[[], Any]) -> None:
    """Call this, a method, when the backward pass of this thread has ended, or a future is waited for before then.

    A future may be one of PyTorch's own, made from another in C++ (`then`, a hook of DDP's reducer): so its class
    asks, whatever waits for it.
    """
    _let_futures_ask()
    waiting, own = _awaited.setdefault(threading.get_ident(), {}), object()
    waiting[own] = weakref.WeakMethod(complete)

    def at_the_end() -> None:
        waiting.pop(own, None)
        complete()

    when_backward_ends(at_the_end)


def _complete_for(future: torch._C.Future) -> None:
    """Complete what is open, the oldest first, until this future is done. Collectives of a group end in that order."""
    waiting = _awaited.get(threading.get_ident(), {})
    while waiting and not future.done():
        if (complete := waiting.pop(next(iter(waiting)))()) is not None:
            complete()


@cache
def _let_futures_ask() -> None:
    for name in ("wait", "value"):
        ask = getattr(torch._C.Future, name)

        def first_complete(future, *, ask=ask):
            if not future.done():
                _complete_for(future)
            return ask(future)

        setattr(torch._C.Future, name, wraps(ask)(first_complete))


def new_world() -> Any:
    """What torch.distributed knows of a process that has no process group yet."""
    names = {"default_pg": None, "group_count": 0, "comms": []}
    tables = ("pg_map", "pg_names", "pg_group_ranks", "pg_backend_config", "tags_to_pg", "pg_to_tag")
    for table in (*tables, "pg_coalesce_state", "pg_flight_recorder_hooks"):
        names[table] = {}
    return SimpleNamespace(**names)


def swap_world(world: Any) -> Any:
    """Let torch.distributed know this from now on, in all threads; what it knew before."""
    groups: Any = torch.distributed.distributed_c10d
    before, groups._world = groups._world, world
    return before


def each_thread_has_its_groups(own: bool) -> None:
    """Whether a thread finds only the groups by name that it has made."""
    c10d._set_thread_isolation_mode(own)
