"""`measure`, `between_events`: the right clock, the right synchronisation, honest labels."""

import pytest
import torch

import simgpu
from simgpu.profiles import GpuProfile
from utils.observe import timing
from utils.observe.timing import Measurement, between_events, measure

# A kernel on 250,000 float32 takes 3 ms: two operands read and one result written at 1 GB/s.
PLAIN = GpuProfile(
    "Plain", 1e12, 1e9, 1e9, 1, "made up for these tests", efficiency=1, streams=1, launch=1e-6, shortest=1e-15
)


@pytest.fixture
def x():
    simgpu.enable(count=2, gpu=PLAIN)
    yield torch.empty(250_000, device="simgpu:0")
    simgpu.enable(count=2)


def test_on_the_virtual_clock_a_measurement_is_exact(x):
    result = measure(lambda: x + x, repeats=5)
    assert len(result.seconds) == 5
    for seconds in result.seconds:
        assert seconds == pytest.approx(3e-3 + 1e-6, rel=1e-9)  # the kernel, and the launch that it waits for
    assert result.spread < 1e-12
    assert result.median == pytest.approx(result.mean)


def test_what_was_launched_before_is_not_counted(x):
    for _ in range(100):
        x + x
    assert measure(lambda: x + x, repeats=1, warm_up=0).median == pytest.approx(3.001e-3)


def test_it_says_what_and_how(x):
    assert str(measure(lambda: x + x, repeats=3)) == (
        "median 3.001 ms, mean 3.001 ms ± 0 µs (3 runs after 2 to warm up; virtual clock, exact; "
        "simulated: 2 x Plain, nvlink2, virtual clock)"
    )
    assert "1 run after 0 to warm up" in str(measure(lambda: x + x, repeats=1, warm_up=0))


def test_the_first_runs_warm_up(x):
    calls = []
    result = measure(lambda: calls.append(1), repeats=4, warm_up=3)
    assert len(calls) == 7
    assert len(result.seconds) == 4


def test_on_the_paced_clock_and_on_the_cpu_it_is_the_wall_clock(monkeypatch):
    wall = {"now": 0.0}

    def work():
        wall["now"] += 0.25

    monkeypatch.setattr(timing.time, "perf_counter", lambda: wall["now"])
    result = measure(work, "cpu", repeats=2)
    assert result.seconds == (0.25, 0.25)
    assert result.source == "measured on CPU"
    assert result.how == "wall clock, devices synchronised"
    monkeypatch.undo()
    simgpu.enable(count=1, gpu=PLAIN, clock="paced")
    x = torch.empty(250_000, device="simgpu:0")
    result = measure(lambda: x + x, repeats=1)
    assert result.seconds[0] >= 3e-3  # the simulated GPU is waited for
    assert result.how == "wall clock, devices synchronised"
    simgpu.enable(count=2)


def test_the_median_ignores_one_slow_run():
    result = Measurement((1.0, 1.0, 10.0), "measured on CPU", "wall clock", 0)
    assert (result.median, result.mean) == (1.0, 4.0)
    assert result.spread == pytest.approx(5.196152)


@pytest.mark.parametrize("wrong", [{"repeats": 0}, {"warm_up": -1}])
def test_settings_that_make_no_sense(wrong):
    with pytest.raises(ValueError, match="at least 1 repeat"):
        measure(lambda: None, **wrong)


def test_an_error_in_the_work_is_the_callers(x):
    with pytest.raises(ZeroDivisionError):
        measure(lambda: 1 / 0)


def test_between_events_waits_for_nothing_until_the_time_is_read(x):
    milliseconds = between_events("simgpu:0", lambda: x + x)
    other = between_events("simgpu:1", lambda: None)
    assert simgpu.now() < 1e-3  # the kernel of 3 ms has only been launched
    assert milliseconds() == pytest.approx(3, rel=1e-2)
    assert other() == pytest.approx(0, abs=1e-2)
