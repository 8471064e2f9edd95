"""The notebook's end of a run: have ranks forked, give them their order, show what they print, see them end."""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait

from torch.distributed import TCPStore

from utils.common.files import python_path

from . import fork_server
from .one_rank import Failure, Lost, Order, Result, Unfinished
from .telling import Output, RankError, RanksInterrupted, Trouble, name_ranks, told, was

GRACE = 10.0  # seconds that the others have, after the first has failed, to say what they were doing


class ForkServer:
    """The process that ranks are forked from (fork_server.py), started and not waited for."""

    def __init__(self, forks: bool = fork_server.FORKS):
        self._control, theirs = socket.socketpair()
        command = [sys.executable, "-c", fork_server.START.format("main", (theirs.fileno(), int(forks)))]
        environment = os.environ | {"PYTHONPATH": python_path(sys.path)}
        environment.setdefault("OMP_NUM_THREADS", "1")  # as torchrun: the ranks share the cores
        environment.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # its warnings are of timers and sockets, on each rank
        self._process = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], env=environment, stdin=subprocess.DEVNULL, start_new_session=True
        )
        theirs.close()
        self._words = Connection(os.dup(self._control.fileno()))
        self._lock = threading.Lock()
        self._ready = False

    def alive(self) -> bool:
        return self._process.poll() is None

    def wait_until_ready(self) -> None:
        """Raises RuntimeError where it does not come so far."""
        with self._lock, self._ended_after(EOFError, OSError):
            self._ready = self._ready or self._words.recv() == fork_server.READY

    def fork(self, count: int) -> list[Rank]:
        """So many new processes, which wait for their order. Raises RuntimeError where nobody forks them."""
        ends = [(*socket.socketpair(), *os.pipe()) for _ in range(count)]
        theirs = [file for _, words, _, output in ends for file in (words.detach(), output)]
        try:
            ids = self._asked(count, theirs)
        finally:
            for file in theirs:
                os.close(file)
        return [Rank(rank, ids[rank], Connection(ours.detach()), out) for rank, (ours, _, out, _) in enumerate(ends)]

    def end(self, ranks: list[Rank]) -> list[int]:
        """End these, and whom they have started. How each has ended."""
        return self._asked([rank.process for rank in ranks])

    def _asked(self, what: object, files: Sequence[int] = ()):
        """The answer. Who is interrupted meanwhile ends the process: what it answers next would be to this."""
        with self._lock, self._ended_after(BaseException):
            self._words.send(what)
            for first in range(0, len(files), 2):
                socket.send_fds(self._control, [b"."], files[first : first + 2])
            return self._words.recv()

    @contextlib.contextmanager
    def _ended_after(self, *errors: type[BaseException]) -> Iterator[None]:
        try:
            yield
        except errors as error:
            self._process.kill()
            self._process.wait()
            if isinstance(error, (EOFError, OSError)):
                raise RuntimeError("the process that ranks are forked from has ended: run this again") from None
            raise


class Rank:
    """One rank, as the notebook's process has it. `said` is what came of it: None so far."""

    def __init__(self, number: int, process: int, words: Connection, output: int):
        self.number, self.process, self.words, self.output = number, process, words, output
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


_shared: ForkServer | None = None


def shared_fork_server() -> ForkServer:
    """The one of this process: the first who asks starts it, and who finds it dead."""
    global _shared
    if _shared is None or not _shared.alive():
        _shared = ForkServer()
    return _shared


def results_of(count: int, machine: dict, call: bytes) -> list:
    """What a pickled call of a function returns on each rank. Raises RankError, and RanksInterrupted at Ctrl-C."""
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    order = Order(count, machine, store.port, os.getcwd(), sys.path, dict(os.environ), call)
    try:
        ranks = _run(shared_fork_server(), count, pickle.dumps(order))
    except KeyboardInterrupt:
        them = list(range(count))
        raise RanksInterrupted(f"{name_ranks(them)} {was(them)} interrupted, and {was(them)} ended.") from None
    troubles = {rank.number: rank.said for rank in ranks if not isinstance(rank.said, Result)}
    if troubles:
        first = min(troubles, key=lambda rank: ranks[rank].at)
        tracebacks = {rank: trouble.text for rank, trouble in troubles.items() if isinstance(trouble, Failure)}
        raise RankError(told(troubles, first, GRACE), tracebacks)
    return [pickle.loads(rank.said.packed) for rank in ranks]


def _run(process: ForkServer, count: int, order: bytes) -> list[Rank]:
    """Ranks that have had this order, and have ended. However it goes, none is left."""
    process.wait_until_ready()
    ranks, shown, codes = process.fork(count), Output(count), []
    try:
        for rank in ranks:
            rank.give(order)
        _hear(ranks, shown)
    finally:
        try:
            codes = process.end(ranks)
        finally:
            for rank in ranks:
                shown.rest_of(rank.number, rank.output)
                rank.close()
    for rank, code in zip(ranks, codes, strict=True):
        rank.has_ended(code)
    return ranks


def _hear(ranks: list[Rank], shown: Output) -> None:
    """Until all ranks have said what came of it, or are gone, or had their time after the first of them failed."""
    outputs = {rank.output: rank.number for rank in ranks}
    until = None
    while waited := {rank.words: rank for rank in ranks if rank.said is None}:
        left = None if until is None else until - time.monotonic()
        if left is not None and left <= 0:
            return
        for ready in wait([*waited, *outputs], left):
            if ready in outputs:
                if not shown.more_of(outputs[ready], ready):
                    del outputs[ready]
                continue
            waited[ready].listen()
            if until is None and not isinstance(waited[ready].said, Result):
                until = time.monotonic() + GRACE
