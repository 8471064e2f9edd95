"""What a reader is told of several ranks: what each has printed, and one error for what went wrong."""

from __future__ import annotations

import contextlib
import linecache
import os
import re
import signal
import sys
import sysconfig
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path

from .advice import advice_on
from .one_rank import Failure, Lost, Unfinished

CHUNK = 65_536
COURSE = str(Path(__file__).resolve().parents[1])
NOT_OWN = (COURSE, *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")), "<frozen")
Trouble = Failure | Lost | Unfinished


class _Plain:
    """An error that a notebook shows as what it says, without the way through this package."""

    def _render_traceback_(self) -> list[str]:
        return f"{type(self).__name__}: {self}".splitlines()


class RankError(_Plain, RuntimeError):
    """Something went wrong on ranks. `tracebacks` has what Python said, by rank."""

    def __init__(self, text: str, tracebacks: dict[int, str]):
        super().__init__(text)
        self.tracebacks = tracebacks


class RanksInterrupted(_Plain, KeyboardInterrupt):
    """Somebody has pressed Ctrl-C."""


class Output:
    """Shows what ranks print: of one rank as it comes, of the next when that one has ended, so always in one order."""

    def __init__(self, ranks: int):
        self._lines: list[list[str]] = [[] for _ in range(ranks)]
        self._begun = [b""] * ranks
        self._ended: set[int] = set()
        self._turn = 0

    def more_of(self, rank: int, file: int) -> bool:
        """Read what there is. False where there will be no more."""
        data = os.read(file, CHUNK)
        *lines, self._begun[rank] = (self._begun[rank] + data).split(b"\n")
        self._lines[rank] += [line.decode(errors="replace") for line in lines]
        self._show()
        return bool(data)

    def rest_of(self, rank: int, file: int) -> None:
        """Read what is left of a rank that has ended."""
        os.set_blocking(file, False)  # it may have left a process that still could print
        with contextlib.suppress(BlockingIOError):
            while self.more_of(rank, file):
                pass
        if self._begun[rank]:
            self._lines[rank].append(self._begun[rank].decode(errors="replace"))
        self._ended.add(rank)
        self._show()

    def _show(self) -> None:
        while self._turn < len(self._lines):
            lines, self._lines[self._turn] = self._lines[self._turn], []
            for line in lines:
                print(f"rank {self._turn}: {line}", flush=True)
            if self._turn not in self._ended:
                return
            self._turn += 1


def told(troubles: dict[int, Trouble], first: int, grace: float) -> str:
    """What went wrong, in a line for each different thing, and where. Who only waited for others comes last.

    Where all have only waited, the rank that was `first` to give up knows why; then others wait for that one.
    """
    late = [rank for rank, trouble in troubles.items() if isinstance(trouble, Unfinished)]
    failures = {rank: trouble for rank, trouble in troubles.items() if isinstance(trouble, Failure)}
    waited = {rank: failure.waited_in for rank, failure in failures.items() if failure.waited_in}
    causes = [rank for rank in troubles if rank not in waited and rank not in late]
    if causes:
        alikes = alike(causes, lambda rank: _what(troubles[rank]))
        lines = [line for ranks in alikes for line in _lines_on(ranks, troubles[ranks[0]], troubles)]
    else:
        causes = [rank for rank in waited if waited[rank] == waited[first]]
        lines = list(_lines_on(causes, troubles[first], troubles))
    others = [rank for rank in waited if rank not in causes]
    lines += [f"{name_ranks(ranks)} waited in {waited[ranks[0]]}." for ranks in alike(others, waited.get)]
    if late:
        lines.append(f"{name_ranks(late)} had not finished {grace:.0f} s later and {was(late)} stopped.")
    return "\n".join(lines)


def alike(ranks: Iterable[int], key: Callable[[int], Hashable]) -> list[list[int]]:
    """Ranks that have the same, together."""
    groups: dict[Hashable, list[int]] = {}
    for rank in ranks:
        groups.setdefault(key(rank), []).append(rank)
    return list(groups.values())


def name_ranks(ranks: list[int]) -> str:
    """`rank 3`, `ranks 0 and 2`, `ranks 0 to 3`, `ranks 0, 2 and 3`."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > 2 and ranks == list(range(ranks[0], ranks[-1] + 1)):
        return f"ranks {ranks[0]} to {ranks[-1]}"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"


def was(ranks: list[int]) -> str:
    return "was" if len(ranks) == 1 else "were"


def _what(trouble: Trouble) -> Hashable:
    return (trouble.kind, trouble.message) if isinstance(trouble, Failure) else trouble


def _lines_on(ranks: list[int], trouble: Trouble, troubles: dict[int, Trouble]) -> Iterable[str]:
    """What these ranks have met with, what helps, and where each was."""
    if isinstance(trouble, Lost):
        yield f"{name_ranks(ranks)} {how_ended(trouble.code, ranks)}"
        return
    assert isinstance(trouble, Failure), "a rank that has not finished has met with nothing"
    if trouble.waited_in:
        yield f"{name_ranks(ranks)} waited in {trouble.waited_in}, which {trouble.reason}"
    else:
        yield f"{name_ranks(ranks)}: {trouble.kind}{': ' * bool(trouble.message)}{trouble.message}"
    if advice := advice_on(trouble.message, [function for _, _, function in trouble.frames]):
        yield f"    {advice}"
    places = {rank: place(found.frames) for rank in ranks if isinstance(found := troubles[rank], Failure)}
    for some in alike(places, places.get):
        yield f"    {'' if len(some) == len(ranks) else name_ranks(some) + ': '}{places[some[0]]}"


def how_ended(code: int, ranks: list[int]) -> str:
    if code < 0:
        return f"{was(ranks)} killed by {signal.Signals(-code).name}."
    return f"ended with exit code {code} before the function returned, as with os._exit({code})."


def place(frames: list[tuple[str, int, str]]) -> str:
    """The reader's own line that was being run."""
    own = [frame for frame in frames if not frame[0].startswith(NOT_OWN)] or frames
    file, line, function = own[-1]
    inside = "" if function == "<module>" else f", in {function}"
    return f"{_name_of(file)}, line {line}{inside}: {linecache.getline(file, line).strip()}"


def _name_of(file: str) -> str:
    """A file's name, or the cell's number, as a notebook calls it."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    known = shell.compile.format_code_name(file) if shell is not None else None
    return re.sub(r"\s+", " ", " ".join(known)) if known else os.path.basename(file)
