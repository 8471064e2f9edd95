"""Timelines: busy, idle and its causes on hand-made events with known answers, and recorded from simulated GPUs."""

import gzip
import json
import random

import numpy as np
import pytest
import torch
from torch import nn

import simgpu
from simgpu.profiles import GpuProfile, LinkProfile
from utils.observe import intervals
from utils.observe.trace import CAUSES, PHASES, Event, Timeline, micro_batch, numbered, profile, record

# A kernel on 250,000 float32 takes 3 ms, a copy of them 10 ms, a launch 1 us.
PLAIN = GpuProfile(
    "Plain", 1e12, 1e9, 1e9, 1, "made up for these tests", efficiency=1, streams=1, launch=1e-6, shortest=1e-15
)
LINK = LinkProfile("plain link", 1e8, "made up for these tests", latency=0.0)


@pytest.fixture
def plain():
    simgpu.enable(count=2, gpu=PLAIN, link=LINK, memory=10**9)
    yield
    simgpu.enable(count=2)


# --- sets of times ------------------------------------------------------------------------------------------------


def test_sets_of_times():
    assert intervals.union([(3, 4), (0, 1), (1, 2), (3.5, 5), (6, 6)]) == [(0, 2), (3, 5)]
    assert intervals.common([(0, 2), (3, 5)], [(1, 4)]) == [(1, 2), (3, 4)]
    assert intervals.common([(0, 1)], [(1, 2)]) == []
    assert intervals.without([(0, 10)], [(1, 2), (3, 5), (9, 12)]) == [(0, 1), (2, 3), (5, 9)]
    assert intervals.without([(0, 1)], [(0, 1)]) == []
    assert intervals.length([(0, 2), (3, 5)]) == 4


# --- by hand ------------------------------------------------------------------------------------------------------


def kernel(device, start, end, phase="forward", label=""):
    return Event(f"gpu:{device}", 0, "work", "kernel", phase, start, end, label=label)


def copy(source, target, start, end, size=100):
    return Event(f"gpu:{source}", 0, "copy", "d2d", "forward", start, end, bytes=size, other=f"gpu:{target}")


def timeline(*events, end, devices=2):
    return Timeline(tuple(f"gpu:{i}" for i in range(devices)), events, 0.0, end, "made by hand")


def staircase():
    """A naive split: forward 0, copy, forward 1, backward 1, copy back, backward 0; the host is late by 1."""
    return timeline(
        kernel(0, 0, 2),
        copy(0, 1, 2, 3),
        kernel(1, 3, 5),
        kernel(1, 5, 9, "backward"),
        copy(1, 0, 9, 10, 70),
        kernel(0, 10, 14, "backward"),
        kernel(0, 15, 16, "optimizer"),
        end=16.0,
    )


def test_busy_idle_and_causes_of_a_staircase():
    t = staircase()
    assert (t.busy("gpu:0"), t.idle("gpu:0")) == (7, 9)
    assert (t.busy("gpu:1"), t.idle("gpu:1")) == (6, 10)
    assert t.waits("gpu:0") == {"another device": 6, "a copy": 2, "the host": 1}
    assert t.waits("gpu:1") == {"another device": 7, "a copy": 2, "the host": 1}
    assert t.utilization() == {"gpu:0": 7 / 16, "gpu:1": 6 / 16}
    assert t.bubble_fraction() == pytest.approx(1 - 13 / 32)
    assert t.phases("gpu:0") == {"forward": 2, "backward": 4, "optimizer": 1, "copies": 2}
    assert t.moved() == {("gpu:0", "gpu:1"): 100, ("gpu:1", "gpu:0"): 70}


def test_a_copy_under_a_kernel_is_no_idle_time():
    t = timeline(kernel(0, 0, 4), copy(0, 1, 1, 3), kernel(1, 3, 4), end=4.0)
    assert t.idle("gpu:0") == 0
    # The second device waits for the copy while it is on its way, and for the first device before.
    assert t.waits("gpu:1") == {"another device": 1, "a copy": 2, "the host": 0}


def test_kernels_on_two_streams_count_once():
    t = timeline(kernel(0, 0, 3), kernel(0, 2, 4), end=8.0, devices=1)
    assert t.busy("gpu:0") == 4
    assert t.waits("gpu:0") == {"another device": 0, "a copy": 0, "the host": 4}


