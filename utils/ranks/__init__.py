"""A cluster in a notebook: several processes, each with a simulated GPU of its own, as torchrun starts them.

    from utils.ranks import ranks

    losses = ranks(4).run(train, 10)    # train(10) on each of 4 ranks; a list of what each has returned

or, for a whole cell,

    %%ranks 4
    print(dist.get_rank(), "of", dist.get_world_size())

On each rank the process group is there, and the current device is the rank's own GPU: rank 2 has simgpu:2. What ranks
print is shown by rank. Each run is a program of its own, with new processes, which begin with copies of what the
function or the cell uses of the notebook. They are forked from a process that has loaded PyTorch and waits beside the
notebook (utils/processes), so that all but the first run begin at once. Where a fork is not safe (macOS), each rank is
a program of its own, and takes as long as importing PyTorch. All of them end when a run ends, when it is interrupted,
and when the notebook's process ends, however it does.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import simgpu
from simgpu.faults import faults_from

from .cells import register_ranks_magic
from .launch import results_of, shared_fork_server
from .sending import sendable
from .telling import RankError, RanksInterrupted

__all__ = ["RankError", "Ranks", "RanksInterrupted", "ranks"]

MOST = 64


class Ranks:
    """So many ranks, with the machine that they are on. `ranks` makes it."""

    def __init__(self, count: int, machine: dict[str, Any]):
        self._count, self._machine = count, machine

    def run(self, function: Callable, /, *args, **kwargs) -> list:
        """What `function(*args, **kwargs)` returns on each rank, by rank; simulated tensors come back on the CPU.

        Raises RankError where it fails on a rank, or a rank dies; TypeError for what cannot be sent to other processes.
        """
        return results_of(self._count, self._machine, sendable((function, args, kwargs)))


def ranks(count: int, **machine) -> Ranks:
    """`count` ranks. `machine`: the other arguments of `simgpu.enable`, such as gpu="H100" or nodes=2."""
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MOST:
        raise ValueError(f"ranks({count!r}): give a whole number of ranks from 1 to {MOST}")
    inspect.signature(simgpu.enable).bind(count, **machine)  # a TypeError that names what enable does not know
    faults_from(machine.get("faults", ()), count, machine.get("nodes", 1))  # its errors are best told here
    shared_fork_server()  # loads PyTorch meanwhile
    return Ranks(count, machine)


register_ranks_magic(ranks)
