"""Private names of FSDP, DDP and DataParallel, which know CUDA's devices and CPU tensors, and no others."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

from .autograd import Unpinned, finding_unused
from .distributed import c10d


def let_fsdp_move_models(kind: str) -> None:
    """Let `fully_shard` and FSDP1 take a model that is still on the CPU: their `tensor.data = ...` cannot change a
    tensor's class.

    PyTorch swaps such tensors itself where a class says that it can be traced.
    """
    for name in ("_fully_shard._fsdp_init", "_init_utils"):
        init: Any = importlib.import_module(f"torch.distributed.fsdp.{name}")
        if not hasattr(init._move_states_to_device, "swaps"):
            init._move_states_to_device = _swapping(init._move_states_to_device, kind)


def _swapping(move, kind: str):
    @wraps(move)
    def swapping(params, buffers, device, *rest, **options):
        if device is not None and device.type == kind:
            for tensor in (*params, *buffers):
                if type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.device.type == "cpu":
                    moved = tensor.detach().to(device).requires_grad_(tensor.requires_grad)
                    is_one = isinstance(tensor, torch.nn.Parameter)
                    new = torch.nn.Parameter(moved, tensor.requires_grad) if is_one else moved
                    vars(new).update(vars(tensor))  # what a program has noted on it
                    torch.utils.swap_tensors(tensor, new)
        return move(params, buffers, device, *rest, **options)

    swapping.swaps = True
    return swapping


def let_fsdp1_run(kind: str, simulated: Callable[[torch.device], torch.device], offloading: str) -> None:
    """Let FSDP1's `device_id` be one that is `simulated`.

    Raises RuntimeError, with the words `offloading`, where it is to keep its weights on the CPU.
    """
    init: Any = importlib.import_module("torch.distributed.fsdp._init_utils")
    make, chosen = init._init_param_handle_from_params, init._get_device_from_device_id
    if hasattr(make, "refuses"):
        return

    @wraps(chosen)
    def chosen_here(*args, **kwargs):
        device = chosen(*args, **kwargs)
        return None if device is None else simulated(device)

    @wraps(make)
    def checked(state, *args, **kwargs):
        if state.cpu_offload.offload_params and state.compute_device.type == kind:
            raise RuntimeError(offloading)
        return make(state, *args, **kwargs)

    checked.refuses = True
    init._init_param_handle_from_params, init._get_device_from_device_id = checked, chosen_here


def let_fsdp1_save(kind: str, summoning: str) -> None:
    """Let FSDP1 take a full state dict to the CPU (`offload_to_cpu`), each weight by itself.

    PyTorch exchanges the data of the flat weight that all of them are views of. Raises RuntimeError, with the words
    `summoning`, where a program wants to see the weights there (`summon_full_params`).
    """
    saving: Any = importlib.import_module("torch.distributed.fsdp._state_dict_utils")
    handle: Any = importlib.import_module("torch.distributed.fsdp._flat_param").FlatParamHandle
    before, after, to_cpu = (
        saving._common_unshard_pre_state_dict_hook,
        saving._common_unshard_post_state_dict_hook,
        handle.to_cpu,
    )
    if hasattr(before, "stays"):
        return

    @wraps(before)
    def staying(module, state, offload_to_cpu, rank0_only):
        before(module, state, offload_to_cpu and state.compute_device.type != kind, rank0_only)

    @wraps(after)
    def copying(module, state, state_dict, prefix, param_hook):
        def to_host(state_dict, prefix, name):
            copy = state_dict[name].detach().cpu()
            copy._has_been_cloned = True  # or PyTorch would
            state_dict[name] = copy
            param_hook(state_dict, prefix, name)

        whole = state._state_dict_type == saving.StateDictType.FULL_STATE_DICT
        offloads = whole and state._state_dict_config.offload_to_cpu and state.compute_device.type == kind
        return after(module, state, state_dict, prefix, to_host if offloads else param_hook)

    @wraps(to_cpu)
    def refusing(self):
        if self.device.type == kind:
            raise RuntimeError(summoning)
        return to_cpu(self)

    vars(staying)["stays"] = True
    saving._common_unshard_pre_state_dict_hook, saving._common_unshard_post_state_dict_hook = staying, copying
    handle.to_cpu = refusing


class _TypedStorage:
    """A tensor's storage counted in numbers, as far as FSDP1 and DDP in mixed precision free and take memory by it."""

    def __init__(self, tensor: torch.Tensor):
        self._bytes, self._each, self.dtype = tensor.untyped_storage(), tensor.element_size(), tensor.dtype

    def untyped(self):
        return self._bytes

    def element_size(self) -> int:
        return self._each

    def _size(self) -> int:
        return self._bytes.size() // self._each

    def _resize_(self, numbers: int) -> None:
        self._bytes.resize_(numbers * self._each)

    def _data_ptr(self) -> int:
        return self._bytes.data_ptr()

    size, __len__, data_ptr = _size, _size, _data_ptr  # what others ask of `tensor.storage()`


