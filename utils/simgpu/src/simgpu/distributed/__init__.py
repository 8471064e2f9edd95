"""torch.distributed on simulated GPUs: the backend "simccl", which `init_process_group()` picks for them.

Every rank is a process (under torchrun, or forked) with simulated GPUs of its own. Numbers travel by gloo. Times travel
beside them, and a rank's virtual time depends on its own past and on the messages that it has received, and on nothing
else: so it is the same in every run, on however busy a machine.

    collective      begins when its last rank is ready, and takes what `collectives.Fabric` says
    send, receive   begins when both ends are ready: the message carries its sender's time

A collective runs on a stream of its group, as NCCL's do. `work.wait()` lets the current stream wait for it, not the
host. Groups whose ranks share a way (the links of a node, or a GPU's network adapter) take turns on it; a group within
nodes and one between them don't wait for each other.

One process can stand for many: with `store=FakeStore()` it is one rank of `world_size` that all do the same at the same
time, which no other process has a say in. So a step on 512 GPUs can be planned in a notebook.

What would make a program's times depend on chance is refused: a receive from any rank.

`backend` has the collectives, `point_to_point` send and receive, `group` who takes part and how they are linked,
`reductions` and `arguments` what calls ask for, `work` what they give back, `gloo` what groups of gloo do with GPUs.
Beside this package `collectives` has the costs, and `waiting` who waits for whom.
"""

from __future__ import annotations

import torch

from .. import torch_private
from ..hardware import DEVICE_TYPE, machine
from ..moves import keeping_counts, pinned
from ..operators import SPECIAL
from ..tensor import SimTensor
from .arguments import NAME
from .backend import SimBackend
from .gloo import GlooOnGpus
from .point_to_point import PAIR
from .work import WAIT, SimWork, wait_tensor

__all__ = ["NAME", "PAIR", "SimBackend", "register_backend"]

NO_OFFLOAD = (
    f"FSDP1 keeps its weights on the CPU by exchanging data inside a tensor (CPUOffload), which a {DEVICE_TYPE} tensor "
    "cannot: leave cpu_offload out, or use fully_shard (FSDP2) with offload_policy=CPUOffloadPolicy()."
)

NO_SUMMONING = (
    f"FSDP1 shows its weights on the CPU by exchanging data inside a tensor (offload_to_cpu), which a {DEVICE_TYPE} "
    "tensor cannot: leave offload_to_cpu out and copy with .cpu(), or take a full state dict, or use fully_shard "
    "(FSDP2)."
)


def _simulated(device: torch.device) -> torch.device:
    """A device of the other name that simulated GPUs have (`as_cuda`) by their own."""
    return torch.device(DEVICE_TYPE, device.index) if device.type == machine.also_named else device


def _refuse(*_: object) -> None:
    raise RuntimeError(
        "torch.distributed on simulated GPUs needs PyTorch 2.15, in which a backend can be written in Python. "
        f"Here is {torch.__version__}: pip install 'torch>=2.15'"
    )


def register_backend() -> None:
    """Let torch.distributed find the backend, and pick it for simulated GPUs. It refuses where PyTorch is too old."""
    if torch_private.has_python_backends():
        torch_private.let_ddp_find_unused_parameters(pinned.add)
        torch_private.let_ddp_read_counts(keeping_counts)
        torch_private.let_ddp_cast(DEVICE_TYPE)
        torch_private.let_fsdp_move_models(DEVICE_TYPE)
        torch_private.let_fsdp1_run(DEVICE_TYPE, _simulated, NO_OFFLOAD)
        torch_private.let_fsdp1_save(DEVICE_TYPE, NO_SUMMONING)
        torch_private.let_checkpoints_copy(lambda tensor: type(tensor) is SimTensor)
        torch_private.keep_off_the_flight_recorder(NAME)
        torch_private.keep_off_the_wrapper_of_groups(SimBackend)
        torch_private.let_gloo_take_gpus(DEVICE_TYPE, GlooOnGpus)
        torch_private.let_works_answer(SimWork)
        SPECIAL[WAIT] = wait_tensor
        backend = SimBackend
    else:
        backend = _refuse
    torch.distributed.Backend.register_backend(NAME, backend, extended_api=True, devices=[DEVICE_TYPE])
