"""Whether virtual times depend on how busy the computer is. Run it by hand:

.venv/bin/python -m utils.simgpu.benchmarks.times_under_load

Four ranks make steps of DDP and FSDP2 and pass messages around a ring, once on the computer as it is and five times
beside two busy processes for each core. After the times of each rank at the end come digests of their logs, in which
each start and end stands to the last bit.
"""

import hashlib
import os
import subprocess
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

import simgpu
from utils.ranks import ranks

RANKS, RUNS = 4, 5


def program() -> tuple[float, int, str]:
    """(the host's time at the end, how many records there are, their digest)."""
    _a_step_of_ddp()
    _a_step_of_fsdp()
    _around_the_ring()
    torch.get_device_module("simgpu").synchronize()
    records = simgpu.log()
    return simgpu.now(), len(records), hashlib.sha256(repr(records).encode()).hexdigest()[:12]


def _a_step_of_ddp() -> None:
    model = nn.parallel.DistributedDataParallel(_layers(), bucket_cap_mb=1)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        model(torch.ones(64, 512, device="simgpu")).sum().backward()
        optimizer.step()


def _a_step_of_fsdp() -> None:
    from torch.distributed.fsdp import fully_shard

    model = _layers()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    for _ in range(3):
        model(torch.ones(64, 512, device="simgpu")).sum().backward()


def _around_the_ring() -> None:
    rank, x = dist.get_rank(), torch.ones(1000, device="simgpu")
    for _ in range(20):
        calls = (dist.send, (rank + 1) % RANKS), (dist.recv, (rank - 1) % RANKS)
        for call, other in calls if rank % 2 else reversed(calls):
            call(x, other)


def _layers() -> nn.Sequential:
    return nn.Sequential(*[nn.Linear(512, 512) for _ in range(6)]).to("simgpu")


def run(name: str) -> list[tuple]:
    begin = time.perf_counter()
    told = ranks(RANKS).run(program)
    took, load = time.perf_counter() - begin, os.getloadavg()[0]
    times = " ".join(f"{now * 1000:.9f}" for now, _, _ in told)
    print(f"{name:<8} {took:6.1f} s here (load {load:4.1f})   {times} ms   {' '.join(digest for _, _, digest in told)}")
    return told


def main() -> None:
    print(f"{RANKS} ranks: wall time, virtual time of each rank at the end, log of each rank")
    seen = [run("as it is")]
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        seen += [run(f"busy {number}") for number in range(1, RUNS + 1)]
    finally:
        for process in busy:
            process.kill()
    equal = all(told == seen[0] for told in seen)
    records = sum(count for _, count, _ in seen[0])
    print(f"{len(seen)} runs, {records} records in each: {'all equal, to the last bit' if equal else 'NOT EQUAL'}")
    sys.exit(not equal)


if __name__ == "__main__":
    main()
