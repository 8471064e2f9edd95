"""What the simulated GPUs did, as others may read it: records of kernels, copies and communication, each once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import islice

from .hardware import LOG_LENGTH, HostCopy, Record, machine

END, LAUNCHED = Record._fields.index("end"), Record._fields.index("launched")


def log(since: float = -1.0) -> list[Record]:
    """What the devices did, oldest first: one record for each kernel and copy launched after `since`, in seconds."""
    machine.settle()
    newest = []
    for entry in reversed(list(machine.log or ())):
        if entry[LAUNCHED] <= since:  # the log is in the order of the launches
            break
        newest.append(entry)
    return [_record(entry) for entry in reversed(newest)]


def _record(entry: tuple) -> Record:
    return Record(*entry[:-1], *entry[-1])


class Reader:
    """Reads each record once, from where it begins: `new()` gives those since the last call.

    It begins with what still runs then. `missed` is true after a call before which more was logged than the log keeps.
    Other threads may launch meanwhile.
    """

    def __init__(self):
        self.missed = False
        self._generation = machine.generation
        entries = list(machine.log or ())
        now = machine.clock.now()
        # A full log is gone through, which takes 10 ms, only where something still runs.
        running = entries and any(gpu.free > now for gpu in machine.gpus)
        self._first = [entry for entry in entries if entry[END] > now] if running else []
        self._newest = entries[-1] if entries else None

    def new(self) -> list[Record]:
        """Records since the last call, oldest first. RuntimeError where the log cannot tell, and why."""
        log = machine.log
        if machine.generation != self._generation:
            raise RuntimeError("the simulated GPUs were enabled again while their log was read: start after that")
        if log is None:
            raise RuntimeError("the log is off, and this is read from it: simgpu.keep_log() turns it on")
        most, found = 256, None
        while True:
            # One call into C, during which no other thread can add a record.
            entries = list(islice(reversed(log), most))
            found = next((k for k, entry in enumerate(entries) if entry is self._newest), None)
            if found is not None or len(entries) < most:
                break
            most *= 8
        new = entries[:found]
        self.missed = bool(new) and found is None and len(new) == log.maxlen
        if new:
            self._newest = new[0]
        first, self._first = self._first, []
        return [_record(entry) for entry in [*first, *reversed(new)]]


def keep_log(most: int = LOG_LENGTH) -> None:
    """Keep the newest `most` records from now on, 200,000 unless told; 0 turns the log off."""
    if not isinstance(most, int) or most < 0:
        raise ValueError(f"simgpu.keep_log({most!r}): how many records, 0 for none")
    machine.keep_log(most)


def log_length() -> int:
    """How many records are kept at most; 0 where the log is off."""
    return machine.log.maxlen or 0 if machine.log is not None else 0


@contextlib.contextmanager
def recording() -> Iterator[None]:
    """The log is on inside, and off again afterwards where it was off."""
    was_off = not log_length()
    if was_off:
        machine.keep_log()
    try:
        yield
    finally:
        if was_off:
            machine.keep_log(0)


def unwaited_copies(since: float = -1.0) -> list[HostCopy]:
    """Copies to the host, launched after `since`, that nothing has waited for: to read their values now is a race.

    `x.to("cpu", non_blocking=True)` is one until the host synchronizes with its device, stream or event, has asked one
    of them and heard yes, or waits for something later. What a program reads from a CPU tensor is not seen here.
    """
    return [copy for copy in machine.unwaited if copy.launched > since]
