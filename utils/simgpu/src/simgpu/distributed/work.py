"""Collectives and messages that were launched: until when they take, and who waits for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary, ref

import torch

from .. import torch_private
from ..hardware import Gpu, machine
from ..streams import is_past
from ..tensor import SimTensor, storage_of
from .arguments import flattened

WAIT = torch_private.WAIT_FOR_COLLECTIVE
_wait_in_pytorch: Any = torch_private.kernel_of_collectives(WAIT)


class SimWork(torch_private.Work):
    """A collective that was given away: the stream that waits for it waits until `end`.

    `finish` completes what has to come from elsewhere (a receive) and returns the end; None where all is known.
    """

    def __init__(self, result, gpu: Gpu | None, end: float, finish: Callable[[], float] | None = None):
        super().__init__()
        self._result, self._gpu, self.end, self._finish = result, gpu, end, finish
        self._future: torch.futures.Future | None = None
        self._waited_for = False

    def complete(self) -> None:
        if self._finish is not None:
            finish, self._finish = self._finish, None
            self.end = finish()

    def wait(self, timeout=None) -> bool:
        self.complete()
        self._waited_for = True
        if self._gpu is not None:
            machine.queue(self._gpu).wait_until(self.end)
        if self._future is not None and not self._future.done():
            self._future.set_result(self._result)
        return True

    def get_future(self):
        """Done at once; of what was launched in a backward pass, when that ends: what overlaps with it does not wait.

        DDP asks as soon as it has launched, and waits in a callback of the autograd engine that it adds after ours.
        Who waits before then, in a hook, waits for the collective, and lets the current stream wait for it.
        """
        if self._future is None:
            self._future = torch.futures.Future()
            if self._waited_for or torch_private.current_node() is None:
                self.wait()
            else:
                torch_private.await_in_backward(self.wait)
        return self._future

    def is_completed(self) -> bool:
        """Whether it is over. A no costs the host what a launch costs it. A message's other end is waited for."""
        self.complete()
        return self._gpu is None or is_past(self.end, self._gpu)

    def is_success(self) -> bool:
        return True

    def synchronize(self) -> None:
        self.wait()

    block_current_stream = synchronize

    def result(self):
        return self._result


# When what a collective makes is there, and the tensor that PyTorch knows its work by. It looks by storage, and here a
# view has one of its own: DTensor's products of what was gathered would not wait, and the work never be given away.
_arrivals: WeakKeyDictionary = WeakKeyDictionary()


def note_arrivals(outputs, end: float) -> None:
    """What a collective makes is there at `end`."""
    _arrivals.update(
        (storage_of(tensor), (end, ref(tensor))) for tensor in flattened(outputs) if type(tensor) is SimTensor
    )


def wait_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """The operator by which DTensor and functional collectives wait: the current stream does."""
    if type(tensor) is SimTensor and (arrival := _arrivals.pop(storage_of(tensor), None)) is not None:
        end, known = arrival
        machine.queue(tensor._gpu).wait_until(end)
        if (made := known()) is not None:
            _wait_in_pytorch(made)
            return tensor
    return _wait_in_pytorch(tensor)
