"""Private names of torch.distributed.checkpoint, which a program may never import."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import wraps
from importlib.abc import MetaPathFinder

import torch


def let_checkpoints_copy(is_simulated: Callable[[torch.Tensor], bool]) -> None:
    """Let torch.distributed.checkpoint take simulated tensors to the host as it would take those of a GPU."""
    checkpoint = "torch.distributed.checkpoint"

    def files(module) -> None:
        # Asked for the kind of GPU that there is, PyTorch says cuda in code for CUDA, and simgpu of the tensors.
        loader = module._OverlappingCpuLoader
        make = loader.__init__

        @wraps(make)
        def __init__(self, resolve, *args, **kwargs):
            def on_host(item):
                tensor = resolve(item).detach()
                return tensor.cpu() if is_simulated(tensor) else tensor

            make(self, on_host, *args, **kwargs)

        loader.__init__ = __init__

    def stager(module) -> None:
        # PyTorch's own copies the bytes of a storage into pinned memory: there are neither.
        kind = module.StateDictStager
        make, offload = kind.__init__, kind._offload_tensor

        @wraps(make)
        def __init__(self, pin_memory=False, *args, **kwargs):
            make(self, False, *args, **kwargs)

        @wraps(offload)
        def copied(self, tensor, memo, non_blocking=False):
            if not is_simulated(tensor):
                return offload(self, tensor, memo, non_blocking=non_blocking)
            memo[id(tensor)] = copy = tensor.detach().cpu()
            return copy.share_memory_() if self.share_memory else copy

        kind.__init__, kind._offload_tensor = __init__, copied

    def staging(module) -> None:
        module.ThreadPoolExecutor = _AtOnce

    when_imported(f"{checkpoint}.filesystem", files)
    when_imported(f"{checkpoint}._state_dict_stager", stager)
    when_imported(f"{checkpoint}.staging", staging)


class _AtOnce(Executor):
    """Runs what it is given in the caller's thread: when another thread would copy is chance, and so are all times
    after it."""

    def __init__(self, max_workers: int | None = None):
        """Nothing: it has no workers."""

    def submit(self, call, /, *args, **kwargs) -> Future:
        done = Future()
        done.set_result(call(*args, **kwargs))
        return done


class _Awaited(MetaPathFinder):
    """Calls `change` with the module of a name when it has been imported, and is gone then."""

    def __init__(self, name: str, change: Callable[[object], None]):
        self._name, self._change = name, change

    def find_spec(self, name, path=None, target=None):
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module) -> None:
            execute(module)
            self._change(module)

        spec.loader.exec_module = exec_module
        return spec


def when_imported(name: str, change: Callable[[object], None]) -> None:
    """Change a module of PyTorch's, now or when a program imports it: it may be slow to import, and never needed."""
    if name in sys.modules:
        change(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Awaited(name, change))
