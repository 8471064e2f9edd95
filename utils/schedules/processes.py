"""A process for each rank: each does its own list, and sends to its neighbours what they wait for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist

from .actions import Action, Schedule
from .rules import mistake, receiver, ticks
from .step import TrainingStep


def run_rank(
    schedule,
    stages: Sequence[Callable],
    inputs: torch.Tensor,
    targets: torch.Tensor,
    loss: Callable,
    row: torch.Tensor | Sequence[torch.Tensor],
    group: dist.ProcessGroup | None = None,
) -> torch.Tensor | None:
    """This rank's part of what `run` does. All ranks of the process group call it, each with its own `stages`.

    Those are in the order of their numbers, on this rank's device. The rank of the last stage gets the loss of the
    batch, the others None; gradients are added to the parameters' `grad`. The first stage reads `inputs` and the last
    `targets`; elsewhere only their size counts (they may be on the device "meta"). `row` is like one row of what a
    stage sends, on this rank's device: one for all stages, or a list with one for each but the last.

    What ranks have made in the same tick (`rules.ticks`) they exchange together, so that no two wait for each other.

    ValueError, one line, for an illegal schedule, with its first mistake, and for stages that do not fit it.
    """
    schedule, rank = Schedule.of(schedule), dist.get_rank(group)
    own = _checked(schedule, stages, inputs, rank, group)
    step = TrainingStep(schedule, own, inputs, targets, loss)
    rows = [row] * schedule.stages if isinstance(row, torch.Tensor) else row
    post = _Post(schedule, rank, group, rows, [len(part) for part in step.inputs])
    for tick in ticks(schedule)[0]:
        for who, action in tick:
            if who == rank:
                step.do(action)
        post.exchange(step, tick)
    post.finish()
    return torch.stack(step.losses).sum() if step.losses else None


class _Expected(NamedTuple):
    """A tensor that is there, or that a message will be in."""

    tensor: torch.Tensor
    works: Sequence[dist.Work] = ()

    def take(self) -> torch.Tensor:
        """The tensor; what is launched from now on waits for it."""
        for work in self.works:
            work.wait()
        return self.tensor


class _Post:
    """The messages of a rank."""

    def __init__(self, schedule: Schedule, rank: int, group, rows: Sequence[torch.Tensor], counts: list[int]):
        self._schedule, self._rank, self._group, self._rows, self._counts = schedule, rank, group, rows, counts
        self._works: list[dist.Work] = []

    def exchange(self, step: TrainingStep, tick: list[tuple[int, Action]]) -> None:
        """Send what this rank has made in a tick, and receive what others have made for it, in one batch."""
        self.finish()  # the buffers sent at earlier ticks are freed
        messages = {action: message for who, action in tick if (message := self._message(step, who, action))}
        self._works = dist.batch_isend_irecv([*messages.values()]) if messages else []
        for action, message in messages.items():
            if message.op is dist.irecv:
                step.give(action, _Expected(message.tensor, self._works))

    def finish(self) -> None:
        """What is launched from now on waits for the last exchange."""
        for work in self._works:
            work.wait()
        self._works = []

    def _message(self, step: TrainingStep, giver: int, action: Action) -> dist.P2POp | None:
        """What this rank sends or receives of what an action has made, if anything."""
        stage = receiver(action, self._schedule.stages)
        if stage is None:
            return None
        taker, made = self._schedule.placement[stage], step.made.pop(action, None)
        if giver == taker:
            if made is not None:
                step.give(action, _Expected(made))
        elif made is not None:
            return dist.P2POp(dist.isend, made, group=self._group, group_peer=taker)
        elif taker == self._rank:
            row = self._rows[min(action.stage, stage)]  # a gradient is like the output that it is of
            room = row.new_empty(self._counts[action.micro_batch], *row.shape)
            return dist.P2POp(dist.irecv, room, group=self._group, group_peer=giver)
        return None


def _checked(schedule: Schedule, stages: Sequence[Callable], inputs, rank: int, group) -> dict[int, Callable]:
    """The stages of this rank by their numbers. ValueError for what cannot run."""
    if wrong := mistake(schedule):
        raise ValueError(wrong.reason)
    if dist.get_world_size(group) != schedule.ranks:
        raise ValueError(f"this schedule has {schedule.ranks} ranks, but the group has {dist.get_world_size(group)}")
    numbers = schedule.stages_of(rank)
    if len(stages) != len(numbers):
        named = " and ".join(map(str, numbers))
        raise ValueError(f"rank {rank} needs a module for each of its stages ({named}), but you gave {len(stages)}")
    if len(inputs) < schedule.micro_batches:
        raise ValueError(f"a batch of {len(inputs)} cannot be split into {schedule.micro_batches} micro-batches")
    return dict(zip(numbers, stages, strict=True))
