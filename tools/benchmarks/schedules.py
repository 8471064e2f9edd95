"""Schedules beside their papers: writes the tables of docs/schedules.md. Run it by hand (a minute or more):

    .venv/bin/python -m tools.benchmarks.schedules

Played with F = I = W, and run on simulated GPUs with a model whose stages are alike. Nothing is fitted to the papers.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import nn

import simgpu
from tools.benchmarks.published_zero_bubble import RUNS
from utils.observe import plots
from utils.observe.trace import Timeline, record
from utils.ranks import ranks
from utils.schedules import (
    Costs,
    Schedule,
    gpipe,
    greedy,
    interleaved_1f1b,
    one_f_one_b,
    play,
    run,
    run_rank,
    v_shaped,
    zero_bubble_h1,
    zero_bubble_v,
)
from utils.widgets.game.levels import LEVELS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "schedules.md"
SIZES = ((4, 8), (8, 32))
CAPS = (1, 2, 3, 4, 6, 8)  # micro-batches in flight
WIDTH, ROWS, LAYERS = 4096, 512, 4  # of a rank


class Published(NamedTuple):
    """A schedule, and the share of full use that its paper gives for p ranks and m micro-batches."""

    make: Callable[[int, int], Schedule]
    formula: str
    share: Callable[[int, int], float]
    source: str


PUBLISHED = (
    Published(gpipe, "m / (m+p-1)", lambda p, m: m / (m + p - 1), "[1811.06965](https://arxiv.org/abs/1811.06965)"),
    Published(one_f_one_b, "m / (m+p-1)", lambda p, m: m / (m + p - 1), "[2104.04473](https://arxiv.org/abs/2104.04473)"),
    Published(
        interleaved_1f1b, "m / (m + (p-1)/2)", lambda p, m: m / (m + (p - 1) / 2),
        "[2104.04473](https://arxiv.org/abs/2104.04473)",
    ),
    Published(
        zero_bubble_h1, "m / (m + (p-1)/3)", lambda p, m: m / (m + (p - 1) / 3),
        "[2401.10241](https://arxiv.org/abs/2401.10241)",
    ),
    Published(zero_bubble_v, "1, in a rank's own time", lambda p, m: 1.0, "[2405.15362](https://arxiv.org/abs/2405.15362)"),
)  # fmt: skip


MACHINE = {"gpu": "V100", "link": "nvlink2", "compute": False}


def stage_of(schedule: Schedule, device: torch.device) -> nn.Module:
    linears = [nn.Linear(WIDTH, WIDTH, device=device) for _ in range(LAYERS * schedule.ranks // schedule.stages)]
    return nn.Sequential(*[layer for linear in linears for layer in (linear, nn.Tanh())])


def timeline_of(schedule: Schedule, **options) -> Timeline:
    """A run on simulated GPUs, in one process."""
    simgpu.enable(count=schedule.ranks, **MACHINE)
    devices = [torch.device("simgpu", rank) for rank in range(schedule.ranks)]
    places = [devices[rank] for rank in schedule.placement]
    stages = [stage_of(schedule, device) for device in places]
    x, y = (torch.empty(schedule.micro_batches * ROWS, WIDTH, device=places[stage]) for stage in (0, -1))
    with record(*devices) as timeline:
        run(schedule, stages, x, y, nn.functional.mse_loss, devices, **options)
    return timeline


def seconds_of_a_rank(schedules: list[Schedule]) -> list[float]:
    """What each takes, with a process for each rank: this is what one of them runs."""
    rank, seconds = dist.get_rank(), []
    device = torch.device("simgpu", rank)
    for schedule in schedules:
        stages = [stage_of(schedule, device) for _ in schedule.stages_of(rank)]
        x = torch.empty(schedule.micro_batches * ROWS, WIDTH, device=device)
        dist.barrier()  # all begin at one time
        with record(all_ranks=True) as timeline:
            run_rank(schedule, stages, x, x, nn.functional.mse_loss, x[0])
        seconds.append(timeline.span)
    return seconds


def by_process(count: int, number: int) -> str:
    rows = [
        "| ms | one process, rank by rank | in turns | with streams for copies | a process for each rank |",
        "| --- | --- | --- | --- | --- |",
    ]
    schedules = [each.make(count, number) for each in PUBLISHED]
    apart = ranks(count, **MACHINE).run(seconds_of_a_rank, schedules)[0]
    for schedule, span in zip(schedules, apart, strict=True):
        ways = ({"overlap": False, "in_turns": False}, {"overlap": False}, {})
        spans = [*(timeline_of(schedule, **way).span for way in ways), span]
        rows.append(f"| {schedule.name} | {' | '.join(f'{each * 1e3:.1f}' for each in spans)} |")
    return "\n".join(rows) + "\n"


def with_published_times() -> str:
    rows = [
        "| model | p | m | 1F1B | interleaved | ZB-H1 | samples a second, 1F1B | interleaved |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for each in RUNS:
        schedules = each.schedules()
        rates = [
            f"{published:.4f}, {each.played(schedule).bubble_rate:.4f}"
            for published, schedule in zip(each.rates, schedules, strict=True)
        ]
        speeds = [
            f"{measured:g}, {(mine := each.samples_a_second(schedule)):.3g} ({mine / measured - 1:+.0%})"
            for measured, schedule in zip(each.samples, schedules, strict=False)
        ]
        rows.append(f"| {each.model} | {each.ranks} | {each.micro_batches} | {' | '.join(rates + speeds)} |")
    return "\n".join(rows) + "\n"


def in_own_time(timeline: Timeline) -> tuple[float, float]:
    """Full use of a recording, of the whole step and of the longest time of a rank."""
    busy = max(timeline.busy(device) for device in timeline.devices)
    lanes = [timeline.busy_times(device) for device in timeline.devices]
    return busy / timeline.span, busy / max(lane[-1][1] - lane[0][0] for lane in lanes)


def beside_the_papers(ranks: int, number: int) -> str:
    rows = [
        f"### p = {ranks}, m = {number}\n",
        "| | published | | full use, played | run | in its own time, played | run | in flight | source |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for make, formula, share, source in PUBLISHED:
        schedule = make(ranks, number)
        played = play(schedule, Costs(ranks / schedule.stages))
        whole, own = in_own_time(timeline_of(schedule))
        rows.append(
            f"| {schedule.name} | {formula} | {share(ranks, number):.1%} | {played.share:.1%} | {whole:.1%} "
            f"| {1 - played.bubble_rate:.1%} | {own:.1%} | {max(played.peak):g} | {source} |"
        )
    return "\n".join(rows) + "\n"


def under_caps() -> dict[str, list[float]]:
    """The full use that `greedy` reaches under each of CAPS."""
    halves = Costs(0.5)
    return {
        "one stage a rank": [play(greedy(4, 8, memory_cap=cap)).share for cap in CAPS],
        "V": [play(greedy(4, 8, halves, cap, placement=v_shaped(4)), halves).share for cap in CAPS],
    }


def table_of_caps(shares: dict[str, list[float]]) -> str:
    rows = [f"| at most in flight | {' | '.join(shares)} |", "| --- | --- | --- |"]
    rows += [f"| {cap} | {flat:.1%} | {v:.1%} |" for cap, flat, v in zip(CAPS, *shares.values(), strict=True)]
    return "\n".join(rows) + "\n"


def picture_of_caps(shares: dict[str, list[float]]) -> plots.Picture:
    idle = {name: [100 * (1 - share) for share in values] for name, values in shares.items()}
    source = "4 ranks, 8 micro-batches, F = I = W, searched by greedy; computed, not run"
    return plots.sweep(CAPS, idle, source, x_label="micro-batches in flight, at most", y_label="idle, %", best=None)


def levels_of_the_game() -> str:
    rows = [
        "| | level | ranks x micro-batches | actions | cap | par | shortest known |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for number, level in enumerate(LEVELS, 1):
        cap = "none" if level.cap is None else f"{level.cap:g}"
        rows.append(
            f"| {number} | {level.title} | {level.empty.ranks} x {level.micro_batches} | {', '.join(level.kinds)} "
            f"| {cap} | {level.par:g}, {level.published.name} | {level.best_time:g} |"
        )
    return "\n".join(rows) + "\n"


def put(page: str, name: str, table: str) -> str:
    """The page with another table between the marks of a name."""
    before, rest = page.split(f"<!-- {name} -->\n")
    return f"{before}<!-- {name} -->\n{table}<!-- end of {name} -->{rest.split(f'<!-- end of {name} -->')[1]}"


def main() -> None:
    page = put(PAGE.read_text(), "papers", "\n".join(beside_the_papers(*size) for size in SIZES))
    page = put(page, "profiled", with_published_times())
    page = put(page, "processes", by_process(4, 8))
    shares = under_caps()
    page = put(page, "caps", table_of_caps(shares))
    picture_of_caps(shares).save(PAGE.parent / "images" / "memory-against-bubble.png")
    PAGE.write_text(put(page, "levels", levels_of_the_game()))


if __name__ == "__main__":
    main()
