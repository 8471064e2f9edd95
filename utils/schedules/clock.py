"""Plays a schedule with costs: when each action happens, what idles, what is held. Arithmetic, nothing runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

from utils.observe.trace import Event, Timeline

from .actions import Action, Schedule
from .memory import Memory
from .rules import mistake, receiver, ticks

PHASES = {"F": "forward", "B": "backward", "I": "backward", "W": "backward"}
Each = float | Sequence[float]  # a number for all stages, or one for each


class Costs(NamedTuple):
    """Seconds of each kind of action, and bytes of a stage's output: a number for all stages, or one for each.

    What is left out follows from the rest: B is I and W, or twice F; I and W are what B leaves, or half of it each.
    """

    forward: Each = 1.0
    backward: Each | None = None
    inputs: Each | None = None
    weights: Each | None = None
    output: Each = 0

    def seconds(self, action: Action) -> float:
        """How long an action takes."""
        forward = _at(self.forward, action.stage)
        backward, inputs, weights = (_at(each, action.stage) for each in (self.backward, self.inputs, self.weights))
        if backward is None:
            backward = 2 * forward if inputs is None or weights is None else inputs + weights
        if inputs is None:
            inputs = backward / 2 if weights is None else backward - weights
        if weights is None:
            weights = backward - inputs
        return {"F": forward, "B": backward, "I": inputs, "W": weights}[action.kind]

    def bytes(self, stage: int) -> float:
        """What a stage hands on, and gets back as a gradient."""
        return _at(self.output, stage)


@overload
def _at(each: Each, stage: int) -> float: ...
@overload
def _at(each: None, stage: int) -> None: ...
def _at(each: Each | None, stage: int) -> float | None:
    return each if each is None or isinstance(each, int | float) else each[stage]


class TimedAction(NamedTuple):
    """An action and when a rank does it; or, with a `taker`, when it hands over what that action has made."""

    action: Action
    rank: int
    start: float
    end: float
    taker: int | None = None
    bytes: float = 0


@dataclass(frozen=True)
class Played:
    """A schedule with its times: `times[action]` is (start, end). `peak` is what each rank holds at most, in `unit`."""

    schedule: Schedule
    timeline: Timeline
    times: dict[Action, tuple[float, float]]
    peak: tuple[float, ...]
    unit: str

    @property
    def span(self) -> float:
        """Seconds from the first start to the last end."""
        return self.timeline.span

    @property
    def busy(self) -> tuple[float, ...]:
        """Seconds in which each rank computes."""
        return tuple(sum(end - start for start, end in self._of(row)) for row in self.schedule.lists)

    @property
    def bubble(self) -> tuple[float, ...]:
        """The idle share of each rank, 0 to 1."""
        return tuple(1 - busy / self.span if self.span else 0.0 for busy in self.busy)

    @property
    def work(self) -> float:
        """Seconds that the rank computes which has most to compute. No schedule of the same work takes less."""
        return max(self.busy)

    @property
    def share(self) -> float:
        """The busiest rank's work as a share of the span: 1 is full use."""
        return self.work / self.span if self.span else 1.0

    @property
    def bubble_rate(self) -> float:
        """The idle share as the zero bubble papers count it: of the longest time from a rank's first start to its end.

        It leaves out the wait for the first input, so it is what is lost where each rank goes on to its next step
        without waiting for the others.
        """
        lanes = [self._of(row) for row in self.schedule.lists if row]
        whole = max((lane[-1][1] - lane[0][0] for lane in lanes), default=0.0)
        return 1 - self.work / whole if whole else 0.0

    def _of(self, row: Sequence[Action]) -> list[tuple[float, float]]:
        return [self.times[action] for action in row]

    def __str__(self) -> str:
        name = self.schedule.name or "this schedule"
        idle, held = self.timeline.bubble_fraction(), f"{max(self.peak):g} {self.unit}"
        return (
            f"{name}: {self.span:.4g} s, the busiest rank works {self.share:.1%} of it, {idle:.1%} idle overall, "
            f"at most {held} in flight on a rank"
        )


