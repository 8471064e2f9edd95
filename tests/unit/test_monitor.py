"""GpuMonitor on simulated GPUs, on both clocks, and from recordings. NVML has test_monitor_nvml.py."""

import json
import math
import threading
from collections import deque

import pytest
import torch

import simgpu
from simgpu.clock import VirtualClock
from simgpu.hardware import machine
from utils.observe.monitor import GpuMonitor, Sample
from utils.observe.monitor.recording import FORMAT
from utils.observe.monitor.simulated import SAMPLE_PERIOD, SimulatedSource, _clock

TWO = ["simgpu:0", "simgpu:1"]
PATIENCE = 20  # seconds until a test that waits for the sampler gives up


@pytest.fixture(autouse=True)
def machine_as_before():
    yield
    simgpu.keep_log()
    simgpu.enable(count=1)
    simgpu.enable(count=2)


def enable(clock, count=2):
    simgpu.enable(count=1, gpu="T4")  # another machine, so that the next one is new
    simgpu.enable(count=count, gpu="Instructional", link="instructional", clock=clock)


@pytest.fixture
def paced():
    enable("paced")


class HandClock(VirtualClock):
    """Time that only the test moves: launches cost the host nothing."""

    def pay(self, seconds, gpu):
        return self.host


@pytest.fixture
def by_hand(paced, monkeypatch):
    """A machine that says it is paced, with a clock that the test moves."""
    monkeypatch.setattr(machine, "clock", HandClock())
    monkeypatch.setattr(machine, "stopwatch", None)
    return machine.clock


@pytest.fixture
def virtual():
    enable("virtual")


def monitor_of(devices=TWO, rounds=200):
    """A monitor that takes more rounds a second than it lets users ask for, so that tests need not wait."""
    monitor = GpuMonitor(devices)
    monitor.hz = rounds
    return monitor


def samplers():
    return [thread for thread in threading.enumerate() if thread.name == "gpu-monitor"]


def kernel(device, seconds):
    """A kernel of so many seconds, launched now."""
    machine.launch(machine.gpu(device), seconds, "test", 0, 0)


# --- paced --------------------------------------------------------------------------------------------------------


def test_samples_while_a_loop_runs(paced):
    seen = threading.Event()
    x = torch.ones(1000, device="simgpu:1")
    monitor = monitor_of([torch.device("simgpu:1"), "simgpu:0", "simgpu:1"])
    monitor.on_sample(lambda m: seen.set())
    with monitor as m:
        assert m is monitor
        assert [thread.daemon for thread in samplers()] == [True]
        assert seen.wait(PATIENCE)
        assert list(m.latest()) == ["simgpu:1", "simgpu:0"]
    assert samplers() == []
    assert m.trouble == []
    assert m.source == "simulated: 2 x Instructional, paced clock"
    first, second = m.samples[:2]
    assert (first.device, second.device) == ("simgpu:1", "simgpu:0")
    assert first.time == second.time > 0
    assert (first.used, first.total) == (torch.simgpu.memory_allocated(1), 10**9)
    assert first.used > 0 == second.used
    assert all(0 <= sample.utilization <= 100 for sample in m.samples)
    assert m.latest() == {"simgpu:1": m.samples[-2], "simgpu:0": m.samples[-1]}
    del x


def test_a_block_shorter_than_a_step_has_one_sample(paced):
    with GpuMonitor(TWO, hz=1) as m:
        pass
    assert [sample.device for sample in m.samples] == TWO


