"""One model, two processes, PyTorch's own pipeline: each process has one stage and sends activations to the other.

    python -m torch.distributed.run --standalone --local-addr=127.0.0.1 --nproc-per-node=2 two_processes.py

Process 0 prints one line of JSON: how far the gradients are from those of the whole model in one process, and how
long a training step takes in both ways. It needs nothing but PyTorch, and talks to this computer only.
"""

import faulthandler
import json
import os
import socket
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

WIDTH, BATCH, MICRO_BATCHES, REPEATS = 1024, 1024, 4, 3


def layers():
    """The whole model, with the same weights in every process: four linear layers for each stage."""
    torch.manual_seed(0)
    return nn.Sequential(*[layer for _ in range(8) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())])


def seconds_of(step):
    """The median time of a step, with both processes ready before it and done after it."""
    times = []
    for _ in range(REPEATS):
        dist.barrier()
        begin = time.perf_counter()
        step()
        dist.barrier()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def main():
    faulthandler.dump_traceback_later(90, exit=True)  # never wait for ever for the other process
    torch.set_num_threads(1)  # one thread each, so that the comparison is fair
    loopback = [name for _, name in socket.if_nameindex() if name.startswith("lo")]
    if loopback:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback[0])
    dist.init_process_group("gloo")
    rank = dist.get_rank()

    whole = layers()
    x, y = torch.randn(BATCH, WIDTH), torch.randn(BATCH, WIDTH)
    half = len(whole) // 2
    my_layers = slice(0, half) if rank == 0 else slice(half, None)
    mine = layers()[my_layers]  # this process trains these, and no others
    stage = PipelineStage(mine, stage_index=rank, num_stages=2, device=torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=MICRO_BATCHES, loss_fn=nn.MSELoss())

    def pipelined():
        mine.zero_grad()
        if rank == 0:
            schedule.step(x)  # the first process has the batch
        else:
            schedule.step(target=y)  # the last one has the targets and computes the loss

    def sequential():
        if rank == 0:  # the other process waits
            whole.zero_grad()
            nn.MSELoss()(whole(x), y).backward()

    pipelined()
    whole.zero_grad()
    nn.MSELoss()(whole(x), y).backward()
    pairs = list(zip(mine.parameters(), whole[my_layers].parameters(), strict=True))
    worst = max(((m.grad - w.grad).abs().max() / w.grad.abs().max()).item() for m, w in pairs)
    found = [None, None]
    dist.all_gather_object(found, (worst, len(pairs)))

    times = {"pipelined_seconds": seconds_of(pipelined), "sequential_seconds": seconds_of(sequential)}
    if rank == 0:
        result = {
            "micro_batches": MICRO_BATCHES,
            "parameters": sum(number for _, number in found),
            "largest_gradient_difference": max(difference for difference, _ in found),
            **times,
            "source": "measured on this computer's CPU, 2 processes, one thread each",
        }
        print(json.dumps(result), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
