"""What a rank does: take its place, run what it is given, and say what came of it."""

from __future__ import annotations

import atexit
import ctypes
import importlib
import io
import os
import pickle
import re
import signal
import sys
import threading
import time
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, cast

import cloudpickle
import torch
import torch.distributed as dist
from torch import nn

import simgpu
from utils.processes.fork_server import Children, forget_random_numbers

ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # another on each rank, for the same thing
LOADED = ("torch.distributed.fsdp", "torch.distributed.pipelining", "torch.nn.parallel")
# mallopt(3) of glibc: blocks of so many bytes and more are mapped, and go back to the system when they are freed.
M_MMAP_THRESHOLD, MAPPED = -3, 2**17
LOOPBACK = "lo" if sys.platform == "linux" else "lo0"


class Order(NamedTuple):
    """What the notebook asks of all ranks: where they are, what machine they have, and the pickled call."""

    ranks: int
    machine: dict[str, Any]
    port: int
    folder: str
    path: list[str]
    environment: dict[str, str]
    call: bytes


class Failure(NamedTuple):
    """An exception, as the notebook's process can tell it. The last two are those of simgpu's RanksMissing."""

    kind: str
    message: str
    frames: list[tuple[str, int, str]]
    text: str
    waited_in: str = ""
    reason: str = ""


class Result(NamedTuple):
    """What a rank returned, pickled."""

    packed: bytes


class Lost(NamedTuple):
    """How a rank ended that has not said anything: an exit code, or a signal's number below 0."""

    code: int


class Unfinished(NamedTuple):
    """A rank that was still at work when it was ended."""


def forked() -> Children:
    """What the fork server loads for ranks: they share it, as long as none of them changes it."""
    load_for_ranks()

    def become(_: dict, files: list[int], rank: int) -> None:
        os.setsid()  # a group with what it starts
        be_forked(files, rank)

    return Children(become)


def load_for_ranks() -> None:
    for name in LOADED:
        importlib.import_module(name)


def be_forked(files: list[int], rank: int) -> None:
    """Be this rank, with two of the files that all ranks were given. Never returns."""
    words, output = files[2 * rank : 2 * rank + 2]
    for file in set(files) - {words, output}:
        os.close(file)
    forget_random_numbers()
    be(rank, Connection(words), output)


def started() -> None:
    """Where a fork is not safe: python -c ... PARENT RANK WORDS OUTPUT"""
    parent, rank, words, output = map(int, sys.argv[1:])
    threading.Thread(target=_end_after, args=(parent,), daemon=True).start()
    be(rank, Connection(words), output)


def _end_after(parent: int) -> None:
    """End, with all that was started here, when the notebook's process is gone."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.killpg(0, signal.SIGKILL)


def be(rank: int, words: Connection, output: int) -> None:
    """Be this rank. Never returns: what the copied process had been going to do at its end is not for a rank to do."""
    _take_files(output)
    _give_memory_back()
    order = pickle.loads(words.recv_bytes())
    try:
        said = _packed(_run(rank, order))
    except BaseException as error:
        said = _failure(error)
    sys.stdout.flush()
    sys.stderr.flush()
    words.send(said)
    atexit._run_exitfuncs()  # simgpu tells the others that this rank has ended
    os._exit(0)


def _give_memory_back() -> None:
    """Have the system get a tensor's memory when it is freed: as it is, glibc keeps it in each rank."""
    if sys.platform == "linux":
        with suppress(AttributeError, OSError):  # another C library has no mallopt
            ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, MAPPED)


def _run(rank: int, order: Order) -> object:
    os.chdir(order.folder)
    sys.path[:] = order.path
    _as_torchrun(rank, order)
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    simgpu.enable(count=order.ranks, **order.machine)
    torch.get_device_module("simgpu").set_device(rank)
    dist.init_process_group(device_id=torch.device("simgpu", rank))
    function, args, kwargs = pickle.loads(order.call)
    return function(*args, **kwargs)


def _take_files(output: int) -> None:
    """What is printed, by Python or not, goes to the notebook; there is nothing to read."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    for file, number in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(file, number)
    os.close(nothing)
    os.close(output)
    cast(io.TextIOWrapper, sys.stdout).reconfigure(line_buffering=True)


def _as_torchrun(rank: int, order: Order) -> None:
    """The environment that torchrun gives a worker; the notebook's process is the agent that has the store."""
    os.environ.clear()
    os.environ |= {
        "GLOO_SOCKET_IFNAME": LOOPBACK,
        **order.environment,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(order.ranks),
        "LOCAL_WORLD_SIZE": str(order.ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(order.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RESTART_COUNT": "0",
    }


class _Packing(cloudpickle.Pickler):
    """Pickles a result with its simulated tensors as tensors of the CPU: the notebook need not have such GPUs."""

    def reducer_override(self, obj):
        if isinstance(obj, torch.Tensor) and obj.device.type == "simgpu":
            there = obj.detach().cpu()
            kept = nn.Parameter(there, obj.requires_grad) if isinstance(obj, nn.Parameter) else there
            return kept.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        return super().reducer_override(obj)


def _packed(result: object) -> Result:
    file = io.BytesIO()
    try:
        _Packing(file).dump(result)
    except Exception as error:
        raise TypeError(f"The return value cannot be sent to the notebook: {error}") from None
    return Result(file.getvalue())


def _failure(error: BaseException) -> Failure:
    frames = [(frame.filename, frame.lineno or 0, frame.name) for frame in traceback.extract_tb(error.__traceback__)]
    text = "".join(traceback.format_exception(error))
    waited = [getattr(error, name, "") for name in ("waited_in", "reason")]
    return Failure(type(error).__name__, ADDRESS.sub("", str(error)), frames, text, *waited)