def test_utilization_is_the_share_of_the_last_period(by_hand):
    source = SimulatedSource(TWO)
    source.begin()
    assert source.read("simgpu:0")[0] is None, "no time has passed"
    kernel(0, 0.06)
    by_hand.host = 0.03
    assert source.read("simgpu:0")[0] == pytest.approx(100)
    by_hand.host = 0.12
    assert source.read("simgpu:0")[0] == pytest.approx(50), "a run shorter than a period is looked at whole"
    assert source.read("simgpu:1")[0] == 0
    for _ in range(40):
        kernel(0, 0.01)
        kernel(1, 0.003)
        by_hand.host += 0.017
        for number, device in enumerate(TWO):
            share = source.read(device)[0]
            if by_hand.host > SAMPLE_PERIOD:
                assert share == pytest.approx(torch.simgpu.utilization(number), abs=0.51)
    assert by_hand.host > 4 * SAMPLE_PERIOD
    by_hand.host += SAMPLE_PERIOD
    assert source.read("simgpu:0")[0] == 0


def test_kernels_on_several_streams(by_hand):
    stream = torch.simgpu.Stream("simgpu:0")
    source = SimulatedSource(TWO)
    source.begin()
    for _ in range(60):
        kernel(0, 0.004)
        with torch.simgpu.stream(stream):
            kernel(0, 0.002)
        by_hand.host += 0.01
        share = source.read("simgpu:0")[0]
    assert share == pytest.approx(torch.simgpu.utilization(0), abs=0.51)
    assert share == pytest.approx(60, abs=2.5)


def test_what_was_launched_before_counts_where_it_still_runs(by_hand):
    kernel(0, 0.05)
    kernel(1, 0.02)
    by_hand.host = 0.03
    source = SimulatedSource(TWO)
    source.begin()
    by_hand.host = 0.07
    assert source.read("simgpu:0")[0] == pytest.approx(50)
    assert source.read("simgpu:1")[0] == 0


def test_copies_are_not_kernels(by_hand):
    source = SimulatedSource(TWO)
    source.begin()
    machine.copy_between(*machine.gpus, 10**6)
    by_hand.host = 0.01
    assert [source.read(device)[0] for device in TWO] == [0, 0]


class CountedLog(deque):
    """A log that counts how many of its records are looked at, from the newest backwards."""

    looked_at = 0

    def __reversed__(self):
        for record in super().__reversed__():
            self.looked_at += 1
            yield record


def test_a_round_looks_at_new_records_only(by_hand, monkeypatch):
    monkeypatch.setattr(machine, "log", CountedLog(maxlen=200_000))
    for _ in range(5000):
        kernel(0, 0.001)
    source = SimulatedSource(TWO)
    source.begin()
    machine.log.looked_at = 0
    kernel(0, 0.001)
    for device in TWO:
        source.read(device)
    assert 0 < machine.log.looked_at <= 2 * 256
    for _ in range(3000):
        kernel(1, 0.001)
    by_hand.host = 3.0
    assert source.read("simgpu:1")[0] == pytest.approx(100), "more new records than one look takes are all read"


def test_a_loop_that_logs_while_the_monitor_reads(paced):
    rounds = threading.Semaphore(0)
    monitor = monitor_of(rounds=5000)
    monitor.on_sample(lambda m: rounds.release())
    with monitor as m:
        for _ in range(50):
            assert rounds.acquire(timeout=PATIENCE)
            for _ in range(20):
                kernel(0, 1e-5)
    assert m.trouble == []
    assert any(sample.utilization for sample in m.samples)
    assert {sample.utilization for sample in m.samples if sample.device == "simgpu:1"} <= {0.0, None}


def test_without_a_log_utilization_is_not_known(paced):
    simgpu.keep_log(0)
    with GpuMonitor(TWO) as m:
        pass
    assert [sample.utilization for sample in m.samples] == [None, None]
    assert all(sample.used is not None for sample in m.samples)
    assert m.trouble == [
        f"{device}: utilization: the log is off, and this is read from it: simgpu.keep_log() turns it on"
        for device in TWO
    ]
    assert list(m.table()["mean utilization %"]) == ["n/a", "n/a"]


