"""Memory snapshots: the format of PyTorch's, which its viewers read, and what is recorded when."""

import inspect
import os
import pickle
import pickletools
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.cuda._memory_viz import filter_alloc_free_pairs, segment_plot, segsum, trace, trace_plot

import simgpu
from simgpu.memory_history import MOST_FRAMES

MEMORY = torch.cuda.memory
# What https://pytorch.org/memory_viz unpickles (torch/utils/viz/MemoryViz.js).
READ_BY_THE_PAGE = set("hJKM}]j(u.aqX)NGtrlds") | set("\x95\x8a\x94\x80\x8c\x86e\x89\x88\x85\x87")


@pytest.fixture(autouse=True)
def afterwards():
    simgpu.enable(count=2)
    yield
    torch.simgpu.memory._record_memory_history(enabled=None)
    simgpu.enable(count=2)


def record(**options):
    torch.simgpu.memory._record_memory_history(**options)


def snapshot():
    return torch.simgpu.memory._snapshot()


def actions(device=0):
    return [entry["action"] for entry in snapshot()["device_traces"][device]]


def made_here(device="simgpu:0", size=1000):
    return torch.empty(size, device=device)


def train():
    model = torch.nn.Linear(64, 64).to("simgpu:0")
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        model(torch.randn(8, 64, device="simgpu:0")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer


# --- what it tells ----------------------------------------------------------------------------------------------------


def test_each_live_storage_is_a_segment_and_all_of_them_are_what_is_allocated():
    kept = torch.empty(1000, device="simgpu:0"), torch.empty(3, 2**20, device="simgpu:1")
    view = kept[0][10:]
    first, second = snapshot()["segments"]
    assert (first["device"], first["total_size"], first["segment_type"]) == (0, 4096, "small")
    assert (second["device"], second["total_size"], second["segment_type"]) == (1, 12 * 2**20, "large")
    assert first["address"] == view.untyped_storage().data_ptr() == kept[0].data_ptr()
    assert first["blocks"] == [
        {"address": first["address"], "requested_size": 4096, "frames": [], "size": 4096, "state": "active_allocated"}
    ]
    assert [first["total_size"], second["total_size"]] == [torch.simgpu.memory_allocated(gpu) for gpu in (0, 1)]
    assert torch.simgpu.memory_snapshot() == snapshot()["segments"]


def test_what_comes_and_goes_is_in_the_trace_of_its_gpu_with_the_line_that_did_it():
    before = torch.empty(1, device="simgpu:0")
    record()
    tensor = made_here()
    other = made_here("simgpu:1")
    torch.ones(5, device="simgpu:0")
    address = tensor.data_ptr()
    del tensor
    line = inspect.currentframe().f_lineno - 1
    first, second = snapshot()["device_traces"]
    assert [e["action"] for e in second] == ["segment_alloc", "alloc"]
    assert [e["action"] for e in first if e["addr"] == address] == [
        *("segment_alloc", "alloc"),
        *("free_requested", "free_completed", "segment_free"),
    ]
    came, went = (
        next(e for e in first if e["addr"] == address and e["action"] == a) for a in ("alloc", "segment_free")
    )
    assert came["frames"][0]["name"] == "made_here"
    assert came["frames"][0]["filename"] == __file__
    source = Path(__file__).read_text(encoding="utf-8").splitlines()
    assert "torch.empty(size, device=device)" in source[came["frames"][0]["line"] - 1]
    assert went["frames"][0] == {"name": inspect.currentframe().f_code.co_name, "filename": __file__, "line": line}
    assert (came["size"], came["stream"], came["time_us"]) == (4096, 0, 0)  # an empty tensor takes no time
    assert went["time_us"] == first[-1]["time_us"] == round(simgpu.now() * 1e6) > 0
    assert first[0]["addr"] != before.data_ptr()  # it came before the history
    frames = [segment["blocks"][0]["frames"] for segment in snapshot()["segments"]]
    assert [f[0]["name"] if f else None for f in frames] == [None, "made_here"]
    assert torch.simgpu.memory._allocation_traceback(other.data_ptr()) == frames[1]
    assert torch.simgpu.memory._allocation_traceback(before.data_ptr()) is None


def test_the_stream_is_the_one_that_was_current():
    record()
    with torch.simgpu.stream(torch.simgpu.Stream()) as stream:
        tensor = made_here()
    assert {e["stream"] for e in snapshot()["device_traces"][0]} == {stream.cuda_stream} == {1}
    assert snapshot()["segments"][0]["stream"] == 1
    del tensor
    assert {e["stream"] for e in snapshot()["device_traces"][0]} == {1}


def test_out_of_memory_is_one_entry_with_what_was_asked_for_and_what_was_free():
    simgpu.enable(count=1, memory=2**20)
    record()
    for make in (lambda: torch.empty(2**20, device="simgpu"), lambda: torch.ones(2**20, device="simgpu")):
        record(clear_history=True)
        with pytest.raises(torch.OutOfMemoryError):
            make()
        (entry,) = snapshot()["device_traces"][0]
        assert (entry["action"], entry["size"], entry["device_free"]) == ("oom", 4 * 2**20, 2**20)
        assert entry["frames"][0]["name"] == "<lambda>"
        assert "addr" not in entry


def test_memory_that_is_resized_goes_and_comes_again_elsewhere():
    tensor = made_here()
    record()
    before = tensor.data_ptr()
    tensor.untyped_storage().resize_(0)
    assert actions() == ["free_requested", "free_completed", "segment_free"]
    assert not snapshot()["segments"]
    tensor.untyped_storage().resize_(4000)
    assert actions()[3:] == ["segment_alloc", "alloc"]
    (segment,) = snapshot()["segments"]
    assert segment["address"] == tensor.data_ptr() != before


def test_no_two_storages_that_live_at_one_time_overlap_and_the_page_finds_each_block_in_a_segment():
    early = [made_here(size=n) for n in (3, 5000)]
    record()
    kept = train()
    del early
    found = snapshot()
    segments = {s["address"]: s["total_size"] for s in found["segments"] if s["device"] == 0}
    blocks = dict(segments)
    for entry in reversed(found["device_traces"][0]):  # back in time, as the page does for "Allocator State History"
        place, size = entry.get("addr"), entry["size"]
        match entry["action"]:
            case "segment_free":
                segments[place] = size
            case "free_completed":
                blocks[place] = size
            case "alloc":
                assert blocks.pop(place) == size
            case "segment_alloc":
                assert segments.pop(place) == size
        assert blocks.items() <= segments.items()
        ends = [0, *(end for start in sorted(segments) for end in (start, start + segments[start]))]
        assert ends == sorted(ends)
    assert sorted(blocks.values()) == [512, 20_480]  # what there was before the history
    assert kept


# --- who reads it -----------------------------------------------------------------------------------------------------


def test_pytorchs_own_readers_take_it(tmp_path):
    record()
    kept = train()
    file = tmp_path / "snapshot.pickle"
    torch.simgpu.memory._dump_snapshot(file)
    found = pickle.loads(file.read_bytes())
    assert f"segments: {len(found['segments'])}\n" in segsum(found)
    assert "cudaMalloc" in trace(found)
    assert all("MemoryViz.js" in plot(found) for plot in (trace_plot, segment_plot))
    left = [e for e in filter_alloc_free_pairs(found)["device_traces"][0] if e["action"] == "alloc"]
    assert {e["addr"] for e in left} == {s["address"] for s in found["segments"]}
    assert {chr(op.code.encode("latin-1")[0]) for op, *_ in pickletools.genops(file.read_bytes())} <= READ_BY_THE_PAGE
    assert kept


PROGRAM = """
import torch

torch.cuda.memory._record_memory_history(max_entries=1000)
x = torch.ones(1000, device="cuda:1")
torch.cuda.memory._dump_snapshot("snapshot.pickle")
"""


def test_a_program_for_cuda_leaves_one_as_it_stands_and_ends_in_silence(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    asked = os.environ | {"SIMGPU": "2", "SIMGPU_AS_CUDA": "1"}
    done = subprocess.run([sys.executable, script], cwd=tmp_path, env=asked, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    found = pickle.loads((tmp_path / "snapshot.pickle").read_bytes())
    assert [len(trace) for trace in found["device_traces"]] == [0, 2]
    (frame,) = found["segments"][0]["frames"]
    assert (Path(frame["filename"]).name, frame["line"], frame["name"]) == ("program.py", 5, "<module>")
    assert "total_allocated: 4.0KiB" in segsum(found)


def test_the_names_of_torch_cuda_and_of_the_device_are_the_same():
    import torch.simgpu.memory as own

    with simgpu.as_cuda():
        MEMORY._record_memory_history("all", "all", "python", 10)
        x = torch.ones(3, device="cuda")
        assert [e["action"] for e in MEMORY._snapshot()["device_traces"][0]] == actions() != []
        assert torch.cuda.memory_snapshot()[0]["address"] == x.data_ptr()
    assert own.memory_allocated() == torch.simgpu.memory_allocated() == 512
    assert own.memory_snapshot() == torch.simgpu.memory_snapshot()
    theirs = inspect.signature(MEMORY._record_memory_history).parameters
    assert {*theirs} <= {*inspect.signature(own._record_memory_history).parameters}


# --- what is recorded -------------------------------------------------------------------------------------------------


def test_only_the_newest_entries_are_kept():
    record(max_entries=7)
    for size in range(1, 20):
        made_here(size=size * 1000)
    entries = snapshot()["device_traces"][0]
    assert len(entries) == 7
    assert entries[-1]["size"] == 76_288
    record(max_entries=2)
    assert actions() == ["free_completed", "segment_free"]
    record(max_entries=0)
    assert actions() == []


def test_none_stops_and_forgets_and_clear_history_forgets():
    record()
    kept = made_here()
    record(clear_history=True)
    assert actions() == []
    assert snapshot()["segments"][0]["frames"]
    record(enabled=None)
    assert actions() == []
    made_here()
    assert actions() == []
    assert snapshot()["segments"][0]["frames"] == []
    assert kept is not None


@pytest.mark.parametrize(
    ("context", "of"), [(None, (0, 0, 0)), ("state", (1, 0, 0)), ("alloc", (1, 1, 0)), ("all", (1, 1, 1))]
)
def test_context_says_whose_call_stacks_are_kept(context, of):
    record(context=context)
    kept = made_here()
    made_here()
    found = snapshot()
    have = {action: bool(e["frames"]) for e in found["device_traces"][0] for action in (e["action"],)}
    assert (bool(found["segments"][0]["frames"]), have["alloc"], have["free_completed"]) == of
    assert kept is not None


def test_state_keeps_no_trace_and_what_is_skipped_is_not_in_it():
    record(enabled="state")
    kept = made_here()
    assert actions() == []
    assert snapshot()["segments"][0]["frames"][0]["name"] == "made_here"
    record(skip_actions=["free_requested", "segment_alloc", "segment_free", "snapshot"])
    made_here()
    assert actions() == ["alloc", "free_completed"]
    assert kept is not None


def test_true_and_false_are_taken_as_pytorch_took_them_first():
    record(enabled=True, trace_alloc_max_entries=100, trace_alloc_record_context=True)
    made_here()
    entries = snapshot()["device_traces"][0]
    assert [bool(e["frames"]) for e in entries] == [True, True, False, False, False]
    record(enabled=False)
    assert actions() == []


def test_call_stacks_are_bounded():
    def deeper(n):
        return deeper(n - 1) if n else made_here()

    record()
    kept = deeper(200)
    frames = snapshot()["segments"][0]["frames"]
    assert frames[0]["name"] == "made_here"
    assert MOST_FRAMES - 10 < len(frames) < MOST_FRAMES
    assert kept is not None


def test_on_a_new_machine_recording_goes_on_with_nothing():
    record()
    old = made_here()
    simgpu.enable(count=3)
    assert [len(trace) for trace in snapshot()["device_traces"]] == [0, 0, 0]
    del old
    assert actions() == []
    made_here("simgpu:2")
    assert len(actions(2)) == 5


def test_the_accounts_are_what_they_are_without_history():
    peaks = []
    for enabled in (None, "all"):
        simgpu.enable(count=1)
        simgpu.enable(count=2)
        record(enabled=enabled)
        kept = train()
        peaks.append((simgpu.now(), torch.simgpu.memory_allocated(), torch.simgpu.max_memory_allocated()))
        del kept
    assert peaks[0] == peaks[1]
    assert torch.simgpu.memory_allocated() == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"enabled": "on"}, "enabled='on': expected 'state', 'all', or None"),
        ({"context": "free"}, "context='free': expected 'state', 'alloc', 'all', or None"),
        ({"context": ["all"]}, "context=['all']: expected"),
        ({"stacks": "c++"}, "stacks='c++': expected 'python', or 'all'"),
        ({"max_entries": -1}, "max_entries=-1: expected a whole number from 0 on"),
        ({"max_entries": 1e5}, "max_entries=100000.0: expected a whole number"),
        ({"skip_actions": ["free"]}, "skip_actions=['free']: expected some of alloc, free_completed"),
        ({"skip_actions": "alloc"}, "skip_actions='alloc': expected some of"),
        ({"record_pinned_host_memory": True}, "simgpu counts no memory of the host"),
    ],
)
def test_what_makes_no_sense_gets_one_line(options, says):
    with pytest.raises(RuntimeError) as refused:
        record(**options)
    assert says in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1
    assert actions() == []


def test_pools_and_raw_memory_are_refused_and_a_file_that_cannot_be_is_an_oserror(tmp_path):
    with simgpu.as_cuda():
        with pytest.raises(RuntimeError, match="no pools of memory"):
            torch.cuda.memory_snapshot((0, 1))
        assert torch.cuda.memory_snapshot((0, 0)) == []
        with pytest.raises(RuntimeError, match=r"torch\.empty\(bytes"):
            torch.cuda.caching_allocator_alloc(512)
        with pytest.raises(FileNotFoundError):
            torch.cuda.memory._dump_snapshot(tmp_path / "nowhere" / "snapshot.pickle")
