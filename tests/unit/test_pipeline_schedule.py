"""GPipe's schedule against times worked out by hand, and the costs that it is given against simgpu's own log."""

import pytest
import torch
from torch import nn

import simgpu
from simgpu.profiles import GPUS, LINKS, LinkProfile
from utils.schedules.of_layers import LayerCost, estimate_costs, least_idle, most_speedup, schedule

FREE = LinkProfile("free", float("inf"), "for a test", latency=0.0)
# A copy of 4 bytes takes 1 + 4 / 4 = 2 s.
SLOW = LinkProfile("slow", 4.0, "for a test", latency=1.0)
ONE = LayerCost(1.0, 2.0, 4)


def times(timeline, device, phase):
    """(micro-batch, start, end) of a device's kernels of one phase, in order."""
    events = [e for e in timeline.events if e.is_kernel and e.device == device and e.phase == phase]
    return [(int(e.label), e.start, e.end) for e in sorted(events, key=lambda e: e.start)]


def copies(timeline, phase):
    return [(int(e.label), e.start, e.end) for e in timeline.events if not e.is_kernel and e.phase == phase]


def test_two_stages_and_two_micro_batches_by_hand():
    line = schedule([ONE, ONE], 1, 2, FREE)
    assert times(line, "device0", "forward") == [(0, 0, 1), (1, 1, 2)]
    assert times(line, "device1", "forward") == [(0, 1, 2), (1, 2, 3)]
    assert times(line, "device1", "backward") == [(1, 3, 5), (0, 5, 7)]
    assert times(line, "device0", "backward") == [(1, 5, 7), (0, 7, 9)]
    assert line.span == 9
    assert line.utilization() == {"device0": 6 / 9, "device1": 6 / 9}


def test_copies_take_their_time_and_overlap_with_kernels():
    line = schedule([ONE, ONE], 1, 2, SLOW)
    # The second copy waits for the first: there is one way from device0 to device1.
    assert copies(line, "forward") == [(0, 1, 3), (1, 3, 5)]
    assert times(line, "device0", "forward") == [(0, 0, 1), (1, 1, 2)]
    assert times(line, "device1", "forward") == [(0, 3, 4), (1, 5, 6)]
    assert times(line, "device1", "backward") == [(1, 6, 8), (0, 8, 10)]
    assert copies(line, "backward") == [(1, 8, 10), (0, 10, 12)]
    assert times(line, "device0", "backward") == [(1, 10, 12), (0, 12, 14)]
    assert line.moved() == {("device0", "device1"): 8, ("device1", "device0"): 8}


def test_without_overlap_both_devices_wait_for_a_copy():
    line = schedule([ONE, ONE], 1, 2, SLOW, overlap=False)
    assert copies(line, "forward") == [(0, 1, 3), (1, 4, 6)]
    assert times(line, "device0", "forward") == [(0, 0, 1), (1, 3, 4)]
    assert times(line, "device1", "forward") == [(0, 3, 4), (1, 6, 7)]
    assert times(line, "device1", "backward") == [(1, 7, 9), (0, 11, 13)]
    assert copies(line, "backward") == [(1, 9, 11), (0, 13, 15)]
    assert times(line, "device0", "backward") == [(1, 11, 13), (0, 15, 17)]


@pytest.mark.parametrize("stages", [1, 2, 3, 5])
@pytest.mark.parametrize("micro_batches", [1, 2, 7])
def test_equal_stages_with_free_copies_reach_the_bound_exactly(stages, micro_batches):
    line = schedule([ONE] * stages, range(1, stages), micro_batches, FREE)
    assert line.span == 3 * (micro_batches + stages - 1)
    assert line.bubble_fraction() == pytest.approx(least_idle(micro_batches, stages))
    one_device = 3 * micro_batches * stages
    assert one_device / line.span == pytest.approx(most_speedup(micro_batches, stages))


def test_unequal_stages_wait_for_the_slower():
    # Two layers and one: 2 s and 1 s forward, 4 s and 2 s backward.
    line = schedule([ONE, ONE, ONE], 2, 2, FREE)
    assert times(line, "device1", "forward") == [(0, 2, 3), (1, 4, 5)]
    assert times(line, "device0", "backward") == [(1, 7, 11), (0, 11, 15)]
    assert line.idle("device1") == 15 - 6


