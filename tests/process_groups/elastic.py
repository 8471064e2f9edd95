"""A script for torchrun that goes on where its last checkpoint was taken, and a worker that is killed in the middle.

It trains on the same batch with any number of ranks, each with its share of the rows, so that losses do not depend on
how many there are. Each step of rank 0 is a line of JSON in FOLDER/steps: [restarts so far, ranks, step, loss].
"""

import json
import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS, ROWS = 6, 12


def train(folder: Path, before_step=lambda step: None) -> list[float]:
    """The losses of the steps that are still to be made, in a world that is there."""
    torch.manual_seed(0)
    data, target = torch.randn(ROWS, 8), torch.randn(ROWS, 1)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)).to("simgpu")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    done = load(folder, model, optimizer)
    parallel = DistributedDataParallel(model)
    x, y = (tensor.chunk(dist.get_world_size())[dist.get_rank()].to("simgpu") for tensor in (data, target))
    losses = []
    for step in range(done, STEPS):
        before_step(step)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(parallel(x), y)
        loss.backward()
        optimizer.step()
        mean = loss.detach()
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        losses.append(mean.item())
        if dist.get_rank() == 0:
            save(folder, model, optimizer, step + 1, mean.item())
    return losses


def save(folder: Path, model, optimizer, done: int, loss: float) -> None:
    torch.save([done, model.state_dict(), optimizer.state_dict()], folder / "checkpoint.new")
    os.replace(folder / "checkpoint.new", folder / "checkpoint")
    with open(folder / "steps", "a") as file:
        restarts = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
        print(json.dumps([restarts, dist.get_world_size(), done - 1, loss]), file=file)


def load(folder: Path, model, optimizer) -> int:
    """How many steps have been made."""
    if not (folder / "checkpoint").exists():
        return 0
    done, weights, states = torch.load(folder / "checkpoint", map_location="simgpu")
    model.load_state_dict(weights)
    optimizer.load_state_dict(states)
    return done


def main() -> None:
    """FOLDER FATAL: the last rank is killed before step 3, the first time that it comes there: FATAL is whom it kills.

    "worker" is itself; "node" is also the torchrun that has started it.
    """
    import simgpu

    folder, fatal = Path(sys.argv[1]), sys.argv[2]
    simgpu.enable(count=int(os.environ["WORLD_SIZE"]))
    torch.simgpu.set_device(int(os.environ["RANK"]))
    dist.init_process_group()

    def die_once(step: int) -> None:
        if step == 3 and dist.get_rank() == dist.get_world_size() - 1 and not (folder / "died").exists():
            (folder / "died").touch()
            if fatal == "node":
                os.kill(os.getppid(), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)

    train(folder, die_once)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
