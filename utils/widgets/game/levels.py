"""The levels of the game: what is to be scheduled, under which cap, and what a published schedule reaches."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from utils.schedules import (
    Schedule,
    gpipe,
    interleaved_1f1b,
    looped,
    one_f_one_b,
    play,
    v_shaped,
    zero_bubble_h1,
    zero_bubble_v,
)

BEST = Path(__file__).with_name("best.json")


@dataclass(frozen=True)
class Level:
    """A task. `published` is what par comes from, `kinds` the actions that there are, `cap` in micro-batches."""

    title: str
    task: str
    published: Schedule
    placement: tuple[int, ...]
    micro_batches: int
    kinds: str
    cap: float | None
    hints: tuple[str, ...]

    @property
    def empty(self) -> Schedule:
        """The board at the beginning."""
        ranks = 1 + max(self.placement)
        return Schedule(((),) * ranks, self.placement, self.micro_batches, self.title)

    @cached_property
    def best(self) -> Schedule:
        """The shortest schedule that the search has found."""
        return Schedule.of(json.loads(BEST.read_text())[self.title], self.placement, self.micro_batches, self.title)

    @cached_property
    def best_time(self) -> float:
        return play(self.best).span

    @cached_property
    def par(self) -> float:
        """The time of the published schedule, for as much work as there is here: it may have larger stages."""
        published = play(self.published)
        return published.span * play(self.best).work / published.work

    @property
    def all_hints(self) -> tuple[str, ...]:
        """The last one is half an answer: what rank 0 does in the best schedule known."""
        row = " ".join(map(str, self.best.lists[0]))
        return (*self.hints, f"In the shortest schedule known, rank 0 does {row}.")

    def data(self) -> dict:
        """All that engine.js needs to know."""
        plain = {name: getattr(self, name) for name in ("title", "task", "placement", "micro_batches", "kinds", "cap")}
        known = {"par": self.par, "par_name": self.published.name, "best": self.best_time}
        return plain | known | {"hints": self.all_hints}


LEVELS = (
    Level(
        "Two ranks",
        "Train two micro-batches on two ranks, in as little time as you can. F1.0 is the forward pass of stage 1 for "
        "micro-batch 0 and takes 1; B1.0 is its backward pass and takes 2. Stage 0 is on rank 0, stage 1 on rank 1. "
        "F1 needs what F0 has made, and B0 what B1 has made.",
        gpipe(2, 2),
        looped(2, 2),
        2,
        "FB",
        None,
        (
            "A micro-batch goes forward through stage 0, then stage 1, and backward the other way. So rank 0 begins.",
            "Rank 0 need not wait for F1.0: its second forward pass needs nothing of rank 1.",
        ),
    ),
    Level(
        "A cap on memory",
        "Four micro-batches on three ranks, with one stage each. Memory is short: a rank holds a micro-batch from its "
        "F to its B, and may hold 3 at most.",
        one_f_one_b(3, 4),
        looped(3, 3),
        4,
        "FB",
        3,
        (
            "Rank 2 can go backward as soon as it has gone forward, and others wait for that: F, B, F, B.",
            "From then on every rank takes turns, one forward, one backward: 1F1B. Before its first B, rank 1 does one "
            "F more than rank 2, and rank 0 one more than rank 1.",
        ),
    ),
    Level(
        "Two stages a rank",
        "The model of level 1 in four stages, each half as large: stages 0 and 2 are on rank 0, 1 and 3 on rank 1. F "
        "is half the work, and still takes 1, because time is counted in halves here: par of level 1 would be 18. "
        "What a rank holds counts half for each stage, and the cap is 2.",
        interleaved_1f1b(2, 2),
        looped(2, 4),
        2,
        "FB",
        2,
        (
            "Rank 1 waits for half as long as in level 1 until it has something to do. Do not let it wait again.",
            "Take both micro-batches through stages 0 and 1, then both through 2 and 3, and back in the same order.",
        ),
    ),
    Level(
        "The backward pass in halves",
        "Level 1 again, and in the place of B, which takes 2, you may do its halves, which take 1 each. I makes the "
        "gradient of the inputs, and the rank before waits for it. W makes those of the weights, for which no "
        "rank waits, some time after its I. A micro-batch is held until its W. The cap is 2.",
        one_f_one_b(2, 2),
        looped(2, 2),
        2,
        "FBIW",
        2,
        (
            "Rank 0 waits for I of rank 1, and never for a W.",
            "A W is work for when there is nothing else to do: keep both of rank 1 for its end.",
        ),
    ),
    Level(
        "Halves under the cap of 1F1B",
        "Level 2 again, with halves: four micro-batches on three ranks, and a rank may hold 3 at most, now until W.",
        zero_bubble_h1(3, 4),
        looped(3, 3),
        4,
        "FBIW",
        3,
        (
            "Rank 2 cannot begin before 2, and then has 12 to do. Can it be busy from there to the end?",
            "Put W off as long as the cap lets you: rank 2 does F, I three times before its first W.",
        ),
    ),
    Level(
        "A V",
        "Level 3 with halves, and with its stages in a V, down and up again: rank 0 has stages 0 and 3, rank 1 has 1 "
        "and 2. What a rank holds counts half for each stage, and the cap is 2. Par is what the paper's schedule "
        "takes, which is made for more micro-batches than these two.",
        zero_bubble_v(2, 2),
        v_shaped(2),
        2,
        "FBIW",
        2,
        (
            "Stage 2 goes on where stage 1 ends, on the same rank: nothing to wait for.",
            "Rank 1 has 12 to do and can begin at 1. On its way back I of stage 1 comes right after that of stage 2: "
            "rank 0 waits for it.",
        ),
    ),
    Level(
        "Less memory than 1F1B",
        "The V of level 6 with three micro-batches, and a cap of 1.5. Par is what 1F1B takes for as much work; it "
        "holds 2. Beat it.",
        one_f_one_b(2, 3),
        v_shaped(2),
        3,
        "FBIW",
        1.5,
        (
            "A rank at its cap needs a W before its next F. A micro-batch that has turned round is on its way out of "
            "memory: let it go first.",
            "Do not fill the memory of rank 0 with forward passes of stage 0: stage 3 needs a place, too.",
        ),
    ),
)


def level_of(number: int) -> Level:
    """A level by its number, from 1 on. ValueError, one line, for one that there is not."""
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= len(LEVELS):
        raise ValueError(f"level={number!r}: they are 1 to {len(LEVELS)}")
    return LEVELS[number - 1]
