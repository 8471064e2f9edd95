"""Schedules on real tensors: the gradients of the undivided model, and the times and the memory that `play` says."""

import copy
from itertools import product

import pytest
import torch
from torch import nn

import simgpu
from simgpu.profiles import LINKS, LinkProfile
from utils.models.gpt import Block
from utils.observe.trace import record
from utils.schedules import (
    gpipe,
    interleaved_1f1b,
    launches,
    measure_costs,
    one_f_one_b,
    play,
    run,
    zero_bubble_h1,
    zero_bubble_v,
)
from utils.schedules.halves import backward_for_inputs, backward_for_weights

ALL = (gpipe, one_f_one_b, interleaved_1f1b, zero_bubble_h1, zero_bubble_v)
MSE = nn.functional.mse_loss
ROWS, WIDTH = 10, 6


def uneven(count, dtype=torch.float64):
    """Stages of one to three layers."""
    torch.manual_seed(0)
    sizes = [1 + number % 3 for number in range(count)]
    return [
        nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(n)]).to(dtype) for n in sizes
    ]


def farthest(parts, whole) -> float:
    """The largest difference of a gradient, in shares of the largest number in it."""
    pairs = [
        (mine.grad.cpu(), other.grad)
        for part, same in zip(parts, whole, strict=True)
        for mine, other in zip(part.parameters(), same.parameters(), strict=True)
    ]
    return max(((mine - other).abs().max() / other.abs().max()).item() for mine, other in pairs)


def placed(schedule, parts, devices):
    return [part.to(devices[schedule.placement[stage]]) for stage, part in enumerate(parts)]


def difference(schedule, parts, devices, x, y, loss=MSE, **options) -> float:
    """How far a run's loss and gradients are from those of the undivided model."""
    whole = copy.deepcopy(parts)
    expected = loss(nn.Sequential(*whole)(x), y)
    expected.backward()
    parts = placed(schedule, parts, devices)
    first, last = (devices[schedule.placement[stage]] for stage in (0, -1))
    told = run(schedule, parts, x.to(first), y.to(last), loss, devices, **options)
    return max(farthest(parts, whole), abs(told.item() / expected.item() - 1))


def batch(dtype=torch.float64):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(ROWS, WIDTH, generator=generator, dtype=dtype) for _ in range(2)]


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_gradients_are_those_of_the_undivided_model(make, ranks):
    for number in (1, ranks - 1, ranks, ranks + 2):  # 10 rows in 3, 4, 6 or 8 parts are uneven ones
        schedule = make(ranks, number)
        assert difference(schedule, uneven(schedule.stages), ["cpu"] * ranks, *batch()) < 1e-12, number


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("make", ALL)
def test_gradients_on_simulated_gpus(make, overlap):
    simgpu.enable(count=3)
    devices = [torch.device("simgpu", rank) for rank in range(3)]
    schedule = make(3, 5)
    assert difference(schedule, uneven(schedule.stages), devices, *batch(), overlap=overlap) < 1e-12
    single = uneven(schedule.stages, torch.float32)
    assert difference(schedule, single, devices, *batch(torch.float32), overlap=overlap) < 1e-5


class Twice(nn.Module):
    """One weight used in two places, one that is changed before it is used, and a way around all of it."""

    def __init__(self):
        super().__init__()
        self.linear, self.scale = nn.Linear(WIDTH, WIDTH), nn.Parameter(torch.rand(WIDTH))

    def forward(self, x):
        scale = self.scale.exp()
        return x + self.linear(torch.tanh(self.linear(x * scale))) * scale


