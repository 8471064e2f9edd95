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

import _thread
from collections import defaultdict, deque
from collections.abc import Callable
from itertools import count
from queue import SimpleQueue
from typing import NamedTuple

import torch
from torch import nn

from utils.exercises.ledger import adding_to


class Deadlock(RuntimeError):
    """No rank can go on."""


class Letter(NamedTuple):
    """Something that a rank has sent or received: which rank, "send" or "recv", and to or from which other."""

    rank: int
    call: str
    other: int


def together(main: Callable, ranks: int, *, sends_wait: bool = False, letters: list[Letter] | None = None) -> list:
    """What `main(rank, send, recv)` returns on each of so many ranks.

    Messages from one rank to another arrive in the order in which they were sent. A send returns at once, or, where
    `sends_wait`, when the other rank has received it. What a rank raises is raised here, and ends the others. Each
    message is noted in `letters` when it is sent, and once more when it is received.
    """
    # All that decides is in this frame. A rank holds two queues: one to ask through, one to be answered through.
    asked, answers = ([SimpleQueue() for _ in range(ranks)] for _ in range(2))
    results: list = [None] * ranks
    note = adding_to([] if letters is None else letters)
    posted: dict[tuple[int, int], deque[torch.Tensor]] = defaultdict(deque)
    waits: dict[int, tuple[str, int]] = {}
    ended: set[int] = set()
    failure: BaseException | None = None

    def can_go_on(rank: int) -> bool:
        if rank in ended:
            return False
        if failure is not None or rank not in waits:
            return True
        call, other = waits[rank]
        return bool(posted[other, rank]) if call == "recv" else not posted[rank, other]

    for rank in range(ranks):
        # A thread of `threading` would show to the others what it was given.
        _thread.start_new_thread(_work, (main, rank, ranks, asked[rank], answers[rank]))
    rank, answer = 0, None
    while True:
        answers[rank].put((failure is None, answer))
        answer = None
        call, other, thing = asked[rank].get()
        if call == "send":
            posted[rank, other].append(thing)
            note(Letter(rank, call, other))
        if call == "recv" or (call == "send" and sends_wait):
            waits[rank] = call, other
        elif call == "return":
            results[rank] = thing
            ended.add(rank)
        elif call == "raise":
            failure = failure or thing
            ended.add(rank)
        if len(ended) == ranks:
            break
        # A rank works until it has to wait. Then the next one that can goes on, counted from this one.
        if not can_go_on(rank):
            order = [(rank + 1 + n) % ranks for n in range(ranks)]
            if not any(map(can_go_on, order)):
                failure = Deadlock(f"no rank can go on: {_told(waits, ended)}")
            rank = next(filter(can_go_on, order))
        call, other = waits.pop(rank, ("", rank))
        if call == "recv" and failure is None:
            answer = posted[other, rank].popleft()
            note(Letter(rank, call, other))
    if failure is not None:
        raise failure
    return results


def noted(part: nn.Module, rank: int) -> list[str]:
    """A list that fills while a part works: "F1.0" when rank 1 goes forward first, "B1.0" when that goes backward."""
    actions: list[str] = []
    note, numbers = adding_to(actions), count()

    def forward(module, inputs, output):
        number = next(numbers)
        note(f"F{rank}.{number}")
        if output.requires_grad:
            output.register_hook(lambda gradient: note(f"B{rank}.{number}"))

    part.register_forward_hook(forward)
    return actions


class _Stopped(BaseException):
    """Ends a rank where another one has failed."""


def _work(main: Callable, rank: int, ranks: int, asked: SimpleQueue, answers: SimpleQueue) -> None:
    """What a rank's thread does."""

    def ask(call: str, other: int, thing: object = None) -> object:
        asked.put((call, other, thing))
        goes_on, answer = answers.get()
        if not goes_on:
            raise _Stopped
        return answer

    def send(tensor: torch.Tensor, dst: int) -> None:
        _check(ranks, "sends", tensor, rank, "to", dst)
        ask("send", dst, tensor.detach().clone())

    def recv(tensor: torch.Tensor, src: int) -> int:
        _check(ranks, "receives", tensor, rank, "from", src)
        letter = ask("recv", src)
        if (letter.shape, letter.dtype) != (tensor.shape, tensor.dtype):
            raise ValueError(f"rank {src} has sent {_kind(letter)}, and rank {rank} receives it into {_kind(tensor)}")
        with torch.no_grad():
            tensor.copy_(letter)
        return src

    goes_on, _ = answers.get()
    call, thing = "return", None
    try:
        if goes_on:
            thing = main(rank, send, recv)
    except _Stopped:
        pass
    except BaseException as error:
        call, thing = "raise", error
    asked.put((call, rank, thing))


def _check(ranks: int, does: str, tensor, rank: int, way: str, other) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"rank {rank} {does} a {type(tensor).__name__} {way} rank {other}: give a tensor")
    if isinstance(other, bool) or other not in range(ranks) or other == rank:
        raise ValueError(f"rank {rank} {does} {way} rank {other}: the other ranks are of 0 to {ranks - 1}")


def _told(waits: dict[int, tuple[str, int]], ended: set[int]) -> str:
    words = []
    for rank, (call, other) in sorted(waits.items()):
        what = f"for a message from rank {other}" if call == "recv" else f"until rank {other} receives"
        words.append(f"rank {rank} waits {what}" + (", which has ended" if other in ended else ""))
    return "; ".join(words)


def _kind(tensor: torch.Tensor) -> str:
    shape = " x ".join(map(str, tensor.shape)) or "one number"
    return f"{shape} of {str(tensor.dtype).removeprefix('torch.')}"
