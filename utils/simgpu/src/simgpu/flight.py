"""The flight recorder: which collectives this rank has entered, started and completed, as PyTorch's records NCCL's.

    simgpu.flight_recorder()["entries"][-1]     # the newest: its name, sizes, state, and where the program called it

A run that hangs or dies leaves one file for each rank where PyTorch's variables ask for them, and PyTorch's analyzer
reads them:

    TORCH_FR_DUMP_TEMP_FILE=/tmp/flight/rank_ torchrun --nproc-per-node 4 train.py
    torchfrtrace /tmp/flight

Format and names are those of PyTorch's dump of NCCL (torch/csrc/distributed/c10d/FlightRecorder.hpp, version 2.10), so
names begin with "nccl:". Unlike there times are of the machine's clock, in nanoseconds since `enable`, and a call is
completed as soon as all its ranks have come: the moment at which its GPU has done it is known then.

A call costs a few microseconds. Lines of source are looked up only when somebody reads.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import threading
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from .frames import call_stack, frames_of

VERSION = "2.10"  # of the format
PREFIXES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
SIZES = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
SWITCHES = ("TORCH_FR_DUMP_ON_TIMEOUT", "TORCH_NCCL_DUMP_ON_TIMEOUT")
MOST = 2000  # entries, as PyTorch keeps
# As PyTorch's C++ names dtypes.
DTYPES = {
    torch.float64: "Double",
    torch.float32: "Float",
    torch.float16: "Half",
    torch.bfloat16: "BFloat16",
    torch.int64: "Long",
    torch.int32: "Int",
    torch.int16: "Short",
    torch.int8: "Char",
    torch.uint8: "Byte",
    torch.bool: "Bool",
    torch.complex64: "ComplexFloat",
    torch.complex128: "ComplexDouble",
}


@dataclass(slots=True, eq=False)
class Entry:
    """One call on one rank. Times in seconds of the machine's clock, None where they have not come."""

    group: GroupRecord
    number: int
    name: str
    is_p2p: bool
    created: float
    collective: int
    message: int
    operation: int
    inputs: list[tuple[torch.Size, torch.dtype]]
    outputs: list[tuple[torch.Size, torch.dtype]]
    thread: threading.Thread
    where: tuple  # its call stack
    started: float | None = None
    completed: float | None = None

    def told(self) -> dict[str, Any]:
        """As in PyTorch's dump."""
        name, description = self.group.named()
        told: dict[str, Any] = {
            "frames": frames_of(self.where),
            "record_id": self.number,
            "pg_id": self.group.number,
            "process_group": (name, description),
            "thread_name": self.thread.name,
            "thread_id": str(self.thread.native_id),
            "collective_seq_id": self.collective,
            "p2p_seq_id": self.message,
            "op_id": self.operation,
            "profiling_name": f"nccl:{self.name}",
            "time_created_ns": _nanoseconds(self.created),
        }
        if self.completed is not None and self.started is not None:
            told["duration_ms"] = (self.completed - self.started) * 1e3
        for which, tensors in (("input", self.inputs), ("output", self.outputs)):
            told[f"{which}_sizes"] = [list(size) for size, _ in tensors]
            told[f"{which}_dtypes"] = [DTYPES.get(dtype, str(dtype).removeprefix("torch.")) for _, dtype in tensors]
        return told | {
            "state": "scheduled" if self.started is None else "started" if self.completed is None else "completed",
            "time_discovered_started_ns": _nanoseconds(self.started),
            "time_discovered_completed_ns": _nanoseconds(self.completed),
            "retired": self.completed is not None,
            "timeout_ms": self.group.timeout,
            "is_p2p": self.is_p2p,
        }