def test_event_of_a_record_has_its_fields_and_names_of_devices():
    record = simgpu.Record(0, 1, "copy", "d2d", 0.1, 0.2, 8, 0, 0.05, 1, "layer1", "forward", "3")
    event = Event.of_record(record)
    assert (event.device, event.other) == ("simgpu:0", "simgpu:1")
    assert event._asdict() | {"device": 0, "other": 1} == record._asdict()
    assert Event.of_record(record._replace(other="ranks 0 and 1")).other == "ranks 0 and 1"


def test_copies_with_the_host():
    up = Event("gpu:0", 0, "copy", "h2d", "forward", 0.0, 1.0, bytes=8, other="cpu")
    down = Event("gpu:0", 0, "copy", "d2h", "forward", 1.0, 2.0, bytes=4, other="cpu")
    t = timeline(up, down, end=2.0)
    assert t.moved() == {("cpu", "gpu:0"): 8, ("gpu:0", "cpu"): 4}
    assert t.waits("gpu:0")["a copy"] == 2
    assert t.waits("gpu:1")["another device"] == 2  # not its own copy


def test_the_table_has_a_row_for_each_device():
    table = staircase().table()
    assert list(table.index) == ["gpu:0", "gpu:1"]
    assert table.loc["gpu:0", "busy ms"] == 7000
    assert table.loc["gpu:1", "waits for another device ms"] == 7000
    assert table.index.name == "made by hand"
    assert len(staircase().kernels()) == 7


def test_an_empty_timeline_and_an_unknown_device():
    assert Timeline().bubble_fraction() == 0
    with pytest.raises(ValueError, match=r"no gpu:7\. It has: gpu:0, gpu:1"):
        staircase().busy("gpu:7")


# --- many events ------------------------------------------------------------------------------------------------


def by_definition(t, device):
    """A row of the table straight from the docstrings: one question after another, each asked of every event."""

    def during(wanted):
        return intervals.union((max(e.start, t.begin), min(e.end, t.end)) for e in t.events if wanted(e))

    def left_of(times, taken):  # each span against all of the others
        for taken_start, taken_end in taken:
            pieces = []
            for start, end in times:
                pieces += [(start, min(end, taken_start)), (max(start, taken_end), end)]
            times = [(start, end) for start, end in pieces if start < end]
        return [(start, end) for start, end in times if start < end]

    busy = during(lambda e: e.kind == "kernel" and e.device == device)
    copies = during(lambda e: e.kind != "kernel" and device in (e.device, e.other))
    others = during(lambda e: device not in (e.device, e.other))
    idle = left_of([(t.begin, t.end)], busy)
    no_copy = left_of(idle, intervals.common(idle, copies))
    causes = intervals.common(no_copy, others), intervals.common(idle, copies), left_of(no_copy, others)
    parts = {
        phase: during(lambda e, p=phase: e.kind == "kernel" and e.device == device and e.phase == p) for phase in PHASES
    } | {"copies": copies}
    return {
        "busy": busy,
        "idle": idle,
        "copies": copies,
        "waits": dict(zip(CAUSES, map(intervals.length, causes), strict=True)),
        "phases": {name: intervals.length(times) for name, times in parts.items()},
    }


def at_random(seed, count, devices, moment):
    """A timeline of `count` events; `moment()` gives times, from before its begin to after its end."""
    pick = random.Random(seed)
    names = [f"gpu:{i}" for i in range(devices)]
    events = []
    for number in range(count):
        device, (start, end) = pick.choice(names), sorted((moment(pick), moment(pick)))
        kind = pick.choice(["kernel", "kernel", "h2d", "d2h", "d2d"])
        other = {"kernel": None, "d2d": pick.choice(names)}.get(kind, "cpu")
        end = min(end, start + 3)
        events.append(Event(device, 0, "work", kind, pick.choice(PHASES), start, end, bytes=number, other=other))
    return Timeline(tuple(names), tuple(events), 2.0, 2.0 + count / 2, "made at random")


