"""A training script that goes on after a crash: each worker is a process with a copy of the model.

    python -m torch.distributed.run --standalone --local-addr=127.0.0.1 --nproc-per-node=2 --max-restarts=1 \
        goes_on.py FOLDER [STEP]

It keeps a checkpoint in FOLDER, and goes on from there if there is one. With STEP, the last worker is killed just
before that step, the first time. It needs nothing but PyTorch, computes on the CPU, and talks to this computer only.
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


def train(file, fatal=None):
    rank, workers = dist.get_rank(), dist.get_world_size()
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    x, y, model, optimizer = everything()
    done = 0
    if file.exists():
        done, weights, state = torch.load(file)
        model.load_state_dict(weights)
        optimizer.load_state_dict(state)
    copy = DistributedDataParallel(model)
    x, y = x.chunk(workers)[rank], y.chunk(workers)[rank]

    for step in range(done, STEPS):
        if step == fatal and attempt == 0 and rank == workers - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(copy(x), y)
        loss.backward()
        optimizer.step()
        mean = loss.detach() / workers
        dist.all_reduce(mean)
        if rank == 0:
            print(f"attempt {attempt}, step {step}, loss {mean:.7f}", flush=True)
            if (step + 1) % SAVE_EVERY == 0:
                torch.save([step + 1, model.state_dict(), optimizer.state_dict()], file.with_suffix(".new"))
                os.replace(file.with_suffix(".new"), file)  # whole or not at all: a crash may come at any moment


if __name__ == "__main__":
    dist.init_process_group("gloo")
    train(Path(sys.argv[1]) / "checkpoint.pt", int(sys.argv[2]) if sys.argv[2:] else None)
    dist.destroy_process_group()
