"""What the memory of GPUs is for while code runs: weights, gradients, optimizer state, activations, temporary.

    with memory_of(model, optimizer) as memory:
        one_step()
    memory.peak("simgpu:0")  # {"weights": ..., "gradients": ..., ...}, bytes when the GPU was fullest
    memory.draw()

Counted after every operator. A tensor's memory is what its part in training says: a parameter or a buffer of the model,
a parameter's `.grad`, a tensor in the optimizer's state, or one that autograd has saved for the backward pass. What is
allocated and none of these was there already when the code began ("from before": another model, the state of an
optimizer that `memory_of` was not told of), or it is temporary. So the kinds add up to what the GPU says is allocated.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import accumulate, chain
from weakref import ref

import torch
from torch import nn

import simgpu
from simgpu import BLOCK, storage_of, torch_private
from utils.observe.devices import is_simulated, name_of
from utils.observe.memory_picture import BEFORE, KINDS, TEMPORARY, draw_memory
from utils.observe.plots import Picture


@dataclass
class _Piece:
    """A piece of memory that one tensor or several share. Times are numbers of operators."""

    device: torch.device
    size: int
    born: int
    is_gone: Callable[[], bool]
    kind: str = TEMPORARY
    died: int | None = None


class MemoryUse:
    """What `memory_of` gives. Sizes are bytes.

    `devices` are those that held anything, `phases` says of each operator whether it was in forward, backward or the
    optimizer. The first entry of both `phases` and the sizes is the state before the code ran, the last that after it.
    """

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer | None = None):
        self.model, self.optimizer = model, optimizer
        kinds = {tensor.device.type for tensor in self._weights()} - {"cpu", "meta"}
        if len(kinds) != 1:
            raise ValueError("memory_of: move the model to its GPUs first. Allocations on the CPU are not counted.")
        kind = kinds.pop()
        self._counter = torch.get_device_module(kind)
        self.devices = [torch.device(kind, index) for index in range(self._counter.device_count())]
        self.phases: list[str] = []
        self.source = ""
        self._allocated: dict[torch.device, list[int]] = {device: [] for device in self.devices}
        self._pieces: list[_Piece] = []
        self._alive: dict[int, _Piece] = {}
        self._in_optimizer = False

    # --- while the code runs ------------------------------------------------------------------------------------

    def __enter__(self) -> MemoryUse:
        self._count()
        self._mark(self._weights(), "weights")
        self._mark_training()
        with ExitStack() as stack:
            for parameter in self.model.parameters():
                if parameter.requires_grad:
                    hook = parameter.register_post_accumulate_grad_hook(
                        lambda p: self._mark(_tensors(p.grad), "gradients")
                    )
                    stack.callback(hook.remove)
            if self.optimizer is not None:
                for when, inside in (("pre", True), ("post", False)):
                    register = getattr(self.optimizer, f"register_step_{when}_hook")
                    stack.callback(register(lambda *_, inside=inside: setattr(self, "_in_optimizer", inside)).remove)
            stack.enter_context(torch.autograd.graph.saved_tensors_hooks(self._saved, lambda tensor: tensor))
            stack.enter_context(_Watch(self._ran))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error) -> None:
        self._stack.close()
        self._count()
        self._mark_training()
        self.devices = [device for device in self.devices if any(self._allocated[device])]
        simulated = is_simulated(self.devices[0])
        names = ", ".join(dict.fromkeys(map(name_of, self.devices)))
        self.source = f"simulated: {simgpu.describe()}" if simulated else f"measured on {names}"

    def _ran(self, out) -> None:
        recomputed = torch_private.current_node() is not None and torch.is_grad_enabled()
        self._count()
        for tensor in _tensors(out):
            self._piece(tensor, "activations" if recomputed else TEMPORARY)

    def _count(self) -> None:
        """One more operator has run: what is allocated now, and whose memory has gone."""
        for device, allocated in self._allocated.items():
            allocated.append(self._counter.memory_allocated(device))
        in_backward = torch_private.current_node() is not None
        self.phases.append("optimizer" if self._in_optimizer else "backward" if in_backward else "forward")
        for key, piece in list(self._alive.items()):
            if piece.is_gone():
                self._alive.pop(key).died = len(self.phases) - 1

    def _piece(self, tensor: torch.Tensor, kind: str = TEMPORARY) -> _Piece | None:
        """The piece of memory of a tensor, which is of this `kind` if it was not known. None on the host."""
        if tensor.device not in self._allocated:
            return None
        key, size, is_gone = _storage(tensor)
        if key not in self._alive:
            piece = self._alive[key] = _Piece(tensor.device, size, len(self.phases) - 1, is_gone, kind)
            self._pieces.append(piece)
        return self._alive[key]

    def _mark(self, tensors, kind: str) -> None:
        for piece in map(self._piece, tensors):
            if piece is not None and (kind != "activations" or piece.kind == TEMPORARY):
                piece.kind = kind

    def _saved(self, tensor: torch.Tensor) -> torch.Tensor:
        self._mark([tensor], "activations")
        return tensor.detach()  # itself would be kept by the node that it keeps

    def _mark_training(self) -> None:
        self._mark((p.grad for p in self.model.parameters() if p.grad is not None), "gradients")
        states = self.optimizer.state.values() if self.optimizer is not None else ()
        self._mark((value for state in states for value in _tensors(list(state.values()))), "optimizer state")

    def _weights(self):
        return chain(self.model.parameters(), self.model.buffers())

    # --- afterwards ---------------------------------------------------------------------------------------------

    def over_time(self, device) -> dict[str, list[int]]:
        """Of each kind, the bytes after each operator."""
        device, count = torch.device(device), len(self.phases)
        changes = {kind: [0] * (count + 1) for kind in KINDS}
        for piece in self._pieces:
            if piece.device == device:
                changes[piece.kind][piece.born] += piece.size
                changes[piece.kind][count if piece.died is None else piece.died] -= piece.size
        held = {kind: list(accumulate(change[:-1])) for kind, change in changes.items()}
        known = map(sum, zip(*(held[kind] for kind in KINDS if kind not in (BEFORE, TEMPORARY)), strict=True))
        others = [total - rest for total, rest in zip(self._allocated[device], known, strict=True)]
        held[BEFORE] = list(accumulate(others, min))  # it can only become less
        held[TEMPORARY] = [now - before for now, before in zip(others, held[BEFORE], strict=True)]
        return held

    def fullest(self, device) -> int:
        """The number of the operator after which the device held most."""
        allocated = self._allocated[torch.device(device)]
        return allocated.index(max(allocated))

    def peak(self, device) -> dict[str, int]:
        """What the device held when it was fullest."""
        return self._at(device, self.fullest(device))

    def held(self, device) -> dict[str, int]:
        """What the device holds at the end."""
        return self._at(device, -1)

    def _at(self, device, operator: int) -> dict[str, int]:
        return {kind: sizes[operator] for kind, sizes in self.over_time(device).items()}

    def draw(self, title: str | None = None) -> Picture:
        """What each device held after each operator, one kind upon the other."""
        return draw_memory(self, title)


def memory_of(model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> MemoryUse:
    """A context that counts what the memory of the GPUs is for while its body runs: one training step, say.

    `optimizer` is the one that trains the model, if there is one yet. Raises ValueError for a model on the CPU.
    """
    return MemoryUse(model, optimizer)


def _storage(tensor: torch.Tensor) -> tuple[int, int, Callable[[], bool]]:
    """Of the memory that a tensor shares with its views: a key, its bytes, and whether it is gone by now."""
    if is_simulated(tensor.device):
        storage = storage_of(tensor)
        weak = ref(storage)
        return id(storage), storage.size, lambda: weak() is None
    storage = tensor.untyped_storage()
    size = -(-storage.nbytes() // BLOCK) * BLOCK
    return storage.data_ptr(), size, torch_private.weak_storage(storage).expired


def _tensors(out):
    if isinstance(out, torch.Tensor):
        yield out
    elif isinstance(out, (list, tuple)):
        for each in out:
            yield from _tensors(each)


class _Watch(torch_private.DispatchMode):
    """Calls `ran(out)` after each operator. A class inside a function would keep `ran`, and the model, in a cycle."""

    def __init__(self, ran: Callable):
        super().__init__()
        self._ran = ran

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        out = operator(*args, **(kwargs or {}))
        # No work: autograd detaches all the time, and an optimizer makes marks for the profiler.
        if operator is not torch.ops.aten.detach.default and operator.namespace != "profiler":
            self._ran(out)
        return out
