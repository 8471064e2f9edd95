"""The schedules that papers describe, as lists. p ranks, m micro-batches; times are of one micro-batch on one rank.

Each works for any number of micro-batches. Where a paper wants a multiple, what is too much has been left out of its
lists: a legal schedule stays legal without one of its micro-batches.
"""

from __future__ import annotations

from .actions import Action, Schedule, looped, number_micro_batches, v_shaped


def gpipe(ranks: int, micro_batches: int, newest_first: bool = True) -> Schedule:
    """All forward passes, then all backward passes (Huang et al., 2019, arXiv 1811.06965).

    Bubble (p-1) / (m+p-1) of the time, m micro-batches in flight. `newest_first` as autograd does it, which goes back
    the way that it came; PyTorch's ScheduleGPipe goes backward from the oldest on.
    """
    _require(ranks, micro_batches)
    forward = range(micro_batches)
    backward = forward[::-1] if newest_first else forward
    lists = [
        [*(Action("F", rank, number) for number in forward), *(Action("B", rank, number) for number in backward)]
        for rank in range(ranks)
    ]
    return Schedule.of(lists, micro_batches=micro_batches, name="GPipe")


def one_f_one_b(ranks: int, micro_batches: int) -> Schedule:
    """1F1B, PipeDream-Flush (Narayanan et al., 2021, arXiv 2006.09503 and 2104.04473).

    A backward pass as soon as there is one to do. GPipe's bubble, and min(p - rank, m) micro-batches in flight.
    """
    _require(ranks, micro_batches)
    lists = [
        number_micro_batches(
            [("F", rank)] * (ranks - rank - 1) + [("F", rank), ("B", rank)] * micro_batches, micro_batches
        )
        for rank in range(ranks)
    ]
    return Schedule.of(lists, micro_batches=micro_batches, name="1F1B")


def interleaved_1f1b(ranks: int, micro_batches: int, chunks: int = 2) -> Schedule:
    """1F1B with `chunks` stages on each rank, stage s on rank s % p (Megatron: Narayanan et al., 2021, 2104.04473).

    Of the ideal time, a bubble of (p-1) / (m x chunks): 1/chunks of 1F1B's, and chunks times its copies. The paper
    wants m to be a multiple of p.
    """
    _require(ranks, micro_batches, chunks)
    rounds = -(-micro_batches // ranks)
    lists = []
    for rank in range(ranks):
        stages = [chunk * ranks + rank for chunk in range(chunks)]
        forward = [("F", stage) for stage in stages for _ in range(ranks)] * rounds
        backward = [("B", stage) for stage in reversed(stages) for _ in range(ranks)] * rounds
        first = min((chunks - 1) * ranks + 2 * (ranks - rank - 1), len(forward))
        pairs = [word for pair in zip(forward[first:], backward, strict=False) for word in pair]
        words = forward[:first] + pairs + backward[len(forward) - first :]
        lists.append(number_micro_batches(words, micro_batches))
    return Schedule.of(lists, looped(ranks, ranks * chunks), micro_batches, f"interleaved 1F1B, {chunks} chunks")


def zero_bubble_h1(ranks: int, micro_batches: int) -> Schedule:
    """ZB-H1 (Qi et al., 2024, "Zero Bubble Pipeline Parallelism", arXiv 2401.10241, section 2.1).

    1F1B with the backward pass in two: what others wait for at once, the weights' half `rank` micro-batches later. The
    bubble is (p-1) (F + I - W), a third of 1F1B's (p-1) (F + I + W) where all three take as long. Counted until W, each
    rank has p micro-batches in flight, as many as the first rank of 1F1B.
    """
    _require(ranks, micro_batches)
    lists = []
    for rank in range(ranks):
        f, i, w = (("F", rank), ("I", rank), ("W", rank))
        words = [f] * (ranks - rank - 1) + [f, i] * rank + [f, i, w] * micro_batches + [w] * rank
        lists.append(number_micro_batches(words, micro_batches))
    return Schedule.of(lists, micro_batches=micro_batches, name="ZB-H1")


def zero_bubble_v(ranks: int, micro_batches: int) -> Schedule:
    """ZB-V (Qi et al., arXiv 2401.10241, section 6): two stages a rank, in the shape of a V.

    Where F, I and W take as long, no rank waits between its first action and its last, from 2p - 1 micro-batches on;
    2p stages of micro-batches, the memory of 1F1B's first rank, are in flight on each.
    """
    _require(ranks, micro_batches)
    padded = max(micro_batches, 2 * ranks - 1)
    lists = []
    for rank in range(ranks):
        down, up = rank, 2 * ranks - 1 - rank
        back_down, back_up = [("I", down), ("W", down)], [("I", up), ("W", up)]
        words = [("F", down)] * (2 * (ranks - rank) - 1) + [("F", up), ("F", down)] * rank
        words += [("F", up), *back_up] * (ranks - rank)
        words += [("F", down), *back_down, ("F", up), *back_up] * (padded - ranks)
        words += [("I", down), ("I", up)] * rank + back_down * (ranks - rank)
        words += [("W", up)] * rank + [("W", down)] * rank
        lists.append(number_micro_batches(words, micro_batches))
    return Schedule.of(lists, v_shaped(ranks), micro_batches, "ZB-V")


def _require(ranks: int, micro_batches: int, chunks: int = 1) -> None:
    for name, number in {"ranks": ranks, "micro_batches": micro_batches, "chunks": chunks}.items():
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ValueError(f"{name}={number!r}: give a whole number, 1 or more")