def test_lanes_are_named_as_wished_and_say_where_the_numbers_come_from():
    line = schedule([ONE, ONE], 1, 1, FREE, devices=["simgpu:0", "simgpu:1"])
    assert line.devices == ("simgpu:0", "simgpu:1")
    assert "not run" in line.source


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cut": 0}, r"for 2 layers, cuts increase from 1 to 1"),
        ({"cut": (1, 1)}, r"schedule\(cut=\(1, 1\)\)"),
        ({"micro_batches": 0}, r"micro_batches=0.*1 or more"),
        ({"devices": ["one"]}, r"name 2 devices, one for each part"),
    ],
)
def test_mistakes_get_one_line(arguments, message):
    with pytest.raises(ValueError, match=message) as caught:
        schedule([ONE, ONE], **{"cut": 1, "micro_batches": 1, "link": FREE} | arguments)
    assert len(str(caught.value).splitlines()) == 1


# --- costs ------------------------------------------------------------------------------------------------------


def test_forward_costs_are_those_that_simgpu_charges():
    layers = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(1))
    layers.append(nn.Linear(16 * 15 * 15, 10))
    x = torch.randn(8, 3, 32, 32)
    costs = estimate_costs(layers, x, GPUS["V100"])

    simgpu.enable(count=1, gpu="V100", compute=False)
    on_gpu, batch = layers.to("simgpu:0"), x.to("simgpu:0")
    with torch.no_grad():
        for layer, cost in zip(on_gpu, costs, strict=True):
            before = len(simgpu.log())
            batch = layer(batch)
            kernels = [r for r in simgpu.log()[before:] if r.kind == "kernel"]
            assert cost.forward == pytest.approx(sum(r.end - r.start for r in kernels)), cost.name
            assert cost.output == batch.numel() * 4


def test_estimating_touches_neither_the_layers_nor_the_simulated_machine():
    simgpu.enable(count=2)
    layers = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).to("simgpu:1")
    layers[1].running_mean.fill_(3.0)
    x = torch.randn(2, 4).to("simgpu:0")
    before = len(simgpu.log()), torch.simgpu.memory_allocated(1), simgpu.now(), torch.get_rng_state().tolist()
    estimate_costs([*layers, nn.Dropout()], x, GPUS["V100"])
    assert before == (
        len(simgpu.log()),
        torch.simgpu.memory_allocated(1),
        simgpu.now(),
        torch.get_rng_state().tolist(),
    )
    assert layers[1].running_mean.cpu().tolist() == [3.0] * 4
    assert str(layers[0].weight.device) == "simgpu:1"


def test_backward_counts_twice_where_there_are_weights():
    # Large enough that the shortest kernel plays no part.
    costs = estimate_costs([nn.Linear(2048, 2048), nn.ReLU()], torch.empty(4096, 2048), GPUS["V100"])
    assert costs[0].backward == pytest.approx(2 * costs[0].forward)
    assert costs[1].backward == pytest.approx(costs[1].forward)


def test_functions_are_layers_too():
    costs = estimate_costs([torch.relu, lambda t: t.flatten(1)], torch.empty(8, 2, 2), GPUS["V100"])
    assert costs[0].name == "0 relu"
    assert costs[1].forward == 0  # a view
    assert costs[1].output == 8 * 4 * 4


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([nn.Linear(3, 3), nn.Linear(4, 4)], r"layer 1 Linear cannot take a batch of shape \(2, 3\)"),
        ([nn.LSTM(3, 3), nn.Linear(3, 3)], r"layer 0 LSTM returns a tuple"),
    ],
)
def test_layers_that_cannot_be_estimated_are_named(layers, message):
    with pytest.raises(ValueError, match=message) as caught:
        estimate_costs(layers, torch.empty(2, 3), GPUS["V100"])
    assert len(str(caught.value).splitlines()) == 1


def test_links_of_the_course_fit():
    line = schedule([LayerCost(0.01, 0.02, 48_000_000)] * 2, 1, 1, LINKS["nvlink2"])
    # 48 MB at 48 GB/s and 2 microseconds.
    assert copies(line, "forward") == [(0, 0.01, pytest.approx(0.01 + 0.001 + 2e-6))]
