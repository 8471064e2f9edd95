"""The board: moves, their answers, and what there is to see. Rules and times are those of utils.schedules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import chain

from utils.schedules import Action, Played, Schedule, play, refusal
from utils.widgets.front_end import mimebundle, show, widgets_here

from .levels import LEVELS, Level, level_of

MOVE = re.compile(r"([0-9]+) ([FBIW])(?:([0-9]+)\.)?([0-9]+)?")
HOW = "write 0 F for the next forward pass of rank 0, 0 F2 for that of micro-batch 2, 0 F1.2 for that of stage 1"


class Game:
    """A schedule that grows by legal moves. `schedule` is what there is of it, `said` the answer to the last move."""

    def __init__(self, level: int = 1):
        self.changed: Callable[[], object] = lambda: None  # who shows the game sets it
        self._widget = None
        self.start(level)

    # --- moves ------------------------------------------------------------------------------------------------------

    def start(self, level: int | None = None) -> str:
        """Begin a level, or the same one again. ValueError for one that there is not."""
        self.level: Level = level_of(self.number if level is None else level)
        self.number = LEVELS.index(self.level) + 1
        self._past = [play(self.level.empty, unfinished=True)]
        self._hints = 0
        return self._answer("")

    def move(self, *moves: str) -> str:
        """Make moves like "0 F", "0 F2" or "0 F1.2" until one is refused; returns the answer to the last."""
        for move in moves:
            try:
                rank, action = self._read(move)
            except ValueError as error:
                return self._answer(str(error), "refused")
            if reason := self._refusal(rank, action):
                return self._answer(reason, "refused")
            self._past.append(play(self.schedule.then(rank, action), unfinished=True))
            self._answer(*self._done(rank, action))
        return self.said

    def undo(self) -> str:
        """Take the last move back."""
        if len(self._past) == 1:
            return self._answer("There is nothing to undo.", "refused")
        self._past.pop()
        return self._answer("The last move is undone.")

    def hint(self) -> str:
        """The next hint of this level; after the last one that again."""
        hints = self.level.all_hints
        self._hints = min(self._hints + 1, len(hints))
        return self._answer(f"Hint {self._hints} of {len(hints)}: {hints[self._hints - 1]}", "hint")

    def do(self, command: str) -> str:
        """What a view asks for: a move, `undo`, `hint`, or `level 2`."""
        if command in ("undo", "hint"):
            return getattr(self, command)()
        if command.startswith("level "):
            return self.start(int(command.removeprefix("level ")))
        return self.move(command)

    def _answer(self, said: str, tone: str = "") -> str:
        self.said, self.tone = said, tone
        self.changed()
        return said

    def _read(self, move: str) -> tuple[int, Action]:
        """The rank and the action of a move. ValueError, one line, for what is none."""
        found = MOVE.fullmatch(move)
        if not found:
            raise ValueError(f"'{move}' is not a move: {HOW}")
        rank, kind, stage, number = found.groups()
        if int(rank) >= self.schedule.ranks:
            raise ValueError(f"there is no rank {int(rank)}; the last is {self.schedule.ranks - 1}")
        return int(rank), self._meant(int(rank), kind, stage, number)

    def _meant(self, rank: int, kind: str, stage: str | int | None, number: str | None = None) -> Action:
        """The first legal action of this kind, on the stage and micro-batch if told; else one to say why not."""
        stages = self.schedule.stages_of(rank) if stage is None else [int(stage)]
        numbers = range(self.level.micro_batches) if number is None else [int(number)]
        actions = [Action(kind, stage, number) for number in numbers for stage in stages]
        legal = (action for action in actions if not self._refusal(rank, action))
        left = (action for action in actions if action not in self.schedule.lists[rank])
        return next(chain(legal, left, actions))

    def _refusal(self, rank: int, action: Action) -> str | None:
        if action.kind not in self.level.kinds:
            return f"rank {rank} cannot do {action}: in this level, the backward pass is in one piece, B"
        return refusal(self.schedule, rank, action, self.level.cap)

    def _done(self, rank: int, action: Action) -> tuple[str, str]:
        """The answer to a legal move."""
        start, end = self.played.times[action]
        told = f"{action} on rank {rank}, from {start:g} to {end:g}."
        return (f"{told} {self._verdict()}", "done") if self.complete else (told, "")

    # --- what there is ----------------------------------------------------------------------------------------------

    @property
    def schedule(self) -> Schedule:
        """The lists as far as they are made: `utils.schedules.run` executes them when they are complete."""
        return self.played.schedule

    @property
    def played(self) -> Played:
        """When everything happens."""
        return self._past[-1]

    @property
    def complete(self) -> bool:
        return sum(self.played.busy) == self._work * self.schedule.ranks

    @property
    def _work(self) -> int:
        """What each rank has to do in all: for a stage and a micro-batch, F is 1, and B is 2 or I and W."""
        return 3 * self.level.micro_batches * len(self.schedule.stages_of(0))

    @property
    def line(self) -> str:
        """The schedule in figures: time, bubble now and at the end at least, what is held."""
        played = self.played
        whole = played.span * self.schedule.ranks
        end = max(self._earliest_end(rank, played) for rank in range(self.schedule.ranks))
        least = "" if self.complete else f", and at least {_percent(end - self._work, end)} when complete"
        cap = "" if self.level.cap is None else f" of {self.level.cap:g}"
        held = ", ".join(f"rank {rank}: {peak:g}{cap}" for rank, peak in enumerate(played.peak))
        stuck = "" if self.complete or self._can_go_on() else " No move is legal now: undo some."
        idle = _percent(whole - sum(played.busy), whole)
        return f"Time {played.span:g}. Bubble {idle}{least}. Held at most: {held}.{stuck}"

    def _earliest_end(self, rank: int, played: Played) -> float:
        """When a rank is done if it does not wait any more."""
        row = self.schedule.lists[rank]
        return (played.times[row[-1]][1] if row else 0) + self._work - played.busy[rank]

    def _can_go_on(self) -> bool:
        return any(legal for rank in range(self.schedule.ranks) for _, legal in self._offers(rank))

    def _verdict(self) -> str:
        """What a complete schedule is worth."""
        time, par, best = self.played.span, self.level.par, self.level.best_time
        beside = "That is par" if time == par else f"{abs(par - time):g} {'below' if time < par else 'above'} par"
        end = "no shorter one is known." if time == best else f"the shortest known takes {best:g}."
        return f"Complete in {time:g}. {beside} ({self.level.published.name}: {par:g}); {end}"

    def _offers(self, rank: int) -> Iterator[tuple[str, bool]]:
        """For each stage and kind of action the next one, and whether it is legal."""
        for stage in self.schedule.stages_of(rank):
            for kind in self.level.kinds:
                action = self._meant(rank, kind, stage)
                yield str(action), not self._refusal(rank, action)

    def state(self) -> dict:
        """All that a view shows, in plain lists and words."""
        level, played = self.level, self.played
        return {
            "level": self.number,
            "titles": [each.title for each in LEVELS],
            "task": level.task,
            "goal": f"Par {level.par:g} ({level.published.name}), shortest known {level.best_time:g}.",
            "par": level.par,
            "micro_batches": level.micro_batches,
            "columns": max(level.par, played.span) + 1,
            "ranks": [self._rank(rank, played) for rank in range(self.schedule.ranks)],
            "line": self.line,
            "said": self.said,
            "tone": self.tone,
        }

    def _rank(self, rank: int, played: Played) -> dict:
        cells = [(str(action), *played.times[action]) for action in self.schedule.lists[rank]]
        return {"stages": self.schedule.stages_of(rank), "cells": cells, "offers": list(self._offers(rank))}

    # --- showing ----------------------------------------------------------------------------------------------------

    def text(self) -> str:
        """The board in characters, and what is said of it."""
        state = self.state()
        legal = [" ".join(text for text, legal in rank["offers"] if legal) for rank in state["ranks"]]
        offers = [f"rank {rank}: {words}" for rank, words in enumerate(legal) if words]
        lines = [f"Level {self.number}: {self.level.title}. {self.level.task}", state["goal"], "", *self._drawn(state)]
        lines += ["", state["line"], *filter(None, [self.said])]
        return "\n".join([*lines, *([f"Legal next: {'; '.join(offers)}"] if offers else [])])

    def _drawn(self, state: dict) -> list[str]:
        """A line for the time, and one for each rank; an action is as wide as it is long."""
        columns, width = int(state["columns"]), 5
        lines = ["time    " + "".join(f"{time:<{width}}" for time in range(columns))]
        for rank, row in enumerate(state["ranks"]):
            places = [f"{'.':<{width}}"] * columns
            for text, start, end in row["cells"]:
                wide = f"{text:-<{int(end - start) * width - 1}} "
                places[int(start) : int(end)] = [wide, *[""] * (int(end - start) - 1)]
            lines.append(f"rank {rank}  {''.join(places)}")
        return [line.rstrip() for line in lines]

    def __repr__(self) -> str:
        return self.text()

    def _ipython_display_(self) -> None:
        widget = self._shown()
        show({"text/plain": self.text()} if widget is None else mimebundle(widget, self.text()))

    def _shown(self):
        """The widget, or None where it would not be seen."""
        if self._widget is None and widgets_here() is not None:
            try:
                from .widget import widget_of
            except ImportError:  # no anywidget
                return None
            self._widget = widget_of(self)
        return self._widget


def _percent(part: float, whole: float) -> str:
    """Whole percent, halves upwards: engine.js does the same."""
    return f"{int(100 * part / whole + 0.5) if whole else 0}%"
