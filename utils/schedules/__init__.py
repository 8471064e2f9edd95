"""Schedules of a pipeline: lists of actions for each rank, played with costs, or run on real tensors.

    schedule = one_f_one_b(ranks=4, micro_batches=8)
    print(play(schedule))                                        # arithmetic: times, idle shares, what is held
    run(schedule, stages, inputs, targets, loss, devices)        # the same lists, on devices

A schedule is data (`actions`). `published` has those of the papers, `from_pytorch` those of PyTorch, and `greedy`
searches one. Your own lists do as well: `play(["F0.0 F0.1 B0.0 B0.1", "F1.0 B1.0 F1.1 B1.1"])`. `rules` says what is
legal, `clock` when things happen, and `memory` what is held meanwhile. `executor` does it in one process for all
devices, and `processes` in a process for each. docs/schedules.md compares them with their papers.
"""

from .actions import Action, Schedule, looped, v_shaped
from .clock import Costs, Played, play
from .executor import measure_costs, run
from .from_torch import from_pytorch
from .memory import Memory
from .processes import run_rank
from .published import gpipe, interleaved_1f1b, one_f_one_b, zero_bubble_h1, zero_bubble_v
from .rules import Mistake, launches, mistake, refusal
from .search import greedy

__all__ = [
    "Action",
    "Costs",
    "Memory",
    "Mistake",
    "Played",
    "Schedule",
    "from_pytorch",
    "gpipe",
    "greedy",
    "interleaved_1f1b",
    "launches",
    "looped",
    "measure_costs",
    "mistake",
    "one_f_one_b",
    "play",
    "refusal",
    "run",
    "run_rank",
    "v_shaped",
    "zero_bubble_h1",
    "zero_bubble_v",
]
