"""Three training steps that others recorded on real GPUs: what a timeline of them says, against the traces themselves.

utils/simgpu/benchmarks/data/README.md says where they come from. What is expected is worked out here in another way: on
a grid of microseconds, and by the marks that the recorded programs set around their own passes.
"""

import gzip
import json

import numpy as np
import pytest

from tests.support.notebooks import ROOT
from utils.observe.trace import Timeline

TRACES = ROOT / "utils" / "simgpu" / "benchmarks" / "data" / "traces"
V100, OF_8, OF_2 = (
    f"{name}_one_step.json.gz" for name in ("v100_resnet50_batch32", "a100_rank3_of_8", "a100_rank0_of_2")
)
KINDS = dict.fromkeys(("kernel", "gpu_memset", "Kernel", "Memset"), "kernel")
KINDS |= dict.fromkeys(("gpu_memcpy", "Memcpy"), "copy")


def opened(name):
    """The timeline of a trace, and the trace's own events."""
    trace = json.loads(gzip.decompress((TRACES / name).read_bytes()))
    return Timeline.open(TRACES / name), [event for event in trace["traceEvents"] if event["ph"] == "X"]


def kind(event):
    name = event["name"]
    if name.startswith("nccl"):
        return "communication"
    return "kernel" if "DtoD" in name else KINDS[event["cat"]]


def on_a_grid(events, first, length):
    """For each kind of event of the GPU the microseconds in which one runs."""
    grid = {name: np.zeros(length, dtype=bool) for name in ("kernel", "copy", "communication")}
    for event in events:
        if event["cat"] in KINDS:
            start = round(event["ts"] - first)
            grid[kind(event)][start : round(event["ts"] - first + event["dur"])] = True
    return grid


@pytest.mark.parametrize("name", [V100, OF_8, OF_2])
def test_busy_idle_and_its_causes_are_the_traces(name):
    timeline, events = opened(name)
    (device,) = timeline.devices
    first = min(event["ts"] for event in events)
    length = round(max(event["ts"] + event["dur"] for event in events) - first)
    grid = on_a_grid(events, first, length)
    expected = {
        "busy": grid["kernel"].sum(),
        "a copy": (~grid["kernel"] & grid["copy"]).sum(),
        "communication": (~grid["kernel"] & ~grid["copy"] & grid["communication"]).sum(),
        "the host": (~grid["kernel"] & ~grid["copy"] & ~grid["communication"]).sum(),
    }
    found = {"communication": 0.0, "busy": timeline.busy(device)} | timeline.waits(device)
    assert found.pop("another device") == 0
    # Two of the traces have whole microseconds; the third has fractions, which the grid rounds, event by event.
    exact = all(float(event["ts"]).is_integer() for event in events)
    for cause, seconds in found.items():
        assert seconds * 1e6 == pytest.approx(expected[cause], abs=0.1 if exact else 0.003 * length), cause
    assert timeline.span * 1e6 == pytest.approx(length, abs=1)


@pytest.mark.parametrize("name", [OF_8, OF_2])  # the third program marked none
def test_phases_are_those_that_the_program_marked(name):
    timeline, events = opened(name)
    marked = {
        phase: [(event["ts"], event["ts"] + event["dur"]) for event in events if event["name"] == f"## {phase} ##"]
        for phase in ("backward", "optimizer")
    }
    assert all(marked.values())

    def by_marks(event):
        moment = event.launched * 1e6 + timeline.origin
        inside = (p for p, ranges in marked.items() if any(start <= moment <= end for start, end in ranges))
        return next(inside, "forward")

    other = [event for event in timeline.events if event.phase != by_marks(event)]
    # A program marks what it calls: the loss and its first gradient are launched inside "backward" by the forward pass.
    assert len(other) <= 6
    assert {event.phase for event in other} <= {"forward"}


def test_what_the_three_are():
    timelines = {name: Timeline.open(TRACES / name) for name in (V100, OF_8, OF_2)}
    assert [timeline.source.split(" by ")[0] for timeline in timelines.values()] == [
        "measured on Tesla V100-DGXS-32GB", "measured on NVIDIA A100-PG509-200", "measured on NVIDIA A100-PG509-200"
    ]  # fmt: skip
    assert timelines[OF_8].devices == ("cuda:3",)
    assert {event.phase for event in timelines[V100].events} == {"forward", "backward", "optimizer"}
    communication = [event for event in timelines[OF_2].events if event.kind == "comm"]
    assert len(communication) == 7
    assert not any(event.is_copy for event in communication)


def test_one_step_of_a_real_trace():
    step = Timeline.open(TRACES / V100, step=16)
    # The last kernels of a step run after the host has left it, and are cut where it ends.
    assert step.span == pytest.approx(0.160076)
    assert step.busy("cuda:0") < Timeline.open(TRACES / V100).busy("cuda:0")
