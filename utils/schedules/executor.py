"""One host that launches a schedule on all its devices, with copies between them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple

import torch

from utils.observe.trace import micro_batch, record

from .actions import Action, Schedule
from .clock import Costs
from .rules import mistake, receiver, ticks
from .step import TrainingStep


def run(
    schedule,
    stages: Sequence[Callable],
    inputs: torch.Tensor,
    targets: torch.Tensor,
    loss: Callable,
    devices: Sequence,
    *,
    overlap: bool = True,
    in_turns: bool = True,
) -> torch.Tensor:
    """One training step without the optimizer: the loss of the batch, its gradients added to the parameters' `grad`.

    Each stage lies on the device of its rank; `devices` has one for each rank. `inputs` and `targets` are split by
    rows into micro-batches, as evenly as it goes; `loss(output, target)` is a mean over rows. Copies have streams of
    their own, one for each way between two devices; with `overlap=False` they are plain `.to` on the streams that
    compute, which then wait for each other.

    One host launches all: an action of each rank `in_turns`, or one rank as far as it comes and then the next
    (`rules.ticks`). Each rank's own actions are in the order of its list.

    ValueError, one line, for an illegal schedule, with its first mistake, and for stages or devices that do not fit it.
    """
    schedule, devices = _checked(schedule, stages, inputs, devices)
    step, copies = TrainingStep(schedule, stages, inputs, targets, loss), _Copies(schedule, devices, overlap)
    for tick in ticks(schedule, in_turns)[0]:
        for _, action in tick:
            step.do(action)
        for _, action in tick:
            copies.send(step, action)
    return torch.stack(step.losses).sum()


def measure_costs(schedule, stages: Sequence[Callable], inputs, targets, loss: Callable, devices: Sequence) -> Costs:
    """What `play` needs to know: the busy seconds of each kind of action on each stage, and bytes of its output.

    It does what `run` does, action by action, and takes the times of each stage's last micro-batch.
    """
    schedule, devices = _checked(schedule, stages, inputs, devices)
    step, copies = TrainingStep(schedule, stages, inputs, targets, loss), _Copies(schedule, devices, overlap=False)
    seconds: dict[str, list[float]] = defaultdict(lambda: [0.0] * schedule.stages)
    output = [0] * schedule.stages
    for rank, action in chain.from_iterable(ticks(schedule)[0]):
        with record(devices[rank]) as timeline:
            step.do(action)
        seconds[action.kind][action.stage] = timeline.busy(devices[rank])
        if action.kind == "F" and action in step.made:
            output[action.stage] = step.made[action].nbytes
        copies.send(step, action)
    return Costs(seconds["F"], seconds.get("B"), seconds.get("I"), seconds.get("W"), output)


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

    def __init__(self, schedule: Schedule, devices: list[torch.device], overlap: bool):
        self._places = [devices[rank] for rank in schedule.placement]
        self.overlap = overlap
        self._streams: dict[tuple, tuple] = {}

    def send(self, step: TrainingStep, action: Action) -> None:
        """Send what an action has made, if anything, to where it is wanted."""
        stage = receiver(action, len(self._places))
        if stage is not None and action in step.made:
            with micro_batch(action.micro_batch):
                step.give(action, self._copied(step.made.pop(action), self._places[stage]))

    def _copied(self, tensor: torch.Tensor, device: torch.device) -> _Arrival:
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


def _checked(schedule, stages, inputs, devices) -> tuple[Schedule, list[torch.device]]:
    """The schedule and the devices. ValueError for what cannot run."""
    schedule, devices = Schedule.of(schedule), [torch.device(device) for device in devices]
    if wrong := mistake(schedule):
        raise ValueError(wrong.reason)
    if len(stages) != schedule.stages:
        raise ValueError(f"this schedule has {schedule.stages} stages, but you gave {len(stages)}")
    if len(devices) != schedule.ranks:
        raise ValueError(
            f"this schedule needs {schedule.ranks} devices, one for each rank, but you gave {len(devices)}"
        )
    if len(inputs) < schedule.micro_batches:
        raise ValueError(f"a batch of {len(inputs)} cannot be split into {schedule.micro_batches} micro-batches")
    for number, stage in enumerate(stages):
        wanted = devices[schedule.placement[number]]
        for parameter in getattr(stage, "parameters", tuple)():
            if parameter.device != wanted:
                raise ValueError(
                    f"stage {number} has weights on {parameter.device}, but its rank "
                    f"{schedule.placement[number]} is on {wanted}: move it with .to({str(wanted)!r})"
                )
    return schedule, devices
