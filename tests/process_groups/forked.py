"""Ranks that cost little: forked from a process that has imported PyTorch and simgpu, and has run nothing."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import tempfile
from collections.abc import Callable

import torch
import torch.distributed as dist

from utils import simgpu
from utils.simgpu import waiting

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.process_groups.forked", "torch.distributed.device_mesh", "torch.nn.parallel"])


def run(function: Callable, ranks: int = 2, seconds: float = 120) -> list[str]:
    """What `function(rank)` returned on each rank as text, "TYPE: message" where it raised, "died" where it died."""
    with tempfile.TemporaryDirectory() as folder:
        queue = _context.Queue()
        workers = [_context.Process(target=_rank, args=(function, rank, ranks, folder, queue)) for rank in range(ranks)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(seconds)
        told = {}
        while not queue.empty():
            rank, text = queue.get()
            told[rank] = text
        for worker in workers:
            assert worker.exitcode is not None, f"a rank still waits after {seconds} s; the others: {told}"
        return [told.get(rank, "died") for rank in range(ranks)]


def _rank(function, rank, ranks, folder, queue) -> None:
    torch.set_num_threads(1)
    waiting.PATIENCE, waiting.LOOK = 0.5, 0.3
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    simgpu.enable(count=ranks)
    torch.simgpu.set_device(rank)
    dist.init_process_group("simgpu:simccl", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)
    try:
        queue.put((rank, str(function(rank))))
    except Exception as error:
        queue.put((rank, f"{type(error).__name__}: {error}"))
    queue.close()
    queue.join_thread()
    atexit._run_exitfuncs()  # a process of multiprocessing leaves them out
