"""Does what a schedule says on real tensors: the graph cut between stages, and gradients carried over by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from utils.trace import micro_batch

from .actions import Action, Schedule
from .halves import backward_for_inputs, backward_for_weights
from .rules import mistake, receiver, ticks


def run(
    schedule,
    stages: Sequence[Callable],
    inputs: torch.Tensor,
    targets: torch.Tensor,
    loss: Callable,
    devices: Sequence,
    *,
    overlap: bool = True,
) -> torch.Tensor:
    """One training step without the optimizer: the loss of the batch, its gradients added to the parameters' `grad`.

    Each stage lies on the device of its rank; `devices` has one for each rank. `inputs` and `targets` are split by
    rows into micro-batches, as evenly as it goes; `loss(output, target)` is a mean over rows. Copies have streams of
    their own, one for each way between two devices; with `overlap=False` they are plain `.to` on the streams that
    compute, which then wait for each other.

    One host launches all, in the order of `rules.ticks`: each rank in turns, its list in order.

    ValueError, one line, for an illegal schedule, with its first mistake, and for stages or devices that do not fit it.
    """
    schedule = Schedule.of(schedule)
    devices = [torch.device(device) for device in devices]
    _check(schedule, stages, inputs, devices)
    step = _Step(schedule, stages, inputs, targets, loss)
    copies = _Copies(overlap)
    for tick in ticks(schedule)[0]:
        for _, action in tick:
            with micro_batch(action.micro_batch):
                step.do(action)
        for _, action in tick:
            if (stage := receiver(action, schedule.stages)) is not None:
                key = PHASE[action.kind], stage, action.micro_batch
                with micro_batch(action.micro_batch):
                    step.received[key] = copies.send(step.made.pop(action), devices[schedule.placement[stage]])
    return sum(step.losses)


class _Step:
    """What a training step holds between its actions."""

    def __init__(self, schedule: Schedule, stages, inputs, targets, loss):
        count = schedule.micro_batches
        self.stages, self.loss, self.last = stages, loss, schedule.stages - 1
        self.inputs, self.targets = inputs.tensor_split(count), targets.tensor_split(count)
        self.rows = len(inputs)
        self.received: dict[tuple[str, int, int], _Arrival] = {}
        self.made: dict[Action, torch.Tensor] = {}  # what is to be sent
        self.kept: dict[tuple[int, int], tuple] = {}  # input and output of each stage, from F to B or I
        self.halves: dict[tuple[int, int], Callable] = {}  # the backward pass for weights, from I to W
        self.losses: list[torch.Tensor] = []

    def do(self, action: Action) -> None:
        {"F": self.forward, "B": self.backward, "I": self.backward_inputs, "W": self.backward_weights}[action.kind](
            action, *action[1:]
        )

    def forward(self, action: Action, stage: int, number: int) -> None:
        if stage == 0:
            x = self.inputs[number]
        else:
            x = self.received.pop(("forward", stage, number)).take().requires_grad_()
        output = self.stages[stage](x)
        if stage == self.last:
            output = self.loss(output, self.targets[number]) * (len(self.inputs[number]) / self.rows)
            self.losses.append(output.detach())
        else:
            self.made[action] = output.detach()
        self.kept[stage, number] = x, output

    def backward(self, action: Action, stage: int, number: int) -> None:
        x, output = self.kept.pop((stage, number))
        output.backward(self._gradient(stage, number))
        if stage:
            self.made[action] = x.grad

    def backward_inputs(self, action: Action, stage: int, number: int) -> None:
        x, output = self.kept.pop((stage, number))
        gradient = self._gradient(stage, number)
        if stage:
            self.made[action], later = backward_for_inputs(output, x, gradient)
            self.halves[stage, number] = lambda: backward_for_weights(later)
        else:  # nobody waits for the gradient of the data
            self.halves[stage, number] = lambda: output.backward(gradient)

    def backward_weights(self, action: Action, stage: int, number: int) -> None:
        self.halves.pop((stage, number))()

    def _gradient(self, stage: int, number: int) -> torch.Tensor | None:
        return None if stage == self.last else self.received.pop(("backward", stage, number)).take()


PHASE = {"F": "forward", "B": "backward", "I": "backward"}


class _Arrival(NamedTuple):
    """A tensor that is there, or on its way until an event."""

    tensor: torch.Tensor
    event: object = None

    def take(self) -> torch.Tensor:
        """The tensor; what is launched from now on waits for it."""
        if self.event is not None:
            here = torch.get_device_module(self.tensor.device).current_stream(self.tensor.device)
            here.wait_event(self.event)
            self.tensor.record_stream(here)
        return self.tensor


class _Copies:
    """Copies between devices, each way with a stream of its own at both ends, or on the streams that compute."""

    def __init__(self, overlap: bool):
        self.overlap = overlap
        self._streams: dict[tuple, tuple] = {}

    def send(self, tensor: torch.Tensor, device: torch.device) -> _Arrival:
        if tensor.device == device or device.type == "cpu" or not self.overlap:
            return _Arrival(tensor.to(device))
        gpu = torch.get_device_module(device)
        giving, taking = self._way(gpu, tensor.device, device)
        giving.wait_stream(gpu.current_stream(tensor.device))
        with gpu.stream(giving), gpu.stream(taking):
            arrived = tensor.to(device, non_blocking=True)
        tensor.record_stream(giving)
        return _Arrival(arrived, taking.record_event())

    def _way(self, gpu, giver: torch.device, taker: torch.device) -> tuple:
        if (giver, taker) not in self._streams:
            self._streams[giver, taker] = gpu.Stream(giver), gpu.Stream(taker)
        return self._streams[giver, taker]


def _check(schedule: Schedule, stages, inputs, devices: Sequence[torch.device]) -> None:
    """ValueError for what cannot run."""
    if wrong := mistake(schedule):
        raise ValueError(wrong.reason)
    if len(stages) != schedule.stages:
        raise ValueError(f"this schedule has {schedule.stages} stages, and you gave {len(stages)}")
    if len(devices) != schedule.ranks:
        raise ValueError(f"this schedule has {schedule.ranks} ranks: name a device for each, you named {len(devices)}")
    if len(inputs) < schedule.micro_batches:
        raise ValueError(f"{len(inputs)} rows do not make {schedule.micro_batches} micro-batches")
    for number, stage in enumerate(stages):
        wanted = devices[schedule.placement[number]]
        for parameter in getattr(stage, "parameters", tuple)():
            if parameter.device != wanted:
                raise ValueError(
                    f"stage {number} has weights on {parameter.device}, and its rank "
                    f"{schedule.placement[number]} is {wanted}: move it with .to({str(wanted)!r})"
                )