class Blocks(nn.Sequential):
    """A Transformer's block, for a row that is a sequence of words of two numbers."""

    def forward(self, x):
        one = torch.ones(WIDTH // 2, 1, dtype=x.dtype)
        for block in self:
            x = block(x.unflatten(1, (WIDTH // 2, 2)), 0.6 * one, 0.8 * one).flatten(1)
        return x


@pytest.mark.parametrize("make", [zero_bubble_h1, zero_bubble_v])
@pytest.mark.parametrize("stage", [Twice, lambda: Blocks(Block(2, 1), Block(2, 1))])
def test_halves_of_any_graph_make_the_whole_backward_pass(make, stage):
    torch.manual_seed(0)
    schedule = make(2, 3)
    parts = [stage().double() for _ in range(schedule.stages)]
    assert difference(schedule, parts, ["cpu"] * 2, *batch()) < 1e-12


def test_the_first_half_leaves_the_weights_alone_and_the_second_adds_to_what_is_there():
    torch.manual_seed(0)
    part, x = Twice(), torch.randn(2, WIDTH, requires_grad=True)
    output, gradient = part(x), torch.randn(2, WIDTH)
    expected = torch.autograd.grad(output, [x, *part.parameters()], gradient, retain_graph=True)
    passed, later = backward_for_inputs(output, x, gradient)
    assert torch.equal(passed, expected[0])
    assert x.grad is None
    assert all(parameter.grad is None for parameter in part.parameters())
    for parameter in part.parameters():
        parameter.grad = torch.ones_like(parameter)
    backward_for_weights(later)
    for parameter, wanted in zip(part.parameters(), expected[1:], strict=True):
        torch.testing.assert_close(parameter.grad, wanted + 1)
    assert later == []


def test_a_stage_may_compute_nothing():
    """As in a small model, where a piece gets no layer."""
    parts = [*uneven(3), nn.Sequential()]
    x, y = torch.randn(ROWS, WIDTH, dtype=torch.float64), torch.randn(ROWS, WIDTH, dtype=torch.float64)
    for make in (one_f_one_b, zero_bubble_h1):
        whole = copy.deepcopy(parts)
        MSE(nn.Sequential(*whole)(x), y).backward()
        for order in (parts, [parts[0], nn.Sequential(), *parts[1:3]]):
            for part in order:
                part.zero_grad()
            run(make(4, 5), order, x, y, MSE, ["cpu"] * 4)
            assert farthest(parts, whole) < 1e-12


def test_a_weight_that_is_frozen_stays_so():
    schedule, parts = zero_bubble_h1(2, 2), uneven(2)
    parts[1][0][0].weight.requires_grad_(False)
    x, y = batch()
    run(schedule, parts, x, y, MSE, ["cpu"] * 2)
    assert parts[1][0][0].weight.grad is None
    assert parts[1][0][0].bias.grad is not None


# --- times and memory ---------------------------------------------------------------------------------------------


def large(make, ranks=4, number=8, rows=512, width=4096, link="nvlink2"):
    """A balanced model on simulated GPUs, shapes only: the arguments of `run`."""
    simgpu.enable(count=ranks, gpu="V100", link=link, compute=False)
    devices = [torch.device("simgpu", rank) for rank in range(ranks)]
    schedule = make(ranks, number)
    layers = 2 * ranks // schedule.stages
    parts = []
    for rank in schedule.placement:
        layer = [nn.Sequential(nn.Linear(width, width, device=devices[rank]), nn.Tanh()) for _ in range(layers)]
        parts.append(nn.Sequential(*layer))
    for part in parts:  # so that all micro-batches add to gradients that are there
        for parameter in part.parameters():
            parameter.grad = torch.zeros_like(parameter)
    first, last = (devices[schedule.placement[stage]] for stage in (0, -1))
    x, y = torch.empty(number * rows, width, device=first), torch.empty(number * rows, width, device=last)
    return schedule, parts, x, y, MSE, devices


def spans(make, overlap, link="nvlink2", in_turns=True):
    """Seconds of a run, from its first kernel to its last, and of the same played with the costs measured."""
    arguments = large(make, link=link)
    costs = measure_costs(*arguments)
    with record(*arguments[-1]) as timeline:
        run(*arguments, overlap=overlap, in_turns=in_turns)
    events = [event for event in timeline.events if event.label]  # the losses are added up at the end
    played = play(arguments[0], costs, LINKS.get(link, link), overlap=overlap, in_turns=in_turns)
    assert timeline.moved() == {
        tuple(name.replace("rank ", "simgpu:") for name in way): size for way, size in played.timeline.moved().items()
    }
    return max(event.end for event in events) - min(event.start for event in events), played.span


@pytest.mark.parametrize(("make", "overlap"), [*product(ALL[:-1], (True, False)), (zero_bubble_v, False)])
def test_a_run_takes_as_long_as_play_says_of_its_costs(make, overlap):
    ran, played = spans(make, overlap)
    assert ran == pytest.approx(played, rel=1e-6)


def test_on_one_stream_a_device_the_order_of_launches_couples_the_devices():
    """A copy holds up both its devices, and what was launched after it: rank by rank, most of the overlap is lost."""
    ran, played = spans(one_f_one_b, overlap=False, in_turns=False)
    assert ran == pytest.approx(played, rel=1e-6)
    assert ran > 1.5 * spans(one_f_one_b, overlap=False)[0]
    apart = spans(one_f_one_b, overlap=True, in_turns=False)[0]
    assert apart == pytest.approx(spans(one_f_one_b, overlap=True)[0], rel=1e-6)


def executor(forward_by, backward_by):
    """Lesson 10's `run_actions`, with copies made by the "sender" or by the "receiver"."""

    def run_actions(actions, stages, devices, inputs, targets, loss_fn):
        kept, sent, last = {}, {}, len(stages) - 1
        for kind, stage, number in actions:
            if kind == "F":
                x = sent.pop(("F", stage, number)).to(devices[stage]).requires_grad_() if stage else inputs[number]
                output = stages[stage](x)
                kept[stage, number] = x, output
                if stage < last:
                    there = devices[stage + 1 if forward_by == "sender" else stage]
                    sent["F", stage + 1, number] = output.detach().to(there)
            else:
                x, output = kept.pop((stage, number))
                if stage == last:
                    (loss_fn(output, targets[number]) / len(inputs)).backward()
                else:
                    output.backward(sent.pop(("B", stage, number)).to(devices[stage]))
                if stage:
                    sent["B", stage - 1, number] = x.grad.to(devices[stage - 1 if backward_by == "sender" else stage])

    return run_actions


def test_where_an_executor_copies_decides_whether_1f1b_is_slower_than_gpipe():
    simgpu.enable(count=2, gpu="A100", link="nvlink3", compute=False)
    devices = [torch.device("simgpu:0"), torch.device("simgpu:1")]
    stages = [nn.Sequential(nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 4096)).to(one) for one in devices]
    x, y = torch.empty(16384, 4096, device=devices[0]), torch.empty(16384, 4096, device=devices[1])

    def seconds(schedule, *copied_by):
        with record(*devices) as timeline:
            executor(*copied_by)(launches(schedule), stages, devices, x.chunk(8), y.chunk(8), MSE)
        return timeline.span

    kinds = list(product(("receiver", "sender"), ("sender", "receiver")))
    times = [seconds(one_f_one_b(2, 8), *kind) for kind in kinds]
    assert times == sorted(times), "no delay, the gradient's, the output's, both"
    assert times[0] < min(seconds(gpipe(2, 8), *kind) for kind in kinds)
    assert times[1] > max(seconds(gpipe(2, 8), *kind) for kind in kinds)


def test_in_a_v_copies_from_both_sides_meet():
    """`play` has a way for each two ranks, and a simulated GPU one engine for all copies that come in: in a V an output
    comes from one side while a gradient comes from the other. Where copies take no time there is no difference."""
    ran, played = spans(zero_bubble_v, overlap=True)
    copy_of_one = 512 * 4096 * 4 / LINKS["nvlink2"].bandwidth
    assert 0 < ran - played < 2 * copy_of_one
    ran, played = spans(zero_bubble_v, True, LinkProfile("free", float("inf"), "for a test", latency=0.0))
    assert ran == pytest.approx(played, rel=1e-6)


def test_zb_v_uses_more_than_95_per_cent_of_a_ranks_own_time_on_devices():
    arguments = large(zero_bubble_v)
    with record(*arguments[-1]) as timeline:
        run(*arguments)
    lanes = [timeline.busy_times(device) for device in timeline.devices]
    busy = max(timeline.busy(device) for device in timeline.devices)
    assert busy / max(lane[-1][1] - lane[0][0] for lane in lanes) > 0.95


def test_the_halves_of_a_backward_pass_take_as_long_as_the_whole():
    whole, halves = measure_costs(*large(one_f_one_b)), measure_costs(*large(zero_bubble_h1))
    assert halves.forward == pytest.approx(whole.forward, rel=1e-9)
    together = [inputs + weights for inputs, weights in zip(halves.inputs, halves.weights, strict=True)]
    assert together == pytest.approx(whole.backward, rel=1e-9)
    assert halves.inputs[0] == 0
    assert halves.inputs[1] == pytest.approx(whole.forward[1], rel=0.02)
    assert whole.output == [512 * 4096 * 4] * 3 + [0]


def test_what_is_in_flight_is_what_a_gpu_holds():
    held = {}
    for make in (gpipe, one_f_one_b):
        arguments = large(make)
        for rank in range(4):
            torch.simgpu.reset_peak_memory_stats(rank)
        before = torch.simgpu.memory_allocated(0)
        run(*arguments)
        held[make] = torch.simgpu.max_memory_allocated(0) - before
    # Of each micro-batch, rank 0 keeps the outputs of its two layers, after tanh.
    assert held[gpipe] - held[one_f_one_b] == (8 - 4) * 2 * 512 * 4096 * 4
    assert play(gpipe(4, 8)).peak[0] - play(one_f_one_b(4, 8)).peak[0] == 8 - 4


def test_events_say_which_micro_batch_they_are_of():
    arguments = large(zero_bubble_h1, ranks=2, number=3)
    with record(*arguments[-1]) as timeline:
        run(*arguments)
    assert {event.label for event in timeline.events if event.phase == "backward" or not event.is_kernel} == set("012")


# --- what does not fit --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"schedule": ["F0.0 B0.0", "B1.0 F1.0"]}, r"it needs its forward pass, F1\.0, which comes later in its list"),
        ({"stages": 3}, r"this schedule has 2 stages, but you gave 3"),
        ({"devices": 1}, r"this schedule needs 2 devices, one for each rank, but you gave 1"),
        ({"schedule": one_f_one_b(2, 11)}, r"a batch of 10 cannot be split into 11 micro-batches"),
        (
            {"stages": "elsewhere"},
            r"stage 1 has weights on cpu, but its rank 1 is on simgpu:1: move it with \.to\('simgpu:1'\)",
        ),
    ],
)
def test_what_does_not_fit_gets_one_line(changed, message):
    stages = uneven(3 if changed.get("stages") == 3 else 2)
    devices = ["cpu", "simgpu:1"] if changed.get("stages") == "elsewhere" else ["cpu"] * changed.get("devices", 2)
    simgpu.enable(count=2)
    with pytest.raises(ValueError, match=message) as caught:
        run(changed.get("schedule", one_f_one_b(2, 2)), stages, *batch(), MSE, devices)
    assert len(str(caught.value).splitlines()) == 1
    assert all(parameter.grad is None for stage in stages for parameter in stage.parameters())


def test_a_stage_that_gives_no_tensor_gets_one_line():
    with pytest.raises(ValueError, match=r"stage 0 returns a tuple, but ranks exchange only one tensor"):
        run(gpipe(2, 2), [lambda x: (x, x), nn.Identity()], *batch(), MSE, ["cpu"] * 2)
