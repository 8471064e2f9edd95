"""How long ranks in a notebook take to start, and what memory they take. Run it by hand (Linux):

.venv/bin/python -m tools.benchmarks.ranks

Memory is the proportional set size: what processes share counts in parts. `alone` is that of a process which has
imported the same and shares nothing that is not a file.
"""

import statistics
import subprocess
import sys
import time

import psutil
import torch.distributed as dist

from utils.ranks import ranks

IMPORTS = "import torch, torch.distributed.fsdp, torch.distributed.pipelining\nimport simgpu"
ALONE = IMPORTS + "\nfrom tools.benchmarks.ranks import megabytes\nprint(megabytes())"


def megabytes(process: object = "self") -> float:
    """The proportional set size of a process."""
    with open(f"/proc/{process}/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pss:")) / 1024


def at_work() -> tuple[float, float, float]:
    """The memory of this rank after a collective, of its supervisor, and, told by rank 0, of the fork server."""
    shared = dist.new_group()
    dist.barrier(shared)
    supervisor = psutil.Process().parent()
    of_server = megabytes(supervisor.ppid()) if dist.get_rank() == 0 else 0.0
    told = megabytes(), megabytes(supervisor.pid), of_server
    dist.barrier(shared)  # all are still there while each looks
    return told


def seconds(count: int) -> float:
    begin = time.perf_counter()
    ranks(count).run(dist.get_rank)
    return time.perf_counter() - begin


def main(repeats: int = 5) -> None:
    print(f"the first run of 4 ranks, with the fork server {seconds(4):8.2f} s")
    for count in (2, 4, 8):
        runs = [seconds(count) for _ in range(repeats)]
        middle, worst = statistics.median(runs), max(runs)
        line = f"{count} ranks, from the call to the results"
        print(f"{line:<47} {middle:8.2f} s   (median of {repeats}; most {worst:.2f} s)")
    told = ranks(4).run(at_work)
    of_ranks, of_supervisors, of_server = [rank for rank, _, _ in told], [one for _, one, _ in told], told[0][2]
    print(f"memory of each of 4 ranks                       {statistics.mean(of_ranks):8.0f} MB")
    print(f"memory of the fork server                      {of_server:8.0f} MB")
    print(f"memory of all, with the ranks' supervisors     {sum(of_ranks + of_supervisors) + of_server:8.0f} MB")
    alone = float(subprocess.check_output([sys.executable, "-c", ALONE], text=True))
    print(f"memory of one process alone                     {alone:8.0f} MB")


if __name__ == "__main__":
    main()