def test_a_log_that_dropped_records_is_not_read_as_idle(by_hand):
    simgpu.keep_log(10)
    source = SimulatedSource(TWO)
    source.begin()
    kernel(1, 0.05)
    for _ in range(20):
        kernel(0, 0.005)
    by_hand.host = 0.1
    assert [source.read(device)[0] for device in TWO] == [None, None]
    assert source.trouble.lines == [
        "simgpu: utilization: the log kept the newest 10 records only: simgpu.keep_log(n) keeps more"
    ]
    by_hand.host = 0.5
    kernel(0, 0.1)
    by_hand.host = 0.6
    assert source.read("simgpu:0")[0] == pytest.approx(60)


def test_simulated_gpus_enabled_anew_meanwhile(paced):
    with GpuMonitor(TWO) as m:
        simgpu.enable(count=2)
    assert [sample.utilization for sample in m.samples] == [None, None]
    assert "simgpu:0: utilization: the simulated GPUs were enabled again while their log was read" in m.trouble[0]


# --- virtual ------------------------------------------------------------------------------------------------------


def test_the_virtual_clock_needs_no_thread(virtual):
    called = []
    machine.clock.host = 100.0
    monitor = GpuMonitor(TWO, hz=10)
    monitor.on_sample(lambda m: called.append(len(m.samples)))
    with monitor as m:
        assert samplers() == []
        kernel(0, 0.15)
        kernel(1, 0.025)
        machine.clock.host = 100.25
        x = torch.ones(1000, device="simgpu:1")
        machine.clock.host = 100.25
        assert m.samples == []
        assert m.latest() == {}
    assert called == [6]
    assert [sample.time for sample in m.samples] == pytest.approx([0.1, 0.1, 0.2, 0.2, 0.25, 0.25])
    shares = [sample.utilization for sample in m.samples if sample.device == "simgpu:0"]
    left_at_the_end = 0.15 - (0.25 - SAMPLE_PERIOD)
    expected = [100, 100 * (0.15 - (0.2 - SAMPLE_PERIOD)) / SAMPLE_PERIOD, 100 * left_at_the_end / SAMPLE_PERIOD]
    assert shares == pytest.approx(expected, abs=0.1)
    shares = [sample.utilization for sample in m.samples if sample.device == "simgpu:1"]
    assert shares[0] == pytest.approx(25, abs=0.1)
    assert shares[1] < 1
    assert [sample.used for sample in m.samples[:4]] == [None] * 4
    assert m.samples[-1].used == torch.simgpu.memory_allocated(1) > 0
    assert m.source == "simulated: 2 x Instructional, virtual clock"
    assert m.table().loc["simgpu:1", "highest memory"] == "4.00 KiB (last sample)"
    assert m.trouble == []
    del x


def test_many_samples_agree_with_the_machine(virtual):
    seen = []
    with GpuMonitor(TWO, hz=20) as m:
        for k in range(300):
            kernel(0, 0.0008 + 0.0001 * (k % 7))
            kernel(1, 0.0002 * (k % 5))
            machine.clock.host += 0.004
            seen.append((simgpu.now(), [torch.simgpu.utilization(0), torch.simgpu.utilization(1)]))
    assert len(m.samples) == 2 * math.ceil(simgpu.now() * 20)
    for sample in m.samples:
        if sample.time > SAMPLE_PERIOD:
            _, near = min(seen, key=lambda pair: abs(pair[0] - sample.time))
            assert sample.utilization == pytest.approx(near[int(sample.device[-1])], abs=2.5)


def test_kernels_not_yet_over_at_the_end_count_until_the_end(virtual):
    with GpuMonitor(["simgpu:0"]) as m:
        kernel(0, 100.0)
        machine.clock.host += 0.01
    assert len(m.samples) == 1
    assert m.samples[0].utilization == pytest.approx(100, abs=0.5)


def test_a_run_in_which_no_time_passes(virtual):
    with GpuMonitor(TWO) as m:
        pass
    assert [sample[:3] for sample in m.samples] == [(0.0, device, None) for device in TWO]


