"""Flight recorder dumps of a job that hangs, as PyTorch's NCCL flight recorder writes them.

No GPU has run this job, and NCCL has not recorded it. A small simulation enters the collectives of each rank in order.
One completes when all ranks of its group have called the same one. Then the others wait for ever, and the dumps are
what each rank has recorded until then. A host is some calls ahead of its GPU.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from utils.kits.job_traces import job_groups

AHEAD = 3  # calls that a host has launched beyond the one in which its GPU waits
TICK = 2_000_000  # nanoseconds
TORCH = "/usr/lib/python3.12/site-packages/torch/distributed"
# What a program calls, where the recorder has another name for it.
RECORDED = {
    "all_gather_single": "_all_gather_base",
    "reduce_scatter_single": "_reduce_scatter_base",
    "barrier": "all_reduce_barrier",
}


class JobCall(NamedTuple):
    """A collective that a rank calls: in which kind of group, which, on how many numbers, and from where."""

    group: str  # "tensor", "data" or "world"
    name: str
    sizes: list[int]
    place: str  # file:line
    function: str = "forward"


LOAD = JobCall("tensor", "broadcast", [4096, 4096], "/app/model.py:29", "load")


class JobHang(NamedTuple):
    """`cause` is "died", "absent", "skipped" or "other"; `call` is which of its calls, and `instead` what it calls."""

    rank: int
    cause: str
    call: int
    instead: JobCall | None = None
    before: bool = False  # `instead` is called before the call, not in its place


def transformer_calls(steps: int, layers: int, *, data: bool = True, norm: bool = True) -> list[JobCall]:
    """What each rank of a job with tensor and data parallelism calls."""
    calls = []
    for _ in range(steps):
        for layer in range(layers):
            calls.append(JobCall("tensor", "all_reduce", [8192, 4096], f"/app/model.py:{88 if layer else 87}"))
            calls.append(JobCall("tensor", "all_reduce", [8192, 4096], "/app/model.py:104"))
        calls.append(JobCall("tensor", "all_gather_single", [8192, 16032], "/app/model.py:131", "logits"))
        for layer in range(layers if data else 0):
            size = [25_165_824 - 4096 * layer]  # a bucket of gradients
            calls.append(JobCall("data", "all_reduce", size, "/app/train.py:57", "sum_gradients"))
        if norm:
            calls.append(JobCall("world", "all_reduce", [1], "/app/train.py:61", "clip"))
    return calls


def _instructions(calls: list[JobCall], rank: int, hang: JobHang) -> list[JobCall]:
    own = list(calls)
    if rank != hang.rank:
        return own
    if hang.cause in ("died", "absent"):
        return own[: hang.call]
    instead = [hang.instead] if hang.instead else []
    if hang.cause == "other" and hang.before:
        return [*own[: hang.call], *instead, *own[hang.call :]]
    return [*own[: hang.call], *instead, *own[hang.call + 1 :]]


def dumped_job(
    nodes: int,
    per_node: int,
    calls: list[JobCall],
    hang: JobHang,
    *,
    keep: int = 2000,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """The dump of each rank that lives, of its last `keep` calls."""
    count, chance = nodes * per_node, random.Random(seed)
    kinds = {**job_groups(nodes, per_node), "world": [list(range(count))]}
    lists = [("world", kinds["world"][0])] + [(kind, ranks) for kind in ("tensor", "data") for ranks in kinds[kind]]
    names = {(kind, rank): str(number) for number, (kind, ranks) in enumerate(lists) for rank in ranks}
    members = {str(number): ranks for number, (_, ranks) in enumerate(lists)}
    # Each node loads another number of files, so that groups of one kind have other numbers for like calls.
    own = [[LOAD] * (rank // per_node) + _instructions(calls, rank, hang) for rank in range(count)]

    numbered: list[list[tuple[str, int]]] = []  # each call's group, and its number there
    for rank in range(count):
        seen: dict[str, int] = {}
        numbered.append([])
        for call in own[rank]:
            name = names[call.group, rank]
            seen[name] = seen.get(name, 0) + 1
            numbered[-1].append((name, seen[name]))

    at, clock, created = [0] * count, [chance.randrange(TICK // 4) for _ in range(count)], [[] for _ in range(count)]
    going = True
    while going:
        going = False
        for rank in range(count):
            if at[rank] == len(created[rank]) and at[rank] < len(own[rank]):
                clock[rank] += TICK + chance.randrange(TICK // 4)
                created[rank].append(clock[rank])
        for rank in range(count):
            if at[rank] >= len(created[rank]):
                continue
            key = numbered[rank][at[rank]]
            group = members[key[0]]
            there = [one for one in group if at[one] < len(created[one]) and numbered[one][at[one]] == key]
            if there == group and len({_alike(own[one][at[one]]) for one in group}) == 1:
                end = max(created[one][at[one]] for one in group)
                for one in group:
                    at[one], clock[one], going = at[one] + 1, end + chance.randrange(TICK // 4), True
    return [
        _dump(rank, members, own[rank], numbered[rank], at[rank], created[rank], keep, kinds_of(lists))
        for rank in range(count)
        if (rank, "died") != (hang.rank, hang.cause)
    ]


def _alike(call: JobCall) -> tuple:
    """What NCCL needs to be the same on all ranks. It does not know from which line it is called."""
    return call.name, *call.sizes


def kinds_of(lists: list[tuple[str, list[int]]]) -> dict[str, str]:
    return {str(number): "default_pg" if kind == "world" else kind for number, (kind, _) in enumerate(lists)}


def _dump(rank, members, calls, numbered, at, created, keep, kinds) -> dict[str, Any]:
    entries = []
    for record, (call, (name, number)) in enumerate(zip(calls, numbered, strict=True)):
        if record > at + AHEAD:
            break
        state = "completed" if record < at else "started" if record == at else "scheduled"
        last = created[-1] + (record - len(created) + 1) * TICK // 50
        begun = created[record] if record < len(created) else last
        file, line = call.place.rsplit(":", 1)
        frames = [
            {"name": call.name, "filename": f"{TORCH}/distributed_c10d.py", "line": 2929},
            {"name": "wrapper", "filename": f"{TORCH}/c10d_logger.py", "line": 83},
            {"name": call.function, "filename": file, "line": int(line)},
            {"name": "train_step", "filename": "/app/train.py", "line": 48},
            {"name": "<module>", "filename": "/app/train.py", "line": 96},
        ]
        recorded, made = RECORDED.get(call.name, call.name), 1_764_300_000_000_000_000 + begun
        output = list(call.sizes)
        if call.name == "all_gather_single":
            output[-1] *= len(members[name])
        entries.append(
            {
                **{"frames": frames, "record_id": record, "pg_id": int(name), "process_group": [name, kinds[name]]},
                **{"collective_seq_id": number, "p2p_seq_id": 0, "op_id": record + 1, "is_p2p": False},
                **{"profiling_name": f"nccl:{recorded}", "time_created_ns": made},
                **{"input_sizes": [list(call.sizes)], "input_dtypes": ["BFloat16"]},
                **{"output_sizes": [output], "output_dtypes": ["BFloat16"]},
                **{"state": state, "retired": state == "completed", "timeout_ms": 600_000},
            }
        )
    own = {
        name: {"name": name, "desc": kinds[name], "ranks": str(ranks)}
        for name, ranks in members.items()
        if rank in ranks
    }
    return {
        "rank": rank,
        "host_name": f"host_rank{rank}",
        "version": "2.10",
        "pg_config": own,
        "entries": entries[-keep:],
    }


def hung_epoch() -> list[dict[str, Any]]:
    """The dumps of eight ranks with data parallelism alone, from the end of an epoch: lab 18's post-mortem."""
    sizes = ([25_165_824], [25_161_728], [4_096])
    calls = [JobCall("world", "all_reduce", size, "/app/train.py:57", "sum_gradients") for size in sizes] * 1251
    return dumped_job(1, 8, calls, JobHang(7, "absent", 3750), keep=20, seed=8)