class GroupRecord:
    """What is recorded of one process group. `find_name` finds its name and description, once it has been made."""

    def __init__(self, members: list[int], timeout, find_name: Callable[[], tuple[str, str] | None]):
        self.members, self._find_name = members, find_name
        self.timeout = 0 if timeout is None else int(timeout.total_seconds() * 1000)
        self.number = len(_recorder.groups)
        self.collectives = self.messages = self.operations = 0
        self._named: tuple[str, str] | None = None
        _recorder.groups.append(self)

    def named(self) -> tuple[str, str]:
        """Name and description; a group that was used keeps them when it is gone."""
        self._named = self._named or self._find_name()
        return self._named or ("", "")

    def enter(
        self, name: str, inputs: Sequence, outputs: Sequence, launched: float, p2p: bool = False, joined: bool = False
    ) -> Entry:
        """This rank calls something. Messages, and the end of several, have `p2p`; `joined` ones are part of one."""
        self.operations += 1
        if self._named is None:
            self.named()
        if not joined:
            if p2p:
                self.messages += 1
            else:
                self.collectives += 1
        given = [(each.shape, each.dtype) for each in inputs]
        made = given if outputs is inputs else [(each.shape, each.dtype) for each in outputs]
        numbers = self.collectives, self.messages, self.operations
        at = threading.current_thread(), call_stack()
        entry = Entry(self, _recorder.number, name, p2p, launched, *numbers, given, made, *at)
        _recorder.number += 1
        _recorder.keep(entry)
        return entry

    def status(self) -> dict[str, int]:
        """The newest collective of each state, -1 where there is none."""
        own = [entry for entry in _recorder.entries or () if entry.group is self and not entry.is_p2p]
        return {
            "last_enqueued_collective": max((entry.collective for entry in own), default=-1),
            "last_started_collective": max((e.collective for e in own if e.started is not None), default=-1),
            "last_completed_collective": max((e.collective for e in own if e.completed is not None), default=-1),
        }


class _Recorder:
    """What this process has recorded."""

    def __init__(self):
        self.groups: list[GroupRecord] = []
        self.number = 0
        self.entries: deque[Entry] | None = None  # made with the first, so that the environment may say how many

    def keep(self, entry: Entry) -> None:
        if self.entries is None:
            self.entries = deque(maxlen=max(0, int(_asked(SIZES) or MOST)))
        self.entries.append(entry)


_recorder = _Recorder()


def forget() -> None:
    """Begin again: on another machine, or with other groups."""
    _recorder.__init__()


def flight_recorder() -> dict[str, Any]:
    """This rank's collectives and messages, the newest 2,000 (TORCH_FR_BUFFER_SIZE), in the format of PyTorch's dump.

    `entries` has one dict for each call, in order: its group, its number there (`collective_seq_id`), its name, sizes
    and dtypes, its `state` ("scheduled", "started" or "completed"), and `frames`, the innermost first, with the
    `filename`, `line` and `name` of the program that called it. `pg_config` has the groups with their ranks.
    """
    config = {}
    for group in _recorder.groups:
        name, description = group.named()
        if name:
            config[name] = {"name": name, "desc": description, "ranks": str(list(group.members))}
    return {
        "version": VERSION,
        "pg_config": config,
        "comm_lib_version": "simulated",
        "pg_status": {str(group.number): group.status() for group in _recorder.groups},
        "entries": [entry.told() for entry in _recorder.entries or ()],
    }


def _nanoseconds(moment: float | None) -> int | None:
    return None if moment is None else round(moment * 1e9)


# --- files ---------------------------------------------------------------------------------------------------------


def _asked(names: Sequence[str]) -> str:
    """What the first of these variables says that is set."""
    return next((value for name in names if (value := os.environ.get(name))), "")


def files_are_asked_for() -> bool:
    """Whether a run that hangs or dies is to leave its records."""
    return bool(_asked(PREFIXES)) and _asked(SWITCHES).lower() not in ("0", "n", "no", "f", "false")


def packed() -> bytes:
    """The records of this rank, as they lie in a file."""
    return pickle.dumps(flight_recorder())


def write(rank: int, records: bytes) -> None:
    """Leave a rank's records in its file: whole, or not at all. A warning where that cannot be."""
    file = Path(_asked(PREFIXES) + str(rank))
    part = file.with_name(f".{os.getpid()}.part")  # which the analyzer does not take for a dump
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(records)
        part.replace(file)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        warnings.warn(f"The flight recorder of rank {rank} could not be saved: {error}", RuntimeWarning, stacklevel=2)
