"""What lessons 00 to 05 say of PyTorch in words, run."""

import copy

import pytest
import torch
from torch import nn
from torch.utils.benchmark import Measurement, TaskSpec

import simgpu
from utils.exercises.tasks.lesson04.worked import time_it
from utils.observe.trace import record

ONE, TWO = "simgpu:0", "simgpu:1"


@pytest.fixture(autouse=True)
def two_devices():
    simgpu.enable(count=3)


def test_to_returns_a_tensor_that_is_there_already():
    """Explanations 00/3 and 03/1."""
    for device in ("cpu", TWO):
        there = torch.ones(4, device=device)
        with record(ONE, TWO) as timeline:
            assert there.to(device) is there
        assert not timeline.events
    x = torch.ones(4, device=ONE)
    assert x.to(TWO) is not x
    assert str(x.device) == ONE


def test_with_one_seed_the_first_masks_of_two_devices_are_the_same():
    """Explanation 01/3."""
    torch.manual_seed(0)
    first, second = (nn.Dropout(0.5)(torch.ones(1000, device=device)) for device in (ONE, TWO))
    assert torch.equal(first.cpu(), second.cpu())
    again = nn.Dropout(0.5)(torch.ones(1000, device=TWO))
    assert not torch.equal(again.cpu(), second.cpu())


def devices_of_the_updates(parameters, width=64):
    """The devices in the order in which an Adam of these parameters begins on them, and in that of the launches."""
    optimizer = torch.optim.Adam(parameters)
    for _ in range(2):
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        with record(ONE, TWO, "simgpu:2") as timeline:
            optimizer.step()
    kernels = [event for event in timeline.events if event.is_kernel and event.phase == "optimizer"]
    return [
        list(dict.fromkeys(event.device for event in sorted(kernels, key=key)))
        for key in (lambda event: event.start, lambda event: event.launched)
    ]


def test_the_order_of_the_updates_is_that_of_the_host_and_not_of_the_devices():
    """03: train-steps. Nothing has run before on any of the devices, and the order of the parameters decides."""
    layers = [nn.Linear(64, 64).to(device) for device in (ONE, TWO, "simgpu:2")]
    parameters = [parameter for layer in layers for parameter in layer.parameters()]
    started, launched = devices_of_the_updates(parameters)
    assert started == launched
    backwards, launched = devices_of_the_updates([copy.deepcopy(one) for one in parameters[::-1]])
    assert backwards == launched
    assert backwards != started


def timed(times):
    """What the timer says of runs that take these times."""
    moments = [moment for start, seconds in enumerate(times) for moment in (1000.0 * start, 1000.0 * start + seconds)]
    readings = iter(moments)
    return time_it(lambda: None, [], lambda: next(readings), warm_up=0, repeats=len(times))


def test_the_timer_reports_what_torch_reports():
    """04: time-more-runs-note. torch's own Measurement has the same median and quartiles; a slow run moves neither."""
    times = [3.0, 1.0, 4.0, 1.5, 9.0, 2.6, 5.0]
    torchs = Measurement(number_per_run=1, raw_times=times, task_spec=TaskSpec("pass", ""))
    assert timed(times) == pytest.approx((torchs.median, torchs.iqr))
    assert timed([*times[:4], 900.0, *times[5:]]) == pytest.approx(timed(times))
