"""Ranks without processes: each is a thread, one works at a time, and they talk by `send` and `recv`.

    def main(rank, send, recv):
        ...
        send(tensor, 1)       # as torch.distributed.send(tensor, dst)
        recv(tensor, 0)       # as torch.distributed.recv(tensor, src): into a tensor that is there

    results = together(main, ranks=4)

A rank works until it has to wait; then the next one that can goes on. So a run is the same every time, and it is known
at once when none can go on: `Deadlock` says who waits for whom.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable

import torch
from torch import nn


class Deadlock(RuntimeError):
    """No rank can go on."""


def together(main: Callable, ranks: int, *, sends_wait: bool = False) -> list:
    """What `main(rank, send, recv)` returns on each of so many ranks.

    Messages from one rank to another arrive in the order in which they were sent. A send returns at once, or, where
    `sends_wait`, when the other rank has received it. What a rank raises is raised here, and ends the others.
    """
    return _Post(ranks, sends_wait).run(main)


def noted(part: nn.Module, rank: int) -> list[str]:
    """A list that fills while a part works: "F1.0" when rank 1 goes forward first, "B1.0" when that goes backward."""
    actions: list[str] = []

    def forward(module, inputs, output):
        number = sum(action.startswith("F") for action in actions)
        actions.append(f"F{rank}.{number}")
        if output.requires_grad:
            output.register_hook(lambda gradient: actions.append(f"B{rank}.{number}"))

    part.register_forward_hook(forward)
    return actions


class _Stopped(BaseException):
    """Ends a rank where another one has failed."""


class _Post:
    """`turns` lets one rank work at a time; `waits` has what each rank waits for, by what it called."""

    def __init__(self, ranks: int, sends_wait: bool):
        self.ranks, self.sends_wait = ranks, sends_wait
        self.letters: dict[tuple[int, int], deque[torch.Tensor]] = defaultdict(deque)
        self.turns = [threading.Semaphore(0) for _ in range(ranks)]
        self.waits: dict[int, tuple[str, int]] = {}
        self.ended: set[int] = set()
        self.failure: BaseException | None = None
        self.all_ended = threading.Event()

    def run(self, main: Callable) -> list:
        results = [None] * self.ranks
        threads = [
            threading.Thread(target=self._work, args=(main, rank, results), daemon=True) for rank in range(self.ranks)
        ]
        for thread in threads:
            thread.start()
        self.turns[0].release()
        try:
            self.all_ended.wait()
        except BaseException as interrupt:
            self.failure = interrupt
            raise
        for thread in threads:
            thread.join()
        if self.failure is not None:
            raise self.failure
        return results

    def _work(self, main: Callable, rank: int, results: list) -> None:
        self.turns[rank].acquire()
        try:
            if self.failure is None:
                results[rank] = main(rank, self._sender(rank), self._receiver(rank))
        except _Stopped:
            pass
        except BaseException as error:
            self.failure = self.failure or error
        self.ended.add(rank)
        self._next_turn(rank)

    def _sender(self, rank: int) -> Callable:
        def send(tensor: torch.Tensor, dst: int) -> None:
            self._check("sends", tensor, rank, "to", dst)
            self.letters[rank, dst].append(tensor.detach().clone())
            if self.sends_wait:
                self._wait(rank, "send", dst)

        return send

    def _receiver(self, rank: int) -> Callable:
        def recv(tensor: torch.Tensor, src: int) -> int:
            self._check("receives", tensor, rank, "from", src)
            self._wait(rank, "recv", src)
            letter = self.letters[src, rank].popleft()
            if (letter.shape, letter.dtype) != (tensor.shape, tensor.dtype):
                raise ValueError(
                    f"rank {src} has sent {_kind(letter)}, and rank {rank} receives it into {_kind(tensor)}"
                )
            with torch.no_grad():
                tensor.copy_(letter)
            return src

        return recv

    def _check(self, does: str, tensor, rank: int, way: str, other) -> None:
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"rank {rank} {does} a {type(tensor).__name__} {way} rank {other}: give a tensor")
        if isinstance(other, bool) or other not in range(self.ranks) or other == rank:
            raise ValueError(f"rank {rank} {does} {way} rank {other}: the other ranks are of 0 to {self.ranks - 1}")

    # --- whose turn it is -----------------------------------------------------------------------------------------

    def _wait(self, rank: int, call: str, other: int) -> None:
        self.waits[rank] = call, other
        if not self._can_go_on(rank):
            self._next_turn(rank)
            self.turns[rank].acquire()
        del self.waits[rank]
        if self.failure is not None:
            raise _Stopped

    def _can_go_on(self, rank: int) -> bool:
        if rank in self.ended:
            return False
        if self.failure is not None or rank not in self.waits:
            return True
        call, other = self.waits[rank]
        return bool(self.letters[other, rank]) if call == "recv" else not self.letters[rank, other]

    def _next_turn(self, rank: int) -> None:
        """Let the next rank work that can, counted from this one."""
        if len(self.ended) == self.ranks:
            self.all_ended.set()
            return
        order = [(rank + 1 + n) % self.ranks for n in range(self.ranks)]
        if not any(self._can_go_on(each) for each in order):
            self.failure = Deadlock(f"no rank can go on: {self._told()}")
        self.turns[next(each for each in order if self._can_go_on(each))].release()

    def _told(self) -> str:
        words = []
        for rank, (call, other) in sorted(self.waits.items()):
            what = f"for a message from rank {other}" if call == "recv" else f"until rank {other} receives"
            words.append(f"rank {rank} waits {what}" + (", which has ended" if other in self.ended else ""))
        return "; ".join(words)


def _kind(tensor: torch.Tensor) -> str:
    shape = " x ".join(map(str, tensor.shape)) or "one number"
    return f"{shape} of {str(tensor.dtype).removeprefix('torch.')}"