def test_a_run_of_days_has_a_bounded_number_of_samples(virtual):
    with GpuMonitor(["simgpu:0"]) as m:
        machine.clock.host += 1e6
    assert len(m.samples) <= 20_000
    assert m.samples[-1].time == pytest.approx(1e6)


def test_virtual_without_a_log_and_with_one_too_short(virtual):
    simgpu.keep_log(0)
    with GpuMonitor(["simgpu:0"]) as m:
        machine.clock.host += 0.2
    assert [sample.utilization for sample in m.samples] == [None, None]
    assert "the log is off" in m.trouble[0]
    simgpu.keep_log(5)
    with GpuMonitor(["simgpu:0"]) as m:
        for _ in range(10):
            kernel(0, 0.05)  # those of the first 0.25 s are dropped
        machine.clock.host += 0.5
    assert [sample.utilization is None for sample in m.samples] == [True, True, True, False, False]
    assert "the log kept the newest 5 records only" in m.trouble[0]


def test_virtual_and_enabled_anew_meanwhile(virtual):
    with GpuMonitor(TWO) as m:
        simgpu.enable(count=3)
    assert m.samples == []
    assert "enabled again" in m.trouble[0]
    assert list(m.table()["samples"]) == [0, 0]
    assert "nothing to compare" in m.imbalance().text


# --- starting and stopping ----------------------------------------------------------------------------------------


def test_a_hundred_cycles_leave_no_thread(paced):
    before = set(threading.enumerate())  # one of another test's may end meanwhile
    monitor = GpuMonitor(TWO, hz=20)
    for _ in range(100):
        monitor.start()
        monitor.stop()
        monitor.stop()
    assert set(threading.enumerate()) <= before
    assert len(monitor.samples) == 2, "each start begins a new recording"


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("clock", ["paced", "virtual"])
def test_an_error_in_the_block_stops_the_thread_and_is_not_hidden(clock, error):
    enable(clock)
    monitor = GpuMonitor(TWO)
    with pytest.raises(error), monitor:
        raise error
    assert samplers() == []
    assert [sample.device for sample in monitor.samples] == TWO, "what was seen is kept"


def test_stop_without_a_start_and_start_while_running(paced):
    monitor = GpuMonitor(TWO)
    monitor.stop()
    with monitor, pytest.raises(RuntimeError, match="it is running already; call stop"):
        monitor.start()
    assert samplers() == []


def test_a_callback_that_raises_stops_nothing(paced):
    rounds = threading.Semaphore(0)

    def fail(m):
        raise ValueError(f"bad\nnews {len(m.samples)}")

    monitor = monitor_of()
    monitor.on_sample(fail)
    monitor.on_sample(lambda m: rounds.release())
    with monitor as m:
        for _ in range(3):
            assert rounds.acquire(timeout=PATIENCE)
    assert m.trouble == ["the function given to on_sample: bad news 2"]


def test_a_callback_may_stop_the_monitor(paced):
    stopped = threading.Event()

    def stop(m):
        m.stop()
        stopped.set()

    monitor = monitor_of()
    monitor.on_sample(stop)
    monitor.start()
    assert stopped.wait(PATIENCE)
    monitor.stop()
    assert samplers() == []
    assert len(monitor.samples) == 4, "the round that stopped it, and the last one"
    assert monitor.trouble == []


def test_a_device_that_cannot_be_read_stops_nothing(paced, monkeypatch):
    def broken(device):
        raise RuntimeError("no memory today")

    monkeypatch.setattr(torch.simgpu, "memory_allocated", broken)
    rounds = threading.Semaphore(0)
    monitor = monitor_of()
    monitor.on_sample(lambda m: rounds.release())
    with monitor as m:
        for _ in range(3):
            assert rounds.acquire(timeout=PATIENCE)
    assert m.trouble == [f"{device}: memory_allocated: no memory today" for device in TWO]
    assert m.samples[-1].used is None
    assert m.samples[-1].total == 10**9
    assert list(m.table()["highest memory"]) == ["n/a", "n/a"]


