"""A schedule with a process for each rank: the gradients of the undivided model, and the times that `play` says."""

from itertools import pairwise

import pytest
import torch
import torch.distributed as dist
from torch import nn

import simgpu
from simgpu import torch_private
from simgpu.profiles import LINKS
from utils.observe.trace import record
from utils.ranks import RankError, ranks
from utils.schedules import (
    gpipe,
    interleaved_1f1b,
    measure_costs,
    one_f_one_b,
    play,
    run,
    run_rank,
    zero_bubble_h1,
    zero_bubble_v,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("torchrun"),
    pytest.mark.skipif(not torch_private.has_python_backends(), reason="no backends written in Python"),
]

ALL = (gpipe, one_f_one_b, interleaved_1f1b, zero_bubble_h1, zero_bubble_v)
MSE = nn.functional.mse_loss
WIDTHS = (6, 5, 7, 4, 8, 6, 3, 5, 6)  # between stages


def parts(count):
    """Stages whose inputs and outputs have other sizes, and of one or two layers."""
    torch.manual_seed(0)
    stages = []
    for number, (ins, outs) in enumerate(pairwise(WIDTHS[: count + 1])):
        more = [nn.Linear(outs, outs)] * (number % 2)
        stages.append(nn.Sequential(nn.Linear(ins, outs), nn.Tanh(), *more))
    return stages


def batch(count):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(11, width, generator=generator) for width in (WIDTHS[0], WIDTHS[count])]


def gradients_of_this_rank(schedules):
    """For each schedule, the loss that this rank knows, and the gradients of its stages. 11 rows: uneven parts."""
    rank, told = dist.get_rank(), []
    device = torch.device("simgpu", rank)
    for schedule in schedules:
        numbers = schedule.stages_of(rank)
        mine = [parts(schedule.stages)[number].to(device) for number in numbers]
        x, y = (each.to(device if number in numbers else "meta")
                for each, number in zip(batch(schedule.stages), (0, schedule.stages - 1), strict=True))  # fmt: skip
        rows = [torch.empty(width, device=device) for width in WIDTHS[1 : schedule.stages]]
        loss = run_rank(schedule, mine, x, y, MSE, rows)
        found = {number: [p.grad for p in stage.parameters()] for number, stage in zip(numbers, mine, strict=True)}
        told.append((loss, found))
    return told


@pytest.mark.parametrize("count", [2, 4])
def test_gradients_are_those_of_the_undivided_model(count):
    schedules = [make(count, number) for make in ALL for number in (1, count, 2 * count + 1)]
    told = ranks(count).run(gradients_of_this_rank, schedules)
    for place, schedule in enumerate(schedules):
        whole = parts(schedule.stages)
        x, y = batch(schedule.stages)
        expected = MSE(nn.Sequential(*whole)(x), y)
        expected.backward()
        losses, found = zip(*(rank[place] for rank in told), strict=True)
        last = schedule.placement[-1]
        assert losses[last].item() == pytest.approx(expected.item(), rel=1e-6), schedule.name
        assert all(loss is None for rank, loss in enumerate(losses) if rank != last)
        every = {number: gradients for rank in found for number, gradients in rank.items()}
        for number, stage in enumerate(whole):
            for mine, parameter in zip(every[number], stage.parameters(), strict=True):
                torch.testing.assert_close(mine, parameter.grad, rtol=1e-4, atol=1e-6, msg=f"{schedule}: {number}")


# --- times --------------------------------------------------------------------------------------------------------

GPUS = {"gpu": "A100", "link": "nvlink3", "compute": False}
WIDTH, ROWS, LAYERS, M = 4096, 16384, 16, 8


