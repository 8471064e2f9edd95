"""The lists of `torch.distributed.pipelining`'s own schedules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

from .actions import KINDS, Action, Schedule


def from_pytorch(kind, ranks: int, micro_batches: int, chunks: int = 2) -> Schedule:
    """What one of PyTorch's schedules does, by its class or its name, such as `ScheduleZBVZeroBubble` or "1F1B".

    `chunks` is how many stages each rank has, where PyTorch's class takes several. Only what computes is kept.

    These are the lists that PyTorch shows. Those of GPipe and 1F1B are not what it runs from: the last rank of 1F1B
    begins with micro-batch 1 there and ends with one that there is not (PyTorch 2.15), and `mistake` says so. What it
    runs is `one_f_one_b`, and `gpipe` with `newest_first=False`.
    """
    from torch.distributed.pipelining.schedules import PipelineScheduleSingle, get_schedule_class

    kind = get_schedule_class(kind) if isinstance(kind, str) else kind
    chunks = 1 if issubclass(kind, PipelineScheduleSingle) else chunks
    # As much of a stage as is asked of it before there is something to run.
    stage = SimpleNamespace(group_rank=0, group_size=ranks, num_stages=ranks * chunks, submod=None)
    stages: Any = stage if issubclass(kind, PipelineScheduleSingle) else [stage] * chunks
    schedule: Any = kind(stages, micro_batches)
    lists = [list(_computing(schedule.pipeline_order[rank])) for rank in range(ranks)]
    places = getattr(schedule, "stage_index_to_group_rank", None) or {rank: rank for rank in range(ranks)}
    return Schedule.of(lists, [places[number] for number in range(ranks * chunks)], micro_batches, kind.__name__)


def _computing(actions: Iterable) -> Iterator[Action]:
    for action in actions:
        if action is None:
            continue  # it waits
        if getattr(action, "sub_actions", None):
            yield from _computing(action.sub_actions)  # a forward and a backward pass that overlap
        elif action.computation_type.value in KINDS:
            yield Action(action.computation_type.value, action.stage_index, action.microbatch_index)