def let_storages_count_numbers(kind: type) -> None:
    """Give tensors of this class what `tensor.storage()` is, by which FSDP1 and DDP in mixed precision free memory."""
    kind._typed_storage = lambda tensor: _TypedStorage(tensor)  # a class would bind no tensor


class _Past:
    """An event that nothing has to wait for."""

    def wait(self, stream=None) -> None:
        """Nothing."""


def let_ddp_cast(kind: str) -> None:
    """Let DDP in mixed precision wait for its casts by events that C++ makes, and that know no simulated streams.

    What runs on such a stream runs on the current one here, so there is nothing to wait for.
    """
    parallel = torch.nn.parallel.DistributedDataParallel
    cast = parallel._root_copy_hook
    if hasattr(cast, "has_no_events"):
        return

    @wraps(cast)
    def cast_and_past(self, *args, **kwargs):
        cast(self, *args, **kwargs)
        if self.device.type == kind:
            for module, events in self._submodule_to_event.items():
                self._submodule_to_event[module] = type(events)([_Past()] * len(events))

    cast_and_past.has_no_events = True
    parallel._root_copy_hook = cast_and_past


def let_ddp_find_unused_parameters(mark_pinned: Callable[[torch.Tensor], None]) -> None:
    """Let DDP say in a backward pass which parameters were used, for which its C++ asks for pinned memory."""
    Unpinned.mark = staticmethod(mark_pinned)
    kind = torch.nn.parallel.DistributedDataParallel
    make = kind.__init__
    if hasattr(make, "notes_who_finds"):
        return

    def __init__(self, *args, **kwargs):
        make(self, *args, **kwargs)
        if self.find_unused_parameters or self.static_graph:
            finding_unused.add(self)

    __init__.notes_who_finds = True
    kind.__init__ = __init__


def let_ddp_read_counts(keeping: Callable[[], AbstractContextManager]) -> None:
    """Do what DDP does to have all ranks agree on parameters and buckets in a context: its C++ reads it back."""
    for owner, name in ((torch.nn.parallel.DistributedDataParallel, "__init__"), (c10d.Reducer, "_rebuild_buckets")):
        call = getattr(owner, name)
        if not hasattr(call, "reads_counts"):
            setattr(owner, name, _within(keeping, call))


def _within(context: Callable[[], AbstractContextManager], call):
    @wraps(call)
    def run(*args, **kwargs):
        with context():
            return call(*args, **kwargs)

    run.reads_counts = True
    return run


class _InTurn(threading.Thread):
    """A thread that has ended when `start` returns."""

    def start(self) -> None:
        super().start()
        self.join()


@contextmanager
def replicas_in_turn(stream_for_copies: Callable[[Any], Any]) -> Iterator[None]:
    """Inside, `nn.DataParallel` runs its replicas one after the other, each in a thread of its own as before.

    Two at once would draw random numbers from each other's generators, and launch in an order that chance decides.
    """
    applying: Any = importlib.import_module("torch.nn.parallel.parallel_apply")
    functions: Any = importlib.import_module("torch.nn.parallel._functions")
    threads = SimpleNamespace(Lock=threading.Lock, Thread=_InTurn)
    with (
        mock.patch.object(applying, "threading", threads),
        mock.patch.object(functions, "_get_stream", stream_for_copies),
    ):
        yield