class HandMadeTime:
    """Time that passes only in waits and in rounds, in place of the wall clock and the event that ends a run."""

    def __init__(self, monitor, monkeypatch, costs):
        self.now, self.costs, self.rounds = 0.0, list(costs), []
        monkeypatch.setattr(monitor, "_elapsed", lambda: self.now)
        monkeypatch.setattr(monitor, "_round", self.round)

    def round(self):
        self.rounds.append(self.now)
        self.now += self.costs.pop(0) if self.costs else 0.0

    def wait(self, seconds):
        self.now += seconds
        return not self.costs


def test_the_pace_does_not_drift(paced, monkeypatch):
    monitor = GpuMonitor(TWO, hz=10)
    time = HandMadeTime(monitor, monkeypatch, costs=[0.03] * 50)
    monitor._sample_until(time)
    assert time.rounds[:-1] == pytest.approx([0.1 * k for k in range(1, 51)])


def test_rounds_that_were_missed_are_left_out(paced, monkeypatch):
    monitor = GpuMonitor(TWO, hz=10)
    time = HandMadeTime(monitor, monkeypatch, costs=[0.01, 0.25, 0.01, 0.01])
    monitor._sample_until(time)
    assert time.rounds[:-1] == pytest.approx([0.1, 0.2, 0.5, 0.6])


# --- what cannot be asked for ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("hz", [0, 0.5, 21, -8, float("nan"), float("inf"), True, "8", None])
def test_an_hz_that_makes_no_sense(hz):
    with pytest.raises(ValueError, match="hz is the number of samples a second, from 1 to 20"):
        GpuMonitor(TWO, hz=hz)


@pytest.mark.parametrize(
    ("devices", "says"),
    [
        ([], "no devices: name one or more"),
        (["cpu"], "'cpu' is not a GPU with a number"),
        (["simgpu"], "'simgpu' is not a GPU with a number"),
        (torch.device("cuda"), "'cuda' is not a GPU with a number"),
        (["simgpu:0", "cuda:0"], "simgpu:0, cuda:0 mixes real and simulated"),
        (["simgpu:01"], "'simgpu:01' is not"),
        (2, r"GpuMonitor\(2\): give it a list of devices"),
    ],
)
def test_devices_that_make_no_sense(devices, says):
    with pytest.raises(ValueError, match=says):
        GpuMonitor(devices)


def test_a_simulated_gpu_that_does_not_exist(paced):
    with pytest.raises(RuntimeError, match="no simgpu:7"):
        GpuMonitor(["simgpu:0", "simgpu:7"])