def blocks(schedule, device):
    layers = [(nn.Linear(WIDTH, WIDTH, device=device), nn.ReLU()) for _ in range(LAYERS // schedule.stages)]
    stage = nn.Sequential(*[layer for pair in layers for layer in pair])
    for parameter in stage.parameters():  # so that all micro-batches add to gradients that are there
        parameter.grad = torch.zeros_like(parameter)
    return stage


def seconds_and_bytes(schedules):
    """For each schedule: what the step takes, and the most that this rank has held."""
    rank, told = dist.get_rank(), []
    device = torch.device("simgpu", rank)
    gpu, x = torch.get_device_module(device), torch.empty(ROWS, WIDTH, device=device)
    for schedule in schedules:
        stages = [blocks(schedule, device) for _ in schedule.stages_of(rank)]
        before = gpu.memory_allocated(device)
        gpu.reset_peak_memory_stats(device)
        dist.barrier()  # all begin at one time
        with record(all_ranks=True) as timeline:
            run_rank(schedule, stages, x, x, MSE, torch.empty(WIDTH, device=device))
        told.append((timeline.span, gpu.max_memory_allocated(device) - before))
    return told


def in_one_process(schedule, **options):
    """Seconds of `run`, and of `play` with the costs measured."""
    simgpu.enable(count=schedule.ranks, **GPUS)
    devices = [torch.device("simgpu", rank) for rank in range(schedule.ranks)]
    places = [devices[rank] for rank in schedule.placement]
    x, y = (torch.empty(ROWS, WIDTH, device=places[stage]) for stage in (0, -1))
    arguments = schedule, [blocks(schedule, place) for place in places], x, y, MSE, devices
    costs = measure_costs(*arguments)
    with record(*devices) as timeline:
        run(*arguments, **options)
    return timeline.span, play(schedule, costs, LINKS["nvlink3"]).span


@pytest.mark.parametrize("count", [2, 4])
def test_processes_take_as_long_as_play_says(count):
    """Within one per cent: messages of a rank come one after the other, at the tick in which the other end has them."""
    schedules = [make(count, M) for make in ALL]
    told = ranks(count, **GPUS).run(seconds_and_bytes, schedules)
    for schedule, (span, _) in zip(schedules, told[0], strict=True):
        assert span == pytest.approx(in_one_process(schedule)[1], rel=0.01), schedule.name


def test_processes_need_no_care_about_the_order_of_launches():
    """One process on default streams, rank by rank, loses the overlap; a process for each device has no such order."""
    schedule = one_f_one_b(2, M)
    ((span, _), *_), _ = ranks(2, **GPUS).run(seconds_and_bytes, [schedule])
    assert in_one_process(schedule, overlap=False, in_turns=False)[0] > 1.3 * span


def test_a_rank_holds_what_is_in_flight():
    told = ranks(2, **GPUS).run(seconds_and_bytes, [gpipe(2, M), one_f_one_b(2, M)])
    (_, all_first), (_, in_turns) = told[0]
    # Of each micro-batch: the outputs of 8 linear layers or of their ReLUs, which are kept.
    of_one = 8 * ROWS // M * WIDTH * 4
    assert all_first - in_turns == pytest.approx((M - 2) * of_one, rel=0.05)


# --- what does not fit --------------------------------------------------------------------------------------------


def one_stage(schedule, count=1):
    device = torch.device("simgpu", dist.get_rank())
    row = torch.empty(2, device=device)
    x = torch.empty(4, 2, device=device)
    run_rank(schedule, [nn.Linear(2, 2, device=device)] * count, x, x, MSE, row)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["F0.0 B0.0", "B1.0 F1.0"],), r"it needs its forward pass, F1\.0, which comes later in its list"),
        ((one_f_one_b(3, 3),), r"this schedule has 3 ranks, but the group has 2"),
        ((interleaved_1f1b(2, 2),), r"rank 1 needs a module for each of its stages \(1 and 3\), but you gave 1"),
        ((one_f_one_b(2, 5),), r"a batch of 4 cannot be split into 5 micro-batches"),
    ],
)
def test_what_does_not_fit_gets_one_line(arguments, message):
    with pytest.raises(RankError, match=message):
        ranks(2).run(one_stage, *arguments)