# Whole numbers touch and coincide; others hardly ever do.
@pytest.mark.parametrize("moment", [lambda p, n: p.randrange(n // 2 + 5), lambda p, n: p.uniform(0, n / 2 + 5)])
@pytest.mark.parametrize(("count", "devices"), [(0, 1), (1, 1), (7, 1), (12, 2), (60, 3), (600, 4)])
def test_a_timeline_says_what_its_definitions_say(count, devices, moment):
    for seed in range(8):
        t = at_random(seed, count, devices, lambda pick: moment(pick, count))
        table = t.table()
        for device in t.devices:
            expected = by_definition(t, device)
            assert t.busy_times(device) == expected["busy"]
            assert t.idle_times(device) == expected["idle"]
            assert t.copy_times(device) == expected["copies"]
            assert t.waits(device) == expected["waits"]
            assert t.phases(device) == expected["phases"]
            row = {f"waits for {cause} ms": value for cause, value in expected["waits"].items()}
            row |= {f"{phase} ms": value for phase, value in expected["phases"].items()}
            row |= {f"{name} ms": intervals.length(expected[name]) for name in ("busy", "idle")}
            assert {name: table.loc[device, name] for name in row} == {n: np.round(1e3 * v, 3) for n, v in row.items()}
            into = [e for e in t.events if (e.device if e.kind == "h2d" else e.other) == device]
            assert table.loc[device, "MB in"] == np.round(sum(e.bytes for e in into) / 1e6, 3)


class Counted(float):
    """A time that counts how often it is compared."""

    compared = 0

    def _counting(name):
        def compare(self, other):
            Counted.compared += 1
            return getattr(float, name)(self, other)

        return compare

    __lt__, __le__, __gt__, __ge__ = map(_counting, ("__lt__", "__le__", "__gt__", "__ge__"))


def test_eight_times_as_many_times_are_not_much_more_than_eight_times_the_work():
    def compared(count):
        first = [(Counted(number), Counted(number + 0.5)) for number in range(count)]
        second = [(Counted(number + 0.2), Counted(number + 0.3)) for number in range(count)]
        Counted.compared = 0
        assert len(intervals.without(first, second)) == 2 * count
        return Counted.compared

    assert compared(1600) < 14 * compared(200)


def test_an_event_is_looked_at_as_often_among_many_devices_as_with_one():
    looks = []

    class Seen(Event):
        def __iter__(self):
            looks[-1] += 1
            return super().__iter__()

        def __getattribute__(self, name):
            looks[-1] += 1
            return super().__getattribute__(name)

    for devices in (1, 8):
        t = at_random(1, 200, devices, lambda pick: pick.randrange(100))
        t.events = tuple(Seen(*event) for event in t.events)
        looks.append(0)
        t.table()
    assert looks[0] == looks[1] > 0


def test_what_a_timeline_says_follows_its_events():
    t = timeline(kernel(0, 0, 2), end=4.0)
    assert (t.busy("gpu:0"), t.idle("gpu:0")) == (2, 2)
    t.events += (kernel(0, 1, 3),)
    assert (t.busy("gpu:0"), t.idle("gpu:0")) == (3, 1)
    t.end = 8.0
    assert (t.busy("gpu:0"), t.idle("gpu:0")) == (3, 5)
    assert t == timeline(*t.events, end=8.0)


def test_saving_makes_no_event_again(tmp_path):
    class Made(Event):
        count = 0

        def __new__(cls, *args, **kwargs):
            cls.count += 1
            return super().__new__(cls, *args, **kwargs)

    t = timeline(*(Made(*event) for event in staircase().events), end=16.0)
    t.save(tmp_path / "run.json")
    assert Made.count == len(t.events)
    assert Timeline.load(tmp_path / "run.json") == staircase()


# --- files --------------------------------------------------------------------------------------------------------


def test_saved_and_loaded(tmp_path):
    path = tmp_path / "run.json"
    staircase().save(path)
    assert Timeline.load(path) == staircase()
    assert [p.name for p in tmp_path.iterdir()] == ["run.json"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 1}', '{"version": 1, "events": [[1]], "devices": []}'])
def test_a_file_that_is_no_timeline(tmp_path, text):
    path = tmp_path / "run.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"run\.json: no timeline"):
        Timeline.load(path)
    path.write_text('{"version": 99}')
    with pytest.raises(ValueError, match="version 99"):
        Timeline.load(path)


def test_chromes_format(tmp_path):
    path = tmp_path / "trace.json"
    staircase().to_chrome(path)
    data = json.loads(path.read_text())
    names = [e["args"]["name"] for e in data["traceEvents"] if e["ph"] == "M"]
    assert names == ["gpu:0", "gpu:1"]
    first = next(e for e in data["traceEvents"] if e["ph"] == "X")
    assert (first["ts"], first["dur"], first["cat"]) == (0, 2e6, "forward")
    assert data["otherData"]["source"] == "made by hand"


def traced(folder, name, **changed):
    """A trace of the profiler in a file, as `changed` has it."""
    path = folder / name
    text = json.dumps(
        profiled() | {"deviceProperties": [{"id": 0, "name": "GPU A"}, {"id": 1, "name": "GPU B"}]} | changed
    )
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_any_trace_of_the_profiler_is_opened(tmp_path, name):
    t = Timeline.open(traced(tmp_path, name))
    assert t.devices == ("cuda:0", "cuda:1")
    assert t.source == f"measured on GPU A, GPU B by {name}"
    assert t.span == pytest.approx(1e-3)
    assert t.phases("cuda:1") == pytest.approx({"forward": 0, "backward": 150e-6, "optimizer": 50e-6, "copies": 100e-6})


def test_one_step_of_a_trace(tmp_path):
    steps = [
        {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{n}", "ts": ts, "dur": 400, "tid": 1}
        for n, ts in ((7, 1000), (8, 1400))
    ]
    path = traced(tmp_path, "trace.json", traceEvents=profiled()["traceEvents"] + steps)
    assert Timeline.open(path, step=8).busy("cuda:1") == pytest.approx(200e-6)
    assert Timeline.open(path, step=7).busy("cuda:1") == 0
    with pytest.raises(ValueError, match="there is no step 9"):
        Timeline.open(path, step=9)


@pytest.mark.parametrize("text", ["", "[1", '{"events": 1}', '{"traceEvents": 3}', '"trace"'])
def test_a_file_that_is_no_trace(tmp_path, text):
    (tmp_path / "trace.json").write_text(text)
    with pytest.raises(ValueError, match=r"trace\.json: no trace of torch\.profiler"):
        Timeline.open(tmp_path / "trace.json")


def test_a_trace_without_a_gpu(tmp_path):
    with pytest.raises(ValueError, match=r"without a GPU's kernels. Profile with ProfilerActivity.CUDA"):
        Timeline.open(traced(tmp_path, "trace.json", traceEvents=[]))


# --- recorded from simulated GPUs -----------------------------------------------------------------------------------


class TwoLayers(nn.Module):
    """A naive split of two layers whose kernels can be counted: each multiplies 250,000 numbers by a weight."""

    def __init__(self):
        super().__init__()
        self.first = nn.Parameter(torch.ones(250_000, device="simgpu:0"))
        self.second = nn.Parameter(torch.ones(250_000, device="simgpu:1"))

    def forward(self, x):
        return (x * self.first).to("simgpu:1") * self.second


def test_a_naive_split_equals_what_is_computed_by_hand(plain):
    model, x = TwoLayers(), torch.ones(250_000, device="simgpu:0")
    gradient = torch.ones(250_000, device="simgpu:1")
    with record() as t:
        model(x).backward(gradient)
    k, c, launch = 3e-3, 10e-3, 1e-6
    # Forward: one kernel on each. Backward: the second layer needs two products (for its weight and its input), the
    # first layer one (x needs no gradient). The first kernel waits for its launch; the host then runs ahead.
    span = launch + k + c + k + 2 * k + c + k
    assert t.span == pytest.approx(span, abs=1e-9)
    assert t.busy("simgpu:0") == pytest.approx(2 * k, abs=1e-9)
    assert t.busy("simgpu:1") == pytest.approx(3 * k, abs=1e-9)
    for device, other in (("simgpu:0", 3 * k), ("simgpu:1", 2 * k)):
        assert t.busy(device) + t.idle(device) == pytest.approx(t.span, abs=1e-9)
        waits = t.waits(device)
        assert sum(waits.values()) == pytest.approx(t.idle(device), abs=1e-9)
        assert waits["another device"] == pytest.approx(other, abs=1e-9)
        assert waits["a copy"] == pytest.approx(2 * c, abs=1e-9)
        assert waits["the host"] == pytest.approx(launch, abs=1e-9)
    assert t.moved() == {("simgpu:0", "simgpu:1"): 10**6, ("simgpu:1", "simgpu:0"): 10**6}
    assert t.phases("simgpu:1")["backward"] == pytest.approx(2 * k, abs=1e-9)
    assert t.source == "simulated: 2 x Plain, plain link, virtual clock"


def test_only_what_was_done_inside_is_recorded(plain):
    x = torch.ones(250_000, device="simgpu:0")
    x + x
    with record() as t:
        x * x
    x - x
    assert [event.name for event in t.events] == ["mul"]


def test_a_device_can_be_left_out(plain):
    x, y = (torch.ones(250_000, device=f"simgpu:{i}") for i in range(2))
    with record("simgpu:1", torch.device("simgpu", 1)) as t:
        x + x
        y + y
    assert t.devices == ("simgpu:1",)
    assert [event.device for event in t.events] == ["simgpu:1"]


def test_the_timeline_is_complete_after_an_error(plain):
    x = torch.ones(250_000, device="simgpu:0")

    def fails():
        x + x
        return 1 / 0

    with pytest.raises(ZeroDivisionError), record() as t:
        fails()
    assert len(t.events) == 1
    assert t.span > 3e-3


def test_the_log_is_used_also_where_it_is_off(plain):
    simgpu.keep_log(0)
    try:
        with record() as t:
            torch.ones(4, device="simgpu:0") + 1
        assert t.events
        assert simgpu.log() == []
    finally:
        simgpu.keep_log()


def test_micro_batches_are_labelled_forward_and_backward(plain):
    layer, x = nn.Linear(4, 4, device="simgpu:0"), torch.ones(2, 4, device="simgpu:0")
    with record() as t:
        losses = []
        for number in range(2):
            with micro_batch(number):
                losses.append(layer(x).sum())
        sum(losses).backward()
    labels = {(event.phase, event.label) for event in t.events}
    assert {("forward", "0"), ("forward", "1"), ("backward", "0"), ("backward", "1")} <= labels


def test_the_calls_of_a_part_are_numbered_from_0_and_leave_no_hook_behind(plain):
    layer, x = nn.Linear(4, 4, device="simgpu:0"), torch.ones(2, 4, device="simgpu:0")
    with record() as t, numbered(layer):
        sum(layer(x).sum() for _ in range(2)).backward()
    assert {("forward", "0"), ("forward", "1"), ("backward", "0"), ("backward", "1")} <= {
        (event.phase, event.label) for event in t.events
    }
    with record() as later:
        layer(x)
    assert {event.label for event in later.events} == {""}


def test_nothing_to_record():
    with pytest.raises(ValueError, match="record simulated GPUs, or real ones"), record("cpu"):
        pass
    with pytest.raises(ValueError, match="not both"), record("simgpu:0", "cuda:0"):
        pass


# --- recorded from CUDA: read from a trace of torch.profiler, a small one made by hand -------------------------------


def profiled():
    def call(correlation, ts, tid=1):
        return {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": ts, "dur": 5, "tid": tid,
                "args": {"correlation": correlation}}  # fmt: skip

    def work(correlation, ts, dur, device, name="gemm", cat="kernel", **args):
        return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "tid": 7,
                "args": {"correlation": correlation, "device": device, "stream": 7, **args}}  # fmt: skip

    def span(name, ts, dur, tid=1, cat="user_annotation"):
        return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "tid": tid}

    return {
        "traceEvents": [
            span(profile.WINDOW, 1000, 1000),
            span(profile.MICRO_BATCH + "3", 1000, 50),
            span("autograd::engine::evaluate_function: AddmmBackward0", 1400, 100, tid=2, cat="cpu_op"),
            span("Optimizer.step#SGD.step", 1700, 50),
            call(1, 1010), work(1, 1100, 200, 0),
            call(2, 1060), work(2, 1300, 100, 0, "Memcpy PtoP (Device -> Device)", "gpu_memcpy", bytes=4096,
                                fromDevice=0, toDevice=1),
            call(3, 1410, tid=2), work(3, 1450, 150, 1),
            call(4, 1710), work(4, 1750, 50, 1),
            call(5, 1800), work(5, 1810, 20, 0, "Memcpy DtoH (Device -> Pageable)", "gpu_memcpy", bytes=4),
            {"ph": "i", "name": "not a duration", "ts": 1, "tid": 1},
        ]
    }  # fmt: skip


def test_a_trace_of_the_profiler_becomes_a_timeline():
    t = Timeline(devices=("cuda:0", "cuda:1"), source="measured on a trace made by hand")
    profile.fill_timeline(t, profiled())
    assert t.span == pytest.approx(1e-3)
    assert t.busy("cuda:0") == pytest.approx(200e-6)
    assert t.busy("cuda:1") == pytest.approx(200e-6)
    assert t.phases("cuda:1") == pytest.approx({"forward": 0, "backward": 150e-6, "optimizer": 50e-6, "copies": 100e-6})
    assert t.moved() == {("cuda:0", "cuda:1"): 4096, ("cuda:0", "cpu"): 4}
    assert [event.label for event in t.events][:2] == ["3", ""]
    assert t.events[0].launched == pytest.approx(15e-6)


def ranges_and_calls(seed, count):
    """Ranges that touch, nest, overlap and coincide, on three threads, and calls at every kind of moment."""
    pick = random.Random(seed)
    ranges = [
        {"name": str(number), "tid": pick.randrange(3), "ts": pick.randrange(count), "dur": pick.choice([0, 1, 5, 40])}
        for number in range(count)
    ]
    ranges += [{"name": "a mark without a length", "tid": 0, "ts": 3}]
    return ranges, [{"tid": tid, "ts": ts} for tid in range(4) for ts in range(-1, count + 45)]


@pytest.mark.parametrize("count", [1, 5, 40, 400])
def test_a_call_stands_in_the_first_range_of_its_thread_that_is_open(count):
    for seed in range(5):
        ranges, calls = ranges_and_calls(seed, count)
        found = profile._Ranges(ranges)
        for call in calls:
            mine = [r for r in ranges if r["tid"] == call["tid"]]
            expected = [r for r in mine if r["ts"] <= call["ts"] <= r["ts"] + r.get("dur", 0)]
            assert found.around(call) is (expected[0] if expected else None)
        assert found.around(None) is None


def test_a_profile_with_eight_times_as_much_is_not_much_more_than_eight_times_the_work():
    def compared(count):
        data = {"traceEvents": [{"ph": "X", "cat": "user_annotation", "name": profile.WINDOW, "ts": 0, "dur": count}]}
        for number in range(count):
            shared = {"ph": "X", "ts": Counted(number), "dur": Counted(0.5), "tid": 1}
            args = {"correlation": number, "device": 0}
            data["traceEvents"] += [
                shared | {"cat": "cpu_op", "name": "autograd::engine::evaluate_function: AddmmBackward0"},
                shared | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "args": args},
                shared | {"cat": "kernel", "name": "gemm", "args": args},
            ]
        t = Timeline(devices=("cuda:0",))
        Counted.compared = 0
        profile.fill_timeline(t, data)
        assert [event.phase for event in t.events] == ["backward"] * count
        return Counted.compared

    assert compared(1600) < 14 * compared(200)


def test_the_profiler_of_this_pytorch_writes_what_is_read():
    """On the CPU, where it has no kernels: the window, the marks and the phases are found by these names."""
    from torch.profiler import ProfilerActivity, record_function
    from torch.profiler import profile as profiled_by_torch

    layer = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    with profiled_by_torch(activities=[ProfilerActivity.CPU]) as profiler, record_function(profile.WINDOW):
        with micro_batch(3):
            loss = layer(torch.ones(2, 4)).sum()
        loss.backward()
        optimizer.step()
    data = profile.exported(profiler)
    t = Timeline(devices=("cuda:0",))
    profile.fill_timeline(t, data)
    assert t.span > 0
    assert t.events == ()
    names = [event["name"] for event in data["traceEvents"] if event.get("ph") == "X"]
    assert any(name.startswith("autograd::engine::evaluate_function") for name in names)
    assert any(name.startswith("Optimizer.step#SGD") for name in names)
    assert "micro-batch 3" in names
