"""What a training step does at each action: the graph cut between stages, and gradients carried over by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import torch

from utils.observe.trace import micro_batch

from .actions import Action, Schedule
from .clock import PHASES
from .halves import backward_for_inputs, backward_for_weights
from .rules import receiver


class Arrival(Protocol):
    """A tensor that is there, or on its way."""

    def take(self) -> torch.Tensor:
        """The tensor; what is launched from now on waits for it."""
        ...


class TrainingStep:
    """What a training step holds between its actions. The caller sends what is `made`, and gives what arrives.

    `stages` needs those only whose actions it will do. `inputs` are read by the first, and `targets` by the last.
    """

    def __init__(self, schedule: Schedule, stages: Sequence[Callable] | Mapping[int, Callable], inputs, targets, loss):
        count = schedule.micro_batches
        self.stages, self.loss, self.last = stages, loss, schedule.stages - 1
        self.inputs, self.targets = inputs.tensor_split(count), targets.tensor_split(count)
        self.whole = inputs
        self.received: dict[tuple[str, int | None, int], Arrival] = {}
        self.made: dict[Action, torch.Tensor] = {}  # what is to be sent
        self.kept: dict[tuple[int, int], tuple] = {}  # input and output of each stage, from F to B or I
        self.halves: dict[tuple[int, int], Callable] = {}  # the backward pass for weights, from I to W
        self.losses: list[torch.Tensor] = []

    def do(self, action: Action) -> None:
        """Launch an action. What it makes for another stage is in `made`, until it is sent."""
        ways = {"F": self.forward, "B": self.backward, "I": self.backward_inputs, "W": self.backward_weights}
        with micro_batch(action.micro_batch):
            made = ways[action.kind](action.stage, action.micro_batch)
        if made is not None:
            self.made[action] = made

    def give(self, action: Action, arrival: Arrival) -> None:
        """What an action has made is there, or on its way, for the stage that wants it."""
        stage = receiver(action, self.last + 1)
        self.received[PHASES[action.kind], stage, action.micro_batch] = arrival

    def forward(self, stage: int, number: int) -> torch.Tensor | None:
        x = self._input(stage, number)
        output = self.stages[stage](x)
        if not isinstance(output, torch.Tensor):
            raise ValueError(f"stage {stage} returns a {type(output).__name__}, but ranks exchange only one tensor")
        if stage < self.last:
            self.kept[stage, number] = x, output
            return output.detach()
        loss = self.loss(output, self.targets[number]) * (len(self.targets[number]) / len(self.whole))
        self.losses.append(loss.detach())
        self.kept[stage, number] = x, loss
        return None

    def backward(self, stage: int, number: int) -> torch.Tensor | None:
        x, output = self.kept.pop((stage, number))
        output.backward(self._gradient(stage, number))
        return x.grad if stage else None

    def backward_inputs(self, stage: int, number: int) -> torch.Tensor | None:
        x, output = self.kept.pop((stage, number))
        gradient = self._gradient(stage, number)
        if stage == 0:  # the gradient of the data is not needed
            self.halves[stage, number] = lambda: output.backward(gradient)
            return None
        passed, later = backward_for_inputs(output, x, gradient)
        self.halves[stage, number] = lambda: backward_for_weights(later)
        return passed

    def backward_weights(self, stage: int, number: int) -> None:
        self.halves.pop((stage, number))()

    def _input(self, stage: int, number: int) -> torch.Tensor:
        """A micro-batch of the data, or what the stage before has sent: the beginning of a graph of its own."""
        return self.received.pop(("forward", stage, number)).take().requires_grad_() if stage else self.inputs[number]

    def _gradient(self, stage: int, number: int) -> torch.Tensor | None:
        return None if stage == self.last else self.received.pop(("backward", stage, number)).take()