def play(
    schedule,
    costs: Costs | None = None,
    link=None,
    memory: Memory | None = None,
    *,
    overlap: bool = True,
    in_turns: bool = True,
    unfinished: bool = False,
    devices: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    source: str = "computed from the costs of stages, not run",
) -> Played:
    """When each action of a schedule (or of plain lists) starts and ends. Each rank keeps to the order of its list:

        an action   starts when the one before it on its rank has ended and what it needs is here
        a copy      starts when what it copies is computed and the copy before it on the same way has ended,
                    and takes latency + bytes / bandwidth

    `costs` are F = I = W = 1 s and B = 2 s unless told. `link` has a `latency` (seconds) and a `bandwidth` (bytes a
    second); without one copies are free. With `overlap=False` a copy also waits for both of its ranks and both for it,
    as where one host launches all and one stream of each device does everything; then it matters whether the host
    launches rank by rank or `in_turns` (`rules.ticks`).
    `devices` names the ranks, and `names` the stages, in the timeline.

    ValueError with its first mistake for a schedule that is illegal. One that is `unfinished` may lack actions.
    """
    schedule, costs, memory = Schedule.of(schedule), costs or Costs(), memory or Memory()
    if wrong := mistake(schedule, unfinished=unfinished):
        raise ValueError(wrong.reason)
    devices = tuple(devices or (f"rank {rank}" for rank in range(schedule.ranks)))
    names = names or [f"stage {stage}" for stage in range(schedule.stages)]
    steps = clock(schedule, costs, link, overlap, in_turns)
    events = tuple(_event(step, devices, names) for step in steps)
    times = {step.action: (step.start, step.end) for step in steps if step.taker is None}
    timeline = Timeline(devices, events, 0.0, max((end for _, end in times.values()), default=0.0), source)
    return Played(schedule, timeline, times, memory.peak(schedule), memory.unit)


def clock(
    schedule: Schedule, costs: Costs, link=None, overlap: bool = True, in_turns: bool = True
) -> list[TimedAction]:
    """What happens when, in the order in which a host launches it, as far as the ranks come."""
    free: dict[object, float] = defaultdict(float)  # when a rank, or a way between two, is done with what it has
    here: dict[tuple, float] = defaultdict(float)  # when an input, or a gradient, has arrived
    steps = []
    for tick in ticks(schedule, in_turns)[0]:
        done = []
        for rank, action in tick:
            start = max(free[rank], here[PHASES[action.kind], action.stage, action.micro_batch])
            free[rank] = start + costs.seconds(action)
            done.append(TimedAction(action, rank, start, free[rank]))
        steps += done
        for action, rank, _, end, *_ in done:
            if (stage := receiver(action, schedule.stages)) is None:
                continue
            taker = schedule.placement[stage]
            if link is not None and taker != rank:
                size = costs.bytes(min(stage, action.stage))
                takes_part = [(rank, taker)] if overlap else [(rank, taker), rank, taker]
                start = max(end, *(free[each] for each in takes_part))
                end = start + link.latency + size / link.bandwidth
                free.update(dict.fromkeys(takes_part, end))
                steps.append(TimedAction(action, rank, start, end, taker, size))
            here[PHASES[action.kind], stage, action.micro_batch] = end
    return steps


def _event(step: TimedAction, devices: Sequence[str], names: Sequence[str]) -> Event:
    action, device, label = step.action, devices[step.rank], str(step.action.micro_batch)
    phase, times = PHASES[action.kind], (step.start, step.end)
    if step.taker is not None:
        size: Any = step.bytes  # a fraction, where a cost is one
        return Event(device, 0, "copy", "d2d", phase, *times, None, size, 0, devices[step.taker], label=label)
    half = {"I": ", for its inputs", "W": ", for its weights"}.get(action.kind, "")
    return Event(device, 0, names[action.stage] + half, "kernel", phase, *times, label=label)