def test_simulated_gpus_that_are_not_switched_on(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(machine, "settings", None)
        with pytest.raises(RuntimeError, match=r"no simgpu:0 yet: devices\(2\) or simgpu.enable"):
            GpuMonitor(TWO)


@pytest.mark.parametrize("clock", ["paced", "virtual"])
def test_which_clock(clock):
    enable(clock)
    assert _clock() == clock


def test_one_device_need_not_be_in_a_list(paced):
    assert GpuMonitor("simgpu:1").devices == GpuMonitor(torch.device("simgpu:1")).devices == ["simgpu:1"]


# --- table and imbalance --------------------------------------------------------------------------------------------


def content_of(samples=(), **changes):
    return {
        "format": FORMAT,
        "version": 1,
        "label": "measured by NVML on 3 x Test",
        "hz": 8,
        "devices": ["cuda:1", "cuda:0", "cuda:2"],
        "trouble": ["cuda:2: nvmlDeviceGetSamples: Not Supported"],
        "samples": [list(sample) for sample in samples],
    } | changes


@pytest.fixture
def recorded(tmp_path):
    """A monitor that replays these samples: (device, utilization) or (device, utilization, used, total)."""

    def replay(*values, **changes):
        samples = [(0.1 * k, *value, *(None, None)[len(value) - 2 :]) for k, value in enumerate(values)]
        path = tmp_path / "samples.json"
        path.write_text(json.dumps(content_of(samples, **changes)))
        return GpuMonitor.replay(path)

    return replay


def test_table(recorded):
    gib = 2**30
    table = recorded(
        ("cuda:0", 10, gib, 16 * gib),
        ("cuda:1", None, None, None),
        ("cuda:0", 25.5, int(1.6 * gib), 16 * gib),
        ("cuda:1", 40, 3 * 2**20, None),
        ("cuda:0", None, 700, 16 * gib),
    ).table()
    assert list(table.columns) == [
        "mean utilization %",
        "highest utilization %",
        "highest memory",
        "total memory",
        "samples",
    ]
    assert {name: list(row) for name, row in table.iterrows()} == {
        "cuda:1": [40, 40, "3.00 MiB (last sample)", "n/a", 2],
        "cuda:0": [17.8, 25.5, "1.60 GiB", "16.00 GiB", 3],
        "cuda:2": ["n/a", "n/a", "n/a", "n/a", 0],
    }
    assert list(table.index) == ["cuda:1", "cuda:0", "cuda:2"]


def test_zero_is_not_unknown(recorded):
    row = recorded(("cuda:0", 0, 0, 2**30)).table().loc["cuda:0"]
    assert list(row) == [0, 0, "0 bytes", "1.00 GiB", 1]


def test_imbalance(recorded):
    uneven = recorded(("cuda:0", 60), ("cuda:1", 31), ("cuda:2", 45), ("cuda:0", 62), ("cuda:1", None)).imbalance()
    assert uneven.highest == ("cuda:0", 61)
    assert uneven.lowest == ("cuda:1", 31)
    assert uneven.text == (
        "cuda:0 was busy 61% of the time, cuda:1 31%: cuda:0 worked 2.0 times as long as cuda:1. "
        "Layers moved from cuda:0 to cuda:1 would share the work more evenly."
    )


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([("cuda:0", 50), ("cuda:1", 47)], "cuda:0 was busy 50% of the time, cuda:1 47%: about the same."),
        ([("cuda:0", 50), ("cuda:1", 50)], "cuda:1 was busy 50% of the time, cuda:0 50%: about the same."),
        ([("cuda:0", 0), ("cuda:1", 0)], "cuda:1 was busy 0% of the time, cuda:0 0%: about the same."),
        (
            [("cuda:0", 50), ("cuda:1", 0)],
            "cuda:0 was busy 50% of the time, cuda:1 0%: cuda:0 worked and cuda:1 never did. "
            "Layers moved from cuda:0 to cuda:1 would share the work more evenly.",
        ),
        (
            [("cuda:0", 50), ("cuda:1", None)],
            "cuda:0 was busy 50% of the time, and no other device has a value: comparing needs two.",
        ),
        ([("cuda:1", None)], "No device has a value of utilization, so there is nothing to compare."),
    ],
)
def test_imbalance_in_words(recorded, values, text):
    assert recorded(*values).imbalance().text == text


# --- recordings -----------------------------------------------------------------------------------------------------


def test_a_recording_gives_back_what_was_seen(virtual, tmp_path):
    with GpuMonitor(TWO) as m:
        kernel(0, 0.1)
        machine.clock.host += 0.3
    m._source.trouble.add("a call", "simgpu:0", RuntimeError("why"))
    m.save(tmp_path / "run.json")
    again = GpuMonitor.replay(tmp_path / "run.json")
    assert again.samples == m.samples
    assert all(type(sample) is Sample for sample in again.samples)
    assert again.latest() == m.latest()
    assert again.table().equals(m.table())
    assert again.imbalance() == m.imbalance()
    assert again.trouble == m.trouble == ["simgpu:0: a call: why"]
    assert again.source == "recorded: simulated: 2 x Instructional, virtual clock"
    again.save(tmp_path / "copy.json")
    assert (tmp_path / "copy.json").read_text() == (tmp_path / "run.json").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.json", "run.json"]


