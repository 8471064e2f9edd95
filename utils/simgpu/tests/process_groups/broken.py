"""Runs with a fault, on ranks that are forked from one process: what each rank has seen, as JSON in a folder.

    python broken.py FOLDER CASE...

A case is a function here. It gets `call` for a collective by number, and so runs with a fault of simgpu's, or on gloo
and the CPU with the same fault made by hand.
"""

import atexit
import json
import os
import pickle
import signal
import socket
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

import simgpu
from simgpu import faults

RANKS = 4
PATIENCE = 180.0  # seconds in which every case has to end


def sums(values, device, skips=0):
    """Four sums that look alike: rank 1 leaves one out, where it is to."""
    for number in range(1, 5):
        values.append(torch.full((3,), 10.0**number + dist.get_rank(), device=device))
        if not (number == skips and dist.get_rank() == 1):
            dist.all_reduce(values[-1])


def sums_and_a_broadcast(values, device, skips=0):
    """Calls that do not look alike."""
    sums(values, device)
    values.append(torch.full((5,), float(dist.get_rank()), device=device))
    dist.broadcast(values[-1], 0)


def exchange(values, device, skips=0):
    """All kinds of collectives, and messages."""
    rank = dist.get_rank()
    own = torch.arange(8.0, device=device) + 100 * rank
    values.append(own.clone())
    dist.all_reduce(values[-1])
    values.append(torch.empty(8, device=device))
    dist.all_to_all_single(values[-1], own)
    values.append(torch.empty(32, device=device))
    dist.all_gather_into_tensor(values[-1], own)
    values.append(torch.empty(8, device=device))
    other = rank ^ 2  # on the other node
    if rank < other:
        dist.send(own, other)
        dist.recv(values[-1], other)
    else:
        dist.recv(values[-1], other)
        dist.send(own, other)
    dist.barrier()


def step_of_fsdp(values, device, skips=0):
    """A step whose collectives a model calls, in its forward and backward pass."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)).to(device)
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model(torch.ones(2, 8, device=device)).sum().backward()


def fails_by_itself(values, device, skips=0):
    """An error on one rank, which no collective raises."""
    sums(values, device)
    if dist.get_rank() == 2:
        raise KeyError("rank 2's own")
    dist.all_reduce(values[-1])


ON_GPUS = {
    "healthy": (exchange, ()),
    "slow": (
        exchange,
        (faults.SlowGpu(1, 3.0), faults.SlowAdapter(1, 0.25), faults.Jitter(0.5, 3)),
    ),
    "skipped": (sums_and_a_broadcast, (faults.SkippedCollective(1, 2),)),
    "skipped alike": (sums, (faults.SkippedCollective(1, 2),)),
    "other": (sums, (faults.OtherCollective(1, 3),)),
    "killed": (sums, (faults.KilledRank(1, 3),)),
    "other in fsdp": (step_of_fsdp, (faults.OtherCollective(3, 4),)),
    "own error": (fails_by_itself, ()),
}
ON_GLOO = {"gloo": (exchange, 0), "gloo skipped alike": (sums, 2)}


def as_pytorch_records() -> dict:
    """What PyTorch's own flight recorder has of gloo."""
    return pickle.loads(torch._C._distributed_c10d._dump_fr_trace())


def run(name: str, rank: int, folder: Path) -> None:
    case, what = (ON_GPUS | ON_GLOO)[name]
    on_gpus = name in ON_GPUS
    if on_gpus:
        simgpu.enable(count=RANKS, nodes=2, network="100G", faults=what)
        torch.get_device_module("simgpu").set_device(rank)
        dist.init_process_group(device_id=torch.device("simgpu", rank))
    else:
        dist.init_process_group("gloo")
    values, told = [], {"error": "", "message": ""}
    try:
        case(values, torch.device("simgpu", rank) if on_gpus else "cpu", skips=0 if on_gpus else what)
    except Exception as error:
        told = {"error": type(error).__name__, "message": str(error)}
    told["values"] = [value.tolist() for value in values]
    if on_gpus:
        told["comm"] = [(record.name, record.start, record.end) for record in simgpu.log() if record.kind == "comm"]
    told["recorded"] = as_pytorch_records() if not on_gpus else simgpu.flight_recorder()
    (folder / f"{rank}.json").write_text(json.dumps(told))


def on_rank(name: str, rank: int, folder: Path, port: int) -> int:
    """Never returns."""
    os.environ |= {
        **{"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(RANKS), "LOCAL_WORLD_SIZE": str(RANKS)},
        **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TORCHELASTIC_USE_AGENT_STORE": "True"},
        **{"TORCHELASTIC_RESTART_COUNT": "0", "TORCH_FR_DUMP_TEMP_FILE": str(folder / "flight" / "rank_")},
    }
    try:
        run(name, rank, folder)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    sys.stderr.flush()
    atexit._run_exitfuncs()
    os._exit(0)


def main(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).mkdir()
        listening = socket.create_server(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        ranks = {os.fork() or on_rank(name, rank, folder / name, port) for rank in range(RANKS)}
        began = time.monotonic()
        # Only now: a fork copies the locks that the store's thread holds, and no thread that releases them.
        store = dist.TCPStore(
            "127.0.0.1", port, is_master=True, wait_for_workers=False, master_listen_fd=listening.detach()
        )
        while ranks and time.monotonic() - began < PATIENCE:
            ranks -= {rank for rank in ranks if os.waitpid(rank, os.WNOHANG)[0]}
            time.sleep(0.02)
        for rank in ranks:
            os.kill(rank, signal.SIGKILL)
        del store
        (folder / name / "ended.json").write_text(json.dumps(not ranks))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
