"""Streams with priorities: which kernel goes next, which times are kept, and what the log says."""

import itertools
import random

import pytest
import torch

import simgpu
from simgpu.hardware import machine
from simgpu.profiles import GpuProfile, LinkProfile

# A kernel on MB takes 3 ms, a launch a microsecond, a copy of MB between GPUs a second.
PLAIN = GpuProfile(
    "Plain", 1e12, 1e9, 1e9, 1, "made up for these tests", efficiency=1, streams=1, launch=1e-6, shortest=1e-15
)
LINK = LinkProfile("plain link", 1e6, "made up for these tests", latency=0.0)
MB = 250_000
KERNEL, LAUNCH = 3e-3, 1e-6


@pytest.fixture(autouse=True)
def plain():
    simgpu.enable(count=2, gpu=PLAIN, link=LINK, memory=10**9, compute=False)
    yield
    simgpu.enable(count=2)


@pytest.fixture
def x():
    return torch.empty(MB, device="simgpu:0")


@pytest.fixture
def urgent():
    return torch.simgpu.Stream("simgpu:0", priority=-1)


def kernels():
    """(stream, start in ms, end in ms) in the order in which they run."""
    found = [(r.stream, r.start * 1e3, r.end * 1e3) for r in simgpu.log() if r.kind == "kernel"]
    return sorted(found, key=lambda each: each[1])


def streams():
    return [stream for stream, _, _ in kernels()]


def test_an_urgent_kernel_goes_before_those_that_have_not_begun(x, urgent):
    for _ in range(3):
        x + x
    with urgent:
        x + x
    assert streams() == [0, 1, 0, 0]


def test_it_takes_its_time_and_interrupts_nothing(x, urgent):
    for _ in range(3):
        x + x
    with urgent:
        x + x
    told = kernels()
    assert all(before[2] == pytest.approx(after[1]) for before, after in itertools.pairwise(told))
    assert told[-1][2] == pytest.approx(1e3 * (4 * KERNEL + LAUNCH))


def test_without_priority_it_goes_last(x):
    torch.simgpu.Stream("simgpu:0", priority=-1)
    usual = torch.simgpu.Stream("simgpu:0")
    for _ in range(3):
        x + x
    with usual:
        x + x
    assert streams() == [0, 0, 0, 2]


def test_one_that_cannot_begin_keeps_nothing_waiting(x, urgent):
    """An all-gather's copy-out is launched first and waits for the network: computing goes on meanwhile."""
    event = torch.simgpu.Event()
    with torch.simgpu.stream(torch.simgpu.Stream("simgpu:1")) as other:
        torch.empty(MB, device="simgpu:1") * 2
        event.record(other)
    with urgent:
        event.wait()
        x + x
    x + x
    first, second = kernels_of(0)
    assert first.stream == 0
    assert second.start == pytest.approx(first.end)


def kernels_of(device):
    found = [record for record in simgpu.log() if record.kind == "kernel" and record.device == device]
    return sorted(found, key=lambda record: record.start)


def test_two_urgent_ones_keep_their_order(x, urgent):
    second = torch.simgpu.Stream("simgpu:0", priority=-1)
    for _ in range(3):
        x + x
    for stream in (urgent, second):
        with stream:
            x + x
    assert streams() == [0, 1, 2, 0, 0]


def test_the_more_urgent_goes_first(x, urgent):
    most = torch.simgpu.Stream("simgpu:0", priority=-2)
    x + x
    for stream in (urgent, most):
        with stream:
            x + x
    assert streams() == [0, 2, 1]


def test_a_priority_above_zero_is_zero():
    assert torch.simgpu.Stream(priority=5).priority == 0


def test_what_another_stream_has_been_told_is_kept(x, urgent):
    for _ in range(2):
        x + x
    side = torch.simgpu.Stream("simgpu:0")
    side.wait_stream(torch.simgpu.default_stream("simgpu:0"))
    x + x
    with urgent:
        x + x
    assert streams() == [0, 0, 1, 0]


def test_what_a_copy_waits_for_is_kept(x, urgent):
    for _ in range(2):
        x + x
    x.to("simgpu:1", non_blocking=True)
    with urgent:
        x + x
    copy = next(record for record in simgpu.log() if record.kind == "d2d")
    assert streams() == [0, 0, 1]
    assert copy.start == pytest.approx(kernels_of(0)[1].end)


def test_an_event_happens_when_what_is_before_it_has_ended(x, urgent):
    begin, end = (torch.simgpu.Event(enable_timing=True) for _ in range(2))
    x + x
    begin.record()
    x + x
    end.record()
    with urgent:
        x + x
    torch.simgpu.synchronize("simgpu:0")
    assert begin.elapsed_time(end) == pytest.approx(2e3 * KERNEL)  # the urgent one is between them


def test_a_reader_is_warned_by_the_time_that_is_true_now(urgent):
    simgpu.enable(count=2, gpu=PLAIN, link=LINK, memory=10**9)
    x, y = (torch.empty(MB, device="simgpu:0") for _ in range(2))
    urgent, side = (torch.simgpu.Stream("simgpu:0", priority=-1) for _ in range(2))
    x + x
    y.add_(1)  # would end after 6 ms
    with urgent:
        x + x  # goes before it
    machine.clock.wait_until(2.5 * KERNEL)
    with side, pytest.warns(RuntimeWarning, match="has not finished writing"):
        y + 1


def test_the_log_is_in_the_order_of_the_launches(x, urgent):
    for stream in (None, None, urgent, None):
        with torch.simgpu.stream(stream):
            x + x
    torch.simgpu.synchronize("simgpu:0")
    launched = [record.launched for record in simgpu.log()]
    assert launched == sorted(launched)
    assert len(launched) == 4


def test_a_record_that_was_read_is_not_changed(x, urgent):
    for _ in range(3):
        x + x
    before = simgpu.log()
    with urgent:
        x + x
    assert simgpu.log()[:3] == before
    assert streams() == [0, 0, 0, 1]


def test_what_was_launched_before_the_first_priority_is_kept(x):
    for _ in range(2):
        x + x
    with torch.simgpu.Stream("simgpu:0", priority=-1):
        x + x
    assert streams() == [0, 0, 1]


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_launched_the_gpu_runs_one_kernel_at_a_time_and_streams_keep_their_order(seed):
    chance = random.Random(seed)
    lines = [torch.simgpu.Stream("simgpu:0", priority=-number) for number in range(3)]
    events = [torch.simgpu.Event() for _ in range(4)]
    sizes = [torch.empty(size, device="simgpu:0") for size in (MB // 100, MB // 10, MB)]
    launched = 0
    for _ in range(60):
        with chance.choice(lines):
            match chance.randrange(6):
                case 0:
                    chance.choice(events).record()
                case 1:
                    chance.choice(events).wait()
                case 2 if chance.random() < 0.3:
                    torch.simgpu.synchronize("simgpu:0")
                case _:
                    a = chance.choice(sizes)
                    a + a
                    launched += 1
    torch.simgpu.synchronize("simgpu:0")
    told = simgpu.log()
    ran = sorted((r.start, r.end) for r in told)
    assert len(told) == launched
    assert all(end <= start + 1e-12 for (_, end), (start, _) in itertools.pairwise(ran))
    assert all(r.start >= r.launched for r in told)
    for stream in {r.stream for r in told}:
        mine = [r.start for r in told if r.stream == stream]
        assert mine == sorted(mine)
