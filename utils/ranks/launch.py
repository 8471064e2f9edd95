"""The notebook's end of a run: have ranks forked, give them their order, show what they print, see them end."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait

from torch.distributed import TCPStore  # pyright: ignore[reportPrivateImportUsage]  # it is documented there

from utils.common.files import python_path
from utils.common.settings import FORK_SERVER
from utils.processes.forking import Forked, ForkServer, ForkServerEnded, Lent, can_fork, lent_at

from .one_rank import Failure, Lost, Order, Result, Unfinished
from .telling import Output, RankError, RanksInterrupted, Trouble, name_ranks, told, was

START = "from utils.ranks.one_rank import started; started()"
ENDED = "the process that starts the ranks has ended: run this again"
GRACE = 10.0  # seconds that the others have, after the first has failed, to say what they were doing


class Rank:
    """One rank, as the notebook's process has it. `said` is what came of it: None so far."""

    def __init__(self, number: int, words: Connection, output: int):
        self.number, self.words, self.output = number, words, output
        self.said: Result | Trouble | None = None
        self.at = float("inf")  # when that was

    def give(self, order: bytes) -> None:
        with contextlib.suppress(OSError):  # it has died: so it will not be heard of
            self.words.send_bytes(order)

    def listen(self) -> None:
        try:
            self.said = self.words.recv()
        except (EOFError, OSError):
            self.said = Lost(0)
        self.at = time.monotonic()

    def has_ended(self, code: int) -> None:
        if self.said is None:
            self.said = Unfinished()
        elif isinstance(self.said, Lost):
            self.said = Lost(code)

    def close(self) -> None:
        self.words.close()
        os.close(self.output)


class Programs:
    """Ranks that are programs of their own, where a fork is not safe: to be ended as those that are forked."""

    lost = False

    def __init__(self, count: int, files: Sequence[int]):
        self._programs: list[subprocess.Popen] = []
        for rank in range(count):
            own = files[2 * rank : 2 * rank + 2]
            command = [sys.executable, "-c", START, *map(str, (os.getpid(), rank, *own))]
            self._programs.append(subprocess.Popen(command, pass_fds=own, env=_environment(), start_new_session=True))

    def kill(self) -> None:
        """End them, and all that they have started."""
        for program in self._programs:
            for kill in (os.killpg, os.kill):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    kill(program.pid, signal.SIGKILL)

    def wait(self) -> None:
        self.codes = [program.wait() for program in self._programs]


_shared: ForkServer | None = None


def shared_fork_server() -> ForkServer | None:
    """The one of this process: the first who asks starts it, and who finds it dead. None where a fork is not safe.

    On the hub of a class it is the class's, as long as that forks.
    """
    global _shared
    if not can_fork():
        return None
    if _shared is None or not _shared.alive():
        refused = isinstance(_shared, Lent) and _shared.doubted
        _shared = (None if refused else _of_the_class()) or ForkServer("utils.ranks.one_rank:forked", _environment())
    return _shared


def _of_the_class() -> Lent | None:
    with contextlib.suppress(ForkServerEnded):
        return lent_at(os.environ[FORK_SERVER]) if FORK_SERVER in os.environ else None
    return None


def _environment() -> dict[str, str]:
    environment = os.environ | {"PYTHONPATH": python_path(sys.path)}
    environment.setdefault("OMP_NUM_THREADS", "1")  # as torchrun: the ranks share the cores
    environment.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # its warnings are of timers and sockets, on each rank
    return environment


def results_of(count: int, machine: dict, call: bytes) -> list:
    """What a pickled call of a function returns on each rank. Raises RankError, and RanksInterrupted at Ctrl-C."""
    store = _store()
    order = Order(count, machine, store.port, os.getcwd(), sys.path, dict(os.environ), call)
    try:
        ranks = _run(shared_fork_server(), count, pickle.dumps(order))
    except KeyboardInterrupt:
        them = list(range(count))
        raise RanksInterrupted(f"{name_ranks(them)} {was(them)} interrupted and stopped.") from None
    results = [rank.said for rank in ranks if isinstance(rank.said, Result)]
    troubles = {rank.number: rank.said for rank in ranks if isinstance(rank.said, Trouble)}
    if troubles:
        first = min(troubles, key=lambda rank: ranks[rank].at)
        tracebacks = {rank: trouble.text for rank, trouble in troubles.items() if isinstance(trouble, Failure)}
        raise RankError(told(troubles, first, GRACE), tracebacks)
    return [pickle.loads(result.packed) for result in results]


def _store() -> TCPStore:
    """The store that ranks meet at, for this machine alone.

    By itself it would listen for IPv6 too, where it asks the network for the name of each rank that comes. That is
    five seconds where no name server answers.
    """
    listening = socket.create_server(("127.0.0.1", 0), backlog=128)
    port = listening.getsockname()[1]
    listens = listening.detach()  # the store closes it
    return TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False, master_listen_fd=listens)


def _run(server: ForkServer | None, count: int, order: bytes) -> list[Rank]:
    """Ranks that have had this order, and have ended. However it goes, none is left."""
    ends = [(*socket.socketpair(), *os.pipe()) for _ in range(count)]
    ranks = [Rank(number, Connection(ours.detach()), output) for number, (ours, _, output, _) in enumerate(ends)]
    theirs = [file for _, words, _, output in ends for file in (words.detach(), output)]
    shown, processes = Output(count), None
    try:
        try:
            processes = _begin(server, count, theirs)
        finally:
            for file in theirs:
                os.close(file)
        for rank in ranks:
            rank.give(order)
        _hear(ranks, shown)
    finally:
        if processes is not None:
            processes.kill()
            processes.wait()
        for rank in ranks:
            shown.rest_of(rank.number, rank.output)
            rank.close()
    if processes is None or processes.lost:
        raise RuntimeError(ENDED)
    for rank, code in zip(ranks, processes.codes, strict=True):
        rank.has_ended(code)
    return ranks


def _begin(server: ForkServer | None, count: int, files: Sequence[int]) -> Forked | Programs:
    """Processes for so many ranks, each with two of these files: its words, and its output."""
    if server is None:
        return Programs(count, files)
    try:
        server.wait_until_ready()
        return server.fork({"count": count}, files)
    except ForkServerEnded:
        if isinstance(server, Lent):
            return _begin(shared_fork_server(), count, files)
        raise RuntimeError(ENDED) from None


def _hear(ranks: list[Rank], shown: Output) -> None:
    """Until all ranks have said what came of it, or are gone, or had their time after the first of them failed."""
    outputs = {rank.output: rank.number for rank in ranks}
    until = None
    while waited := {rank.words: rank for rank in ranks if rank.said is None}:
        left = None if until is None else until - time.monotonic()
        if left is not None and left <= 0:
            return
        for ready in wait([*waited, *outputs], left):
            if isinstance(ready, Connection):
                rank = waited[ready]
                rank.listen()
                if until is None and not isinstance(rank.said, Result):
                    until = time.monotonic() + GRACE
            elif isinstance(ready, int) and not shown.more_of(outputs[ready], ready):
                del outputs[ready]
