"""A training script that runs on what there is, and goes on after a crash: each worker has a copy of the model.

    python goes_on.py FOLDER                                   one worker
    torchrun --nproc-per-node=2 goes_on.py FOLDER [STEP]       two, each with a GPU if there are two

It keeps a checkpoint in FOLDER, and goes on from there if there is one. With STEP, the last worker is killed just
before that step, if it began with the first. It needs nothing but PyTorch.
"""

import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS, SAVE_EVERY = 6, 2


def everything():
    """Data, model and optimizer, the same in every process."""
    torch.manual_seed(0)
    x, y = torch.randn(12, 8), torch.randn(12, 1)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    return x, y, model, torch.optim.Adam(model.parameters(), lr=0.05)


def my_device():
    """This worker's GPU, if this machine has one for each of its workers; else the CPU."""
    gpu, workers = torch.accelerator.current_accelerator(), int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    if gpu is None or torch.accelerator.device_count() < workers:
        return torch.device("cpu")
    mine = int(os.environ.get("LOCAL_RANK", 0))
    torch.accelerator.set_device_index(mine)  # else all of this machine's workers would send from its first GPU
    return torch.device(gpu.type, mine)


def meet():
    """torchrun has said in the environment how many workers there are and where they meet; by hand there is one."""
    if dist.is_torchelastic_launched():
        dist.init_process_group()
    else:
        dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)


def tell(device):
    """Rank 0 prints who is where."""
    node, local = (os.environ.get(name, "0") for name in ("GROUP_RANK", "LOCAL_RANK"))
    lines = [None] * dist.get_world_size()
    dist.all_gather_object(lines, f"rank {dist.get_rank()}: node {node}, local rank {local}, {device}")
    if dist.get_rank() == 0:
        print(*lines, sep="\n", flush=True)


def train(file, device, fatal=None):
    rank, workers = dist.get_rank(), dist.get_world_size()
    x, y, model, optimizer = everything()
    model.to(device)
    done = 0
    if file.exists():
        done, weights, state = torch.load(file, map_location=device)
        model.load_state_dict(weights)
        optimizer.load_state_dict(state)
    if rank == 0:
        print("begins with step", done)
    copy = DistributedDataParallel(model)
    x, y = x.chunk(workers)[rank].to(device), y.chunk(workers)[rank].to(device)

    for step in range(done, STEPS):
        if step == fatal and not done and rank == workers - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(copy(x), y)
        loss.backward()
        optimizer.step()
        mean = loss.detach() / workers
        dist.all_reduce(mean)
        if rank == 0:
            print(f"step {step}, loss {mean:.7f}", flush=True)
            if (step + 1) % SAVE_EVERY == 0:
                torch.save([step + 1, model.state_dict(), optimizer.state_dict()], file.with_suffix(".new"))
                os.replace(file.with_suffix(".new"), file)  # whole or not at all: a crash may come at any moment


if __name__ == "__main__":
    device = my_device()
    meet()
    tell(device)
    train(Path(sys.argv[1]) / "checkpoint.pt", device, int(sys.argv[2]) if sys.argv[2:] else None)
    dist.destroy_process_group()