def test_a_recording_is_not_started(recorded):
    monitor = recorded(("cuda:0", 50))
    with pytest.raises(RuntimeError, match=r"this is a recording; GpuMonitor\(devices\) takes new samples"):
        monitor.start()
    monitor.stop()
    assert len(monitor.samples) == 1


def test_a_save_that_fails_leaves_the_old_file(virtual, tmp_path, monkeypatch):
    with GpuMonitor(TWO) as m:
        pass
    path = tmp_path / "run.json"
    path.write_text("what was there")

    def full(*args):
        raise OSError("disk full")

    monkeypatch.setattr("utils.common.files.os.replace", full)
    with pytest.raises(OSError, match="disk full"):
        m.save(path)
    assert path.read_text() == "what was there"
    assert list(tmp_path.iterdir()) == [path]


GOOD = [0.5, "cuda:0", 50.0, 100, 200]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "it is no valid JSON at line 1, column 1"),
        (b'{"format": ', "it is no valid JSON at line 1, column 12"),
        (b"\xff\xfe\x00\x01", "it is no valid JSON"),
        (b"[" * 100_000, "it is no valid JSON"),
        ([], "its 'format' is not"),
        ({"cells": []}, "its 'format' is not"),
        (content_of(version=2), "its 'version' is 2, this course reads 1"),
        (content_of(version=True), "its 'version' is True"),
        (content_of(label="two\nlines"), "its 'label' is not one line of text"),
        (content_of(label=None), "its 'label' is not"),
        (content_of(hz=0), "its 'hz' is not a number from 1 to 20"),
        (content_of(trouble="none"), "its 'trouble' is not a list of lines"),
        (content_of(devices=[]), "its 'devices' is not a list of GPUs"),
        (content_of(devices=["cuda:0", "cuda:0"]), "its 'devices' is not"),
        (content_of(devices=[["cuda:0"]]), "its 'devices' is not"),
        (content_of(devices=["<b>"]), "its 'devices' is not"),
        (content_of(samples=[], devices="cuda:0"), "its 'devices' is not"),
        (content_of() | {"samples": None}, "its 'samples' is not a list"),
        (content_of([GOOD, GOOD[:4]]), "sample 2 does not have 5 values"),
        (content_of([[-1, *GOOD[1:]]]), "the time of sample 1 is not"),
        (content_of([[math.nan, *GOOD[1:]]]), "the time of sample 1 is not"),
        (content_of([[math.inf, *GOOD[1:]]]), "the time of sample 1 is not"),
        (content_of([[0.5, "cuda:7", 50, 1, 2]]), "the device of sample 1 is not in 'devices'"),
        (content_of([[0.5, ["cuda:0"], 50, 1, 2]]), "the device of sample 1 is not"),
        (content_of([[0.5, "cuda:0", 101, 1, 2]]), "the utilization of sample 1 is not 0 to 100"),
        (content_of([[0.5, "cuda:0", "50", 1, 2]]), "the utilization of sample 1 is not"),
        (content_of([[0.5, "cuda:0", 50, 1.5, 2]]), "the memory of sample 1 is not in whole bytes"),
        (content_of([[0.5, "cuda:0", 50, 1, -2]]), "the memory of sample 1 is not"),
    ],
)
def test_a_file_that_is_no_recording(tmp_path, content, what):
    path = tmp_path / "file.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(ValueError, match=r"^GpuMonitor.replay: .*file.json is not a recording that can be") as error:
        GpuMonitor.replay(path)
    text = str(error.value)
    assert what in text
    assert "\n" not in text
    assert text.endswith("Make one with GpuMonitor.save(path).")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        GpuMonitor.replay(tmp_path / "none.json")
